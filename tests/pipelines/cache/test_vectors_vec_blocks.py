"""Deleted vectors leave unused space, which is reclaimed."""

from __future__ import annotations

import numpy as np
import pytest

BLOCK = 1024


def fill(cache, ids) -> None:
    chance = np.random.default_rng(0)
    with cache.con:
        for chunk_id in ids:
            vector = chance.random(4).astype("<f4").tobytes()
            cache.con.execute("INSERT INTO vault_chunk_vec VALUES (?, ?)", (chunk_id, vector))


def blocks(cache) -> int:
    return cache.con.execute("SELECT count(*) FROM vault_chunk_vec_chunks").fetchone()[0]


def vectors(cache) -> dict[int, bytes]:
    return dict(cache.con.execute("SELECT chunk_id, embedding FROM vault_chunk_vec").fetchall())


@pytest.mark.parametrize("kept", [3, 7, 500])
def test_room_that_is_mostly_dead_is_won_back_and_no_vector_is_lost(cache, kept):
    fill(cache, range(1, 5 * BLOCK))
    with cache.con:
        for chunk_id in range(1, 5 * BLOCK):
            if chunk_id % kept:
                cache.con.execute("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", (chunk_id,))
    before = vectors(cache)
    assert blocks(cache) == 5
    assert cache.vectors.reclaim() > 0
    assert vectors(cache) == before
    assert blocks(cache) <= 2 * len(before) / BLOCK + 1
    assert cache.vectors.reclaim() == 0


def test_room_that_is_mostly_alive_is_left_alone(cache):
    fill(cache, range(1, 3 * BLOCK))
    with cache.con:
        for chunk_id in range(1, 3 * BLOCK, 3):
            cache.con.execute("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", (chunk_id,))
    assert cache.vectors.reclaim() == 0


def test_a_small_vault_has_nothing_to_win(cache):
    assert cache.vectors.reclaim() == 0
    fill(cache, range(1, 10))
    assert cache.vectors.reclaim() == 0


def test_a_year_of_edits_leaves_the_room_bounded(cache):
    ids = list(range(1, 2 * BLOCK))
    fill(cache, ids)
    new = 10 * BLOCK
    for _ in range(20):  # a tenth of the vault is rewritten, twenty times
        with cache.con:
            for n in range(0, len(ids), 10):
                cache.con.execute("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", (ids[n],))
                ids[n] = new = new + 1
        fill(cache, ids[::10])
        cache.vectors.reclaim()
    assert set(vectors(cache)) == set(ids)
    assert blocks(cache) <= 2 * len(ids) / BLOCK + 1
