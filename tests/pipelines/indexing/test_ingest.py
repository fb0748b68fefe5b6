"""A lease becomes a commit: what is embedded, what is left alone, what is parked."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.leases import MAX_ATTEMPTS
from pipelines.errors import ModelUnavailableError, StaleWorkError, VaultNotFoundError
from pipelines.indexing.deletions import Release
from pipelines.indexing.ingest import TEXTS_AT_ONCE, embed_pending, index_saved, index_words

ON_BOTH_STORES = True

TWENTY = "\n\n".join(f"## Part {n}\n\nThe river and the boat, part number {n}." for n in range(20))


def test_a_saved_note_gets_words_and_vectors_in_one_commit(house):
    outcome = house.save("a.md", "# Garden\n\nCompost for the tomato.")
    counts = house.cache.counts()
    assert (outcome.committed, counts.notes, counts.pending, counts.vectors_pending) == (1, 1, 0, 0)
    assert house.picture() == house.scratch_picture()


def test_a_scan_commits_words_first_and_the_vectors_follow(house):
    house.write("a.md", "Compost for the tomato.")
    house.reconcile()
    index_words(house.cache, house.ingest)
    words = house.cache.counts()
    assert (words.notes, words.vectors_pending, house.embedder.texts) == (1, 1, [])
    embed_pending(house.cache, house.ingest)
    assert house.cache.counts().vectors_pending == 0


def test_a_renamed_note_embeds_nothing_and_leaves_its_old_path(house):
    house.save("a.md", TWENTY)
    (house.root / "a.md").rename(house.root / "b.md")
    house.notice("a.md", "b.md")
    assert house.drain() == []
    assert house.cache.passages.node("a.md") is None
    assert house.picture() == house.scratch_picture()


def test_a_moved_folder_embeds_nothing(house):
    for n in range(5):
        house.write(f"old/deep/{n}.md", f"# Note {n}\n\nBread and yeast number {n}.")
    house.index()
    (house.root / "old").rename(house.root / "new")
    house.notice("old", "new")
    assert house.drain() == []
    assert [row[0] for row in house.picture()["files"]] == [f"new/deep/{n}.md" for n in range(5)]


def test_a_delete_then_create_embeds_nothing(house):
    house.save("a.md", "Bread and yeast.")
    (house.root / "a.md").unlink()
    house.index()
    house.write("elsewhere.md", "Bread and yeast.")
    assert house.index() == []


def test_one_edited_section_of_twenty_embeds_one_chunk(house):
    house.save("a.md", TWENTY)
    before = len(house.embedder.texts)
    house.save("a.md", TWENTY.replace("part number 7.", "part number seven, edited."))
    assert len(house.embedder.texts) == before + 1
    assert "edited" in house.embedder.texts[-1]
    assert house.picture() == house.scratch_picture()


def test_an_edit_keeps_the_ids_of_untouched_chunks(house):
    house.save("a.md", TWENTY)
    ids = dict(house.cache.con.execute("SELECT text, id FROM vault_chunk").fetchall())
    house.save("a.md", "A new first line.\n\n" + TWENTY)
    now = dict(house.cache.con.execute("SELECT text, id FROM vault_chunk").fetchall())
    assert {text: now[text] for text in ids} == ids


@pytest.mark.of_sqlite
def test_a_retitled_note_is_found_by_its_new_title_in_every_chunk(house):
    house.save("a.md", "---\ntitle: Sail\n---\n" + TWENTY)
    house.save("a.md", "---\ntitle: Oven\n---\n" + TWENTY)
    matches = {
        word: house.cache.con.execute(
            "SELECT count(*) FROM vault_chunk_fts WHERE vault_chunk_fts MATCH ?", (f'title:"{word}"',)
        ).fetchone()[0]
        for word in ("sail", "oven")
    }
    assert matches == {"sail": 0, "oven": 20}


def test_a_saved_long_note_leaves_its_vectors_pending_and_gets_them_all_at_once(house):
    many = "\n\n".join(f"## Part {n}\n\nLetter {n} of many letters." for n in range(70))
    house.save("a.md", many)
    counts = house.cache.counts()
    assert (counts.pending, counts.vectors, counts.vectors_pending) == (0, 0, 70)
    embed_pending(house.cache, house.ingest, lambda: True)
    assert house.cache.counts().vectors == 0  # whole or not at all
    house.drain()
    assert house.cache.counts().vectors == 70


def test_two_slices_are_embedded_at_once_and_none_begins_when_a_save_waits(house):
    house.save("a.md", "\n\n".join(f"## Part {n}\n\nLetter {n}." for n in range(70)))
    together, asked = threading.Barrier(2, timeout=30), []

    class Pairs:
        def encode_documents(self, texts):
            asked.append(len(texts))
            together.wait()  # breaks if the other slice is not embedded meanwhile
            return house.embedder.encode_documents(texts)

    embed_pending(house.cache, replace(house.ingest, encoder=Pairs), lambda: True)
    assert len(asked) == 2
    assert sum(asked) <= TEXTS_AT_ONCE


def test_slices_of_long_texts_are_small_again_so_that_a_save_waits_briefly(house, monkeypatch):
    short = [f"## Part {n}\n\nLetter {n}." for n in range(70)]
    # Two slices are in flight, so some large ones may begin before the first long one has ended.
    long = [f"## Long {n}\n\n{'word ' * 150}{n}." for n in range(140)]
    house.save("a.md", "\n\n".join(short + long))
    now, asked = [0.0], []

    class Timed:
        def encode_documents(self, texts):
            asked.append((len(texts), "word" in texts[0]))
            now[0] += sum(0.04 if "word" in text else 0.001 for text in texts)
            return house.embedder.encode_documents(texts)

    monkeypatch.setattr("pipelines.indexing.ingest.time", SimpleNamespace(monotonic=lambda: now[0]))
    embed_pending(house.cache, replace(house.ingest, encoder=Timed))
    assert max(count for count, is_long in asked if not is_long) == TEXTS_AT_ONCE // 2
    assert max(count for count, _ in asked[-5:]) < TEXTS_AT_ONCE // 2


@pytest.mark.of_sqlite
@pytest.mark.parametrize("hurried", [True, False])
def test_vectors_of_many_notes_take_few_transactions_so_that_no_save_waits_for_each(house, hurried):
    """Each would wait for other writers, such as the indexing of documents, which never stops for long."""
    for n in range(90):
        house.write(f"{n}.md", f"Letter {n} of many letters.")
    house.reconcile()
    while house.cache.leases.has_pending("words"):
        index_words(house.cache, house.ingest)
    commits = []
    house.cache.con.set_commit_hook(lambda: bool(commits.append(1)))
    embed_pending(house.cache, house.ingest, lambda: hurried)
    house.cache.con.set_commit_hook(None)
    assert len(commits) < 20
    assert 0 < house.cache.counts().vectors <= 90
    assert house.cache.leases.has_pending("vectors") is hurried
    house.drain()
    assert house.picture() == house.scratch_picture()


def test_an_interrupted_embedding_goes_on_where_it_was(house):
    house.write("a.md", "\n\n".join(f"## Part {n}\n\nLetter {n}." for n in range(70)))
    house.reconcile()
    index_words(house.cache, house.ingest)
    embed_pending(house.cache, house.ingest, lambda: True)
    done = set(house.embedder.texts)
    house.cache.close()
    house.cache = house.open("cache-vault.1.db")
    assert not done & set(house.drain())


@pytest.mark.of_sqlite
def test_a_text_that_a_sibling_cache_has_is_not_embedded_again(house):
    house.save("a.md", TWENTY)
    house.siblings = [house.cache.path]
    house.cache = house.open("cache-other.1.db")
    assert house.index() == []
    assert house.cache.counts().vectors == 20


@pytest.mark.of_sqlite
@pytest.mark.parametrize("way", ["save", "index"])
def test_a_siblings_damaged_vector_is_computed_here(house, way):
    house.save("a.md", TWENTY)
    house.cache.con.execute("UPDATE vault_vector SET embedding = zeroblob(length(embedding))")
    house.siblings = [house.cache.path]
    house.cache = house.open("cache-other.1.db")
    if way == "save":
        house.save("a.md", TWENTY)
    else:
        house.index()
    assert len(house.embedder.texts) == 2 * 20
    assert house.cache.counts().vectors == 20


@pytest.mark.of_sqlite
def test_a_siblings_vectors_of_another_model_are_not_taken(house):
    house.save("a.md", "Bread and yeast.")
    house.cache.con.execute("UPDATE vault_meta SET value = 'another' WHERE key = 'model'")
    house.siblings = [house.cache.path]
    house.cache = house.open("cache-other.1.db")
    assert len(house.index()) == 1


def test_a_slow_job_never_overwrites_a_newer_one(house):
    house.write("a.md", "The old words.")
    house.notice("a.md")
    (slow,) = house.cache.leases.take("words", 1, "slow worker")
    house.now += 1000  # its lease runs out
    house.save("a.md", "The new words.")
    with pytest.raises(StaleWorkError):
        house.cache.park(slow, "too-late", "another worker has it by now")
    assert "new" in house.picture()["chunks"][0][4]


def test_a_note_that_changed_after_its_event_is_indexed_as_it_is_on_disk(house):
    house.write("a.md", "First words.")
    house.notice("a.md")
    house.write("a.md", "Second words, which no event has named yet.")
    index_words(house.cache, house.ingest)
    assert "Second" in house.picture()["chunks"][0][4]
    assert house.notice("a.md").events == []  # and the event that comes late changes nothing


def test_a_note_reverted_while_it_is_indexed_is_not_lost(house):
    house.save("a.md", "One.")
    house.write("a.md", "Two.")
    house.notice("a.md")
    house.write("a.md", "One.")
    house.drain()
    house.notice("a.md")
    house.drain()
    assert house.picture() == house.scratch_picture()


def test_a_file_that_vanishes_between_event_and_read_is_removed(house):
    house.save("a.md", "Here.")
    house.write("a.md", "Still here.")
    house.notice("a.md")
    (house.root / "a.md").unlink()
    house.drain()
    assert house.picture() == house.scratch_picture()
    assert house.cache.counts().notes == 0


class KeepAll:
    """A brake that lets nothing go."""

    def release(self, _slug, _vanished, _known, _looked):
        return Release(frozenset(), held=1)


def test_a_note_that_the_brake_keeps_stays_indexed_though_its_worker_finds_no_file(house, tmp_path):
    house.save("a.md", "Here.")
    indexed = house.picture()
    house.write("a.md", "Here, and changed.")
    house.notice("a.md")
    (house.root / "a.md").rename(tmp_path / "a.md")
    ingest = replace(house.ingest, brake=KeepAll())
    index_saved(house.cache, ingest)
    assert house.picture() == indexed
    assert house.cache.counts().pending == 0
    (tmp_path / "a.md").rename(house.root / "a.md")
    house.index()
    assert house.picture() == house.scratch_picture()


def test_a_note_that_was_never_indexed_is_forgotten_when_its_worker_misses_it(house):
    house.write("a.md", "Never seen.")
    house.notice("a.md")
    (house.root / "a.md").unlink()
    index_saved(house.cache, replace(house.ingest, brake=KeepAll()))
    house.drain()
    assert house.picture() == house.scratch_picture()


def test_a_vault_that_vanishes_is_not_a_vault_that_was_emptied(house, tmp_path):
    house.save("a.md", "Kept.")
    house.write("a.md", "Changed.")
    house.notice("a.md")
    house.root.rename(tmp_path / "elsewhere")
    house.root.mkdir()
    with pytest.raises(VaultNotFoundError, match="kept until it is back"):
        index_words(house.cache, house.ingest)
    assert house.cache.counts().notes == 1
    house.root.rmdir()
    (tmp_path / "elsewhere").rename(house.root)
    house.drain()
    assert house.picture() == house.scratch_picture()


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [(b"x" * 2_000_000, "too-large", "it has 2.0 MB"), (None, "not-a-file", "it is not a regular file")],
    ids=["too large", "a FIFO"],
)
def test_what_cannot_be_indexed_is_parked_with_its_reason_and_nothing_else_is_lost(house, data, kind, reason):
    if data is None:
        os.mkfifo(house.root / "bad.md")
    else:
        house.write("bad.md", data)
    house.write("good.md", "Findable.")
    house.index()
    (row,) = house.parked()
    assert (row[0], row[1]) == ("bad.md", kind)
    assert row[2].startswith(reason), "the path is beside the reason, not in it"
    assert house.cache.counts().notes == 1


def test_a_parked_note_is_taken_up_when_its_content_changes(house):
    house.save("a.md", b"x" * 2_000_000)
    assert house.cache.counts().parked == 1
    house.save("a.md", "Short now.")
    assert (house.cache.counts().parked, house.cache.counts().notes) == (0, 1)


def test_a_parked_note_is_not_tried_again_while_it_stays_as_it_is(house):
    house.save("a.md", b"x" * 2_000_000)
    assert house.reconcile().events == []
    assert not house.cache.leases.has_pending("words")


def test_a_note_that_grows_too_large_leaves_the_index(house):
    house.save("a.md", "Words.")
    house.save("a.md", b"x" * 2_000_000)
    assert house.picture() == house.scratch_picture()
    assert house.cache.counts().notes == 0


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe broken utf-8 \x80",
        b"before\0after",
        b"---\na: [unclosed\n---\nText after it.",
        b"---\n" + b"a: &x [*x]\n" * 3 + b"---\nText.",
        b"no heading at all",
        b"\r\n".join([b"# Title", b"", b"CRLF line ends."]),
        "文字化け — 🙂 «quotes»".encode(),
        b"# T\n\n" + b"word " * 60_000,
    ],
    ids=["empty", "not utf-8", "NUL", "broken yaml", "yaml bomb", "bare", "crlf", "unicode", "300 KB"],
)
def test_any_text_is_indexed(house, text):
    house.save("a.md", text)
    house.drain()
    assert (house.cache.counts().notes, house.cache.counts().parked) == (1, 0)


@pytest.mark.parametrize(
    "name", ["emoji 🌱.md", 'it\'s "quoted".md', "数据/笔记.md", "a\nb.md", "UPPER.MD", "x.markdown"]
)
def test_any_name_is_indexed_and_searched_by_it(house, name):
    house.save(name, "Words.")
    assert [row[0] for row in house.picture()["files"]] == [name]
    assert house.cache.counts().pending == 0


def test_a_note_without_text_is_embedded_by_its_names_until_it_has_text(house):
    house.save("a.md", "---\ntags: [x1y]\naliases: [b]\n---\n\n  \n")
    assert (house.cache.counts().notes, house.cache.counts().chunks) == (1, 1)
    assert house.cache.counts().vectors_pending == 0
    house.save("a.md", "---\ntags: [x1y]\n---\n\n  Compost.\n")
    assert house.embedder.texts == ["a\nb", "Compost."]
    assert house.picture() == house.scratch_picture()


@pytest.mark.of_sqlite
def test_an_index_without_chunks_of_empty_notes_answers_and_reports_pending_work_until_it_is_filled_in(house):
    house.save("empty.md", "")
    house.save("full.md", "Compost.")
    with house.cache.con:
        house.cache.chunks.remove_all("empty.md")
        house.cache.con.execute("DELETE FROM vault_vector WHERE unused_since IS NOT NULL")
        house.cache.con.execute(
            "UPDATE vault_meta SET value = '3' || substr(value, 2) WHERE key = 'pipeline'"
        )
    house.cache.close()
    house.cache = house.open("cache-vault.1.db")
    assert (house.cache.counts().chunks, house.cache.counts().vectors, house.cache.counts().pending) == (
        1,
        1,
        2,
    )
    assert house.drain() == ["empty"]
    assert house.picture() == house.scratch_picture()


def test_a_bad_vector_parks_its_note_alone_and_keeps_its_words(house):
    class BadForYeast:
        def encode_documents(self, texts):
            good = house.embedder.encode_documents(texts)
            for index, text in enumerate(texts):
                if "yeast" in text:
                    good[index] = np.nan
            return good

    ingest = house.ingest
    object.__setattr__(ingest, "encoder", BadForYeast)
    for n in range(6):
        house.write(f"{n}.md", "Bread with yeast." if n == 3 else f"Sleep, night {n}.")
    house.reconcile()
    for _ in range(200):
        (index_words if house.cache.leases.has_pending("words") else embed_pending)(house.cache, ingest)
        house.now += 5
    counts = house.cache.counts()
    assert (counts.vectors, counts.vectors_pending, counts.parked) == (5, 0, 1)
    assert house.parked()[0][:2] == ("3.md", "bad-vector")


def test_a_model_that_breaks_parks_no_note_and_words_are_found_meanwhile(house):
    class Broken:
        def encode_documents(self, _):
            raise ModelUnavailableError("not finite")

    broken = replace(house.ingest, encoder=Broken)
    house.write("a.md", "Bread with yeast.")
    house.write("b.md", "Sleep, a night.")
    house.reconcile()
    house.notice("b.md")
    index_saved(house.cache, broken)
    index_words(house.cache, broken)
    for _ in range(2 * MAX_ATTEMPTS):
        with pytest.raises(ModelUnavailableError):
            embed_pending(house.cache, broken)
    counts = house.cache.counts()
    assert (counts.notes, counts.vectors, counts.vectors_pending, counts.parked) == (2, 0, 2, 0)
    embed_pending(house.cache, house.ingest)
    assert house.cache.counts().vectors == 2


def test_a_row_that_failed_before_is_leased_alone(house):
    for n in range(4):
        house.write(f"{n}.md", f"Note {n}.")
    house.reconcile()
    first = house.cache.leases.take("words", 10, "a worker that dies")
    assert len(first) == 4
    house.now += 1000
    again = house.cache.leases.take("words", 10, "another worker")
    assert [row.attempts for row in again] == [2]


def test_a_note_that_kills_its_worker_is_parked_alone_after_three_attempts(house):
    for n in range(5):
        house.write(f"{n}.md", f"Note {n}.")
    house.reconcile()

    def dies_on_3(rows) -> bool:
        return any(row.path == "3.md" and row.attempts <= MAX_ATTEMPTS for row in rows)

    deaths = 0
    while house.cache.counts().pending:
        rows = house.cache.leases.take("words", 10, "a worker")
        if dies_on_3(rows):
            deaths += 1  # nothing is released, nothing is said
        else:
            house.cache.leases.release(rows)
            index_words(house.cache, house.ingest)
        house.cache.leases.free_those_of_the_dead(lambda _: False)
    assert deaths == MAX_ATTEMPTS
    (row,) = house.parked()
    assert row[:2] == ("3.md", "crash")
    assert row[2].startswith("it ended its worker 3 times")
    assert house.cache.counts().notes == 4


def test_a_note_whose_embedding_kills_its_worker_is_parked_alone_and_keeps_its_words(house):
    for n in range(5):
        house.write(f"{n}.md", f"Note {n}.")
    house.reconcile()
    while house.cache.leases.has_pending("words"):
        index_words(house.cache, house.ingest)
    deaths = 0
    while house.cache.counts().vectors_pending:
        rows = house.cache.leases.take("vectors", 10, "a worker")
        if any(row.path == "3.md" and row.attempts <= MAX_ATTEMPTS for row in rows):
            deaths += 1  # nothing is released, nothing is said
        else:
            house.cache.leases.release(rows)
            embed_pending(house.cache, house.ingest)
        house.cache.leases.free_those_of_the_dead(lambda _: False)
    assert deaths == MAX_ATTEMPTS
    ((path, kind, _),) = house.parked()
    assert (path, kind, house.cache.counts().notes) == ("3.md", "crash", 4)
    assert not any("Note 3." in text for text in house.embedder.texts)
    words = [row[4] for row in house.picture()["chunks"]]
    assert "Note 3." in words


def test_the_leases_of_the_living_stay(house):
    house.write("a.md", "Note.")
    house.reconcile()
    house.cache.leases.take("words", 10, "me")
    house.cache.leases.free_those_of_the_dead(lambda owner: owner == "me")
    assert not house.cache.leases.has_pending("words")


def test_saved_paths_without_pending_work_cost_nothing(house):
    house.save("a.md", "Same.")
    outcome = index_saved(house.cache, house.ingest)
    assert outcome.touched == 0


def test_another_way_of_cutting_rechunks_and_embeds_only_new_texts(house):
    long = "# T\n\n" + " ".join(f"river boat sail {n}" for n in range(100))
    house.save("short.md", "Sleep and dream.")
    house.save("long.md", long)
    house.drain()
    house.cache.close()
    house.chunking = type(house.chunking)(60, 5, house.chunking.max_chars)
    house.cache = house.open("cache-vault.1.db")
    assert house.cache.counts().pending == 2
    texts = house.drain()
    assert texts
    assert not any("Sleep" in text for text in texts)
    assert house.picture() == house.scratch_picture()


def test_another_way_of_cutting_keeps_notes_whose_deletion_is_held_and_cuts_them_when_they_are_back(house):
    class HoldsAll:
        def release(self, _slug, vanished, _known, _looked):
            return Release(frozenset(), held=len(vanished))

    text = " ".join(f"river boat sail {n}" for n in range(100))
    file = house.write("held.md", text)
    house.index()
    file.rename(house.root.parent / "away.md")
    before = house.picture()["chunks"]
    house.cache.close()
    house.chunking = type(house.chunking)(60, 5, house.chunking.max_chars)
    house.cache = house.open("cache-vault.1.db")
    index_words(house.cache, replace(house.ingest, brake=HoldsAll()))
    assert (house.picture()["chunks"], house.cache.counts().pending) == (before, 0)
    (house.root.parent / "away.md").rename(file)
    house.index()
    assert house.picture()["chunks"] != before
    assert house.picture() == house.scratch_picture()


def test_a_cache_of_another_model_is_refused_with_the_way_out(house):
    from pipelines.cache.schema import CacheMeta
    from pipelines.errors import ModelMismatchError

    with pytest.raises(ModelMismatchError, match="everindex reembed"):
        SqliteCache.create(house.cache.path, CacheMeta("another-model", 32, house.cache.meta.pipeline))


def test_the_newest_note_of_a_bulk_change_is_indexed_first(house):
    for n in range(100):
        file = house.write(f"{n:03}.md", f"Note {n}.")
        os.utime(file, ns=(n, n))
    house.write("zz saved just now.md", "The newest.")
    house.reconcile()
    index_words(house.cache, house.ingest)
    assert house.cache.ledger.row("zz saved just now.md").indexed_hash
    assert house.cache.ledger.row("099.md").indexed_hash
    assert house.cache.ledger.row("000.md").indexed_hash is None


def test_a_save_does_not_wait_for_a_model_that_is_being_loaded(house):
    house.write("a.md", "Compost for the tomato.")
    house.notice("a.md")
    loading = replace(house.ingest, encoder_ready=lambda: False)
    outcome = index_saved(house.cache, loading)
    counts = house.cache.counts()
    assert (outcome.committed, outcome.embedded_texts, counts.pending, counts.vectors_pending) == (1, 0, 0, 1)
    house.drain()
    assert house.picture() == house.scratch_picture()
