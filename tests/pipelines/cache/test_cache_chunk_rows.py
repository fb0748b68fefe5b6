"""The rows of a note's chunks: an edit touches only those whose words changed."""

import numpy as np

from pipelines.model import Chunk
from pipelines.notes.markdown import parse_note


def put(cache, *words, title="T", headings=(), reworded=False):
    """Write a note that has these words, a chunk each, below headings."""
    note = parse_note("a.md", f"---\ntitle: {title}\n---\n")
    chunks = [
        Chunk(word, f"hash of {word}", "", headings, n, n, n + 1, n + 1, n + 1)
        for n, word in enumerate(words)
    ]
    cache.chunks.replace(note, chunks, reworded=reworded)


def rows(cache):
    return cache.con.execute("SELECT id, text, has_vector FROM vault_chunk ORDER BY position").fetchall()


def found(cache, word):
    return [
        row_id
        for (row_id,) in cache.con.execute(
            "SELECT rowid FROM vault_chunk_fts WHERE vault_chunk_fts MATCH ?", (word,)
        )
    ]


def test_a_chunk_that_only_moves_keeps_its_row(cache):
    put(cache, "one", "two")
    kept, gone = (row_id for row_id, *_ in rows(cache))
    put(cache, "new", "one", "edited")
    assert [text for _, text, _ in rows(cache)] == ["new", "one", "edited"]
    assert rows(cache)[1][0] == kept
    assert gone not in [row_id for row_id, *_ in rows(cache)]
    assert (found(cache, "two"), found(cache, "one")) == ([], [kept])


def test_of_chunks_with_the_same_words_each_keeps_its_row_in_order(cache):
    put(cache, "same", "same")
    before = [row_id for row_id, *_ in rows(cache)]
    put(cache, "same", "same", "same")
    now = [row_id for row_id, *_ in rows(cache)]
    assert now[:2] == before
    assert len(set(now)) == 3


def test_vectors_are_attached_once_all_are_there(cache):
    put(cache, "one", "two")
    cache.vectors.store({"hash of one": np.ones(4, np.float32)})
    assert not cache.chunks.attach_vectors("a.md")
    cache.vectors.store({"hash of two": np.ones(4, np.float32)})
    assert cache.chunks.attach_vectors("a.md")
    assert [has_vector for *_, has_vector in rows(cache)] == [1, 1]


def test_a_reworded_note_has_new_rows_which_keep_the_vectors(cache):
    put(cache, "one")
    cache.vectors.store({"hash of one": np.ones(4, np.float32)})
    cache.chunks.attach_vectors("a.md")
    ((before, *_),) = rows(cache)
    put(cache, "one", title="Other", reworded=True)
    ((now, _, has_vector),) = rows(cache)
    assert (now != before, has_vector) == (True, 1)
    assert found(cache, "other") == [now]


def test_a_chunk_is_found_by_every_heading_above_it(cache):
    put(cache, "one", headings=("Winter", "Kitchen"))
    ((row_id, *_),) = rows(cache)
    assert (found(cache, "section: winter"), found(cache, "section: kitchen")) == ([row_id], [row_id])


def test_a_chunk_below_another_heading_has_a_new_row_which_keeps_its_vector(cache):
    put(cache, "one", headings=("Winter",))
    cache.vectors.store({"hash of one": np.ones(cache.meta.dimension, np.float32)})
    cache.chunks.attach_vectors("a.md")
    ((before, *_),) = rows(cache)
    put(cache, "one", "two", headings=("Summer",))
    (row_id, *_), _ = rows(cache)
    assert row_id != before
    assert rows(cache)[0][2] == 1
    assert (found(cache, "winter"), found(cache, "summer")[0]) == ([], row_id)


def test_a_vector_that_is_lost_is_owed_again_by_a_chunk_below_another_heading(cache):
    put(cache, "one", headings=("Winter",))
    cache.vectors.store({"hash of one": np.ones(cache.meta.dimension, np.float32)})
    cache.chunks.attach_vectors("a.md")
    cache.con.execute("DELETE FROM vault_vector")
    put(cache, "one", headings=("Summer",))
    assert [has_vector for *_, has_vector in rows(cache)] == [0]
    assert cache.vectors.owed_texts("a.md", 9) == {"hash of one": "one"}


def test_what_is_removed_leaves_no_row_to_search(cache):
    put(cache, "one", "two")
    cache.chunks.remove_all("a.md")
    assert (rows(cache), found(cache, "one"), found(cache, "two")) == ([], [], [])
