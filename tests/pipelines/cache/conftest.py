"""A cache on its own, with a clock that moves only when it is set."""

from __future__ import annotations

import secrets

import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.postgres import PostgresCache
from pipelines.cache.schema import CacheMeta


class Clock:
    now = 500.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(tmp_path, clock, address):
    meta = CacheMeta("m", 4, "p")
    if address is None:
        made = SqliteCache.create(tmp_path / "cache.db", meta, clock=clock)
    else:
        made = PostgresCache.create(address, secrets.token_hex(8), tmp_path / "cache.db", meta, clock=clock)
    yield made
    made.close()
