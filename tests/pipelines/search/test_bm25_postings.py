"""Words in memory give FTS5's scores, whatever was saved, renamed and deleted, and whenever a reader first asks."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.cache.cache import SqliteCache
from pipelines.cache.search import SqliteSearch
from pipelines.indexing.ingest import index_words
from pipelines.question import read_question
from pipelines.search import bm25 as module
from pipelines.search.bm25 import WordPostings, _best
from tests.pipelines.conftest import House

QUERIES = [
    "garden",
    "Garden soil",
    "garden garden soil",
    "the",
    '"garden soil"',
    "garden -river",
    'boat -"river boat"',
    "getUserById",
    "well-read boats",
    "机器学习 river",
    "café",
    "nothing of it",
]
TEXTS = [
    "The garden soil. The garden.",
    "# Boat\n\nThe river boat.\n\n## Sail\n\nA boat, and a garden.",
    "# Garden soil\n\nWell read: getUserById.",
    "# River\n\n机器学习 in a café.\n\n## Garden\n\nThe well-read user.",
    "# Boat\n\nThe river boat.\n\n## Sail\n\nA boat, and soil.",
    "",
]


def agree(words, cache, query, depth=60, only=None):
    wanted = read_question(query).wanted
    with cache.snapshot():
        ours = words.look_up(cache, wanted).scores().best(depth, only)
        theirs = cache.search.matching(wanted, depth, only)
    assert dict(ours) == pytest.approx(dict(theirs), rel=1e-6)
    assert [score for _, score in ours] == sorted((score for _, score in ours), reverse=True)


@pytest.fixture
def words():
    return WordPostings()


def write_many(house, count):
    chance = np.random.default_rng(count)
    for n in range(count):
        house.write(f"{n}.md", f"{chance.choice(TEXTS)}\n\n{n} {n % 7}.")
    house.index()


def test_they_find_what_fts5_finds(house, words):
    write_many(house, 60)
    words.follow(house.cache)
    for query in QUERIES:
        agree(words, house.cache, query)
        agree(words, house.cache, query, depth=3)


def test_only_some_chunks_can_be_asked(house, words):
    write_many(house, 40)
    words.follow(house.cache)
    some = sorted(house.cache.search.chunks_with_vectors(None))[::3]
    for query in QUERIES:
        agree(words, house.cache, query, only=some)
        agree(words, house.cache, query, only=[*some, 10_000])
        agree(words, house.cache, query, only=[])


steps = st.one_of(
    st.tuples(st.just("save"), st.integers(0, 4), st.sampled_from(TEXTS)),
    st.tuples(st.just("delete"), st.integers(0, 4)),
    st.tuples(st.just("follow")),
    st.tuples(st.just("ask"), st.sampled_from(QUERIES)),
)


@settings(max_examples=40)
@given(st.lists(steps, max_size=25))
def test_whatever_happens_they_agree_with_fts5(tiny_embedder, history):
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "vault").mkdir()
        (base / "state").mkdir()
        house, words = House(base / "vault", base / "state", tiny_embedder), WordPostings()
        words.follow(house.cache)
        for what, *how in [*history, *(("ask", query) for query in QUERIES)]:
            if what == "save":
                house.save(f"{how[0]}.md", how[1])
            elif what == "delete":
                (house.root / f"{how[0]}.md").unlink(missing_ok=True)
                house.index()
            elif what == "follow":
                words.follow(house.cache)
            else:
                agree(words, house.cache, *how)
        house.cache.close()


def test_a_save_is_found_before_anyone_followed_it(house, words):
    write_many(house, 20)
    words.follow(house.cache)
    house.save("3.md", "A walrus.")
    assert len(words.look_up(house.cache, read_question("walrus").wanted).scores().best(5)) == 1


def test_only_the_end_of_a_list_is_read_again(house, words, monkeypatch):
    write_many(house, 20)
    words.follow(house.cache)
    agree(words, house.cache, "garden")
    newest = house.cache.search.newest_chunk()
    read = []
    occurrences = SqliteSearch.occurrences
    monkeypatch.setattr(
        SqliteSearch, "occurrences", lambda *asked: read.append(asked[1:]) or occurrences(*asked)
    )
    agree(words, house.cache, "garden")
    house.save("3.md", "A garden.")
    agree(words, house.cache, "garden")
    assert read == [("garden", newest)]


def test_a_note_with_another_title_is_found_by_it_and_keeps_its_vectors(house, words):
    house.save("a.md", "# Boat\n\nThe garden.\n\n## Sail\n\nThe river.")
    words.follow(house.cache)
    agree(words, house.cache, "boat walrus")
    house.write("a.md", "# Walrus\n\nThe garden.\n\n## Sail\n\nThe river.")
    house.reconcile()
    index_words(house.cache, house.ingest)
    agree(words, house.cache, "boat walrus")
    # The heading is a part of the first passage, so that one is new; the second one is unchanged.
    assert house.cache.counts().vectors == 1
    assert len(house.drain()) == 1


def test_unknown_changes_make_it_start_over(house, words):
    write_many(house, 20)
    words.follow(house.cache)
    agree(words, house.cache, "garden")
    for n in range(5):
        (house.root / f"{n}.md").unlink()
    house.save("21.md", "A garden.")
    house.index()
    house.cache.con.execute(
        "DELETE FROM vault_chunk_change WHERE number < (SELECT max(number) FROM vault_chunk_change)"
    )
    words.follow(house.cache)
    for query in QUERIES:
        agree(words, house.cache, query)
    assert len(words) == house.cache.counts().chunks


def test_a_question_finds_changes_that_the_journal_no_longer_has(house, words):
    write_many(house, 20)
    words.follow(house.cache)
    agree(words, house.cache, "garden")
    for n in range(5):
        (house.root / f"{n}.md").unlink()
    house.save("21.md", "A garden.")
    house.index()
    house.cache.con.execute(
        "DELETE FROM vault_chunk_change WHERE number < (SELECT max(number) FROM vault_chunk_change)"
    )
    agree(words, house.cache, "garden")


@pytest.mark.parametrize("look", ["follow", "compare"])
def test_a_journal_that_lost_its_end_is_not_taken_for_an_older_moment(house, words, look):
    write_many(house, 20)
    words.follow(house.cache)
    (house.root / "3.md").unlink()
    house.index()
    house.cache.con.execute("DELETE FROM vault_chunk_change")
    if look == "follow":
        words.follow(house.cache)
    else:
        assert words.compare(house.cache, 0, 2**62, 100).differing == 0
    assert len(words) == house.cache.counts().chunks


def test_what_is_committed_while_common_words_are_read_is_not_lost(house, words, monkeypatch):
    write_many(house, 20)
    common = module._common_words

    def interrupted(*asked):
        found = common(*asked)
        house.save("21.md", "The garden of a boat.")
        (house.root / "3.md").unlink()
        house.save("4.md", "# Garden and boat\n\nThe soil.")
        house.index()
        return found

    monkeypatch.setattr(module, "_common_words", interrupted)
    while not words.follow(house.cache):
        pass
    words.follow(house.cache)
    assert "garden" in words._postings
    for query in QUERIES:
        agree(words, house.cache, query)


# What a process that indexes does to a note: saves with other words and titles, deletions, moves.
edits = st.lists(
    st.tuples(
        st.sampled_from(["save", "retitle", "delete", "move"]), st.integers(0, 30), st.sampled_from(TEXTS)
    ),
    min_size=10,
    max_size=30,
)


def apply(house, edit):
    what, number, text = edit
    file = house.root / f"{number}.md"
    if what == "save":
        file.write_text(text)
    elif what == "retitle":
        file.write_text(f"---\naliases: [Walrus {number}]\n---\n# Boat {len(text)}\n\n{text}")
    elif what == "delete":
        file.unlink(missing_ok=True)
    elif file.exists():
        file.rename(house.root / f"{number + 1}.md")
    house.index()


@settings(max_examples=8)
@given(st.lists(edits, min_size=2, max_size=2))
def test_memory_equals_fts5_whatever_is_committed_by_others_meanwhile(tiny_embedder, histories):
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "vault").mkdir()
        (base / "state").mkdir()
        house, words, stop = House(base / "vault", base / "state", tiny_embedder), WordPostings(), Event()
        write_many(house, 30)
        house.cache.close()

        def write(history):
            house.cache = house.open("cache-vault.1.db")
            for edit in history:
                apply(house, edit)
            house.cache.close()

        def ask():
            cache = SqliteCache.open(base / "state" / "cache-vault.1.db")
            while not stop.is_set():
                with cache.snapshot():
                    for query in QUERIES:
                        words.look_up(cache, read_question(query).wanted).scores()
            cache.close()

        with (
            ThreadPoolExecutor(3) as pool,
            closing(SqliteCache.open(base / "state" / "cache-vault.1.db")) as reader,
        ):
            asker = pool.submit(ask)
            try:
                for history in histories:
                    writer = pool.submit(write, history)
                    while not writer.done():
                        words._sampled = 0  # as if it had grown: words are read ahead at each turn
                        words.follow(reader)
                    writer.result()
                    while not words.follow(reader):
                        pass
                    for query in QUERIES:
                        agree(words, reader, query)
                    assert words.compare(reader, 0, 2**62, 10_000).differing == 0
            finally:
                stop.set()
            asker.result()


def test_a_comparison_finds_what_memory_lacks_or_has_too_much(house, words):
    write_many(house, 40)
    while not words.follow(house.cache):
        pass
    assert words.compare(house.cache, 0, 2**62, 10_000).differing == 0
    checked = words.compare(house.cache, 0, 2**62, 3)
    assert (checked.checked, checked.differing) == (4, 0)
    whole = words._postings["garden"]
    words._postings["garden"] = replace(whole, rows=whole.rows[:-1], counts=whole.counts[:-1])
    assert words.compare(house.cache, 0, 2**62, 10_000).differing == 1
    words._postings["garden"] = replace(whole, counts=whole.counts + 1)
    assert words.compare(house.cache, 0, 2**62, 10_000).differing == 1
    words._postings["garden"] = whole
    chunks = words._chunks
    words._chunks = replace(chunks, lengths=chunks.lengths + 1)
    assert words.compare(house.cache, 0, 2**62, 0).differing == 1
    words._chunks = replace(chunks, there=np.zeros_like(chunks.there))
    assert words.compare(house.cache, 0, 2**62, 0).differing == 1


def test_a_comparison_looks_at_a_part_of_the_chunks_and_the_parts_are_all(house, words):
    write_many(house, 40)
    while not words.follow(house.cache):
        pass
    ends, after = [], 0
    while (end := words.window(after, 7)) is not None:
        assert np.count_nonzero((words._chunks.ids > after) & (words._chunks.ids <= end)) == 7
        ends.append(end)
        after = end
    assert len(ends) == (len(words) - 1) // 7
    last = words._postings["garden"]
    words._postings["garden"] = replace(last, rows=last.rows[:-1], counts=last.counts[:-1])
    missing = int(words._chunks.ids[last.rows[-1]])
    parts = [*zip([0, *ends], [*ends, 2**62], strict=True)]
    found = [words.compare(house.cache, a, b, 10_000).differing for a, b in parts]
    assert found == [int(a < missing <= b) for a, b in parts]


def test_who_asks_from_an_older_moment_hides_nothing_from_others(house, words):
    write_many(house, 20)
    words.follow(house.cache)
    old = SqliteCache.open(house.cache.path)
    with old.snapshot():
        found = words.look_up(old, read_question("walrus garden").wanted).scores().best(60)
        house.save("3.md", "A walrus in the garden.")
        (house.root / "4.md").unlink()
        house.index()
        words.follow(house.cache)
        assert words.look_up(old, read_question("walrus").wanted).scores().best(60) == []
        assert len(words.look_up(old, read_question("garden").wanted).scores().best(60)) <= len(found)
    old.close()
    agree(words, house.cache, "walrus")
    agree(words, house.cache, "garden")


def delete_most(house, words):
    """Follow forty notes, and the deletion of all but five."""
    write_many(house, 40)
    words.follow(house.cache)
    for n in range(5, 40):
        (house.root / f"{n}.md").unlink()
    house.index()
    words.follow(house.cache)


def test_what_many_deleted_is_let_go(house, words):
    delete_most(house, words)
    words.follow(house.cache)
    assert len(words._chunks.ids) == len(words) == house.cache.counts().chunks
    agree(words, house.cache, "garden")


def test_common_words_are_read_ahead(house, words):
    write_many(house, 40)
    while not words.follow(house.cache):
        pass
    assert words._postings.keys() >= {"garden", "boat"}
    assert "the" not in words._postings


def test_words_are_prefetched_again_after_it_started_over(house, words):
    delete_most(house, words)
    while not words.follow(house.cache):
        pass
    assert "garden" in words._postings


def test_however_much_is_asked_memory_is_bounded_and_the_answers_right(house, words, monkeypatch):
    monkeypatch.setattr("pipelines.search.bm25._MOST_POSTINGS", 1)
    write_many(house, 40)
    words.follow(house.cache)
    for query in QUERIES:
        agree(words, house.cache, query)
        held = sum(len(postings.rows) for postings in words._postings.values())
        assert held == words._held <= len(words)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 9), max_size=200), st.integers(1, 60))
def test_the_best_are_the_largest_scores_the_first_of_equal_ones(scores, count):
    found = _best(np.array(scores, np.float64), count).tolist()
    assert (
        found == sorted((n for n, score in enumerate(scores) if score), key=lambda n: (-scores[n], n))[:count]
    )
