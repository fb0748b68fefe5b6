"""A cache on its own, with a clock that moves only when it is set."""

from __future__ import annotations

import pytest

from pipelines.cache.cache import Cache
from pipelines.cache.ledger import Ledger
from pipelines.cache.schema import CacheMeta
from pipelines.model import LOW_PRIORITY, FoundFile


class Clock:
    now = 500.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(tmp_path, clock):
    made = Cache.create(tmp_path / "cache.db", CacheMeta("m", 4, "p"), clock=clock)
    yield made
    made.close()


@pytest.fixture
def ledger(cache):
    return cache.ledger


def file(path: str, size: int = 1, mtime: int = 1) -> FoundFile:
    return FoundFile(path, path, size, mtime, 1)


def record(ledger: Ledger, *paths: str, sha: str = "h1", priority: int = LOW_PRIORITY):
    return ledger.record("d", [(file(path), sha) for path in paths], [], priority=priority)
