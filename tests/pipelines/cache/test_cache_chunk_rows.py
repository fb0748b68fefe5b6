"""The rows of a note's chunks, and what is left of them when others are lost."""

import numpy as np

from pipelines.model import Chunk
from pipelines.notes.markdown import parse_note

ON_BOTH_STORES = True


def put(cache, word, heading):
    """Write a note that has this word, in a chunk below a heading."""
    note = parse_note("a.md", "---\ntitle: T\n---\n")
    cache.chunks.replace(
        note, [Chunk(word, f"hash of {word}", "", (heading,), 0, 0, 1, 1, 1)], reworded=False
    )


def test_a_vector_that_is_lost_is_pending_again_by_a_chunk_below_another_heading(cache):
    put(cache, "one", "Winter")
    cache.vectors.store({"hash of one": np.ones(cache.meta.dimension, np.float32)})
    cache.chunks.attach_vectors("a.md")
    cache.con.execute("DELETE FROM vault_vector")
    put(cache, "one", "Summer")
    assert cache.con.execute("SELECT has_vector FROM vault_chunk").fetchall() == [(0,)]
    assert cache.vectors.pending_texts("a.md", 9) == {"hash of one": "one"}
