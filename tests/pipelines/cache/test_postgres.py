"""A cache in PostgreSQL: a real server, killed and started again; several hosts, each with a copy of its own."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cache.postgres import PostgresCache
from pipelines.cache.schema import CacheMeta
from pipelines.cache.verify import orphans, schema_drift, vector_drift, word_drift
from pipelines.errors import CacheError, StorageUnavailableError
from pipelines.indexing.ingest import index_words
from pipelines.model import FoundFile
from pipelines.postgres import PostgresConnection, translated
from pipelines.search.bm25 import WordPostings
from pipelines.search.vectors import QuantizedVectors
from tests.pipelines.conftest import House, as_read
from tests.postgres import postgres_server

pytestmark = pytest.mark.slow


@pytest.fixture
def far(vault, tmp_path, tiny_embedder, postgres):
    """A house whose cache is in PostgreSQL."""
    (tmp_path / "state").mkdir()
    made = House(vault, tmp_path / "state", tiny_embedder, address=postgres.address)
    yield made
    made.close()


@pytest.fixture
def another(tmp_path):
    """Open the cache of a house as another host does, which has a copy of its own."""
    opened = []

    def open_(house, clock=None) -> PostgresCache:
        cache = house.cache
        copy = tmp_path / f"{secrets.token_hex(4)}.db"
        made = PostgresCache.create(house.address, cache.con.schema, copy, cache.meta, clock=clock)
        opened.append(made)
        return made

    yield open_
    for cache in opened:
        cache.close()


def everything(cache: PostgresCache) -> dict[str, list[tuple[object, ...]]]:
    """All that a copy has, except for what each host numbers itself."""
    con = as_read(cache).con
    tables = (
        "node",
        "chunk",
        "link",
        "edge",
        "path",
        "vector",
        "sentence",
        "rank",
        "community",
        "ignored",
        "git",
    )
    return {table: sorted(con.execute(f"SELECT * FROM vault_{table}"), key=repr) for table in tables}


def test_a_host_that_comes_later_has_what_the_others_have(far, another):
    for number in range(30):
        far.write(f"{number}.md", f"# Note {number}\n\nCompost for the tomato, see [[{number - 1}]]. #soil")
    far.index()
    (far.root / "3.md").unlink()
    far.save("4.md", "# Renamed\n\nBread and yeast.")
    far.index()
    late = another(far)
    assert everything(late) == everything(far.cache)
    assert everything(late)["node"]
    far.save("5.md", "Only a line.")
    assert everything(late) == everything(far.cache)
    late.copy.cache.con.execute("INSERT INTO vault_chunk_fts (vault_chunk_fts) VALUES ('integrity-check')")


def test_a_copy_of_another_cache_is_made_again(far, tmp_path, vault, tiny_embedder):
    far.save("a.md", "Compost for the tomato.")
    (tmp_path / "else").mkdir()
    other = House(vault, tmp_path / "else", tiny_embedder, address=far.address)
    other.cache.close()
    other.cache = PostgresCache.create(
        far.address, secrets.token_hex(8), far.cache.path.with_name("copied.db"), far.cache.meta
    )
    other.index()
    other.close()
    again = PostgresCache.create(
        far.address, far.cache.con.schema, far.cache.path.with_name("copied.db"), far.cache.meta
    )
    assert everything(again) == everything(far.cache)
    again.close()


def test_a_copy_of_a_cache_of_another_model_is_made_again(far):
    far.save("a.md", "Compost for the tomato.")
    copy, other = (
        far.cache.path.with_name("copied.db"),
        CacheMeta("another model", 8, far.cache.meta.pipeline),
    )
    PostgresCache.create(far.address, secrets.token_hex(8), copy, other).close()
    again = PostgresCache.create(far.address, far.cache.con.schema, copy, far.cache.meta)
    assert everything(again) == everything(far.cache)
    again.close()


def test_a_copy_that_takes_in_everything_again_has_what_the_others_have(far, another):
    """Also where it lacks a row, has one too many, or cannot delete the words of one."""
    far.write("a.md", "# Soil\n\nCompost for the tomato. [[b]]")
    far.write("b.md", "# Bread\n\nFlour and yeast.")
    far.index()
    expected = everything(far.cache)
    copy = another(far).copy
    copy.follow()
    con = copy.cache.con
    for sql in (
        "DELETE FROM vault_chunk_fts_docsize WHERE id = (SELECT min(id) FROM vault_chunk)",
        "INSERT INTO vault_chunk_fts (rowid, title, section, text) VALUES (999, '', '', 'ghost')",
        "DELETE FROM vault_chunk_vec",
        "DELETE FROM vault_node WHERE path = 'a.md'",
        "UPDATE vault_chunk SET path = 'missing.md' WHERE path = 'b.md'",
        "DROP TRIGGER vault_chunk_went",
    ):
        con.execute(sql)
    assert copy.follow() == 0
    assert copy.follow(afresh=True)
    assert everything(far.cache) == expected
    assert {
        table: sorted(con.execute(f"SELECT * FROM vault_{table}"), key=repr) for table in expected
    } == expected
    assert word_drift(copy.cache) == {}
    assert vector_drift(copy.cache) == orphans(copy.cache) == schema_drift(copy.cache) == []


def test_what_no_text_of_postgresql_holds_is_replaced(far):
    far.save("a.md", "Before\0after.")
    assert [row.text for row in far.cache.passages.chunks_of("a.md")] == ["Before\ufffdafter."]
    assert far.drain() == []


def test_two_hosts_that_work_at_once_index_each_note_once(far, another):
    for number in range(120):
        far.write(f"{number}.md", f"# Note {number}\n\nCompost for the tomato, see [[{number - 1}]].")
    far.reconcile()
    committed: list[str] = []

    def work(owner: str) -> None:
        cache = another(far, far.cache.leases._clock)
        ingest = far.ingest
        while cache.leases.has_pending("words"):
            rows = cache.leases.take("words", 5, owner)
            cache.leases.release(rows)
            committed.extend(event.path for event in index_words(cache, ingest).events)

    hosts = [threading.Thread(target=work, args=(owner,)) for owner in ("one", "two")]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    far.drain()
    assert far.cache.counts().notes == 120
    assert far.picture() == far.scratch_picture()


def test_a_server_that_is_killed_loses_nothing_and_work_resumes_when_it_is_back(
    vault, tmp_path, tiny_embedder
):
    (tmp_path / "state").mkdir()
    with postgres_server() as server:
        house = House(vault, tmp_path / "state", tiny_embedder, address=server.address)
        for number in range(20):
            house.write(f"{number}.md", f"# Note {number}\n\nCompost for the tomato.")
        house.index()
        before = house.picture()
        server.kill()
        with pytest.raises(StorageUnavailableError, match="work resumes by itself"):
            house.save("0.md", "Bread and yeast.")
        # What was read is still there to be asked.
        assert isinstance(house.cache, PostgresCache)
        assert house.cache.copy.cache.notes.names(["1.md"]) == {"1.md": ("Note 1", "[]")}
        with pytest.raises(CacheError):
            house.notice("0.md")
        server.start()
        assert house.picture() == before
        house.notice("0.md")
        house.drain()
        assert house.picture() == house.scratch_picture()
        house.close()


def test_a_server_that_is_not_there_is_said_without_its_password():
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:1/x#cache cannot be used") as caught:
        PostgresConnection("postgresql://me:secret@127.0.0.1:1/x", "cache").has_schema()
    assert "secret" not in str(caught.value)


def test_the_address_demands_tls_as_libpq_reads_it(postgres):
    # The tests' server has none. Who demands it sends no password to such a server.
    with pytest.raises(StorageUnavailableError, match="does not support SSL"):
        PostgresConnection(f"{postgres.address}?sslmode=verify-full&sslrootcert=system", "cache").has_schema()


def test_what_a_process_holds_in_memory_follows_its_copy(far):
    vectors, words = QuantizedVectors(far.cache.meta.dimension), WordPostings()
    for text in ("Compost for the tomato.", "# Bread\n\nFlour and yeast.", "Compost again."):
        far.save(f"{text[:7]}.md", text)
        far.save("Kept.md", f"# Kept\n\nThis stays.\n\n# Else\n\n{text}")
        read = as_read(far.cache)
        vectors.follow(read)
        words.follow(read)
        known = read.search.chunks_with_vectors_between(0, 2**62)
        assert known
        assert len(vectors) == len(known)
        assert vectors.compare(read, 0, 2**62, 100).differing == 0
        assert words.compare(read, 0, 2**62, 100).differing == 0


def test_threads_share_a_few_connections(postgres):
    """Each has its own access, as each thread of a process has, and uses it for a moment."""
    made = [PostgresConnection(postgres.address, "shared") for _ in range(50)]
    for con in made:
        con.execute("SELECT 1")
    sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'everindex' AND pid <> pg_backend_pid()"
    before, *_ = made[0].execute(sql).fetchone()
    with made[0].snapshot(), made[1].snapshot(), made[2].transaction():
        assert made[0].in_transaction
        assert not made[3].in_transaction
    assert made[0].execute(sql).fetchone()[0] <= before + 3


def test_a_name_that_postgresql_would_cut_is_refused():
    with pytest.raises(ValueError, match="longer than"):
        PostgresConnection("postgresql://127.0.0.1:1/x", "x" * 64)


@given(st.text("ab?:'%1 ", max_size=12))
def test_what_a_literal_says_is_no_parameter(text):
    literal = "'" + text.replace("'", "''") + "'"
    assert translated(f"SELECT {literal}") == f"SELECT {literal.replace('%', '%%')}"
    assert translated(f"SELECT {literal}, ?, ?2, :name, a::text").endswith(
        ", %(p1)s, %(p2)s, %(name)s, a::text"
    )


@pytest.fixture
def words(postgres):
    """A schema with a table of words."""
    con = PostgresConnection(postgres.address, secrets.token_hex(8))
    with con.errors(), con.transaction():
        con.make_schema(["CREATE TABLE word (id BIGINT PRIMARY KEY, said TEXT)"])
    return con


def test_what_a_transaction_writes_is_there_for_what_it_reads_and_counts(words):
    with words.errors(), words.transaction():
        words.execute("INSERT INTO word VALUES (?, ?), (2, NULL)", (1, "100 %; -- ?"))
        words.execute("UPDATE word SET said = said || :more", {"more": "'; DELETE FROM word; --"})
        assert words.changes() == 2
        words.executemany("INSERT INTO word VALUES (?, ?)", [(number, "x") for number in range(3, 6)])
        words.executemany("INSERT INTO word VALUES (?, ?)", [(number, "y") for number in range(6, 100)])
        words.execute("DELETE FROM word WHERE id > 5")
        found = words.execute("SELECT id, said FROM word ORDER BY id").fetchall()
        words.execute("DELETE FROM word WHERE id = 5")
        assert words.total_changes() >= 2 + 2 + 3 + 94 + 94 + 1
    assert found == [(1, "100 %; -- ?'; DELETE FROM word; --"), (2, None), (3, "x"), (4, "x"), (5, "x")]
    assert words.execute("SELECT count(*) FROM word").fetchone() == (4,)


@pytest.mark.parametrize("read", ["SELECT 1", ""])
def test_a_statement_that_is_refused_undoes_its_transaction_whenever_it_is_sent(words, read):
    with suppress(ZeroDivisionError), words.transaction():
        words.execute("INSERT INTO word VALUES (0, 'never sent')")
        _ = 1 / 0
    assert words.execute("SELECT count(*) FROM word").fetchone() == (0,)
    with pytest.raises(psycopg.errors.UniqueViolation), words.errors(), words.transaction():  # noqa: PT012 - as above
        words.execute("INSERT INTO word VALUES (1, 'a')")
        words.execute("INSERT INTO word VALUES (1, 'b')")
        words.execute("INSERT INTO word VALUES (2, 'c')")
        if read:
            words.execute(read)
    assert words.execute("SELECT count(*) FROM word").fetchone() == (0,)
    with words.transaction():
        words.execute("INSERT INTO word VALUES (3, 'd')")
    assert words.execute("SELECT id FROM word").fetchall() == [(3,)]


@pytest.fixture
def plans(monkeypatch):
    """The lines of the plans of what is read in PostgreSQL while it is used."""
    execute, lines = PostgresConnection.execute, []

    def explained(con, statement, bindings=()):
        if statement.startswith("SELECT"):
            lines.extend(line for (line,) in execute(con, f"EXPLAIN {statement}", bindings).fetchall())
        return execute(con, statement, bindings)

    monkeypatch.setattr(PostgresConnection, "execute", explained)
    return lines


def test_a_table_that_grew_since_it_was_counted_is_still_read_by_its_index(far, plans):
    con = far.cache.con
    con.execute("INSERT INTO vault_path SELECT n || '.md', CAST(n AS TEXT) FROM generate_series(1, 4000) n")
    con.execute("SELECT path FROM vault_path WHERE name IN (SELECT value FROM json_each(?))", ('["7", "8"]',))
    assert any("Index Scan" in line for line in plans)
    assert not any("Seq Scan" in line for line in plans)


def test_whether_work_is_pending_is_known_without_reading_the_whole_ledger(far, plans):
    con = far.cache.con
    con.execute(
        "INSERT INTO vault_file (path, raw, size, mtime_ns, inode, wanted_hash, generation, priority, dirty_since)"
        " SELECT n || '.md', '', n, n, n, 'f00', 1, 1, 0 FROM generate_series(1, 3000) n"
    )
    con.execute("ANALYZE vault_file")  # it counts all of them as pending
    con.execute("UPDATE vault_file SET applied_generation = generation")
    plans.clear()
    assert not far.cache.leases.has_pending("words")
    assert any("vault_file_dirty" in line for line in plans)


def test_a_scan_never_compares_each_file_with_each_however_many_there_are(far, plans):
    far.cache.con.execute("SET work_mem = '64kB'")  # 20,000 files are more than it holds
    found = [FoundFile(f"{n}.md", f"{n}.md", n, n, n) for n in range(20_000)]
    assert len(far.cache.ledger.compare_scan(found).changed) == 20_000
    assert any("seen" in line for line in plans)
    assert not any("(SubPlan" in line for line in plans)  # a hashed one is read once


def test_texts_whose_sentences_are_pending_are_found_without_a_join_of_all_passages(far, plans):
    con = far.cache.con
    far.save("a.md", "A garden. A house.")
    con.execute("INSERT INTO vault_vector SELECT CAST(n AS TEXT), '', 0 FROM generate_series(1, 3000) n")
    con.execute(
        "INSERT INTO vault_chunk (id, path, position, section, heading_path, text, text_hash, start_offset, end_offset,"
        " first_line, last_line, has_vector) SELECT n + 1000, 'a.md', n, '', '[]', 't', CAST(n AS TEXT), 0, 0, 1, 1, 0"
        " FROM generate_series(1, 3000) n"
    )
    con.execute("ANALYZE vault_chunk; ANALYZE vault_sentence")
    passages = far.cache.passages
    plans.clear()
    assert len(passages.pending_sentences(4)) == 4
    assert not any("Join" in line for line in plans)
