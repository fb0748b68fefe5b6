"""Background work of a worker besides jobs: find forgotten work, load models, and rehash all notes in turn."""

from __future__ import annotations

import math

import structlog

from pipelines.indexing.reconcile import rehash
from pipelines.sqlite import bound_journal
from pipelines.state.state import REHASHED
from queue_config.queue import Queue
from workers.resources import Resources
from workers.tasks import Tasks, hint

_DAY_SECONDS = 24 * 3600.0

log = structlog.get_logger()


def load_models(huey: Queue, tasks: Tasks, resources: Resources) -> None:
    """Load the models of all caches without pending words, and hint at the vectors that waited for them.

    Loading takes seconds: within a task it would delay saves, and while words are indexed it would slow them down.
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
    """Hint at pending work that no worker has and no hint announces, because a worker died or the queue was lost."""
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
