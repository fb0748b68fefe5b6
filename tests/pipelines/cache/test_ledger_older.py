"""The notes that an earlier pipeline indexed, until they are indexed again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY

ON_BOTH_STORES = True

FIRST, SECOND, THIRD = "4:200/40/1200", "5:200/40/1200", "5:100/20/900"


def wanted(cache, version):
    return cache.ledger.want_version(version)


@pytest.fixture
def under(house):
    """Open the cache with another pipeline, as a new version does."""

    def reopen(pipeline):
        meta = replace(house.cache.meta, pipeline=pipeline)
        path = house.cache.path
        house.cache.close()
        house.cache = SqliteCache.create(path, meta, clock=lambda: house.now)
        return house.cache

    return reopen


def test_notes_are_older_until_the_new_pipeline_has_indexed_them(house, under):
    under(FIRST)
    for name in ("a.md", "b.md"):
        house.write(name, "Bread and yeast.")
    house.index()
    assert wanted(house.cache, None) == []
    cache = under(SECOND)
    assert wanted(cache, None) == wanted(cache, "4") == wanted(cache, FIRST) == ["a.md", "b.md"]
    assert wanted(cache, "5") == []
    house.drain()
    assert wanted(cache, None) == wanted(cache, "4") == []
    assert wanted(cache, SECOND) == ["a.md", "b.md"]
    house.drain()
    assert house.picture() == house.scratch_picture()


def test_the_name_of_a_pipeline_is_known_while_notes_of_earlier_ones_are_left(house, under):
    under(FIRST)
    house.save("a.md", "Bread and yeast.")
    under(SECOND)
    cache = under(THIRD)
    assert wanted(cache, FIRST) == ["a.md"]
    house.drain()
    cache = under(FIRST)
    assert wanted(cache, SECOND) == []
    assert wanted(cache, THIRD) == ["a.md"]


def test_a_note_that_is_not_indexed_is_of_no_pipeline(house, under):
    under(FIRST)
    house.write("gone.md", "Bread and yeast.")
    house.write("large.md", b"x" * 2_000_000)
    house.index()
    assert house.cache.counts().parked == 1
    assert wanted(house.cache, FIRST) == ["gone.md"]
    (house.root / "gone.md").unlink()
    house.index()
    assert wanted(under(SECOND), None) == []


def test_wanted_notes_wait_behind_saves_which_keep_their_place(house):
    house.save("a.md", "Bread and yeast.")
    house.save("b.md", "The boat.")
    house.write("b.md", "The boat sails.")
    house.notice("b.md")
    house.now += 5
    pipeline = house.cache.meta.pipeline
    assert wanted(house.cache, pipeline) == ["a.md", "b.md"]
    rows = house.cache.con.execute(
        "SELECT path, priority, dirty_since FROM vault_file ORDER BY path"
    ).fetchall()
    assert rows == [("a.md", LOW_PRIORITY, house.now), ("b.md", HIGH_PRIORITY, house.now - 5)]
    assert house.drain() == ["The boat sails."]
