"""What can be read of a damaged cache's vectors is reused, and nothing that the damage changed."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.cache.cache import readable_vectors
from pipelines.sqlite import empty_journal

PAGE = 4096
TABLE_LEAF = 13


@pytest.fixture
def stored(house):
    """Return a cache's file, what it was built with, and its vectors by hash; they fill some pages."""
    house.save("a.md", "\n\n".join(f"## Part {n}\n\nLetter {n}." for n in range(70)))
    house.drain()
    hashes = [text_hash for (text_hash,) in house.cache.con.execute("SELECT text_hash FROM vault_vector")]
    vectors = house.cache.vectors.of(hashes)
    empty_journal(house.cache.con)
    house.cache.close()
    yield house.cache.path, house.cache.meta, vectors
    house.cache = house.open("cache-other.1.db")


def damage(file, vector, change):
    """Change a file wherever it has a vector, by a function of its bytes, the place and the size."""
    data = bytearray(file.read_bytes())
    blob = vector.tobytes()
    places = [at for at in range(len(data)) if data.startswith(blob, at)]
    for at in places:
        change(data, at, len(blob))
    file.write_bytes(data)


def test_the_vectors_of_sound_pages_are_returned(stored):
    file, meta, vectors = stored
    assert readable_vectors(file, meta, vectors).keys() == vectors.keys()

    def empty_its_page(data, at, _size):
        begin = at - at % PAGE
        if data[begin] == TABLE_LEAF:  # the root has remains of rows that are in leaves by now
            data[begin : begin + PAGE] = bytes(PAGE)

    damage(file, next(iter(vectors.values())), empty_its_page)
    found = readable_vectors(file, meta, vectors)
    assert 0 < len(found) < len(vectors)
    assert all(np.array_equal(found[text_hash], vectors[text_hash]) for text_hash in found)


def test_a_vector_that_lost_a_part_is_left_out(stored):
    file, meta, vectors = stored

    def clear_half(data, at, size):
        data[at : at + size // 2] = bytes(size // 2)

    spoiled = next(iter(vectors))
    damage(file, vectors[spoiled], clear_half)
    assert readable_vectors(file, meta, vectors).keys() == vectors.keys() - {spoiled}


def test_a_file_that_is_no_database_has_none(stored):
    file, meta, vectors = stored
    file.write_bytes(b"no database" * 1000)
    assert readable_vectors(file, meta, vectors) == {}
