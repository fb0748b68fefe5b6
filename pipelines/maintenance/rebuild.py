"""Work through everything that a cache owes, in this process; and build a new cache beside the current one."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipelines.domains import Registry
from pipelines.indexing import Ingest
from pipelines.ingest import index_words
from pipelines.model import Counts
from pipelines.owed_vectors import embed_owed
from pipelines.reconcile import reconcile
from pipelines.store.cache import Cache

_PAUSE_SECONDS = 0.2
_RECONCILE_SECONDS = 2.0


def catch_up(cache: Cache, ingest: Ingest, progress: Callable[[Counts], None]) -> int:
    """Index until nothing is owed; return how many texts were embedded. Words come before vectors."""
    embedded = 0
    while True:
        outcome = (index_words if cache.leases.owes("words") else embed_owed)(cache, ingest)
        embedded += outcome.embedded_texts
        counts = cache.counts()
        progress(counts)
        if not counts.pending and not counts.vectors_pending:
            return embedded
        if not outcome.touched:
            time.sleep(_PAUSE_SECONDS)  # what is left waits for its next attempt


def build_beside(registry: Registry, cache: Cache, ingest: Ingest, progress: Callable[[Counts], None]) -> int:
    """Fill a new cache from the disk while the current one goes on serving; return the texts embedded.

    The disk is compared again while it works, so that what is saved meanwhile is in it, too. An
    interrupted build goes on where it was.
    """
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
    embedded = catch_up(cache, ingest, step)
    compare()
    return embedded + catch_up(cache, ingest, progress)
