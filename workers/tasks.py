"""The huey tasks. A task is only a hint: pending work is recorded in the ledger."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import structlog
from huey.api import Task

from pipelines.errors import CacheError
from pipelines.indexing.deletions import WINDOW_SECONDS
from pipelines.indexing.ingest import (
    Ingest,
    Outcome,
    embed_pending,
    index_saved,
    index_words,
    index_words_ahead,
)
from pipelines.indexing.ingest import index_apart as index_apart_of
from pipelines.indexing.parse import ROWS_PER_SLICE, ApartParser, ParserAhead
from pipelines.indexing.reconcile import Report, check_paths, reconcile, record_comparison, rehash
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, REQUEST_PRIORITY, SAVE_PRIORITY, DiffEvent, Domain
from pipelines.state.state import EMBEDDING_SPEED, LOOKED_AT, REHASHED, RELOADED, EmbeddingSpeed
from pipelines.store import WritableCache
from pipelines.vault import files
from queue_config.inspect import is_among_next, waiting, waits
from queue_config.queue import Queue
from workers.jobs import SLICE_SECONDS, is_paused, job, reports_of_parsing, require_running, return_memory
from workers.resources import Resources

# The task that indexes one note at once, because someone waits for it.


RequestNote = Callable[[str, str | None, bool], None]
"""Enqueues the task: takes the note's path (its key), and the request's id, or None if no reply is awaited.

The last argument: whether the note is indexed again although it did not change.
"""


def make_request_task(huey: Queue, resources: Resources, index_notes: Callable[..., Any]) -> RequestNote:
    """Register the task on a queue; `index_notes` enqueues the task of that name."""

    # It may run twice or late: it only compares a file with the ledger. Messages of earlier versions have no `force`.
    @huey.task(name="index_note", priority=REQUEST_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def index_note(path: str, request: str | None, force: bool = False, *, task: Task) -> None:  # noqa: FBT001, FBT002 - a message's
        with job(task, "*", path=path) as doing:
            quiet, wanted = look_at(resources, path, force=force)
            huey.reopen_if_replaced()
            for slug, events in wanted.items():
                if not waits(huey, "index_notes", SAVE_PRIORITY, slug):
                    index_notes(slug, [asdict(event) for event in events])
            doing.update(settled=quiet)
            if request is not None:
                resources.state().put(LOOKED_AT, quiet, request)

    def enqueue(path: str, request: str | None, force: bool) -> None:  # noqa: FBT001 - as the task
        huey.reopen_if_replaced()
        if request is not None or force or not is_among_next(huey, "index_note", REQUEST_PRIORITY, path):
            index_note(path, request, force)

    return enqueue


def look_at(
    resources: Resources, path: str, *, force: bool = False
) -> tuple[bool, dict[str, list[DiffEvent]]]:
    """Record a note's change in the ledger, or with `force` that it is wanted again, with the priority of a save.

    Return whether the file was quiet, and by domain, where the note is pending now, its events. Raises
    VaultNotFoundError, CacheError.
    """
    resources.require_present()
    caches = resources.caches()
    reports = check_paths(
        resources.root,
        resources.registry(),
        caches,
        {files.path_on_disk(resources.root, path)},
        max_bytes=resources.settings.max_note_bytes,
        brake=resources.brake(),
    )
    wanted = {}
    for slug, report in reports.items():
        ledger = caches[slug].ledger
        if force:
            with caches[slug].transaction():
                ledger.want_again([path])
        ledger.retry(path)
        # It may be one of many that a scan found, and one that is parked is tried again.
        if ledger.hasten(path):
            wanted[slug] = report.events
    return not any(report.unsettled for report in reports.values()), wanted


# Compare disk and ledgers and record the result, for the tasks and the one-shot commands alike.


_UNSEEN = "unseen"
_MOST_NAMED = 5


def compare(resources: Resources, *, settle: bool = False, confirmed: bool = False) -> dict[str, Report]:
    """Compare disk and ledgers, and record each difference.

    `settle`: deletions wait until no more notes vanish. `confirmed`: held deletions are applied.
    Raises VaultNotFoundError.
    """
    resources.require_present()
    started = time.monotonic()
    resources.show_views()
    caches = resources.caches()
    reports = reconcile(
        resources.root,
        resources.registry(),
        caches,
        max_bytes=resources.settings.max_note_bytes,
        brake=resources.brake(settle=settle, confirmed=confirmed),
    )
    for domain in resources.domains():
        caches[domain.slug].vectors.drop_unused()
    _complain(resources, next(iter(reports.values())).complaints)
    resources.vanished().prune(WINDOW_SECONDS)
    record_comparison(resources.state(), reports, round((time.monotonic() - started) * 1000))
    return reports


def _complain(resources: Resources, complaints: Sequence[str]) -> None:
    """Report files that are not read and rules that do not apply, contrary to what a person may expect."""
    if not complaints:
        resources.problems().clear(_UNSEEN)
        return
    more = len(complaints) - _MOST_NAMED
    resources.problems().report(
        _UNSEEN,
        "",
        "; ".join(complaints[:_MOST_NAMED]) + (f"; and {more} more like these" if more > 0 else ""),
    )


# More saves at once are a bulk change, which is drained words first.
SAVES_PER_TASK = 64


@dataclass(frozen=True, slots=True)
class RemoteWork:
    """What says whether endpoints embed a cache's texts, whether one is open, and whether this process asks one."""

    embeds: Callable[[WritableCache], bool]
    is_ready: Callable[[WritableCache], bool]
    busy: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class Tasks:
    """The registered tasks; calling one enqueues it."""

    index_notes: Callable[[str, list[dict[str, Any]]], Any]
    drain: Callable[[str], Any]
    index_apart: Callable[[str], Any]
    reconcile_vault: Callable[[str, bool], Any]
    retry_parked: Callable[[str | None], Any]
    embed_remotely: Callable[[str], Any]
    paused: Callable[[str], bool]
    ahead: ParserAhead
    """Parses the next notes while the words of others are indexed."""
    parser: ApartParser
    """Parses notes that take long, for this process's `index_apart`."""
    remote: RemoteWork


def make_tasks(huey: Queue, resources: Resources) -> Tasks:
    """Register the tasks on a queue. `resources` are not used before a task runs."""

    @huey.task(name="index_notes", priority=SAVE_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def index_notes(domain: str, events: list[dict[str, Any]], task: Task) -> None:
        _index_notes(huey, tasks, resources, domain, len(events), task)

    @huey.task(name="drain", priority=LOW_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def drain(domain: str, task: Task) -> None:
        _drain(huey, tasks, resources, domain, task)

    # It takes minutes, mostly in a separate process.
    @huey.task(name="index_apart", priority=HIGH_PRIORITY, aside=True, context=True)  # type: ignore[untyped-decorator]
    def index_apart(domain: str, task: Task) -> None:
        _work_apart(huey, tasks, resources, domain, task)

    # It waits for a network.
    @huey.task(name="embed_remotely", priority=LOW_PRIORITY, aside=True, context=True)  # type: ignore[untyped-decorator]
    def embed_remotely(domain: str, task: Task) -> None:
        _embed_remotely(huey, tasks, resources, domain, task)

    @huey.task(name="reconcile_vault", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def reconcile_vault(request: str, confirmed: bool, task: Task) -> None:  # noqa: FBT001 - a task's argument
        with job(task, "*") as doing:
            reports = reconcile_now(huey, tasks, resources, confirmed=confirmed)
            answer = {slug: report.plain() for slug, report in reports.items()}
            doing.update(found=answer)
            resources.state().put(RELOADED, answer, request)

    @huey.task(name="retry_parked", priority=HIGH_PRIORITY, once=True, context=True)  # type: ignore[untyped-decorator]
    def retry_parked(path: str | None, task: Task) -> None:
        with job(task, "*", path=path) as doing:
            doing.update(_retry(huey, tasks, resources, path))

    paused = partial(is_paused, resources)
    remote = RemoteWork(
        lambda cache: bool(resources.settings.endpoints_of(cache.meta.model)),
        lambda cache: resources.embedders.has_loaded(cache.meta.model),
    )
    tasks = Tasks(
        index_notes,
        drain,
        index_apart,
        reconcile_vault,
        retry_parked,
        embed_remotely,
        paused,
        ParserAhead(),
        ApartParser(),
        remote,
    )
    return tasks


def _index_notes(huey: Queue, tasks: Tasks, resources: Resources, slug: str, notes: int, task: Task) -> None:
    """Index saves, those of a domain first, and hint at the work that follows."""
    registry = resources.registry()
    domain = registry.get(slug)
    if domain is None:
        return  # the domain no longer exists; a reconcile assigns its notes
    with job(task, slug, notes=notes) as doing:
        for served in _index_saves(resources, domain, registry.domains, doing):
            hint(huey, tasks, served, resources.cache(served))
        require_running(resources, slug)


def _drain(huey: Queue, tasks: Tasks, resources: Resources, slug: str, task: Task) -> None:
    """Do a domain's pending work for about a second, and hint at the rest."""
    domain = resources.registry().get(slug)
    if domain is None:
        return
    cache = resources.cache(domain)
    with job(task, slug) as doing, ingesting(resources, domain, cache) as ingest:
        require_running(resources, slug)
        doing.update(_slice(huey, tasks, resources, domain, cache, ingest))
        # Work that is not possible now is left to the sweep, because hints from here would repeat without a pause.
        if doing["words"] or doing["vectors"]:
            hint(huey, tasks, domain, cache)
        if not has_pending(cache):
            return_memory()


def _index_saves(
    resources: Resources, first: Domain, domains: Sequence[Domain], doing: dict[str, Any]
) -> list[Domain]:
    """Index the newest saves of all domains in turns, for about a second; return the domains that had some.

    Any job serves all saves, so that a save never waits for jobs enqueued before it.
    """
    until = time.monotonic() + SLICE_SECONDS
    others = (one for one in domains if one.slug != first.slug and _has_cache(resources, one))
    turns = [one for one in (first, *others) if not is_paused(resources, one.slug)]
    served: dict[str, Domain] = {}
    total = Outcome()
    saved: dict[str, list[float]] = {}
    while turns and time.monotonic() < until:
        domain = turns.pop(0)
        cache = resources.cache(domain)
        if not cache.leases.has_pending("words", "saves"):
            continue
        with ingesting(resources, domain, cache) as ingest:
            outcome = index_saved(cache, ingest)
        saved.setdefault(domain.slug, []).extend(cache.ledger.saved_ms(outcome.paths))
        total.add(outcome)
        served[domain.slug] = domain
        turns.append(domain)
    doing.update(attempt=total.attempt, words=total.touched, paths=total.paths, embedded=total.embedded_texts)
    doing.update(saved_ms=saved)
    return list(served.values())


def _has_cache(resources: Resources, domain: Domain) -> bool:
    return resources.state().cache_path(domain.slug).exists()


def _work_apart(huey: Queue, tasks: Tasks, resources: Resources, slug: str, task: Task) -> None:
    """Index notes that are parsed apart, for about a second, and hint at the next ones, other domains first."""
    domain = resources.registry().get(slug)
    if domain is None or not tasks.parser.busy.acquire(blocking=False):
        return  # the running one hints at the next
    cache, touched = resources.cache(domain), 0
    try:
        with (
            job(task, slug) as doing,
            ingesting(resources, domain, cache) as ingest,
            reports_of_parsing(resources.problems()) as said,
        ):
            require_running(resources, slug)
            outcome = _index_apart(cache, ingest, tasks.parser, said)
            touched = outcome.touched
            doing.update(attempt=outcome.attempt, words=outcome.touched, paths=outcome.paths)
            doing.update(saved_ms={slug: cache.ledger.saved_ms(outcome.paths)})
    finally:
        tasks.parser.busy.release()
    # What is not possible now is left to the sweep, as in `_drain`.
    if touched:
        for other in sorted(resources.domains(), key=lambda one: one.slug == slug):
            hint(huey, tasks, other, resources.cache(other))


def _embed_remotely(huey: Queue, tasks: Tasks, resources: Resources, slug: str, task: Task) -> None:
    """Have endpoints embed a domain's pending texts for about a second, and hint at the next, other domains first."""
    domain = resources.registry().get(slug)
    if domain is None or not tasks.remote.busy.acquire(blocking=False):
        return  # the running one hints at the next
    cache, touched = resources.cache(domain), 0
    try:
        with job(task, slug) as doing, ingesting(resources, domain, cache) as ingest:
            require_running(resources, slug)
            started, embedded = time.monotonic(), 0
            while time.monotonic() - started < SLICE_SECONDS:
                outcome = embed_pending(cache, ingest)
                touched += outcome.touched
                embedded += outcome.embedded_texts
                doing.update(vectors=touched, embedded=embedded)
                if not outcome.touched:
                    break
            _say_speed(resources, slug, embedded, started)
    finally:
        tasks.remote.busy.release()
    # What is not possible now is left to the sweep, as in `_drain`.
    if touched:
        for other in sorted(resources.domains(), key=lambda one: one.slug == slug):
            hint(huey, tasks, other, resources.cache(other))


def _say_speed(resources: Resources, slug: str, embedded: int, started: float) -> None:
    if embedded:
        rate = embedded / (time.monotonic() - started)
        resources.state().put(EMBEDDING_SPEED, EmbeddingSpeed(round(rate, 1)), slug)


def _index_apart(
    cache: WritableCache, ingest: Ingest, parser: ApartParser, said: Callable[[str, float], None]
) -> Outcome:
    """Index notes that are parsed apart until about a second has passed, or none can be indexed now."""
    until = time.monotonic() + SLICE_SECONDS
    total = Outcome()
    while True:
        outcome = index_apart_of(cache, ingest, parser, said)
        total.add(outcome)
        if outcome.postponed or not outcome.touched or time.monotonic() >= until:
            return total


def _retry(huey: Queue, tasks: Tasks, resources: Resources, path: str | None) -> dict[str, int]:
    taken_up = {}
    for domain in resources.domains():
        cache = resources.cache(domain)
        taken_up[domain.slug] = cache.ledger.retry(path)
        hint(huey, tasks, domain, cache)
    return taken_up


def reconcile_now(
    huey: Queue, tasks: Tasks, resources: Resources, *, settle: bool = False, confirmed: bool = False
) -> dict[str, Report]:
    """Compare disk and ledgers as `compare` does, and hint at pending work.

    Raises VaultNotFoundError.
    """
    reports = compare(resources, settle=settle, confirmed=confirmed)
    for domain in resources.domains():
        hint(huey, tasks, domain, resources.cache(domain))
    return reports


def announce(
    huey: Queue, tasks: Tasks, domain: Domain, cache: WritableCache, events: list[DiffEvent]
) -> None:
    """Enqueue saves that settled together, unless such a hint already waits; a bulk change is drained instead."""
    huey.reopen_if_replaced()
    if len(events) > SAVES_PER_TASK:
        hint(huey, tasks, domain, cache)
    elif events and not waits(huey, "index_notes", SAVE_PRIORITY, domain.slug):
        tasks.index_notes(domain.slug, [asdict(event) for event in events])


def hint(huey: Queue, tasks: Tasks, domain: Domain, cache: WritableCache) -> None:
    """Enqueue a domain's pending work, unless the domain is paused or such a hint already waits."""
    slug = domain.slug
    if tasks.paused(slug):
        return
    remote = tasks.remote.embeds(cache)
    pending = cache.leases.has_pending("words", "together") if remote else has_pending(cache)
    if pending and not waits(huey, "drain", LOW_PRIORITY, slug):
        tasks.drain(slug)
    if (
        remote
        and tasks.remote.is_ready(cache)  # `load_models` hints when an endpoint is open again
        and cache.leases.has_pending("vectors")
        and not tasks.remote.busy.locked()
        and not waits(huey, "embed_remotely", LOW_PRIORITY, slug)
    ):
        tasks.embed_remotely(slug)
    if (
        cache.leases.has_pending("words", "apart")
        and not tasks.parser.busy.locked()
        and not waits(huey, "index_apart", HIGH_PRIORITY, slug)
    ):
        tasks.index_apart(slug)


def has_pending(cache: WritableCache) -> bool:
    """Say whether words or vectors are pending, due and free, without the notes left to `index_apart`."""
    return cache.leases.has_pending("words", "together") or cache.leases.has_pending("vectors")


@contextmanager
def ingesting(resources: Resources, domain: Domain, cache: WritableCache) -> Iterator[Ingest]:
    """Yield what indexing needs. If the disk fails, leases cannot be released here: `release_broken_off` does."""
    ingest = replace(resources.ingest(domain, cache), apart=True)
    try:
        yield ingest
    except CacheError:
        resources.broken_off.add(ingest.owner)
        raise


def _slice(
    huey: Queue, tasks: Tasks, resources: Resources, domain: Domain, cache: WritableCache, ingest: Ingest
) -> dict[str, Any]:
    """Work for about a second, words before vectors; stop as soon as a save waits."""
    started = time.monotonic()

    def enough() -> bool:
        return _save_waits(huey) or time.monotonic() - started >= SLICE_SECONDS

    done = {"words": 0, "vectors": 0, "embedded": 0}
    while True:
        if cache.leases.has_pending("words", "together"):
            # Another process is worth its start if there are many notes.
            many = (tasks.ahead.is_running or done["words"] >= ROWS_PER_SLICE) and not enough()
            stage = "words"
            outcome = (
                index_words_ahead(cache, ingest, tasks.ahead, enough) if many else index_words(cache, ingest)
            )
        elif ingest.remote is None and ingest.encoder_ready():
            stage, outcome = "vectors", embed_pending(cache, ingest, lambda: _save_waits(huey))
        else:
            break  # `load_models` will hint at them, or `hint` leaves them to `embed_remotely`
        done[stage] += outcome.touched
        done["embedded"] += outcome.embedded_texts
        if not outcome.touched or enough():
            break
    if tasks.ahead.is_running and not cache.leases.has_pending("words", "together"):
        tasks.ahead.end()
    _say_speed(resources, domain.slug, done["embedded"], started)
    return done


def _save_waits(huey: Queue) -> bool:
    return any(task.priority >= HIGH_PRIORITY for task in waiting(huey, 1))


# Background work of a worker besides jobs: find forgotten work, load models, and rehash all notes in turn.


_DAY_SECONDS = 24 * 3600.0

log = structlog.get_logger()


def load_models(huey: Queue, tasks: Tasks, resources: Resources) -> None:
    """Load the models of all caches without pending words, and hint at the vectors that waited for them.

    Loading takes seconds: within a task it would delay saves, and while words are indexed it would slow them down.
    Endpoints that failed are tried again. Raises ModelUnavailableError.
    """
    for domain in resources.domains():
        cache = resources.cache(domain)
        had = resources.embedders.has_loaded(cache.meta.model)
        if cache.meta.embeds and (had or not cache.leases.has_pending("words", "together")):
            resources.embedders.load(cache.meta.model)
        if not had and resources.embedders.has_loaded(cache.meta.model):
            hint(huey, tasks, domain, cache)


def sweep(huey: Queue, tasks: Tasks, resources: Resources) -> None:
    """Hint at pending work that no worker has and no hint announces, because a worker died or the queue was lost."""
    huey.reopen_if_replaced()
    if not resources.present():
        log.warning("the vault is not there; work waits", vault=str(resources.root))
        return
    resources.show_views()
    caches = resources.caches()
    release_broken_off(resources, caches.values())
    for domain in resources.domains():
        cache = caches[domain.slug]
        cache.leases.free_those_of_the_dead(resources.is_at_work)
        cache.tidy()
        hint(huey, tasks, domain, cache)


def release_broken_off(resources: Resources, caches: Iterable[WritableCache]) -> None:
    """Release the leases of work that a failing disk ended in this process. Raises CacheError."""
    broken_off = frozenset(resources.broken_off)
    for cache in caches:
        cache.leases.release_all_of(broken_off)
    resources.broken_off -= broken_off


def rehash_share(huey: Queue, tasks: Tasks, resources: Resources, every: float) -> None:
    """Rehash a slice of the notes; called every `every` seconds, this covers every note once a day."""
    state = resources.state()
    for domain in resources.domains():
        cache = resources.cache(domain)
        count = math.ceil(cache.ledger.known() * min(1.0, every / _DAY_SECONDS))
        cursor = state.get(REHASHED, domain.slug)
        report, last = rehash(
            resources.root,
            domain.slug,
            cache,
            cursor.value if cursor else "",
            count,
            max_bytes=resources.settings.max_note_bytes,
        )
        state.put(REHASHED, last, domain.slug)
        if report.events:
            hint(huey, tasks, domain, cache)
