"""Notes by their names and by their vectors: read-only SQL over a cache."""

from __future__ import annotations

import numpy as np

from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import one, rows


def data_version(cache: Cache) -> int:
    """Return a number that changes with each commit of another connection; it means nothing to a third one."""
    return int(one(cache.con, "PRAGMA data_version")[0])


def note_names(cache: Cache) -> dict[str, tuple[str, str]]:
    """Return every note's title and its aliases as JSON, by path."""
    found = rows(cache.con, "SELECT path, title, aliases FROM vault_node")
    return {path: (title, aliases) for path, title, aliases in found}


def vectors_of(cache: Cache, path: str) -> list[Vector]:
    """Return the vectors of a note's chunks that have one."""
    found = rows(
        cache.con,
        "SELECT v.embedding FROM vault_chunk c JOIN vault_vector v USING (text_hash) WHERE c.path = ?",
        (path,),
    )
    return [np.frombuffer(blob, "<f4") for (blob,) in found]
