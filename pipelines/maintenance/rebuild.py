"""Complete all pending work of a cache in this process, and build a new cache next to the current one."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from pipelines.domains import Registry
from pipelines.indexing.ingest import Ingest, embed_pending, index_words
from pipelines.indexing.reconcile import reconcile
from pipelines.model import Counts
from pipelines.store import WritableCache

_PAUSE_SECONDS = 0.2
_RECONCILE_SECONDS = 2.0


def catch_up(
    cache: WritableCache, ingest: Ingest, progress: Callable[[Counts], None], besides: Collection[str]
) -> int:
    """Index until nothing is pending; return how many texts were embedded. Words come before vectors.

    Files `besides` the notes do not count.
    """
    embedded = 0
    while True:
        outcome = (index_words if cache.leases.has_pending("words") else embed_pending)(cache, ingest)
        embedded += outcome.embedded_texts
        counts = cache.counts(besides)
        progress(counts)
        if not counts.pending and not counts.vectors_pending:
            return embedded
        if not outcome.touched:
            time.sleep(_PAUSE_SECONDS)  # the remaining rows wait for their next attempt


def build_beside(
    registry: Registry, cache: WritableCache, ingest: Ingest, progress: Callable[[Counts], None]
) -> int:
    """Fill a new cache from the disk while the current one keeps serving; return how many texts were embedded.

    The disk is compared repeatedly, so that the new cache includes what is saved meanwhile. An interrupted build
    resumes where it stopped.
    """
    domain = registry.get(ingest.domain)
    besides = domain.configuration if domain else ()
    compared = 0.0

    def compare() -> None:
        nonlocal compared
        reconcile(ingest.root, registry, {ingest.domain: cache}, max_bytes=ingest.max_bytes)
        compared = time.monotonic()

    def step(counts: Counts) -> None:
        progress(counts)
        if time.monotonic() - compared > _RECONCILE_SECONDS:
            compare()

    compare()
    embedded = catch_up(cache, ingest, step, besides)
    compare()
    return embedded + catch_up(cache, ingest, progress, besides)
