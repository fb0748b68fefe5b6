"""Every kind of drift between disk and cache, or within the cache, is found, named and mended; a clean one is clean."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.cache.cache import SqliteCache
from pipelines.domains import load
from pipelines.errors import NoteChangedError
from pipelines.indexing.ingest import index_saved, index_words
from pipelines.maintenance.verify import Verdict, repair, verify
from pipelines.vault import files
from tests.pipelines.conftest import House, as_read

NOTES = {
    "garden.md": "---\ntags: [soil]\naliases: [Plot]\n---\n# Garden\n\nThe soil and compost. [[river]] #winter\n\n## Tomato\n\n"
    + "tomato winter soil " * 40,
    "river.md": "# River\n\nA boat on the river, see [[garden#Tomato|the tomato]].\n\n## Sail\n\nWe sail.",
    "deep/bread.md": "# Bread\n\nFlour, yeast, oven: getUserById and 麵包.",
}


def look(house: House) -> Verdict:
    return verify(as_read(house.cache), house.ingest, load(house.root))


def found(house: House) -> set[tuple[str, str]]:
    return {(d.kind, d.path) for d in look(house).differences}


def mend(house: House) -> None:
    """What `everindex verify --repair` does without a service."""
    repair(house.cache, look(house))
    house.index()


@pytest.fixture
def filled(house: House) -> House:
    return with_notes(house)


def with_notes(house: House) -> House:
    for path, text in NOTES.items():
        house.write(path, text)
    house.index()
    return house


def test_a_clean_house_is_clean(filled):
    verdict = look(filled)
    assert verdict.differences == ()
    assert (verdict.compared, verdict.left_out) == (3, 0)


def test_a_file_that_links_do_not_know_yet_is_described_in_a_sentence(filled):
    (filled.root / "404.png").write_bytes(b"x")
    (difference,) = look(filled).differences
    said = f"{difference.path}: {difference.detail}"
    assert said == "404.png: is on disk, but a link to it does not resolve yet; run `everindex index`"


def test_an_empty_house_is_clean(house):
    house.index()
    assert look(house) == Verdict((), 0, 0)


def test_a_note_that_waits_to_be_indexed_agrees_with_its_cache(filled):
    saved_later(filled, "garden.md")
    filled.notice("garden.md")
    assert "note" not in {kind for kind, _ in found(filled)}
    filled.drain()
    assert found(filled) == set()


def test_the_words_that_an_earlier_pipeline_chose_are_no_difference(filled):
    sql, difference = DRIFT["words other"]
    filled.cache.con.execute(sql)
    assert found(filled) == {difference}
    filled.cache.ledger.want_version(filled.cache.meta.pipeline)
    assert found(filled) == set()
    filled.drain()
    assert found(filled) == set()


def saved_later(house: House, path: str) -> None:
    """Save a note with another text and another time."""
    house.write(path, "# Garden\n\nThe soil rests.")
    os.utime(house.root / path, (2e9, 2e9))


def test_verify_needs_no_right_to_write(filled):
    reader = SqliteCache.open(filled.cache.path)
    assert verify(reader, filled.ingest, load(filled.root)).differences == ()
    reader.close()


FIRST = "(SELECT min(id) FROM vault_chunk WHERE path = 'garden.md')"
SOME_HASH = f"(SELECT text_hash FROM vault_chunk WHERE id = {FIRST})"
WRONG = np.full(32, 1 / np.sqrt(32), "<f4").tobytes()

DRIFT = {
    "chunk text": ("UPDATE vault_chunk SET text = 'other' WHERE id = " + FIRST, ("chunk", "garden.md")),
    "chunk hash": ("UPDATE vault_chunk SET text_hash = 'abc' WHERE id = " + FIRST, ("chunk", "garden.md")),
    "chunk offset": ("UPDATE vault_chunk SET end_offset = 7 WHERE id = " + FIRST, ("chunk", "garden.md")),
    "edge target": ("UPDATE vault_edge SET target = 'x.md' WHERE path = 'garden.md'", ("edge", "garden.md")),
    "edge type": ("UPDATE vault_edge SET type = 'x' WHERE path = 'river.md'", ("edge", "river.md")),
    "link type": ("UPDATE vault_link SET type = 'x' WHERE path = 'river.md'", ("link", "river.md")),
    "edge gone": ("DELETE FROM vault_edge WHERE path = 'river.md'", ("edge", "river.md")),
    "edge stray": (
        "INSERT INTO vault_edge VALUES ('nowhere.md', 0, 'river.md', 'wikilink', 0, NULL)",
        ("edge", "nowhere.md"),
    ),
    "file gone": ("INSERT INTO vault_path VALUES ('x.png', 'x.png')", ("path", "x.png")),
    "file new": ("DELETE FROM vault_path WHERE path = 'river.md'", ("path", "river.md")),
    "chunk line": ("UPDATE vault_chunk SET last_line = 77 WHERE id = " + FIRST, ("chunk", "garden.md")),
    "chunk section": ("UPDATE vault_chunk SET section = 'x' WHERE id = " + FIRST, ("chunk", "garden.md")),
    "chunk gone": ("DELETE FROM vault_chunk WHERE id = " + FIRST, ("chunk", "garden.md")),
    "chunk without a note": (
        "UPDATE vault_chunk SET path = 'missing.md' WHERE id = " + FIRST,
        ("orphan", "missing.md"),
    ),
    "node title": ("UPDATE vault_node SET title = 'x' WHERE path = 'garden.md'", ("note", "garden.md")),
    "node tags": ("UPDATE vault_node SET tags = '[]' WHERE path = 'garden.md'", ("note", "garden.md")),
    "private": ("UPDATE vault_node SET private = 1 WHERE path = 'garden.md'", ("note", "garden.md")),
    "private path": ("UPDATE vault_node SET place = '' WHERE path = 'garden.md'", ("note", "garden.md")),
    "private tags": (
        "UPDATE vault_node SET tag_lines = char(10) || 'x' || char(10) WHERE path = 'garden.md'",
        ("note", "garden.md"),
    ),
    "privacy unknown": (
        "UPDATE vault_node SET private = NULL WHERE path = 'garden.md'",
        ("note", "garden.md"),
    ),
    "date of a note without one": (
        "UPDATE vault_node SET changed = '2021-03-04', changed_by = 'property updated' WHERE path = 'garden.md'",
        ("note", "garden.md"),
    ),
    "node gone": ("DELETE FROM vault_node WHERE path = 'garden.md'", ("ledger", "garden.md")),
    "node without a file": (
        "UPDATE vault_node SET path = 'missing.md' WHERE path = 'garden.md'",
        ("ledger", "missing.md"),
    ),
    "link target": ("UPDATE vault_link SET target = 'x' WHERE path = 'river.md'", ("link", "river.md")),
    "link gone": ("DELETE FROM vault_link WHERE path = 'river.md'", ("link", "river.md")),
    "link without a note": (
        "UPDATE vault_link SET path = 'missing.md' WHERE path = 'river.md'",
        ("orphan", "missing.md"),
    ),
    "words gone": ("DELETE FROM vault_chunk_fts WHERE rowid = " + FIRST, ("words", "garden.md")),
    "words other": (
        (
            f"DELETE FROM vault_chunk_fts WHERE rowid = {FIRST}; INSERT INTO vault_chunk_fts"
            f" (rowid, title, section, text) VALUES ({FIRST}, 'Garden Plot', 'Garden', 'something else')"
        ),
        ("words", "garden.md"),
    ),
    "words moved": (
        (
            f"DELETE FROM vault_chunk_fts WHERE rowid = {FIRST}; INSERT INTO vault_chunk_fts"
            f" (rowid, title, section, text) VALUES ({FIRST}, 'Plot Garden', 'Garden', 'The soil and compost')"
        ),
        ("words", "garden.md"),
    ),
    "words without a chunk": (
        "INSERT INTO vault_chunk_fts (rowid, title, section, text) VALUES (999, '', '', 'ghost')",
        ("orphan", ""),
    ),
    "vector row gone": ("DELETE FROM vault_chunk_vec WHERE chunk_id = " + FIRST, ("vector", "garden.md")),
    "vector row other": (
        (
            f"DELETE FROM vault_chunk_vec WHERE chunk_id = {FIRST};"
            f" INSERT INTO vault_chunk_vec VALUES ({FIRST}, x'{WRONG.hex()}')"
        ),
        ("vector", "garden.md"),
    ),
    "vector row without a chunk": (
        f"INSERT INTO vault_chunk_vec VALUES (999, x'{WRONG.hex()}')",
        ("orphan", ""),
    ),
    "vector unmarked": ("UPDATE vault_chunk SET has_vector = 0 WHERE id = " + FIRST, ("ledger", "garden.md")),
    "vector not kept": ("DELETE FROM vault_vector WHERE text_hash = " + SOME_HASH, ("vector", "garden.md")),
    "vector unused": (
        f"UPDATE vault_vector SET unused_since = 1 WHERE text_hash = {SOME_HASH}",
        ("vector", "garden.md"),
    ),
    "vector short": (
        f"UPDATE vault_vector SET embedding = x'0000' WHERE text_hash = {SOME_HASH}",
        ("vector", "garden.md"),
    ),
    "vector NaN": (
        (
            f"UPDATE vault_vector SET embedding = x'{np.full(32, np.nan, '<f4').tobytes().hex()}'"
            f" WHERE text_hash = {SOME_HASH}"
        ),
        ("vector", "garden.md"),
    ),
    "vector long": (
        f"UPDATE vault_vector SET embedding = x'{np.ones(32, '<f4').tobytes().hex()}' WHERE text_hash = {SOME_HASH}",
        ("vector", "garden.md"),
    ),
    "applied ahead": (
        "UPDATE vault_file SET applied_generation = 9 WHERE path = 'garden.md'",
        ("ledger", "garden.md"),
    ),
    "embedded ahead": (
        "UPDATE vault_file SET embedded_generation = 9 WHERE path = 'garden.md'",
        ("ledger", "garden.md"),
    ),
    "no indexed hash": (
        "UPDATE vault_file SET indexed_hash = NULL WHERE path = 'garden.md'",
        ("ledger", "garden.md"),
    ),
    "other wanted hash": (
        "UPDATE vault_file SET wanted_hash = 'x' WHERE path = 'garden.md'",
        ("ledger", "garden.md"),
    ),
    "other indexed hash": (
        "UPDATE vault_file SET indexed_hash = 'x' WHERE path = 'garden.md'",
        ("hash", "garden.md"),
    ),
    "ledger row gone": ("DELETE FROM vault_file WHERE path = 'garden.md'", ("ledger", "garden.md")),
}


@pytest.mark.parametrize("kind", DRIFT)
def test_planted_drift_is_found_and_mended(filled, kind):
    sql, named = DRIFT[kind]
    for statement in sql.split("; "):
        filled.cache.con.execute(statement).fetchall()
    assert named in found(filled)
    mend(filled)
    assert look(filled).differences == ()
    assert filled.picture() == filled.scratch_picture()


def test_a_mended_note_is_embedded_again_only_where_its_vector_was_in_doubt(filled):
    filled.cache.con.execute("UPDATE vault_chunk SET text = 'other' WHERE path = 'garden.md'")
    repair(filled.cache, look(filled))
    assert filled.index() == []
    filled.cache.con.execute(DRIFT["vector NaN"][0])
    repair(filled.cache, look(filled))
    assert len(filled.index()) == 1


def test_a_bad_vector_of_a_text_in_two_notes_is_mended_in_both(filled):
    filled.save("copy.md", NOTES["garden.md"])
    filled.drain()
    filled.cache.con.execute(DRIFT["vector NaN"][0])
    assert {("vector", "garden.md"), ("vector", "copy.md")} <= found(filled)
    mend(filled)
    assert look(filled).differences == ()


@pytest.mark.parametrize(
    ("vector", "said"),
    [(np.full(32, np.nan, "<f4"), "not finite"), (np.ones(32, "<f4"), "has length 5.657, not 1")],
)
def test_a_bad_vector_is_found_where_both_tables_agree_on_it(filled, vector, said):
    blob = vector.tobytes().hex()
    filled.cache.con.execute(f"UPDATE vault_vector SET embedding = x'{blob}' WHERE text_hash = {SOME_HASH}")
    filled.cache.con.execute(f"DELETE FROM vault_chunk_vec WHERE chunk_id = {FIRST}")
    filled.cache.con.execute(f"INSERT INTO vault_chunk_vec VALUES ({FIRST}, x'{blob}')")
    (difference,) = look(filled).differences
    assert (difference.kind, difference.path) == ("vector", "garden.md")
    assert said in difference.detail
    mend(filled)
    assert look(filled).differences == ()
    assert filled.picture() == filled.scratch_picture()


def test_a_truncated_vector_is_reported(filled):
    filled.cache.con.execute(DRIFT["vector short"][0])
    assert any("has 2 bytes, not 128" in d.detail for d in look(filled).differences)


def test_a_vector_row_in_doubt_is_recomputed_in_every_note_with_that_text(filled):
    filled.save("copy.md", NOTES["garden.md"])
    filled.drain()
    # The kept vector and the copy's row agree, and are wrong; the other note's row is right.
    con, wrong = filled.cache.con, WRONG.hex()
    other = f"(SELECT id FROM vault_chunk WHERE path = 'copy.md' AND text_hash = {SOME_HASH})"
    con.execute(f"UPDATE vault_vector SET embedding = x'{wrong}' WHERE text_hash = {SOME_HASH}")
    con.execute(f"DELETE FROM vault_chunk_vec WHERE chunk_id = {other}")
    con.execute(f"INSERT INTO vault_chunk_vec VALUES ({other}, x'{wrong}')")
    assert found(filled) == {("vector", "garden.md")}
    repair(filled.cache, look(filled))
    assert len(filled.index()) == 1
    assert look(filled).differences == ()
    assert filled.picture() == filled.scratch_picture()


def test_a_note_that_the_ledger_does_not_know_is_reported_as_unknown(filled):
    filled.cache.con.execute("DELETE FROM vault_file WHERE path = 'garden.md'")
    assert [d.detail for d in look(filled).differences] == ["has a node, but no row in the ledger"]


# PostgreSQL, and this host's copy of it, where the differences are found


@pytest.fixture
def far(vault, tmp_path, tiny_embedder, postgres):
    (tmp_path / "state").mkdir()
    made = House(vault, tmp_path / "state", tiny_embedder, address=postgres.address)
    yield with_notes(made)
    made.close()


# What PostgreSQL has no table for, or writes otherwise.
OF_SQLITE = re.compile(r"_fts|_vec\b|x'|private|char\(|INSERT")
OF_BOTH = [kind for kind, (sql, _) in DRIFT.items() if not OF_SQLITE.search(sql)]


@pytest.mark.parametrize(
    ("kind", "is_of_copy"), [*((kind, False) for kind in OF_BOTH), *((kind, True) for kind in DRIFT)]
)
def test_drift_in_postgresql_and_drift_of_a_copy_are_found_and_mended(far, kind, is_of_copy):
    sql, named = DRIFT[kind]
    con = as_read(far.cache).con if is_of_copy else far.cache.con
    for statement in sql.split("; "):
        con.execute(statement)
    assert named in found(far)
    mend(far)
    assert look(far).differences == ()
    assert far.picture() == far.scratch_picture()


@pytest.mark.parametrize("value", [np.nan, 1.0, 1 / np.sqrt(32)], ids=["no number", "too long", "another"])
def test_a_wrong_vector_in_postgresql_is_computed_again_and_no_other(far, value):
    assert look(far).differences == ()
    wrong = np.full(32, value, "<f4").tobytes()
    far.cache.con.execute(f"UPDATE vault_vector SET embedding = ? WHERE text_hash = {SOME_HASH}", (wrong,))
    far.cache.con.execute("UPDATE vault_chunk SET text = 'other' WHERE path = 'river.md'")
    assert {("vector", "garden.md"), ("chunk", "river.md")} <= found(far)
    repair(far.cache, look(far))
    assert len(far.index()) == 1
    assert look(far).differences == ()
    assert far.picture() == far.scratch_picture()


# Changes on disk that the ledger does not know


def test_a_note_without_an_event_is_found(filled):
    filled.write("new.md", "New.")
    assert found(filled) == {("path", "new.md")}
    mend(filled)
    assert look(filled).differences == ()


def test_a_note_that_went_unnoticed_is_found(filled):
    (filled.root / "river.md").unlink()
    assert found(filled) == {("path", "river.md")}
    mend(filled)
    assert look(filled).differences == ()
    assert filled.picture() == filled.scratch_picture()


def test_a_note_that_is_ignored_by_now_is_found_with_its_rule(filled):
    filled.write(".everindexignore", "river.md\n")
    (difference,) = look(filled).differences
    assert (difference.kind, difference.path) == ("path", "river.md")
    assert "ignored" in difference.detail
    mend(filled)
    assert look(filled).differences == ()


def test_an_edit_that_kept_size_and_time_is_found(filled):
    file = filled.root / "river.md"
    before = file.stat()
    file.write_text(NOTES["river.md"].replace("boat", "sail"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(filled) == {("hash", "river.md")}
    mend(filled)
    assert look(filled).differences == ()
    assert filled.picture() == filled.scratch_picture()


def test_a_note_that_became_a_fifo_is_found_and_parked(filled):
    (filled.root / "river.md").unlink()
    os.mkfifo(filled.root / "river.md")
    assert ("hash", "river.md") in found(filled)
    mend(filled)
    assert look(filled).differences == ()
    assert [path for path, _, _ in filled.parked()] == ["river.md"]


def test_a_mass_of_notes_that_is_gone_is_reported_and_not_deleted(filled):
    for number in range(40):
        filled.write(f"many/{number}.md", f"Note {number}.")
    filled.index()
    # One of them differs, too: mending it must not bypass the confirmation.
    filled.cache.con.execute("UPDATE vault_chunk SET text = 'x' WHERE path = 'many/1.md'")
    shutil.rmtree(filled.root / "many")
    mend(filled)
    kept = filled.cache.con.execute("SELECT count(*) FROM vault_file WHERE path LIKE 'many/%'").fetchall()
    assert kept == [(40,)]
    assert {path for kind, path in found(filled) if kind == "path"} == {f"many/{n}.md" for n in range(40)}


# What is known to be behind


def test_pending_and_parked_notes_are_left_out(filled):
    filled.write("large.md", "x" * 1_000_001)
    filled.notice("large.md")
    index_saved(filled.cache, filled.ingest)
    filled.write("river.md", "Changed.")
    filled.notice("river.md")
    verdict = look(filled)
    assert (verdict.differences, verdict.compared, verdict.left_out) == ((), 2, 2)


def test_a_note_that_is_just_being_written_is_left_out(filled, monkeypatch):
    read = files.read

    def changing(root, raw, max_bytes):
        if raw == "river.md":
            raise NoteChangedError(raw)
        return read(root, raw, max_bytes)

    monkeypatch.setattr("pipelines.maintenance.verify.vault.read", changing)
    assert look(filled) == Verdict((), 2, 1)


def test_a_note_whose_vectors_are_pending_is_compared_without_them(filled):
    filled.write("new.md", "A new note about bread.")
    filled.reconcile()
    index_words(filled.cache, filled.ingest)
    assert filled.cache.counts().vectors_pending
    assert look(filled).differences == ()
    filled.cache.con.execute("UPDATE vault_chunk SET text = 'x' WHERE path = 'new.md'")
    assert ("chunk", "new.md") in found(filled)


def test_notes_that_were_split_otherwise_are_reported_once(filled):
    filled.cache.con.execute("UPDATE vault_meta SET value = 'older' WHERE key = 'pipeline'")
    reader = SqliteCache.open(filled.cache.path)
    (difference,) = verify(reader, filled.ingest, load(filled.root)).differences
    reader.close()
    assert "everindex index" in difference.detail


# Damage


def test_a_damaged_full_text_index_is_named_with_the_way_out(filled):
    filled.cache.con.execute("UPDATE vault_chunk_fts_data SET block = zeroblob(20) WHERE id > 10")
    verdict = look(filled)
    assert {d.kind for d in verdict.differences} == {"damage"}
    assert "everindex index --rebuild" in verdict.differences[0].detail


def test_a_damaged_file_is_named_with_the_way_out(filled):
    path: Path = filled.cache.path
    (page,) = filled.cache.con.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'vault_node'"
    ).fetchone()
    filled.cache.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : (page - 1) * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)
    filled.cache = filled.open("cache-other.1.db")
    reader = SqliteCache.open(path)
    verdict = verify(reader, filled.ingest, load(filled.root))
    reader.close()
    assert verdict.differences
    assert {d.kind for d in verdict.differences} == {"damage"}


def test_words_that_cannot_be_deleted_any_more_are_found_again_after_a_repair(filled):
    filled.cache.con.execute("DELETE FROM vault_chunk_fts_docsize WHERE id = " + FIRST)
    assert ("words", "garden.md") in found(filled)
    mend(filled)
    assert found(filled) == {("words", "")}


# Any vault

LINE = st.sampled_from(
    [
        "# Garden",
        "## River",
        "### Boat",
        "a [[b]] link",
        "![[a#x|y]]",
        "[z](b.md)",
        "#tag/sub soil",
        "```",
        "§3 C++ snake_case",
        "麵包 yeast",
        "word " * 90,
        "",
        "---",
        "aliases: [one, two]",
        "\x00 odd \u0301",
    ]
)
VAULT = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "c/d.md", "e f.md"]),
    st.lists(LINE, max_size=12).map("\n".join),
    max_size=4,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=VAULT, after=VAULT)
def test_whatever_is_written_and_rewritten_verifies_clean(tiny_embedder, before, after):
    with tempfile.TemporaryDirectory() as folder:
        root, state = Path(folder, "vault").resolve(), Path(folder, "state")
        root.mkdir()
        state.mkdir()
        house = House(root, state, tiny_embedder)
        for notes in (before, after):
            for path in before.keys() - notes.keys():
                (root / path).unlink()
            for path, text in notes.items():
                house.write(path, text)
            house.index()
            assert look(house).differences == ()
        house.cache.close()
