"""Read vectors from a cache that another domain fills, or that a new one replaces; it may be damaged."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path

import apsw
import numpy as np

from pipelines.errors import CacheError, StateError
from pipelines.store.cache import Cache, Vector
from pipelines.store.check import is_unit
from pipelines.store.connection import rows
from pipelines.store.meta import CacheMeta

# What opening or reading a damaged file may raise; a text that is not UTF-8 is a ValueError.
_UNREADABLE = (CacheError, StateError, apsw.Error, ValueError, MemoryError)
# The hash is read from the row itself: an index that is damaged may lead to the row of another text.
_BY_HASH = (
    "SELECT own.text_hash, own.embedding FROM vault_vector found JOIN vault_vector own ON own.rowid = found.rowid"
    " WHERE found.text_hash IN (SELECT value FROM json_each(?))"
)


def readable_vectors(path: Path, meta: CacheMeta, hashes: Collection[str]) -> dict[str, Vector]:
    """Return those vectors of these text hashes that a cache of the same model has, and that can be read.

    A damaged vector is left out: it is cheap to compute again, and its file is reported elsewhere.
    """
    found: dict[str, Vector] = {}
    with suppress(*_UNREADABLE), closing(Cache.open(path)) as other:
        if (other.meta.model, other.meta.dimension) != (meta.model, meta.dimension):
            return {}
        try:
            found = _read(other, hashes)
        except _UNREADABLE:
            for text_hash in hashes:
                with suppress(*_UNREADABLE):
                    found |= _read(other, [text_hash])
    return found


def _read(cache: Cache, hashes: Collection[str]) -> dict[str, Vector]:
    size = 4 * cache.meta.dimension
    vectors = {
        text_hash: np.frombuffer(blob, "<f4")
        for text_hash, blob in rows(cache.con, _BY_HASH, (json.dumps(list(hashes)),))
        if isinstance(blob, bytes) and len(blob) == size
    }
    wanted = set(hashes)
    return {
        text_hash: vector for text_hash, vector in vectors.items() if text_hash in wanted and is_unit(vector)
    }
