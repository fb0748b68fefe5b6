"""A cache on its own, with a clock that moves only when it is set."""

from __future__ import annotations

import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.schema import CacheMeta


class Clock:
    now = 500.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(tmp_path, clock):
    made = SqliteCache.create(tmp_path / "cache.db", CacheMeta("m", 4, "p"), clock=clock)
    yield made
    made.close()
