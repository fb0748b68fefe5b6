"""Figures for operators from a cache: parked notes, the size of its graph, how long saves took."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.priorities import HIGH_PRIORITY
from pipelines.store.cache import Cache
from pipelines.store.connection import one, rows


@dataclass(frozen=True, slots=True)
class ParkedRow:
    """A parked note; `generation` names the content that fails, `since_s` is how long the failure has been known."""

    path: str
    kind: str
    reason: str
    attempts: int
    generation: int
    since_s: float


def parked_notes(cache: Cache) -> list[ParkedRow]:
    """Return the parked notes, by path. Raises CacheError."""
    now = time.monotonic()
    return [
        ParkedRow(path, kind, reason, attempts, generation, max(0.0, now - since))
        for path, kind, reason, attempts, generation, since in rows(
            cache.con,
            "SELECT path, error_kind, error, attempts, generation, dirty_since FROM vault_file"
            " WHERE parked = 1 ORDER BY path",
        )
    ]


def edges_and_communities(cache: Cache) -> tuple[int, int]:
    """Count the links that mean a file, and the communities. Raises CacheError."""
    edges, communities = one(
        cache.con, "SELECT (SELECT count(*) FROM vault_edge), (SELECT count(*) FROM vault_community)"
    )
    return int(edges), int(communities)


def saved_ms(cache: Cache, paths: Sequence[str]) -> list[float]:
    """Return, for each of these saves that is findable, the milliseconds from its discovery to being findable.

    A save that newer content has followed is counted with the newer one; what a first index or a comparison of the
    disk found is no save. Raises CacheError.
    """
    # The ledger records the discovery by the monotonic clock, and the commit by the wall clock.
    offset = time.time() - time.monotonic()
    return [
        round(max(0.0, datetime.fromisoformat(at).timestamp() - offset - since) * 1000, 1)
        for since, at in rows(
            cache.con,
            "SELECT dirty_since, indexed_at FROM vault_file WHERE applied_generation = generation"
            " AND indexed_at IS NOT NULL AND priority >= ? AND path IN (SELECT value FROM json_each(?))",
            (HIGH_PRIORITY, json.dumps(list(paths))),
        )
    ]
