"""The worker process: resources, tasks, background sweeps, loading of models, and huey's consumer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import structlog
from huey.api import Task
from huey.signals import SIGNAL_COMPLETE, SIGNAL_ERROR, SIGNAL_EXECUTING
from redis.exceptions import RedisError

from pipelines.child import Child
from pipelines.embedding.models import NO_MODEL
from pipelines.errors import EverindexError, ModelUnavailableError
from pipelines.graph.ranking import rank_domain, ranks_are_otherwise
from pipelines.indexing.dates import date_notes as date_notes_of
from pipelines.indexing.dates import dates_are_behind
from pipelines.maintenance.backup import sweep_leftovers
from pipelines.model import LOW_PRIORITY, LOWEST_PRIORITY, Domain, Place
from pipelines.search.find import prepare, prepare_second
from pipelines.state.chats import Chats
from pipelines.state.health import Processes
from pipelines.state.jobs import History, Result
from pipelines.state.note_log import NoteLog
from pipelines.state.state import EMBEDDER, REFUSED, EmbedderFacts, RefusedMessages
from pipelines.store import WritableCache
from queue_config.inspect import waiting, waits
from queue_config.logs import Trouble
from queue_config.queue import Queue
from queue_config.settings import Settings
from workers.attention import AttentionSweep
from workers.complaints import Complaint, model_reported
from workers.heartbeat import heartbeat, lives, process_name
from workers.jobs import (
    SLICE_SECONDS,
    forget_reports,
    is_paused,
    job,
    require_running,
    return_memory,
    share_arenas,
)
from workers.models import MANY_TEXTS
from workers.resources import Resources
from workers.tag_context import TaggingContext
from workers.tag_sweep import TagSweep
from workers.tagging import make_tag_tasks
from workers.tasks import Tasks, has_pending, load_models, make_request_task, make_tasks, sweep

# Background work beside indexing: ranks, dates by git, vectors of sentences and by second models.


COMMUNITIES = "communities"
"""The kind of the problem that a domain's communities were not computed by the configured method."""
_AGAIN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class UpkeepTasks:
    """The registered tasks; calling one enqueues it."""

    recompute_graph: Callable[[str], Any]
    prepare_sentences: Callable[[str], Any]
    date_notes: Callable[[str], Any]
    ranking: set[str]
    """The domains whose graph this process is computing."""
    dating: set[str]
    """The domains whose notes this process is dating."""
    failed: dict[str, float]
    """When Louvain's method last failed, by domain (monotonic, in seconds)."""
    child: Child
    """Runs Louvain's method."""


def make_upkeep_tasks(huey: Queue, resources: Resources) -> UpkeepTasks:
    """Register the tasks on a queue. `resources` are not used before a task runs."""

    # It takes seconds in a vault of 100,000 notes, in libraries that let other threads run meanwhile.
    @huey.task(name="recompute_graph", priority=LOW_PRIORITY, aside=True, context=True)  # type: ignore[untyped-decorator]
    def recompute_graph(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        tasks.ranking.add(domain)
        try:
            with job(task, domain) as doing:
                cache = resources.cache(found)
                # While this task waited for another domain's, an identical one may have run.
                behind = cache.edges.ranks_behind() or ranks_are_otherwise(cache, found)
                doing.update(ranked=_rank(resources, tasks, found, cache) if behind else 0)
        finally:
            tasks.ranking.discard(domain)

    @huey.task(name="prepare_sentences", priority=LOWEST_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def prepare_sentences(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        with job(task, domain) as doing:
            require_running(resources, domain)
            _prepare_some(huey, resources, found, doing)
            hint_at_upkeep(huey, tasks, resources, found)

    # Git may take seconds.
    @huey.task(name="date_notes", priority=LOW_PRIORITY, aside=True, context=True)  # type: ignore[untyped-decorator]
    def date_notes(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        tasks.dating.add(domain)
        try:
            with job(task, domain) as doing:
                order = resources.date_order(found)
                doing.update(dated=date_notes_of(resources.root, resources.cache(found), found, order))
        finally:
            tasks.dating.discard(domain)

    tasks = UpkeepTasks(recompute_graph, prepare_sentences, date_notes, set(), set(), {}, Child())
    return tasks


def _rank(resources: Resources, tasks: UpkeepTasks, domain: Domain, cache: WritableCache) -> int:
    """Rank a domain; while its communities were not computed by the configured method, report that as a problem."""
    ranked = rank_domain(cache, domain, tasks.child)
    if ranked.problem:
        resources.problems().report(COMMUNITIES, domain.slug, ranked.problem)
    else:
        resources.problems().clear(COMMUNITIES, domain.slug)
    tasks.failed.pop(domain.slug, None)
    if ranks_are_otherwise(cache, domain):
        tasks.failed[domain.slug] = time.monotonic()
    return ranked.notes


def _are_otherwise(tasks: UpkeepTasks, domain: Domain, cache: WritableCache) -> bool:
    """Say whether a domain's ranks used other settings than its own; false for ten minutes after a failure."""
    failed = tasks.failed.get(domain.slug)
    waits = failed is not None and time.monotonic() - failed < _AGAIN_SECONDS
    return not waits and ranks_are_otherwise(cache, domain)


def _prepare_some(huey: Queue, resources: Resources, domain: Domain, doing: dict[str, Any]) -> None:
    """Work for about a second, sentences first; stop as soon as any other task waits."""
    started = time.monotonic()
    cache, embedders = resources.cache(domain), resources.embedders

    def enough() -> bool:
        return bool(waiting(huey, 1)) or time.monotonic() - started >= SLICE_SECONDS

    if cache.passages.pending_sentences(1):
        embedder = embedders.bulk(cache.meta.model, lambda: len(cache.passages.pending_sentences(MANY_TEXTS)))
        doing.update(sentences=prepare(cache, embedder.encode_queries, enough))
        if enough():
            return
    second = resources.second_model(domain)
    if second and embedders.has_loaded(second.name) and cache.second.pending(1):
        embedder = embedders.bulk(second.name, lambda: len(cache.second.hashes_pending()))
        doing.update(second=prepare_second(cache, second.name, embedder.encode_documents, enough))


def hint_at_upkeep(huey: Queue, tasks: UpkeepTasks, resources: Resources, domain: Domain) -> None:
    """Enqueue what is due in a domain unless it already waits."""
    cache = resources.cache(domain)
    is_ranked = domain.slug in tasks.ranking or waits(huey, "recompute_graph", LOW_PRIORITY, domain.slug)
    if not is_ranked and (cache.edges.ranks_due() or _are_otherwise(tasks, domain, cache)):
        tasks.recompute_graph(domain.slug)
    is_dated = domain.slug in tasks.dating or waits(huey, "date_notes", LOW_PRIORITY, domain.slug)
    if not is_dated and dates_are_behind(resources.root, cache, resources.date_order(domain)):
        tasks.date_notes(domain.slug)
    if (
        not is_paused(resources, domain.slug)
        and not has_pending(cache)
        and _can_prepare(resources, domain, cache)
        and not waits(huey, "prepare_sentences", LOWEST_PRIORITY, domain.slug)
    ):
        tasks.prepare_sentences(domain.slug)


def _can_prepare(resources: Resources, domain: Domain, cache: WritableCache) -> bool:
    """Say whether a loaded model can prepare something: sentences, or passages for the domain's second model."""
    has_loaded, second = resources.embedders.has_loaded, resources.second_model(domain)
    if second or domain.rerank_model is None:  # otherwise it is wanted, and cannot be used for now
        cache.second.want(second.name if second and not second.is_cross_encoder else None)
    if resources.embedders.prepares(cache.meta.model) and cache.passages.pending_sentences(1):
        return True
    return second is not None and has_loaded(second.name) and bool(cache.second.pending(1))


def sweep_upkeep(huey: Queue, tasks: UpkeepTasks, resources: Resources) -> None:
    """Enqueue what is due in all domains."""
    if resources.present():
        for domain in resources.domains():
            hint_at_upkeep(huey, tasks, resources, domain)


# Record huey's signals as job history: each job's start and end, its result, and the lines that it logged.


_SIGNALS = (SIGNAL_EXECUTING, SIGNAL_COMPLETE, SIGNAL_ERROR)
_MOST_LINES = 40
_LONGEST_LINE = 500
# The job's own columns already contain these, and a line begins with some of them.
_SAID_ELSEWHERE = frozenset(
    {"task", "task_id", "domain", "process", "timestamp", "level", "event", "exception"}
)


class _Doing(threading.local):
    """The job that the calling thread works on; one at a time."""

    history: History | None = None
    number: int | None = None
    started: float = 0.0
    unwritten: tuple[int, Result] | None = None
    lines: list[str] | None = None


class Recorder(logging.Handler):
    """Receives huey's signals and every log record. History is best effort: jobs also run on a full disk."""

    def __init__(self, state: Place) -> None:
        super().__init__()
        self._state = state
        self._doing = _Doing()
        self._trouble = Trouble("job history cannot be written; jobs run without it")

    def signal(self, signal: str, task: Task, error: Exception | None = None) -> None:
        """Record a job's start or end."""
        try:
            if signal == SIGNAL_EXECUTING:
                self._begin(task)
            else:
                self._end(task, error)
        except EverindexError as met:
            self._trouble.met(str(met))

    def _begin(self, task: Task) -> None:
        doing = self._doing
        doing.started, doing.lines, doing.number = time.monotonic(), [], None
        history = self._history()
        domain, paths = _named(task)
        enqueued_at = getattr(task, "enqueued_at", None)
        doing.number = history.start(
            task.id,
            task.name,
            domain,
            worker=process_name(),
            paths=paths,
            waited_ms=None if enqueued_at is None else max(0.0, (time.time() - enqueued_at) * 1000),
        )

    def _end(self, task: Task, error: Exception | None) -> None:
        doing = self._doing
        lines, doing.lines = doing.lines or [], None
        number, doing.number = doing.number, None
        if number is not None:
            ran_ms = (time.monotonic() - doing.started) * 1000
            doing.unwritten = (number, _result(getattr(task, "doing", {}), error, ran_ms, lines))
            self._history()
            self._trouble.over()  # only now: a full disk may have space for a beginning and none for an end

    def _history(self) -> History:
        """Return this thread's history after writing what is left over. Raises CacheError, StateError."""
        doing = self._doing
        if doing.history is None:
            doing.history = History(self._state)
        if doing.unwritten:
            doing.history.finish(*doing.unwritten)
            doing.unwritten = None
        return doing.history

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log line of the job that this thread works on."""
        lines = self._doing.lines
        if lines is not None and len(lines) < _MOST_LINES:
            lines += [line[:_LONGEST_LINE] for line in _lines(record)][: _MOST_LINES - len(lines)]

    def sweep(self, days: float, rows: int) -> None:
        """Mark the jobs of dead workers as lost, and delete old ones. Raises CacheError."""
        history, processes = self._history(), Processes(self._state)
        ages = {process.name: age for process, age in processes.recent()}
        processes.close()
        history.lose(lambda worker: lives(worker, ages.get(worker)))
        history.prune(days, rows)


@contextmanager
def recorded(huey: Queue, resources: Resources) -> Iterator[Recorder]:
    """Record the jobs of this process while the context is active."""
    recorder = Recorder(resources.store)
    huey.signal(*_SIGNALS)(recorder.signal)
    logging.getLogger().addHandler(recorder)
    try:
        yield recorder
    finally:
        logging.getLogger().removeHandler(recorder)
        huey.disconnect_signal(recorder.signal, *_SIGNALS)


def _named(task: Task) -> tuple[str, list[str]]:
    """Return the domain (`*`: all) and the notes named in a task's message."""
    first = task.args[0] if task.args else None
    if task.name == "index_notes":
        return task.args[0], [event["path"] for event in task.args[1]]
    if task.name in ("retry_parked", "index_note"):
        return "*", [first] if first else []
    return first if isinstance(first, str) and task.name != "reconcile_vault" else "*", []


def _result(doing: dict[str, Any], error: Exception | None, ran_ms: float, lines: list[str]) -> Result:
    postponed = doing.get("postponed")
    return Result(
        state="failed" if error else "put off" if postponed else "done",
        ran_ms=ran_ms,
        notes=doing.get("words", 0) + doing.get("vectors", 0),
        paths=doing.get("paths", ()),
        attempt=doing.get("attempt", 1),
        error=f"{type(error).__name__}: {error}" if error else postponed,
        log=lines,
        saved_ms=doing.get("saved_ms", {}),
        embedded=doing.get("embedded", 0),
    )


def _lines(record: logging.LogRecord) -> list[str]:
    """Return a record as lines of text, from structlog's fields or a library's message."""
    if not isinstance(record.msg, dict):
        return f"{record.levelname.lower()} {record.getMessage()}".splitlines()
    said = record.msg
    fields = [f"{k}={v}" for k, v in said.items() if k not in _SAID_ELSEWHERE and not k.startswith("_")]
    first = " ".join([said.get("timestamp", ""), said.get("level", ""), str(said.get("event")), *fields])
    return [first.strip(), *str(said.get("exception", "")).splitlines()]


SWEEP_SECONDS = 2.0
_STOP_SECONDS = 8.0
_HISTORY_SECONDS = 5.0
_ATTENTION_SECONDS = 10.0
_LOAD_SECONDS = 0.5
_FILES_SECONDS = 10.0
_HAND_OUT_SECONDS = 0.5
_RELOAD_SECONDS = 30.0

log = structlog.get_logger()


def run_worker(settings: Settings, *, only_vectors: bool = False) -> None:
    """Work until SIGTERM or SIGINT; the running slice is finished first. Call this in the main thread.

    On a host without the vault, or for vectors alone, the ledger in PostgreSQL gives it work, and not the queue.
    """
    share_arenas()
    resources = Resources(settings)
    resources.check_models()
    if resources.is_elsewhere or only_vectors:
        from workers.elsewhere import run_helper  # noqa: PLC0415 - its library is not always installed

        run_helper(resources, only_vectors=only_vectors)
        return
    huey = resources.queue()
    with heartbeat(resources.store, "worker", version("everindex")), recorded(huey, resources) as recorder:
        _work(settings, resources, huey, recorder)
    log.info("worker stopped")


def _work(settings: Settings, resources: Resources, huey: Queue, recorder: Recorder) -> None:
    tasks = make_tasks(huey, resources)
    make_request_task(huey, resources, tasks.index_notes)
    upkeep = make_upkeep_tasks(huey, resources)
    context = TaggingContext(resources)
    sweep_tags = TagSweep(context, huey, make_tag_tasks(huey, context))
    sweep_tags.start()
    forget_reports(resources.problems())
    refused = _RefusedMessages(huey, resources)
    stopped = threading.Event()

    def sweep_tasks() -> None:
        sweep(huey, tasks, resources)
        sweep_upkeep(huey, upkeep, resources)
        refused.report()

    def sweep_history() -> None:
        recorder.sweep(settings.history_days, settings.history_rows)
        resources.stores.of(NoteLog).prune(settings.history_days, settings.history_rows)
        resources.stores.of(Chats).prune(settings.history_days)

    def repeat(part: str, work: Callable[[], None], every: float, after_failure: float | None = None) -> None:
        _repeat(resources, part, work, every, every if after_failure is None else after_failure, stopped)

    repeat("the sweep", sweep_tasks, SWEEP_SECONDS)
    repeat("the sweep of tags", sweep_tags, SWEEP_SECONDS)
    if settings.store is not None:
        from workers.elsewhere import hand_out  # noqa: PLC0415 - as above

        resources.tell_of_vault()
        repeat("telling hosts without the vault of it", resources.tell_of_vault, SWEEP_SECONDS)
        repeat("handing out notes", partial(hand_out, resources), _HAND_OUT_SECONDS)
    repeat("the sweep of files", partial(_sweep_files, resources), _FILES_SECONDS)
    repeat("the sweep of chosen notes", AttentionSweep(resources), _ATTENTION_SECONDS)
    repeat("the sweep of job history", sweep_history, _HISTORY_SECONDS)
    repeat("loading the model", partial(_load, huey, tasks, resources), _LOAD_SECONDS, _RELOAD_SECONDS)
    log.info("worker started", vault=str(resources.root))

    def stop_children() -> None:
        tasks.ahead.stop()
        tasks.parser.stop()
        resources.sandbox.stop()
        upkeep.child.stop()
        resources.embedders.close()

    _consume(settings, huey, stop_children)
    stopped.set()


def _consume(settings: Settings, huey: Queue, stop_children: Callable[[], None]) -> None:
    """Run tasks until a signal ends the process; child processes end first, so that no task waits for them."""
    consumer = huey.create_consumer(
        workers=1,
        # An SQLite queue is polled, so its delay must be shorter than huey's default of ten seconds. Redis is waited
        # on, and its delay applies only after an error.
        initial_delay=0.01,
        max_delay=1.0 if settings.redis_url else 0.02,
        periodic=False,
        graceful_signal="TERM",
        shutdown_timeout=_STOP_SECONDS,
    )
    # Three threads: ranks are computed while a note is parsed, and endpoints are waited for.
    with ThreadPoolExecutor(max_workers=3, thread_name_prefix="aside") as huey.aside:
        try:
            consumer.run()
        finally:
            stop_children()


class _RefusedMessages:
    """Publishes how many queue messages this process refused."""

    def __init__(self, huey: Queue, resources: Resources) -> None:
        self._huey = huey
        self._resources = resources
        self._reported = dict(huey.refused)

    def report(self) -> None:
        """Publish the counts if messages were refused since the last call."""
        if self._huey.refused != self._reported:
            self._reported = dict(self._huey.refused)
            self._resources.state().put(REFUSED, RefusedMessages(**self._reported))


def _sweep_files(resources: Resources) -> None:
    for name in sweep_leftovers(resources.place.state, resources.state()):
        log.info("deleted a file left by a killed run", file=name)


def _load(huey: Queue, tasks: Tasks, resources: Resources) -> None:
    with model_reported(resources, "worker", partial(_have_loaded, resources)):
        load_models(huey, tasks, resources)
    _load_second_models(resources)
    _say_embedders(resources)
    if resources.embedders.rest():
        return_memory()


def _load_second_models(resources: Resources) -> None:
    """Load the second models for which passages wait, once no words do."""
    for domain in resources.domains():
        second, cache = resources.second_model(domain), resources.cache(domain)
        if second is None or resources.embedders.has_loaded(second.name) or not cache.second.pending(1):
            continue
        if not cache.leases.has_pending("words", "together"):
            try:
                resources.embedders.get(second.name)
            except ModelUnavailableError as error:
                resources.refuse_second(domain, error)


def _have_loaded(resources: Resources) -> bool:
    return all(resources.embedders.has_loaded(cache.meta.model) for cache in resources.caches().values())


def _say_embedders(resources: Resources) -> None:
    """Publish the device and precision of the loaded models."""
    state = resources.state()
    for model in {resources.cache(domain).meta.model for domain in resources.domains()}:
        if model == NO_MODEL or not resources.embedders.has_loaded(model):
            continue
        said = state.get(EMBEDDER, model)
        facts = EmbedderFacts(*resources.embedders.computing(model))
        if said is None or said.value != facts:
            state.put(EMBEDDER, facts, model)


def _repeat(
    resources: Resources,
    what: str,
    work: Callable[[], None],
    every: float,
    after_failure: float,
    stopped: threading.Event,
) -> None:
    """Run `work` in its own thread every `every` seconds, whatever errors it raises."""

    def run() -> None:
        pause = every
        trouble = Complaint(resources, what)
        while not stopped.wait(pause):
            try:
                work()
                pause = every
                trouble.over()
            except (EverindexError, OSError, RedisError) as error:
                trouble.met(str(error))
                pause = after_failure
            except Exception as error:
                log.exception("a part of this process failed unexpectedly; it is retried", part=what)
                trouble.met(repr(error))
                pause = after_failure

    threading.Thread(target=run, name=what, daemon=True).start()
