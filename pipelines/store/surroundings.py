"""What a traversal reads about notes: the edges at them, and the vectors that belong to them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.model import EdgeKind
from pipelines.store.cache import Cache
from pipelines.store.connection import records, rows


@dataclass(frozen=True, slots=True)
class Linked:
    """An edge seen from one of its ends: `path` is the note at the other end, `rank` its PageRank (0: none yet)."""

    path: str
    source: str
    target: str
    kind: EdgeKind
    rank: float


def edges_at(cache: Cache, paths: Sequence[str]) -> list[Linked]:
    """Return the edges from and to notes of a domain, one per pair and kind for each end that was asked for."""
    return records(
        cache.con,
        Linked,
        "WITH chosen AS (SELECT value AS path FROM json_each(?)), found AS ("
        " SELECT target AS other, path AS source, target, kind FROM vault_edge WHERE path IN chosen"
        " UNION SELECT path, path, target, kind FROM vault_edge WHERE target IN chosen)"
        " SELECT n.path AS path, found.source AS source, found.target AS target, found.kind AS kind,"
        " coalesce(r.pagerank, 0.0) AS rank FROM found"
        " JOIN vault_node n ON n.path = other LEFT JOIN vault_rank r ON r.path = other",
        (json.dumps(list(paths)),),
    )


def text_hashes(cache: Cache, paths: Sequence[str]) -> dict[str, list[str]]:
    """Return, by path, the hashes of notes' passages that have a vector, in the order of the text."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, text_hash in rows(
        cache.con,
        "SELECT path, text_hash FROM vault_chunk WHERE path IN (SELECT value FROM json_each(?))"
        " AND has_vector = 1 ORDER BY path, position",
        (json.dumps(list(paths)),),
    ):
        found[path].append(text_hash)
    return found
