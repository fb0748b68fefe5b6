"""The worker process: resources, tasks, background sweeps, loading of models, and huey's consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version

import structlog
from redis.exceptions import RedisError

from pipelines.errors import EverindexError
from pipelines.heartbeat import heartbeat
from pipelines.maintenance.backup import sweep_leftovers
from pipelines.state.note_log import NoteLog
from pipelines.state.state import EMBEDDER, REFUSED, EmbedderFacts, RefusedMessages
from queue_config.queue import Queue
from queue_config.settings import Settings
from workers.attention import AttentionSweep
from workers.background import make_upkeep_tasks, sweep_upkeep
from workers.complaints import Complaint, model_reported
from workers.memory import share_arenas
from workers.parsing import forget_reports
from workers.requested import make_request_task
from workers.resources import Resources
from workers.signals import Recorder, recorded
from workers.sweeping import load_models, sweep
from workers.tag_sweep import TagSweep
from workers.tagging import make_tag_tasks
from workers.tagging_context import TaggingContext
from workers.tasks import Tasks, make_tasks

SWEEP_SECONDS = 2.0
_STOP_SECONDS = 8.0
_HISTORY_SECONDS = 5.0
_ATTENTION_SECONDS = 10.0
_LOAD_SECONDS = 0.5
_FILES_SECONDS = 10.0
_RELOAD_SECONDS = 30.0

log = structlog.get_logger()


def run_worker(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT; the running slice is finished first. Call this in the main thread."""
    share_arenas()
    resources = Resources(settings)
    resources.check_models()
    huey = resources.queue()
    state = resources.place.state
    with heartbeat(state, "worker", version("everindex")), recorded(huey, resources) as recorder:
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

    def repeat(part: str, work: Callable[[], None], every: float, after_failure: float | None = None) -> None:
        _repeat(resources, part, work, every, every if after_failure is None else after_failure, stopped)

    repeat("the sweep", sweep_tasks, SWEEP_SECONDS)
    repeat("the sweep of tags", sweep_tags, SWEEP_SECONDS)
    repeat("the sweep of files", partial(_sweep_files, resources), _FILES_SECONDS)
    repeat("the sweep of chosen notes", AttentionSweep(resources), _ATTENTION_SECONDS)
    repeat("the sweep of job history", sweep_history, _HISTORY_SECONDS)
    repeat("loading the model", partial(_load, huey, tasks, resources), _LOAD_SECONDS, _RELOAD_SECONDS)
    log.info("worker started", vault=str(resources.root))

    def stop_children() -> None:
        tasks.parser.stop()
        resources.sandbox.stop()
        upkeep.child.stop()

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
    # Two threads: ranks are computed while a note is parsed.
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="aside") as huey.aside:
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
    _say_embedders(resources)


def _have_loaded(resources: Resources) -> bool:
    return all(resources.embedders.has_loaded(cache.meta.model) for cache in resources.caches().values())


def _say_embedders(resources: Resources) -> None:
    """Publish the device and precision of the loaded models."""
    state = resources.state()
    for model in {resources.cache(domain).meta.model for domain in resources.domains()}:
        if not resources.embedders.has_loaded(model):
            continue
        embedder, said = resources.embedders.get(model), state.get(EMBEDDER, model)
        facts = EmbedderFacts(embedder.device, embedder.precision)
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
