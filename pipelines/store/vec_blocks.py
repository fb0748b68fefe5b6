"""Reclaim the space that deleted vectors leave in `vault_chunk_vec`.

sqlite-vec stores vectors in blocks, fills only the newest block, and frees a block when its last vector is deleted.
Without this, the index of a vault that is edited for a year would consist mostly of holes, which each search reads.
"""

from __future__ import annotations

from pipelines.store.cache import Cache
from pipelines.store.connection import row, rows, transaction

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
    blocks = rows(
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
        ids = rows(cache.con, "SELECT rowid FROM vault_chunk_vec_rowids WHERE chunk_id = ?", (block,))
        for (chunk_id,) in ids:
            found = row(cache.con, "SELECT embedding FROM vault_chunk_vec WHERE chunk_id = ?", (chunk_id,))
            if found:
                cache.con.execute("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", (chunk_id,))
                cache.con.execute("INSERT INTO vault_chunk_vec VALUES (?, ?)", (chunk_id, found[0]))
