"""The huey tasks. Each carries a hint; what is owed stands in the ledger."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import structlog
from huey.api import Task

from pipelines.apart import ApartParser
from pipelines.errors import CacheError, EverindexError
from pipelines.indexing import Ingest, Outcome
from pipelines.ingest import embed_owed, index_saved, index_words
from pipelines.ingest import index_apart as index_apart_of
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, SAVE_PRIORITY, DiffEvent, Domain
from pipelines.reconcile import Report, rehash
from pipelines.store.cache import Cache
from pipelines.store.connection import bound_journal
from pipelines.store.facts import EMBEDDING_SPEED, REHASHED, RELOADED, EmbeddingSpeed
from pipelines.store.overview import saved_ms
from queue_config.inspect import waiting, waits
from queue_config.logs import Trouble
from queue_config.queue import QUEUE_ERRORS, Queue
from workers.comparing import compare
from workers.parsing import reports_of_parsing
from workers.resources import Resources

SLICE_SECONDS = 1.0
# More saves than this at once are a bulk change: they are drained, words first.
SAVES_PER_TASK = 64
_DAY_SECONDS = 24 * 3600.0

log = structlog.get_logger()
_put_off = Trouble("work is put off")


@dataclass(frozen=True, slots=True)
class Tasks:
    """The registered tasks; calling one enqueues it."""

    index_notes: Callable[[str, list[dict[str, Any]]], Any]
    drain: Callable[[str], Any]
    index_apart: Callable[[str], Any]
    reconcile_vault: Callable[[str, bool], Any]
    retry_parked: Callable[[str | None], Any]
    paused: Callable[[str], bool]
    parser: ApartParser
    """Parses what takes long, for the `index_apart` of this process."""


def is_paused(resources: Resources, slug: str) -> bool:
    """Say whether a domain's notes wait until it is resumed."""
    return resources.state().decisions.paused_since(slug) is not None


def make_tasks(huey: Queue, resources: Resources) -> Tasks:
    """Register the tasks on a queue. `resources` are used when a task runs, not before."""

    @huey.task(name="index_notes", priority=SAVE_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def index_notes(domain: str, events: list[dict[str, Any]], task: Task) -> None:
        registry = resources.registry()
        found = registry.get(domain)
        if found is None:
            return  # the domain went; a reconcile gives its notes to their new owner
        with job(task, domain, notes=len(events)) as doing:
            for served in _index_saves(resources, found, registry.domains, doing):
                hint(huey, tasks, served, resources.cache(served))
            require_running(resources, domain)

    @huey.task(name="drain", priority=LOW_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def drain(domain: str, task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return
        cache = resources.cache(found)
        with job(task, domain) as doing, _ingest(resources, found, cache) as ingest:
            require_running(resources, domain)
            doing.update(_slice(huey, resources, found, cache, ingest))
            # What could not be worked on just now is the sweep's: it would be hinted at without a pause.
            if doing["words"] or doing["vectors"]:
                hint(huey, tasks, found, cache)

    # Minutes, most of them in a process of its own.
    @huey.task(name="index_apart", priority=HIGH_PRIORITY, aside=True, context=True)  # type: ignore[untyped-decorator]
    def index_apart(domain: str, task: Task) -> None:
        _work_apart(huey, tasks, resources, domain, task)

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

    tasks = Tasks(
        index_notes,
        drain,
        index_apart,
        reconcile_vault,
        retry_parked,
        partial(is_paused, resources),
        ApartParser(),
    )
    return tasks


def require_running(resources: Resources, slug: str) -> None:
    """Put work on a paused domain off: the ledger keeps what is owed. Raises EverindexError."""
    if is_paused(resources, slug):
        raise EverindexError(f"the domain {slug} is paused; its notes are indexed when it is resumed")


def _index_saves(
    resources: Resources, first: Domain, domains: Sequence[Domain], doing: dict[str, Any]
) -> list[Domain]:
    """Index the newest saves of all domains for about a second, in turns; return the domains that had some.

    Whichever job comes next serves them: a save waits for no job that was enqueued before it.
    """
    until = time.monotonic() + SLICE_SECONDS
    others = (one for one in domains if one.slug != first.slug and _has_cache(resources, one))
    turns = [one for one in (first, *others) if not is_paused(resources, one.slug)]
    served: dict[str, Domain] = {}
    total = Outcome()
    saved_in_ms: list[float] = []
    while turns and time.monotonic() < until:
        domain = turns.pop(0)
        cache = resources.cache(domain)
        if not cache.leases.owes_saves():
            continue
        with _ingest(resources, domain, cache) as ingest:
            outcome = index_saved(cache, ingest)
        saved_in_ms += saved_ms(cache, outcome.paths)
        total.add(outcome)
        served[domain.slug] = domain
        turns.append(domain)
    doing.update(attempt=total.attempt, words=total.touched, paths=total.paths, embedded=total.embedded_texts)
    doing.update(saved_ms=saved_in_ms)
    return list(served.values())


def _has_cache(resources: Resources, domain: Domain) -> bool:
    return resources.state().cache_path(domain.slug).exists()


def _work_apart(huey: Queue, tasks: Tasks, resources: Resources, slug: str, task: Task) -> None:
    """Index one note that takes long to parse, and hint at the next one, other domains first."""
    domain = resources.registry().get(slug)
    if domain is None or not tasks.parser.busy.acquire(blocking=False):
        return  # the one that is under way hints at the next
    cache = resources.cache(domain)
    try:
        with (
            job(task, slug) as doing,
            _ingest(resources, domain, cache) as ingest,
            reports_of_parsing(resources.problems()) as said,
        ):
            require_running(resources, slug)
            outcome = index_apart_of(cache, ingest, tasks.parser, said)
            doing.update(attempt=outcome.attempt, words=outcome.touched, paths=outcome.paths)
            doing.update(saved_ms=saved_ms(cache, outcome.paths))
    finally:
        tasks.parser.busy.release()
    for other in sorted(resources.domains(), key=lambda one: one.slug == slug):
        hint(huey, tasks, other, resources.cache(other))


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
    """Compare disk and ledgers as `compare` does, and hint at what is owed.

    Raises VaultNotFoundError.
    """
    reports = compare(resources, settle=settle, confirmed=confirmed)
    for domain in resources.domains():
        hint(huey, tasks, domain, resources.cache(domain))
    return reports


def rehash_share(huey: Queue, tasks: Tasks, resources: Resources, every: float) -> None:
    """Read a share of the notes anew, so that in a day of calls every `every` seconds each note had its turn."""
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


def announce(huey: Queue, tasks: Tasks, domain: Domain, cache: Cache, events: list[DiffEvent]) -> None:
    """Tell the workers of saves that settled together, unless a hint at saves waits; a bulk change is drained."""
    huey.reopen_if_replaced()
    if len(events) > SAVES_PER_TASK:
        hint(huey, tasks, domain, cache)
    elif events and not waits(huey, "index_notes", SAVE_PRIORITY, domain.slug):
        tasks.index_notes(domain.slug, [asdict(event) for event in events])


def hint(huey: Queue, tasks: Tasks, domain: Domain, cache: Cache) -> None:
    """Enqueue work on what a domain owes, unless it is paused, or such a hint waits already."""
    slug = domain.slug
    if tasks.paused(slug):
        return
    if owes(cache) and not waits(huey, "drain", LOW_PRIORITY, slug):
        tasks.drain(slug)
    if (
        cache.leases.owes_apart()
        and not tasks.parser.busy.locked()
        and not waits(huey, "index_apart", HIGH_PRIORITY, slug)
    ):
        tasks.index_apart(slug)


def owes(cache: Cache) -> bool:
    """Say whether words or vectors are owed, due and free; what is set apart is the business of `index_apart`."""
    return cache.leases.owes("words", together=True) or cache.leases.owes("vectors")


def load_models(huey: Queue, tasks: Tasks, resources: Resources) -> None:
    """Load the models of all caches that owe no words, and hint at the vectors that waited for them.

    Loading takes seconds: in a task it would let saves wait, and while words are indexed it would slow them.
    Raises ModelUnavailableError.
    """
    for domain in resources.domains():
        cache = resources.cache(domain)
        if not resources.embedders.has_loaded(cache.meta.model) and not cache.leases.owes(
            "words", together=True
        ):
            resources.embedders.get(cache.meta.model)
            hint(huey, tasks, domain, cache)


def sweep(huey: Queue, tasks: Tasks, resources: Resources) -> None:
    """Find what is owed and nobody works on or has been told of: a worker died, or the queue was lost."""
    huey.reopen_if_replaced()
    if not resources.present():
        log.warning("the vault is not there; work waits", vault=str(resources.root))
        return
    broken_off = frozenset(resources.broken_off)
    for domain in resources.domains():
        cache = resources.cache(domain)
        cache.leases.free_those_of_the_dead(resources.is_at_work)
        cache.leases.release_all_of(broken_off)
        bound_journal(cache.con)
        hint(huey, tasks, domain, cache)
    resources.broken_off -= broken_off


@contextmanager
def _ingest(resources: Resources, domain: Domain, cache: Cache) -> Iterator[Ingest]:
    """Give what indexing takes. Where the disk fails, the leases are left to the sweep: they cannot be given back."""
    ingest = replace(resources.ingest(domain, cache), apart=True)
    try:
        yield ingest
    except CacheError:
        resources.broken_off.add(ingest.owner)
        raise


def _slice(huey: Queue, resources: Resources, domain: Domain, cache: Cache, ingest: Ingest) -> dict[str, Any]:
    """Work for about a second, words before vectors; stop as soon as a save waits."""
    started = time.monotonic()

    done = {"words": 0, "vectors": 0, "embedded": 0}
    while True:
        if cache.leases.owes("words", together=True):
            stage, outcome = "words", index_words(cache, ingest)
        elif ingest.encoder_ready():
            stage, outcome = "vectors", embed_owed(cache, ingest, lambda: _save_waits(huey))
        else:
            break  # `load_models` will hint
        done[stage] += outcome.touched
        done["embedded"] += outcome.embedded_texts
        if not outcome.touched or _save_waits(huey) or time.monotonic() - started >= SLICE_SECONDS:
            break
    if done["embedded"]:
        rate = done["embedded"] / (time.monotonic() - started)
        resources.state().put(EMBEDDING_SPEED, EmbeddingSpeed(round(rate, 1)), domain.slug)
    return done


def _save_waits(huey: Queue) -> bool:
    return any(task.priority >= HIGH_PRIORITY for task in waiting(huey, 1))


@contextmanager
def job(task: Task, domain: str, **fields: Any) -> Iterator[dict[str, Any]]:
    """Log one line a job: what it did, how long it took, or why it failed; `workers.signals` records the same."""
    started = time.monotonic()
    result: dict[str, Any] = dict(fields)
    task.doing = result
    with structlog.contextvars.bound_contextvars(task=task.name, task_id=task.id, domain=domain):
        try:
            yield result
        except (EverindexError, *QUEUE_ERRORS) as error:
            # Their messages say what happened; whatever is owed is found by the sweep, every two seconds.
            result["put_off"] = str(error)
            _put_off.met(str(error))
        except Exception:
            log.exception("job failed", ms=round((time.monotonic() - started) * 1000), **result)
            raise
        else:
            _put_off.over()
            log.info("job done", ms=round((time.monotonic() - started) * 1000), **result)
