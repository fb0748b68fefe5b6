"""Each thread has its own connections, and opens them again when a cache was replaced."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.schema import CacheMeta
from pipelines.state.health import Problems
from pipelines.state.jobs import History
from pipelines.state.state import State
from workers.resources import Stores

META = CacheMeta("a-model", 4, "a-way-to-cut")


@pytest.fixture
def stores(tmp_path):
    return Stores(tmp_path)


def make(path):
    return SqliteCache.create(path, META)


def test_a_thread_keeps_one_connection_of_each_kind(stores):
    assert stores.of(Problems) is stores.of(Problems)
    assert isinstance(stores.of(History), History)


def test_another_thread_has_connections_of_its_own(stores):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(stores.of, State).result() is not stores.of(State)


def test_a_cache_is_kept_and_read_apart_from_where_it_is_written(stores):
    written = stores.cache("vault", make, writable=True)
    assert stores.cache("vault", make, writable=True) is written
    assert stores.cache("vault", SqliteCache.open, writable=False) is not written
    assert stores.replaced == 0


def test_a_cache_that_became_current_is_opened(stores, tmp_path):
    stores.cache("vault", make, writable=True)
    stores.of(State).switch_cache("vault", 2)
    assert stores.cache("vault", make, writable=True).path == tmp_path / "cache-vault.2.db"
    assert stores.replaced == 0


def test_a_deleted_cache_is_made_again_and_counted(stores):
    first = stores.cache("vault", make, writable=True)
    for file in first.path.parent.glob(f"{first.path.name}*"):
        file.unlink()
    again = stores.cache("vault", make, writable=True)
    assert again is not first
    assert again.path.exists()
    assert stores.replaced == 1
