"""A cache on its own, with a clock that moves only when it is set."""

from __future__ import annotations

import secrets

import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.postgres import PostgresCache
from pipelines.cache.schema import CacheMeta
from tests.pipelines.conftest import URI


class Clock:
    now = 500.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(tmp_path, clock):
    meta = CacheMeta("m", 4, "p")
    if URI:
        made = PostgresCache.create(URI, f"t{secrets.token_hex(6)}", tmp_path / "cache.db", meta, clock=clock)
    else:
        made = SqliteCache.create(tmp_path / "cache.db", meta, clock=clock)
    yield made
    made.close()
