"""Whatever is altered in any table of a cache is found and mended, is harmless, or is explained here."""

from __future__ import annotations

import shutil
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.schema import CacheMeta, build
from pipelines.documents.read import Files
from pipelines.documents.sandbox import Sandbox
from pipelines.domains import load
from pipelines.errors import CacheCorruptError, CacheError
from pipelines.graph.ranking import rank_domain
from pipelines.maintenance.rebuild import build_beside
from pipelines.maintenance.verify import Difference, Verdict, repair, verify
from pipelines.model import Domain
from pipelines.notes.lexical import LexicalQuery
from pipelines.search.find import prepare, prepare_second
from pipelines.sqlite import connect
from tests.pipelines.conftest import House

NOTES = {
    "garden.md": "---\ntags: [soil]\naliases: [Plot]\nauthor: Ann\nkind: essay\npublished: 2024-05-05\n---\n# Garden\n\n"
    "The soil and compost. We sail. [[river#Sail|x]] ![[pic.png]]\n\n## Tomato\n\n"
    + "tomato winter soil "
    * 40,
    "river.md": "# River\n\nA boat on the river, see [[garden#Tomato|the tomato]].\n\n## Sail\n\nWe sail. To [[bread]].",
    "deep/bread.md": "# Bread\n\nFlour, yeast, oven: getUserById and 麵包. See [[river]].",
    "year.canvas": '{"nodes": [{"id": "a", "type": "text", "text": "Prune the pears.", "x": 0, "y": 0, "width": 9,'
    ' "height": 9}]}',
    "ignored.md": "Not a note.",
    ".everindexignore": "ignored.md\n",
    "pic.png": "no picture",
    "large.md": "x" * 1_000_001,
}
JSON = ("frontmatter", "tags", "aliases", "warnings", "heading_path", "locator")
QUESTIONS = ["garden soil", "river boat", "getUserById", "麵包", "tomato -boat"]


def make_schema():
    """Return the columns of each real table of a cache, those of its virtual tables' own tables included."""
    with closing(connect(Path(":memory:"))) as con:
        build(con, CacheMeta("model", 32, "pipeline"))
        tables = [
            name
            for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
        ]
        others = con.execute(
            "SELECT type, name FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL"
        ).fetchall()
        columns = {
            t: [c for (c,) in con.execute("SELECT name FROM pragma_table_info(?)", (t,))] for t in tables
        }
        return columns, others


TABLES, OTHERS = make_schema()
COLUMNS = [(table, column) for table, columns in TABLES.items() for column in columns]

PENDING = "it is pending work: indexing does it, and then it is as it was"
WORK = "it says how work goes, which no file says"
GIT = "it is what git said, which is asked again with the next commit and after any repair"
MODEL = "it identifies a model; a process that embeds compares it with what endpoints answer"
NOT_DERIVED = {
    ("vault_file", "generation"): PENDING,
    ("vault_graph", "generation"): PENDING,
    ("vault_graph", "ranked_generation"): PENDING,
    ("vault_file", "priority"): WORK,
    ("vault_file", "dirty_since"): WORK,
    ("vault_file", "attempts"): WORK,
    ("vault_file", "next_attempt_at"): WORK,
    ("vault_file", "error_kind"): WORK,
    ("vault_file", "error"): WORK,
    ("vault_file", "lease_token"): WORK,
    ("vault_file", "lease_until"): WORK,
    ("vault_file", "lease_owner"): WORK,
    ("vault_file", "indexed_at"): WORK,
    ("vault_graph", "first_change"): WORK,
    ("vault_graph", "last_change"): WORK,
    (
        "vault_graph",
        "centrality_by",
    ): "it says how ranks were computed; they are computed again to compare them",
    ("vault_chunk_change", "number"): "a journal; who follows it compares what it holds with the cache",
    ("vault_chunk_change", "chunk_id"): "a journal; who follows it compares what it holds with the cache",
    **{
        ("vault_privacy_change", name): "a journal; who begins judges every note"
        for name in ("number", "path")
    },
    **{("vault_probe", name): MODEL for name in ("position", "embedding")},
    **{("vault_git", name): GIT for name in ("path", "created", "changed", "written")},
    ("sqlite_sequence", "seq"): "numbers may be left out; one that is too low is found",
    ("sqlite_sequence", "name"): "numbers may be left out; one that is too low is found",
}


@pytest.fixture(scope="module")
def files():
    """The reader of documents for every house; starting one for each would take minutes."""
    with closing(Sandbox()) as sandbox:
        yield Files(sandbox)


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_embedder, files):
    """A vault and its cache, complete: sentences, a second model, ranks, a parked note, an ignored one."""
    base = tmp_path_factory.mktemp("built")
    for folder in ("vault", "state"):
        (base / folder).mkdir()
    house = House(base / "vault", base / "state", tiny_embedder, "breadcrumb")
    house.files = files
    for path, text in NOTES.items():
        house.write(path, text)
    house.cache.vectors.keep_probes([np.eye(32, dtype=np.float32)[0]])
    finish(house)
    house.cache.dates.keep_commits("head", [("garden.md", None, None, 0)])
    house.cache.con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    kept = whole_picture(house)
    house.cache.close()
    return base, kept


@pytest.fixture
def house(built, tmp_path, tiny_embedder, files):
    base, _ = built
    for folder in ("vault", "state"):
        shutil.copytree(base / folder, tmp_path / folder, copy_function=copy)
    made = House(tmp_path / "vault", tmp_path / "state", tiny_embedder, "breadcrumb")
    made.files = files
    finish(made)  # the copies have inodes of their own
    yield made
    made.cache.close()


def copy(source, target):
    shutil.copy2(source, target)


SECOND = "a second model"


def finish(house):
    """Do all pending work."""
    house.index()
    embedder = house.embedder._embedder
    prepare(house.cache, embedder.encode_queries, lambda: False)
    house.cache.second.want(SECOND)
    prepare_second(house.cache, SECOND, embedder.encode_documents, lambda: False)
    if house.cache.edges.ranks_behind():
        rank_domain(house.cache, Domain("vault", "", legacy=True))


def whole_picture(house):
    con = house.cache.con

    def all_of(sql):
        return con.execute(sql).fetchall()

    groups: dict[int, set[str]] = {}
    for path, community in all_of("SELECT path, community FROM vault_rank"):
        groups.setdefault(community, set()).add(path)
    return house.picture() | {
        # What could not be read is named by its inode, and a copy has another one.
        "files": [
            (
                *("unread" if str(value).startswith("unread") else value for value in row[:-1]),
                row[-1] if parked else "",
            )
            for row in house.picture()["files"]
            for parked in [row[-2]]
        ],
        "times": all_of("SELECT path, modified_at FROM vault_node ORDER BY path"),
        "sizes": all_of("SELECT path, size, mtime_ns FROM vault_file ORDER BY path"),
        "ignored": all_of("SELECT * FROM vault_ignored"),
        "ranks": [
            (path, round(rank, 6), round(central, 6))
            for path, rank, central in all_of(
                "SELECT path, pagerank, centrality FROM vault_rank ORDER BY path"
            )
        ],
        "communities": sorted(map(sorted, groups.values())),
        "labels": sorted(all_of("SELECT label FROM vault_community")),
        "sentences": {
            text_hash: (np.frombuffer(codes, np.int8).astype(int) // 8).tolist()
            for text_hash, codes in all_of(
                "SELECT text_hash, codes FROM vault_sentence WHERE text_hash IN (SELECT text_hash FROM vault_chunk)"
            )
        },
        "second": {
            text_hash: (np.frombuffer(codes, np.int8).astype(int) // 8).tolist()
            for text_hash, codes in con.execute(
                "SELECT text_hash, codes FROM vault_second WHERE model = ?"
                " AND text_hash IN (SELECT text_hash FROM vault_chunk)",
                (SECOND,),
            )
        },
        "kept": all_of("SELECT text_hash FROM vault_vector WHERE unused_since IS NULL ORDER BY text_hash"),
        "schema": sorted(all_of("SELECT type, name, sql FROM sqlite_schema WHERE type <> 'table'"), key=str),
    }


def look(house):
    return verify(house.cache, house.ingest, load(house.root))


def answers(house):
    """Return what the two retrievers find, by note."""
    found = []
    for question in QUESTIONS:
        vector = house.embedder._embedder.encode_query(question)
        for chunks in (
            house.cache.search.nearest(vector, 20),
            house.cache.search.matching(LexicalQuery(dict.fromkeys(question.split(), 1)), 20),
        ):
            paths = house.cache.passages.chunk_paths([chunk for chunk, _ in chunks])
            found.append([(paths.get(chunk), round(score, 4)) for chunk, score in chunks])
    return found


def key_of(con, table):
    keys = [n for n, pk in con.execute("SELECT name, pk FROM pragma_table_info(?)", (table,)) if pk]
    return keys or ["rowid"]


def alter(con, table, column, how):
    """Change a value of one row, or of all rows if none is a note's; say whether there was a row."""
    key = key_of(con, table)
    names = ", ".join(f'"{name}"' for name in key)
    # Of a note with everything, where the table says whose a row is.
    of_note = "WHERE path = 'garden.md'" if "path" in TABLES[table] and table != "vault_ignored" else ""
    row = con.execute(f'SELECT {names}, "{column}" FROM "{table}" {of_note} LIMIT 1').fetchone()
    if row is None:
        return False
    *ids, value = row
    ((kind,),) = con.execute(
        "SELECT type FROM pragma_table_info(?) WHERE name = ?", (table, column)
    ).fetchall()
    if value is None and kind == "REAL":
        value = 5.0
    where = " AND ".join(f'"{name}" IS ?' for name in key)
    con.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (how(value), *ids))
    return True


def other(value):
    """Return another value of the same kind."""
    if isinstance(value, bytes):
        return bytes(len(value)) if any(value) else b"\x01" * (len(value) or 1)
    if isinstance(value, (int, float)):
        return value + 7
    return "altered" if value is None or isinstance(value, str) else value


def strange(value):
    """Return a value of another kind or length."""
    if isinstance(value, bytes):
        return value[: len(value) // 2] + b"\x01"
    return b"\xff\x00" if isinstance(value, str) else "strange"


def reopen(house):
    """Drop what SQLite's connection has cached, because `everindex verify` opens its own."""
    name = house.cache.path.name
    house.cache.close()
    house.cache = house.open(name)


def mended(house, verdict):
    try:
        repair(house.cache, verdict)
        finish(house)
    except CacheCorruptError as error:
        return Verdict((Difference("vault", "damage", "", str(error)),), 0, 0)
    return look(house)


def assert_mended(house, built, *, damaged):
    """The differences are named and mended, in place or by the rebuild that the message advises."""
    verdict = look(house)
    if not any(d.kind == "damage" for d in verdict.differences):
        verdict = mended(house, verdict)
        if not verdict.differences:
            assert whole_picture(house) == built[1]
            return
    else:
        assert any("everindex index --rebuild" in d.detail for d in verdict.differences)
    # For differences that remain after a repair, the command advises a rebuild.
    assert damaged
    house.cache.close()
    house.cache = house.open("cache-vault.2.db")
    build_beside(load(house.root), house.cache, house.ingest, lambda _: None)
    finish(house)
    assert look(house).differences == ()
    assert whole_picture(house) == built[1]


def is_ours(table):
    return "_fts_" not in table and "_vec_" not in table and not table.startswith("sqlite_")


def test_the_cache_that_is_altered_is_clean(house, built):
    assert look(house).differences == ()
    assert whole_picture(house) == built[1]


def test_what_is_not_derived_is_explained_of_columns_that_there_are():
    assert NOT_DERIVED.keys() <= set(COLUMNS)


def alter_or_skip(house, table, column, how):
    try:
        if not alter(house.cache.con, table, column, how):
            pytest.skip("a table without rows")
    except Exception as error:
        if type(error).__name__ not in ("ConstraintError", "MismatchError"):
            raise
        pytest.skip(f"SQLite does not let it be: {error}")


@pytest.mark.parametrize("how", [other, strange])
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_an_altered_value_is_found_and_mended_or_explained(house, built, table, column, how):
    if table == "vault_meta":
        pytest.skip("what an altered vault_meta says has tests of its own")
    before = answers(house)
    alter_or_skip(house, table, column, how)
    reopen(house)
    found = look(house).differences
    if found:
        assert_mended(house, built, damaged=not is_ours(table) or how is strange or column in JSON)
    elif is_ours(table) or table == "sqlite_sequence":
        assert (table, column) in NOT_DERIVED
        finish(house)
        assert whole_picture(house) == built[1]
    else:
        assert answers(house) == before  # a spare part of FTS5 or sqlite-vec, which says nothing


@pytest.mark.parametrize("table", TABLES)
def test_a_deleted_row_is_found_and_mended_or_explained(house, built, table):
    if table == "vault_meta":
        pytest.skip("what an altered vault_meta says has tests of its own")
    before, con = answers(house), house.cache.con
    names = ", ".join(f'"{name}"' for name in key_of(con, table))
    of_note = "WHERE path = 'garden.md'" if "path" in TABLES[table] and table != "vault_ignored" else ""
    con.execute(f'DELETE FROM "{table}" WHERE ({names}) IN (SELECT {names} FROM "{table}" {of_note} LIMIT 1)')
    assert con.changes() == 1
    reopen(house)
    found = look(house).differences
    if found:
        assert_mended(house, built, damaged=not is_ours(table))
    else:
        assert not is_ours(table) or all((table, column) in NOT_DERIVED for column in TABLES[table])
        assert answers(house) == before


@pytest.mark.parametrize(("kind", "name"), OTHERS)
def test_a_trigger_or_index_that_is_gone_is_found_and_made_again(house, built, kind, name):
    house.cache.con.execute(f"DROP {kind} {name}")
    assert {d.kind for d in look(house).differences} == {"schema"}
    assert_mended(house, built, damaged=False)


def test_a_trigger_that_is_none_of_ours_is_found_and_dropped(house, built):
    house.cache.con.execute(
        "CREATE TRIGGER strange AFTER INSERT ON vault_node BEGIN DELETE FROM vault_rank; END"
    )
    (difference,) = look(house).differences
    assert "strange" in difference.detail
    assert_mended(house, built, damaged=False)


@pytest.mark.parametrize(
    "table", [*(t for t in TABLES if t != "sqlite_sequence"), "vault_chunk_fts", "vault_chunk_vec"]
)
def test_a_table_that_is_gone_is_named_with_a_way_out_that_works(house, built, table):
    house.cache.con.execute(f"DROP TABLE {table}")
    assert_mended(house, built, damaged=True)


@pytest.mark.parametrize("column", ["modified_at", "title"])
def test_a_column_that_is_gone_is_named_with_a_way_out_that_works(house, built, column):
    house.cache.con.execute(f"ALTER TABLE vault_node DROP COLUMN {column}")
    assert_mended(house, built, damaged=True)


@pytest.mark.parametrize("key", ["model", "dimension", "pipeline", "schema_version"])
def test_a_cache_that_does_not_say_what_it_was_built_with_is_refused_with_the_way_out(house, key):
    house.cache.con.execute("DELETE FROM vault_meta WHERE key = ?", (key,))
    with pytest.raises(CacheError, match="everindex index --rebuild"):
        SqliteCache.open(house.cache.path)
    with pytest.raises(CacheError, match="everindex index --rebuild"):
        house.open(house.cache.path.name)


def test_a_number_that_would_be_given_twice_is_found_and_mended(house, built):
    house.cache.con.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'vault_chunk'")
    assert [d.kind for d in look(house).differences] == ["schema"]
    assert_mended(house, built, damaged=False)


def test_a_note_that_no_name_opens_is_not_taken_for_pending(house, built):
    house.cache.con.execute("UPDATE vault_file SET raw = CAST('no such.md' AS BLOB) WHERE path = 'river.md'")
    assert ("ledger", "river.md") in {(d.kind, d.path) for d in look(house).differences}
    assert_mended(house, built, damaged=False)


def test_the_time_of_a_note_follows_its_file_without_its_being_indexed_again(house):
    file = house.root / "river.md"
    when = datetime(2020, 2, 2, tzinfo=UTC)
    import os

    os.utime(file, (when.timestamp(), when.timestamp()))
    house.notice("river.md")
    assert house.cache.counts().pending == 0
    assert house.cache.passages.node("river.md").modified == "2020-02-02T00:00:00+00:00"
    assert look(house).differences == ()
