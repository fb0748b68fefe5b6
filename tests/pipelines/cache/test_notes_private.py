"""Which notes are private: a connection that keeps the answer agrees after each commit with one that just looked."""

from __future__ import annotations

import random
from contextlib import closing
from types import SimpleNamespace

import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.notes import Rules
from pipelines.cache.schema import CacheMeta
from pipelines.filters import NO_FILTERS
from pipelines.model import ChunkSettings, Privacy
from pipelines.notes.chunk import chunk_note
from pipelines.notes.markdown import parse_note
from pipelines.notes.privacy import compared

ON_BOTH_STORES = True

ALL = (
    Rules(Privacy()),
    Rules(compared(Privacy(("diary",), ("drawer",)))),
    Rules(Privacy(), "a/", ("a/nested/",)),
    Rules(Privacy(llm=False)),
)
PATHS = [
    f"{folder}note {n}.md" for folder in ("", "a/", "a/nested/", "drawer/", "private/") for n in range(3)
]
TEXTS = ("Soil.", "private:: true", "#diary", "---\ntags: [diary/2026]\n---\n")


@pytest.fixture
def writer(tmp_path):
    with closing(SqliteCache.create(tmp_path / "cache-a.1.db", CacheMeta("model", 4, "pipeline"))) as cache:
        yield cache


@pytest.fixture
def reader(writer):
    with closing(SqliteCache.open(writer.path)) as cache:
        yield cache


def just_looked(path, rules):
    with closing(SqliteCache.open(path)) as fresh:
        return fresh.notes.private(rules)


def index(cache, path, text="Soil."):
    cache._upsert_node(parse_note(path, text), SimpleNamespace(found=SimpleNamespace(mtime_ns=0)))


def put(cache, path, text):
    note = parse_note(path, text)
    index(cache, path, text)
    cache.chunks.replace(note, chunk_note(note, ChunkSettings(100, 0, 1_000)), reworded=False)


def save(cache, path, wanted, indexed):
    cache.con.execute("DELETE FROM vault_file WHERE path = ?", (path,))
    cache.con.execute(
        "INSERT INTO vault_file (path, raw, size, mtime_ns, inode, wanted_hash, indexed_hash, generation, priority,"
        " dirty_since) VALUES (?, x'', 0, 0, 0, ?, ?, 1, 1, 0)",
        (path, wanted, indexed),
    )


def change(cache, chance):
    """Make one of the changes that decide about a note's privacy."""
    path, one, other = chance.choice(PATHS), chance.choice("ab"), chance.choice(["a", "b", None])
    match chance.randrange(7):
        case 0 | 1:
            index(cache, path, chance.choice(TEXTS))
        case 2:
            save(cache, path, one, other)
        case 3:
            cache.con.execute("UPDATE vault_file SET wanted_hash = ? WHERE path = ?", (other, path))
        case 4:
            cache.con.execute("UPDATE vault_file SET indexed_hash = ? WHERE path = ?", (other, path))
        case 5:
            table = chance.choice(["vault_file", "vault_node"])
            cache.con.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
        case 6:
            cache.con.execute("UPDATE vault_node SET private = NULL WHERE path = ?", (path,))


@pytest.mark.parametrize("rules", ALL)
def test_what_is_kept_is_what_a_new_connection_finds_after_each_commit(writer, reader, rules):
    chance = random.Random(7)  # noqa: S311 - changes, not secrets
    for _ in range(300):
        with writer.transaction():
            for _ in range(chance.randint(1, 3)):
                change(writer, chance)
        assert reader.notes.private(rules) == writer.notes.private(rules) == just_looked(writer.path, rules)


def test_each_rules_have_their_own_answer(writer, reader):
    for path in PATHS:
        index(writer, path, "#diary")
        save(writer, path, "a", "a")
    for rules in (*ALL, *reversed(ALL)):
        assert reader.notes.private(rules) == just_looked(writer.path, rules)


def test_a_snapshot_keeps_its_own_answer(writer, reader):
    index(writer, "a.md")
    save(writer, "a.md", "a", "a")
    with reader.snapshot():
        assert not reader.notes.private(ALL[0]).notes
        index(writer, "a.md", "private:: true")
        assert not reader.notes.private(ALL[0]).notes
    assert reader.notes.private(ALL[0]).notes == {"a.md"}


def test_what_was_rolled_back_leaves_nothing(writer):
    save(writer, "a.md", "a", "a")
    save(writer, "b.md", "a", "a")
    index(writer, "a.md")
    index(writer, "b.md")
    assert not writer.notes.private(ALL[0]).notes
    writer.con.execute("BEGIN IMMEDIATE")
    index(writer, "a.md", "private:: true")
    assert writer.notes.private(ALL[0]).notes == {"a.md"}
    writer.con.execute("ROLLBACK")
    index(writer, "b.md", "private:: true")
    assert writer.notes.private(ALL[0]).notes == {"b.md"}


def test_the_passages_that_are_seen_follow_each_commit(writer, reader):
    for n in range(3):
        put(writer, f"{n}.md", "Soil.")
    seen = [reader.filters.matching_chunks(NO_FILTERS, {"1.md"})]
    put(writer, "3.md", "Worms.")
    seen += [
        reader.filters.matching_chunks(NO_FILTERS, hidden) for hidden in ({"1.md"}, {"1.md", "3.md"}, ())
    ]
    put(writer, "2.md", "Worms.")
    seen.append(reader.filters.matching_chunks(NO_FILTERS, {"1.md"}))
    assert seen == [[1, 3], [1, 3, 4], [1, 3], None, [1, 5, 4]]


def test_more_changes_than_the_journal_keeps_are_all_seen(writer, reader):
    assert not reader.notes.private(ALL[0]).notes
    with writer.transaction():
        save(writer, "first.md", "b", "a")
        for n in range(20_001):
            save(writer, "again.md", "a", str(n))
    (kept,) = writer.con.execute("SELECT count(*) FROM vault_privacy_change").fetchone()
    assert kept == 20_000
    assert reader.notes.private(ALL[0]).notes == {"first.md", "again.md"}


def test_after_a_commit_only_the_notes_that_changed_are_judged(writer, reader):
    with writer.transaction():
        for n in range(2_000):
            index(writer, f"{n}.md")
            save(writer, f"{n}.md", "a", "a")
    reader.notes.private(ALL[0])
    index(writer, "7.md", "private:: true")
    steps = []
    reader.con.set_progress_handler(lambda: steps.append(1) and False, 100)
    assert reader.notes.private(ALL[0]).notes == {"7.md"}
    assert len(steps) < 20
