"""The vectors of a cache in PostgreSQL: a real server with pgvector, asked beside an exact search by numpy."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress

import numpy as np
import psycopg
import pytest

from benchmarks.vectors import mixtures, put
from pipelines.cache import pgvector
from pipelines.cache.pgvector import VectorTable, _wanted
from pipelines.cache.postgres import PostgresCache
from pipelines.cache.schema import CacheMeta
from pipelines.errors import ConfigurationError, StorageUnavailableError
from pipelines.model import VectorIndex
from pipelines.postgres import PostgresConnection
from pipelines.search.vectors import StoredVectors
from pipelines.sqlite import first, select
from tests.pipelines.conftest import House, as_read
from tests.postgres import postgres_server

pytestmark = pytest.mark.slow
DIMENSION = 24
REAL = mixtures(np.random.default_rng(7).normal(0, 1, (60, DIMENSION)).astype(np.float32), 60, 1)
MANY = mixtures(REAL, 3_000, 2)
QUESTIONS = mixtures(REAL, 40, 3)


def cache_with(address, folder, vectors):
    made = PostgresCache.create(
        address, secrets.token_hex(8), folder / f"{secrets.token_hex(4)}.db", CacheMeta("m", DIMENSION, "p")
    )
    put(made, vectors)
    return made


@pytest.fixture
def many(postgres, tmp_path):
    made = cache_with(postgres.address, tmp_path, MANY)
    yield made
    made.close()


def table_of(cache: PostgresCache) -> VectorTable:
    return VectorTable(cache.con._address, cache.con.schema, cache.meta.dimension)


def filled(cache: PostgresCache) -> VectorTable:
    table = table_of(cache)
    table.follow(as_read(cache))
    if not table.is_complete:
        table.keep("exact", None)
    while not table.is_complete:
        table.follow(as_read(cache))
    return table


def stored(cache: PostgresCache) -> set[int]:
    return {chunk for (chunk,) in select(cache.con, "SELECT chunk_id FROM vault_embedding")}


def indexes(cache: PostgresCache) -> dict[str, bool]:
    return dict(select(cache.con, pgvector._INDEXES))


def nearest_of(question, count, among=None):
    """The ids of the nearest of MANY by numpy, which `put` numbered from 1."""
    ids = np.arange(1, len(MANY) + 1) if among is None else np.array(sorted(among))
    return ids[np.argsort(-(MANY[ids - 1] @ question), kind="stable")][:count].tolist()


def test_an_exact_search_finds_what_a_scan_of_the_file_finds_with_the_same_cosines(many):
    table, read = StoredVectors(filled(many)), as_read(many)
    for question in QUESTIONS:
        ours, theirs = table.nearest(read, question, 10), read.search.nearest(question, 10)
        assert [chunk for chunk, _ in ours] == [chunk for chunk, _ in theirs]
        assert [cosine for _, cosine in ours] == pytest.approx([cosine for _, cosine in theirs], abs=1e-5)


@pytest.mark.parametrize("kind", ["ivfflat", "hnsw"])
def test_the_recall_that_is_measured_is_what_numpy_measures(many, kind, monkeypatch):
    monkeypatch.setattr(pgvector, "_PROBES", 3)  # so that both find some, but not all
    monkeypatch.setattr(pgvector, "_ASKED", len(MANY))
    monkeypatch.setattr(pgvector, "_FEWEST_VISITED", 10)
    table = filled(many)
    built = table.keep(kind, None)
    assert (built.kind, built.passages) == (kind, len(MANY))
    assert indexes(many) == {f"vault_embedding_{kind}{'_50' * (kind == 'ivfflat')}": True}
    hits = 0
    for chunk in range(1, len(MANY) + 1, 10):
        question = MANY[chunk - 1]
        found = table.nearest(question, 11)
        assert chunk in found
        hits += len(set(found) & set(nearest_of(question, 11))) - 1
    assert hits / (len(MANY) / 10) / 10 == pytest.approx(built.recall, abs=0.03)
    assert 0.5 < built.recall < 1


@pytest.mark.parametrize("kind", ["exact", "ivfflat", "hnsw"])
def test_only_some_passages_can_be_asked_whatever_the_index(many, kind, monkeypatch):
    table = filled(many)
    table.keep(kind, None)
    some = range(1, len(MANY), 50)
    most = sorted({*range(1, len(MANY) + 1)} - {*some})
    for few in (pgvector._FEW, 1):  # found among them exactly, and by the index as far as that goes
        monkeypatch.setattr(pgvector, "_FEW", few)
        for question in QUESTIONS[:10]:
            found = table.nearest(question, 20, some)
            assert set(found) <= set(some)
            assert len(found) == 20
            if few > 1 or kind == "exact":
                assert found[:10] == nearest_of(question, 10, some)
            if few == 1 or kind == "exact":
                passing = [one for one in table.nearest(question, 40) if one not in some]
                assert table.nearest(question, 20, most) == passing[:20]
        assert len(table.nearest(QUESTIONS[0], 100, some)) == len(some)
        assert table.nearest(QUESTIONS[0], 10, []) == []


def test_a_saved_note_is_found_by_meaning_and_a_deleted_one_no_more(vault, tmp_path, tiny_embedder, postgres):
    (tmp_path / "state").mkdir()
    house = House(vault, tmp_path / "state", tiny_embedder, address=postgres.address)
    for number in range(20):
        house.write(f"{number}.md", f"# Note {number}\n\nCompost for the tomato {number}.")
    house.index()
    table, read = filled(house.cache), as_read(house.cache)
    table.keep("hnsw", None)

    def found(text: str) -> set[str]:
        table.follow(as_read(house.cache))
        assert table.is_complete
        question = tiny_embedder.encode_query(text)
        near = StoredVectors(table).nearest(read, question, 3)
        assert near == [(chunk, pytest.approx(cosine)) for chunk, cosine in read.search.nearest(question, 3)]
        return set(read.passages.chunk_paths([chunk for chunk, _ in near]).values())

    house.save("late.md", "The boat on the river in winter.")
    assert "late.md" in found("the boat on the river in winter")
    house.save("late.md", "Bread and yeast and flour.")
    assert "late.md" in found("bread and yeast and flour")
    (house.root / "late.md").unlink()
    house.index()
    assert "late.md" not in found("bread and yeast and flour")
    assert stored(house.cache) == read.search.chunks_with_vectors(None)
    house.close()


def test_no_passage_keeps_a_vector_that_was_taken_from_it(many):
    filled(many)
    many.con.execute("UPDATE vault_chunk SET has_vector = 0 WHERE id = 7")
    many.con.execute("UPDATE vault_chunk SET text_hash = 'other' WHERE id = 8")
    many.con.execute("UPDATE vault_chunk SET position = position + 1 WHERE id = 9")
    assert stored(many) == set(range(1, len(MANY) + 1)) - {7, 8}


def test_two_query_workers_fill_the_table_once(many, monkeypatch):
    added: list[int] = []
    rows = VectorTable._rows
    monkeypatch.setattr(pgvector, "_AT_ONCE", 100)
    monkeypatch.setattr(
        VectorTable, "_rows", lambda table, found: added.extend(n for n, _ in found) or rows(table, found)
    )
    tables = [table_of(many) for _ in range(2)]
    reads = [
        as_read(many),
        cache_copy := as_read(
            PostgresCache.open(many.con._address, many.con.schema, many.path.with_name("other.db"))
        ),
    ]
    assert cache_copy.path != many.path
    tables[0].keep("exact", None)

    def work(table, read):
        while not table.is_complete:
            table.follow(read)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(tables, reads, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(added) == list(range(1, len(MANY) + 1))
    assert stored(many) == set(added)


def test_another_choice_or_more_passages_build_another_index_beside_the_one_that_serves(many, monkeypatch):
    table = filled(many)
    first_built = table.keep("auto", None)
    assert indexes(many) == {"vault_embedding_ivfflat_50": True}
    assert table.keep("auto", first_built) is None  # nothing changed

    def again(choice, known):
        other = filled(many)  # the next process
        return other.keep(choice, known)

    assert again("auto", first_built) is None
    assert indexes(many) == {"vault_embedding_ivfflat_50": True}
    built = again("hnsw", first_built)
    assert built.kind == "hnsw"
    assert indexes(many) == {"vault_embedding_hnsw": True}
    assert again("exact", built) == VectorIndex("exact", len(MANY), 1.0)
    assert indexes(many) == {}
    monkeypatch.setattr(pgvector, "_HNSW", 2_999)
    assert again("auto", first_built).kind == "hnsw"


def test_the_lists_of_ivfflat_are_made_again_when_there_are_twice_as_many_passages(many):
    table = filled(many)
    built = table.keep("ivfflat", None)
    (before,) = first(many.con, "SELECT pg_relation_filenode('vault_embedding_ivfflat_50')")
    put(many, mixtures(REAL, 3_100, 4), first=3_001)
    while not table.is_complete or len(stored(many)) < 6_100:
        table.follow(as_read(many))
    assert table.keep("ivfflat", built).passages == 6_100
    assert first(many.con, "SELECT pg_relation_filenode('vault_embedding_ivfflat_50')") != (before,)
    assert indexes(many) == {"vault_embedding_ivfflat_50": True}


def test_an_index_by_the_number_of_passages():
    kinds = [_wanted("auto", count, 384) for count in (9_999, 10_000, 100_000, 100_001)]
    assert [one.with_ for one in kinds] == [
        "lists = 50",
        "lists = 100",
        "lists = 100",
        "m = 16, ef_construction = 64",
    ]
    assert _wanted("hnsw", 10, 4_001) is None


def test_an_index_whose_build_was_interrupted_is_built_again(many):
    table = filled(many)
    writer = psycopg.connect(many.con._address)
    writer.execute(f'UPDATE "{many.con.schema}".vault_embedding SET embedding = embedding WHERE chunk_id = 1')
    failed: list[Exception] = []

    def build():
        try:
            table.keep("hnsw", None)
        except StorageUnavailableError as error:
            failed.append(error)

    builder = threading.Thread(target=build)
    builder.start()
    waiting = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock'"
    with psycopg.connect(many.con._address, autocommit=True) as operator:
        while not (found := operator.execute(waiting).fetchone()):
            assert builder.is_alive()
        operator.execute("SELECT pg_terminate_backend(%s)", found)
    builder.join(60)
    writer.rollback()
    writer.close()
    assert len(failed) == 1
    assert indexes(many) == {"vault_embedding_hnsw": False}
    # Nothing is found by it, and the next try repairs it.
    assert table.nearest(QUESTIONS[0], 10) == nearest_of(QUESTIONS[0], 10)
    assert table.keep("hnsw", None).kind == "hnsw"
    assert indexes(many) == {"vault_embedding_hnsw": True}


def test_while_the_server_is_away_the_file_is_read(tmp_path):
    with postgres_server() as server:
        cache = cache_with(server.address, tmp_path, MANY[:200])
        table, read = filled(cache), as_read(cache)
        server.kill()
        near = StoredVectors(table).nearest(read, QUESTIONS[0], 5)
        assert near == read.search.nearest(QUESTIONS[0], 5)
        assert not table.is_complete  # the next question does not wait for it
        table.follow(read)
        assert not table.is_complete
        server.start()
        while not table.is_complete:
            with suppress(StorageUnavailableError):
                table.follow(read)
        assert StoredVectors(table).nearest(read, QUESTIONS[0], 5) == [
            (chunk, pytest.approx(cosine)) for chunk, cosine in near
        ]
        cache.close()


def test_a_role_that_may_not_install_pgvector_is_told_what_to_do(postgres, tmp_path):
    name = f"plain_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.address, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN")
        admin.execute(f"CREATE DATABASE {name} OWNER {name}")
    address = f"postgresql://{name}@{postgres.host}:{postgres.port}/{name}"
    cache = cache_with(address, tmp_path, MANY[:200])
    table = table_of(cache)
    with pytest.raises(
        ConfigurationError, match=r"permission denied.*administrator run `CREATE EXTENSION vector`"
    ):
        table.keep("auto", None)
    table.follow(as_read(cache))
    assert not table.is_complete
    # In whatever schema the administrator installs it.
    with psycopg.connect(postgres.address.replace("/postgres", f"/{name}"), autocommit=True) as admin:
        admin.execute('CREATE SCHEMA "Extensions"')
        admin.execute('CREATE EXTENSION vector SCHEMA "Extensions"')
        admin.execute(f'GRANT USAGE ON SCHEMA "Extensions" TO {name}')
    table = filled(cache)
    assert table.keep("hnsw", None).kind == "hnsw"
    assert table.nearest(QUESTIONS[0], 3)
    cache.close()


def test_the_table_comes_again_when_somebody_drops_it(many):
    table = filled(many)
    many.con.execute("DROP TABLE vault_embedding")
    read = as_read(many)
    assert StoredVectors(table).nearest(read, QUESTIONS[0], 5) == read.search.nearest(QUESTIONS[0], 5)
    table.follow(read)
    table.keep("exact", None)
    while not table.is_complete:
        table.follow(read)
    assert stored(many) == set(range(1, len(MANY) + 1))


def test_the_server_is_not_asked_while_nothing_changes(many, monkeypatch):
    table = filled(many)
    table.keep("exact", None)
    monkeypatch.setattr(PostgresConnection, "execute", lambda *_: pytest.fail("the server was asked"))
    table.follow(many.copy.cache)
    table.keep("exact", VectorIndex("exact", len(MANY), 1.0))
