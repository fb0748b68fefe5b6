"""A database of an earlier version is brought to this one, and one of a later version is refused."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.postgres import PostgresCache
from pipelines.cache.schema import CacheMeta, steps_for, version_of
from pipelines.errors import CacheError, StateError
from pipelines.maintenance.databases import foreign_in_cache
from pipelines.model import PostgresPlace
from pipelines.sqlite import POSTGRES_STEPS, connect, select, steps_of
from pipelines.state.state import STATE_FILE, State, open_state

CHUNK = "'{path}', {position}, '', '[]', 'text', 'hash', 0, 4, 1, 1, 0"
NODE = "'{path}', '{path}', '{{}}', '[]', '[]', NULL, NULL, '2020-02-02', '2026-01-01', 0, '[]'"


@pytest.fixture
def of_030(tmp_path):
    """A cache as version 0.3.0 left it: facts about notes and chunks are in tables of their own."""
    path = tmp_path / "cache-garden.1.db"
    with closing(connect(path)) as con:
        con.execute(steps_for(4)[4])
        con.execute(steps_for(4)[5])
        con.execute(
            "UPDATE vault_meta SET value = '4' WHERE key = 'schema_version';"
            "INSERT INTO vault_meta VALUES ('model', 'tiny'), ('dimension', '4'), ('pipeline', 'p');"
            f"INSERT INTO vault_node VALUES ({NODE.format(path='open.md')}), ({NODE.format(path='own.md')});"
            "INSERT INTO vault_privacy VALUES ('own.md', 1, 'sub/own.md', char(10) || 'x' || char(10));"
            "INSERT INTO vault_date VALUES ('own.md', 'property date', 1, '2021-03-04', 'property updated', 0);"
            "INSERT INTO vault_git VALUES ('own.md', '2019-01-01', '2019-01-02', 7);"
            "INSERT INTO vault_chunk (path, position, section, heading_path, text, text_hash, start_offset,"
            " end_offset, first_line, last_line, has_vector) VALUES"
            f" ({CHUNK.format(path='open.md', position=0)}), ({CHUNK.format(path='own.md', position=0)});"
            "INSERT INTO vault_place VALUES (2, '{\"page\": 3}');"
            "INSERT INTO vault_context VALUES (1, 'Open');"
        )
    return path


def facts(con):
    nodes = "SELECT path, private, place, tag_lines, created_by, created_after, changed, changed_by, changed_after"
    return (
        con.execute(f"{nodes} FROM vault_node ORDER BY path").fetchall(),
        con.execute("SELECT path, locator, context FROM vault_chunk ORDER BY id").fetchall(),
        con.execute("SELECT * FROM vault_git").fetchall(),
    )


@pytest.mark.parametrize(
    "lacks", [(), ("vault_privacy", "vault_date", "vault_place", "vault_context", "vault_git")]
)
@pytest.mark.parametrize("write", [False, True])
def test_what_a_cache_of_an_earlier_version_knows_of_notes_and_chunks_is_kept(of_030, write, lacks):
    with closing(connect(of_030)) as con:
        for table in lacks:  # version 0.1.0 had none of these
            con.execute(f"DROP TABLE {table}")
    meta = CacheMeta("tiny", 4, "p") if write else None
    cache = SqliteCache.create(of_030, meta) if meta else SqliteCache.open(of_030)
    nodes, chunks, git = facts(cache.con)
    cache.close()
    unknown = ("open.md", None, None, None, None, 0, None, None, 0)
    if lacks:
        assert nodes == [unknown, ("own.md", *unknown[1:])]
        assert (chunks, git) == ([("open.md", None, None), ("own.md", None, None)], [])
    else:
        own = ("own.md", 1, "sub/own.md", "\nx\n", "property date", 1, "2021-03-04", "property updated", 0)
        assert nodes == [unknown, own]
        assert chunks == [("open.md", None, "Open"), ("own.md", '{"page": 3}', None)]
        assert git == [("own.md", "2019-01-01", "2019-01-02", 7)]


def test_a_migrated_cache_has_the_schema_of_a_new_one(of_030):
    assert foreign_in_cache(of_030, 4, 4) is None
    SqliteCache.create(of_030, CacheMeta("tiny", 4, "p")).close()
    latest = max(steps_for(4))
    assert foreign_in_cache(of_030, 4, latest) is None
    assert foreign_in_cache(of_030, 4, 4)
    with closing(connect(of_030)) as con:
        assert version_of(con) == latest


def test_a_cache_of_another_version_is_refused_with_what_to_do(of_030):
    with closing(connect(of_030)) as con:
        con.execute("UPDATE vault_meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(CacheError, match=r"a later version .*99.*index --rebuild"):
        SqliteCache.open(of_030)
    assert foreign_in_cache(of_030, 4, 99) == "a schema of version 99"


def test_a_state_file_of_a_later_version_is_refused_and_left_as_it_is(tmp_path):
    State(tmp_path).close()
    with closing(connect(tmp_path / STATE_FILE)) as con:
        con.execute("PRAGMA user_version = 99")
    before = (tmp_path / STATE_FILE).read_bytes()
    with pytest.raises(StateError, match=r"a later version .*99.*--state"):
        State(tmp_path)
    assert (tmp_path / STATE_FILE).read_bytes() == before


@pytest.mark.parametrize("package", ["pipelines.cache", "pipelines.state"])
def test_both_stores_are_brought_to_the_same_version(package):
    assert max(steps_of(package)) == max(steps_of(package, POSTGRES_STEPS))


@pytest.fixture
def stepped(monkeypatch):
    """Give a module one more step for PostgreSQL within a context, as a later version has."""

    @contextmanager
    def with_step(module: str, sql: str) -> Iterator[None]:
        with monkeypatch.context() as later:
            later.setattr(f"{module}.steps_of", lambda *folder: {**steps_of(*folder), 99: sql})
            yield

    return with_step


@pytest.mark.slow
def test_a_state_in_postgresql_gets_the_steps_that_it_lacks_and_an_earlier_version_refuses_it(
    postgres, tmp_path, stepped
):
    place = PostgresPlace(tmp_path, postgres.address, secrets.token_hex(8))
    open_state(place).close()
    step = "UPDATE state_meta SET value = '99' WHERE key = 'schema_version'; ALTER TABLE chat ADD added TEXT"
    for _ in range(2):
        with stepped("pipelines.state.state", step), closing(open_state(place)) as con:
            assert select(con, "SELECT added FROM chat") == []
    with pytest.raises(StateError, match=r"a later version .*99.*on this host"):
        open_state(place)


@pytest.mark.slow
@pytest.mark.parametrize("write", [False, True])
def test_a_cache_in_postgresql_gets_the_steps_that_it_lacks_and_an_earlier_version_refuses_it(
    postgres, tmp_path, stepped, write
):
    schema, copy, meta = secrets.token_hex(8), tmp_path / "copy.db", CacheMeta("tiny", 4, "p")

    def opened() -> PostgresCache:
        if write:
            return PostgresCache.create(postgres.address, schema, copy, meta)
        return PostgresCache.open(postgres.address, schema, copy)

    PostgresCache.create(postgres.address, schema, copy, meta).close()
    step = "UPDATE vault_meta SET value = '99' WHERE key = 'schema_version'; ALTER TABLE vault_node ADD added TEXT"
    with stepped("pipelines.cache.postgres", step), closing(opened()) as cache:
        assert select(cache.con, "SELECT added FROM vault_node") == []
    with pytest.raises(CacheError, match=r"a later version .*99.*index --rebuild"):
        opened()
