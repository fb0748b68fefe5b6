"""The huey tasks. Each carries a hint; what is owed stands in the ledger."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import structlog
from huey.api import Task

from pipelines.errors import CacheError, EverindexError
from pipelines.holds import held_key, hold_policy
from pipelines.ingest import Ingest, embed_owed, index_saved, index_words
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, DiffEvent, Domain
from pipelines.reconcile import Report, reconcile, rehash
from pipelines.store.cache import Cache
from pipelines.store.connection import bound_journal
from pipelines.store.overview import attempts, saved_ms
from pipelines.store.vec_blocks import reclaim
from queue_config.inspect import waiting
from queue_config.logs import Trouble
from queue_config.queue import QUEUE_ERRORS, Queue
from workers.resources import Resources, is_alive

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
    reconcile_vault: Callable[[str, bool], Any]
    retry_parked: Callable[[str | None], Any]
    paused: Callable[[str], bool]


def paused_key(slug: str) -> str:
    """Return the fact in `state.db` that says that a domain's notes are not indexed until it is resumed."""
    return f"paused:{slug}"


def is_paused(resources: Resources, slug: str) -> bool:
    """Say whether a domain's notes wait until it is resumed."""
    return resources.state().heard(paused_key(slug)) is not None


def make_tasks(huey: Queue, resources: Resources) -> Tasks:
    """Register the tasks on a queue. `resources` are used when a task runs, not before."""

    @huey.task(name="index_notes", priority=HIGH_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def index_notes(domain: str, events: list[dict[str, Any]], task: Task) -> None:
        found = resources.registry().get(domain)
        if found is None:
            return  # the domain went; a reconcile gives its notes to their new owner
        cache = resources.cache(found)
        with job(task, domain, notes=len(events)) as doing, _ingest(resources, found, cache) as ingest:
            require_running(resources, domain)
            paths = [e["path"] for e in events]
            doing.update(attempt=1 + attempts(cache, paths))
            outcome = index_saved(cache, ingest, paths)
            doing.update(paths=outcome.paths, embedded=outcome.embedded_texts)
            doing.update(saved_ms=saved_ms(cache, [(e["path"], e["generation"]) for e in events]))
            hint(huey, tasks, found, cache)

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

    @huey.task(name="reconcile_vault", priority=HIGH_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def reconcile_vault(request: str, confirmed: bool, task: Task) -> None:  # noqa: FBT001 - a task's argument
        with job(task, "*") as doing:
            reports = reconcile_now(huey, tasks, resources, confirmed=confirmed)
            answer = {slug: report.plain() for slug, report in reports.items()}
            doing.update(found=answer)
            resources.state().say(f"reload:{request}", answer)

    @huey.task(name="retry_parked", priority=HIGH_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def retry_parked(path: str | None, task: Task) -> None:
        with job(task, "*", path=path) as doing:
            doing.update(_retry(huey, tasks, resources, path))

    tasks = Tasks(index_notes, drain, reconcile_vault, retry_parked, partial(is_paused, resources))
    return tasks


def require_running(resources: Resources, slug: str) -> None:
    """Put work on a paused domain off: the ledger keeps what is owed. Raises EverindexError."""
    if is_paused(resources, slug):
        raise EverindexError(f"the domain {slug} is paused; its notes are indexed when it is resumed")


def _retry(huey: Queue, tasks: Tasks, resources: Resources, path: str | None) -> dict[str, int]:
    taken_up = {}
    for domain in resources.domains():
        cache = resources.cache(domain)
        taken_up[domain.slug] = cache.ledger.retry(path)
        hint(huey, tasks, domain, cache)
    return taken_up


def reconcile_now(
    huey: Queue, tasks: Tasks, resources: Resources, *, confirmed: bool = False
) -> dict[str, Report]:
    """Compare disk and ledgers, and hint at what is owed; `confirmed` lets held deletions go.

    Raises VaultNotFoundError.
    """
    resources.require_present()
    started = time.monotonic()
    caches, state = resources.caches(), resources.state()
    reports = reconcile(
        resources.root,
        resources.registry(),
        caches,
        max_bytes=resources.settings.max_note_bytes,
        may_delete=hold_policy(state, confirmed=confirmed),
    )
    for domain in resources.domains():
        if not reports[domain.slug].held:
            state.forget(held_key(domain.slug))
        caches[domain.slug].drop_unused_vectors()
        reclaim(caches[domain.slug])
        hint(huey, tasks, domain, caches[domain.slug])
    took = {"took_ms": round((time.monotonic() - started) * 1000)}
    state.say("reconcile", took | {slug: report.plain() for slug, report in reports.items()})
    return reports


def rehash_share(huey: Queue, tasks: Tasks, resources: Resources, every: float) -> None:
    """Read a share of the notes anew, so that in a day of calls every `every` seconds each note had its turn."""
    state = resources.state()
    for domain in resources.domains():
        cache = resources.cache(domain)
        count = math.ceil(cache.ledger.known() * min(1.0, every / _DAY_SECONDS))
        cursor = state.heard(f"rehash:{domain.slug}")
        report, last = rehash(
            resources.root,
            domain.slug,
            cache,
            cursor.value if cursor else "",
            count,
            max_bytes=resources.settings.max_note_bytes,
        )
        state.say(f"rehash:{domain.slug}", last)
        if report.events:
            hint(huey, tasks, domain, cache)


def announce(huey: Queue, tasks: Tasks, domain: Domain, cache: Cache, events: list[DiffEvent]) -> None:
    """Put saves that settled together on the queue; a bulk change only gets a hint."""
    huey.reopen_if_replaced()
    if 0 < len(events) <= SAVES_PER_TASK:
        tasks.index_notes(domain.slug, [asdict(event) for event in events])
    elif events:
        hint(huey, tasks, domain, cache)


def hint(huey: Queue, tasks: Tasks, domain: Domain, cache: Cache) -> None:
    """Enqueue a drain of a domain that owes something and is not paused, unless one waits already."""
    if not tasks.paused(domain.slug) and owes(cache) and not waits(huey, "drain", domain):
        tasks.drain(domain.slug)


def owes(cache: Cache) -> bool:
    """Say whether words or vectors are owed, due and free."""
    return cache.leases.owes("words") or cache.leases.owes("vectors")


def waits(huey: Queue, task: str, domain: Domain) -> bool:
    """Say whether a task of a domain, which is its first argument, waits on the queue already."""
    return any(w.task == task and w.args[:1] == (domain.slug,) for w in waiting(huey))


def load_models(huey: Queue, tasks: Tasks, resources: Resources) -> None:
    """Load the models of all caches that owe no words, and hint at the vectors that waited for them.

    Loading takes seconds: in a task it would let saves wait, and while words are indexed it would slow them.
    Raises ModelUnavailableError.
    """
    for domain in resources.domains():
        cache = resources.cache(domain)
        if not resources.has_loaded(cache.meta.model) and not cache.leases.owes("words"):
            resources.embedder(cache.meta.model)
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
        cache.leases.free_those_of_the_dead(is_alive)
        cache.leases.release_all_of(broken_off)
        bound_journal(cache.con)
        hint(huey, tasks, domain, cache)
    resources.broken_off -= broken_off


@contextmanager
def _ingest(resources: Resources, domain: Domain, cache: Cache) -> Iterator[Ingest]:
    """Give what indexing takes. Where the disk fails, the leases are left to the sweep: they cannot be given back."""
    ingest = resources.ingest(domain, cache)
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
        if cache.leases.owes("words"):
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
        resources.state().say(f"embed:{domain.slug}", {"texts_per_s": round(rate, 1)})
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
