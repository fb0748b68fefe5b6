"""Read vectors from a cache that another domain fills, or that a new one replaces; it may be damaged."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from pipelines.cache.cache import Cache, Vector
from pipelines.cache.schema import CacheMeta
from pipelines.cache.verify import is_unit
from pipelines.errors import CacheError, StateError
from pipelines.sqlite import first, select, transaction

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
        for text_hash, blob in select(cache.con, _BY_HASH, (json.dumps(list(hashes)),))
        if isinstance(blob, bytes) and len(blob) == size
    }
    wanted = set(hashes)
    return {
        text_hash: vector for text_hash, vector in vectors.items() if text_hash in wanted and is_unit(vector)
    }


# Reclaim the space that deleted vectors leave in `vault_chunk_vec`.
#
# sqlite-vec stores vectors in blocks, fills only the newest block, and frees a block when its last vector is
# deleted. Without this, the index of a vault that is edited for a year would consist mostly of holes, which each
# search reads.


_LARGEST_DEAD_SHARE = 0.5


def reclaim(cache: Cache) -> int:
    """Move the vectors out of the emptiest blocks while more than half of the space is unused.

    Return how many blocks were emptied, one short transaction each. Raises CacheError.
    """
    emptied = 0
    while (block := _block_to_empty(cache)) is not None:
        _empty(cache, block)
        emptied += 1
    return emptied


def _block_to_empty(cache: Cache) -> int | None:
    """Return the block with the fewest vectors, except for the block that is being filled."""
    blocks = select(
        cache.con,
        "SELECT b.chunk_id, b.size, count(r.rowid) FROM vault_chunk_vec_chunks b"
        " LEFT JOIN vault_chunk_vec_rowids r USING (chunk_id) GROUP BY b.chunk_id ORDER BY b.chunk_id",
    )
    room = sum(size for _, size, _ in blocks[:-1])
    alive = sum(count for _, _, count in blocks[:-1])
    if not room or 1 - alive / room <= _LARGEST_DEAD_SHARE:
        return None
    return int(min(blocks[:-1], key=lambda block: block[2])[0])


def _empty(cache: Cache, block: int) -> None:
    with transaction(cache.con):
        ids = select(cache.con, "SELECT rowid FROM vault_chunk_vec_rowids WHERE chunk_id = ?", (block,))
        for (chunk_id,) in ids:
            found = first(cache.con, "SELECT embedding FROM vault_chunk_vec WHERE chunk_id = ?", (chunk_id,))
            if found:
                cache.con.execute("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", (chunk_id,))
                cache.con.execute("INSERT INTO vault_chunk_vec VALUES (?, ?)", (chunk_id, found[0]))


# Arithmetic on unit vectors.


def mean_vector(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32] | None:
    """Return the mean of unit vectors at unit length; None if there are none, or if they cancel each other out."""
    if not vectors:
        return None
    mean: NDArray[np.float32] = np.stack(vectors).mean(axis=0)
    length = np.float32(np.linalg.norm(mean))
    return mean / length if length else None
