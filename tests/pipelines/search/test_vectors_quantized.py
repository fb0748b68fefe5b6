"""Quantized vectors in memory name the same nearest chunks as the stored vectors do, and keep in step with them."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipelines.cache.cache import SqliteCache
from pipelines.cache.search import SqliteSearch
from pipelines.search.bm25 import Compared
from pipelines.search.vectors import QuantizedVectors, _best, _product


@pytest.fixture
def quantized(house):
    return QuantizedVectors(house.info.dimension)


def question(house, text):
    return house.embedder._embedder.encode_query(text)


def agree(house, quantized, text, depth, only=None):
    vector = question(house, text)
    ours = quantized.nearest(house.cache, vector, depth, only)
    theirs = house.cache.search.nearest(vector, depth, only)
    assert [cosine for _, cosine in ours] == pytest.approx([cosine for _, cosine in theirs], abs=1e-5)
    assert {chunk for chunk, _ in ours} == {chunk for chunk, _ in theirs}


WORDS = [
    "garden",
    "soil",
    "compost",
    "tomato",
    "river",
    "boat",
    "market",
    "bread",
    "flour",
    "sleep",
    "night",
    "winter",
]


def write_many(house, count):
    chance = np.random.default_rng(count)
    for n in range(count):
        house.write(f"{n}.md", " ".join(chance.choice(WORDS, 8)) + f" {n}.")
    house.index()


def test_they_find_what_a_scan_of_the_vectors_finds(house, quantized):
    write_many(house, 60)
    quantized.follow(house.cache)
    for text in WORDS:
        agree(house, quantized, text, 10)


def test_only_some_chunks_can_be_asked(house, quantized):
    write_many(house, 40)
    quantized.follow(house.cache)
    some = sorted(house.cache.search.chunks_with_vectors(None))[::3]
    agree(house, quantized, "bread", 10, some)
    assert quantized.nearest(house.cache, question(house, "bread"), 10, []) == []


def test_they_follow_what_is_saved_and_deleted(house, quantized):
    write_many(house, 20)
    quantized.follow(house.cache)
    house.save("3.md", "A boat on the river in winter.")
    (house.root / "4.md").unlink()
    house.index()
    quantized.follow(house.cache)
    assert len(quantized) == len(house.cache.search.chunks_with_vectors(None))
    for text in WORDS:
        agree(house, quantized, text, 5)


def test_only_what_changed_is_read_again(house, quantized, monkeypatch):
    write_many(house, 20)
    quantized.follow(house.cache)
    read = []
    monkeypatch.setattr(SqliteSearch, "chunks_with_vectors", lambda _, only: read.append(only) or set(only))
    quantized.follow(house.cache)
    house.save("3.md", "A boat on the river in winter.")
    quantized.follow(house.cache)
    assert [len(only) for only in read] == [0, 2]


def test_changes_that_are_no_longer_known_are_found_by_comparing_all(house, quantized):
    write_many(house, 20)
    quantized.follow(house.cache)
    house.save("3.md", "A boat on the river in winter.")
    house.save("21.md", "Bread and flour.")
    house.cache.con.execute(
        "DELETE FROM vault_chunk_change WHERE number < (SELECT max(number) FROM vault_chunk_change)"
    )
    quantized.follow(house.cache)
    for text in WORDS:
        agree(house, quantized, text, 5)


def test_a_comparison_finds_what_memory_lacks_has_too_much_or_has_otherwise(house, quantized):
    write_many(house, 20)
    quantized.follow(house.cache)
    assert quantized.compare(house.cache, 0, 2**62, 100) == Compared(21, 0)
    assert quantized.compare(house.cache, 0, 2**62, 3) == Compared(4, 0)
    chunk, row = next(iter(quantized._rows.items()))
    quantized._table.quantized[row, 0] += 1
    assert quantized.compare(house.cache, 0, 2**62, 100) == Compared(21, 1)
    quantized._table.quantized[row, 0] -= 1
    quantized._table.ids[row] = 999
    assert quantized.compare(house.cache, 0, 2**62, 100) == Compared(21, 1)
    assert quantized.compare(house.cache, chunk, 2**62, 100) == Compared(20, 0)
    del quantized._rows[chunk]
    assert quantized.compare(house.cache, 0, 2**62, 100) == Compared(20, 1)


def test_a_comparison_takes_in_what_was_committed_before_it(house, quantized):
    write_many(house, 20)
    quantized.follow(house.cache)
    house.save("3.md", "A boat on the river in winter.")
    (house.root / "4.md").unlink()
    house.index()
    assert quantized.compare(house.cache, 0, 2**62, 100).differing == 0


def test_quantized_vectors_equal_the_cache_whatever_is_committed_by_others_meanwhile(house, quantized):
    write_many(house, 20)
    reader, path = SqliteCache.open(house.cache.path), house.cache.path
    house.cache.close()

    def write():
        house.cache = house.open(path.name)
        for n in range(25):
            house.save(f"{n % 7}.md", f"{WORDS[n % 12]} {WORDS[n % 5]} {n}.")
            (house.root / f"{(n * 3) % 20}.md").unlink(missing_ok=True)
            house.index()
        house.cache.close()

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        while not writer.done():
            quantized.follow(reader)
            assert quantized.compare(reader, 0, 2**62, 100).differing == 0
        writer.result()
    quantized.follow(reader)
    assert quantized._rows.keys() == reader.search.chunks_with_vectors(None)
    reader.close()


def test_a_chunk_that_went_since_is_not_served(house, quantized):
    write_many(house, 5)
    quantized.follow(house.cache)
    (house.root / "0.md").unlink()
    house.index()
    served = quantized.nearest(house.cache, question(house, "bread"), 10)
    assert {chunk for chunk, _ in served} <= house.cache.search.chunks_with_vectors(None)


def test_rows_are_used_again_and_room_grows(house, quantized):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(3000, house.info.dimension)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    quantized._add(dict(enumerate(vectors)))
    assert len(quantized) == 3000
    for n in (0, 1500, 2999):
        assert n in quantized._candidates(vectors[n], 5, None)
    quantized.follow(house.cache)  # an empty cache: all of them are gone
    assert len(quantized) == 0
    assert quantized._candidates(vectors[0], 5, None) == []


def test_the_last_rows_are_compared_after_others_were_freed(house, quantized):
    assert quantized._candidates(question(house, "bread"), 10, None) == []
    write_many(house, 6)
    quantized.follow(house.cache)
    for n in (0, 2, 4):
        (house.root / f"{n}.md").unlink()
    house.index()
    quantized.follow(house.cache)
    left = house.cache.search.chunks_with_vectors(None)
    assert set(quantized._candidates(question(house, "bread"), 10, None)) == left


@given(
    st.lists(st.sampled_from([-np.inf, 0.0, 1.0]) | st.floats(-9, 9, width=32), min_size=1, max_size=400),
    st.data(),
)
def test_the_best_scores_are_the_largest_ones(scores, data):
    count = data.draw(st.integers(1, len(scores)))
    found = _best(np.array(scores, np.float32), count)
    assert len(set(found.tolist())) == count
    assert sorted(np.array(scores, np.float32)[found]) == sorted(np.array(scores, np.float32))[-count:]


BYTES = st.integers(-127, 127) | st.sampled_from([-127, 127])


@given(st.integers(1, 1_040), st.integers(1, 40), st.data())
def test_the_product_is_exact(dimension, rows, data):
    row = hnp.arrays(np.int8, dimension, elements=BYTES)
    matrix, question = data.draw(hnp.arrays(np.int8, (rows, dimension), elements=BYTES)), data.draw(row)
    exact = matrix.astype(np.int64) @ question.astype(np.int64)
    assert _product(matrix, question).tolist() == exact.tolist()


@pytest.mark.parametrize("dimension", [1, 31, 384, 1_040, 4_096])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_products_do_not_overflow(dimension, sign):
    matrix = np.full((3, dimension), sign * 127, np.int8)
    question = np.full(dimension, 127, np.int8)
    assert _product(matrix, question).tolist() == [np.float32(sign * 127 * 127 * dimension)] * 3


@pytest.mark.parametrize("dimension", [384, 4_096])
def test_this_machine_multiplies_bytes_as_it_should(dimension):
    assert QuantizedVectors(dimension).is_right()


def saturated(matrix, question):
    """The product with sums of two in 16 bits, the first factor unsigned: an instruction that does not fit."""
    pairs = (matrix.view(np.uint8).astype(np.int64) * question).reshape(len(matrix), -1, 2).sum(axis=2)
    return pairs.clip(-(2**15), 2**15 - 1).sum(axis=1).astype(np.float32)


def in_16_bits(matrix, question):
    """The product with sums in 16 bits that stay at the largest."""
    return _product(matrix, question).clip(-(2**15), 2**15 - 1)


@pytest.mark.parametrize(
    "wrong", [lambda matrix, _: np.zeros(len(matrix), np.float32), saturated, in_16_bits]
)
def test_a_machine_that_multiplies_bytes_otherwise_is_found(wrong, quantized, monkeypatch):
    monkeypatch.setattr("pipelines.search.vectors._product", wrong)
    assert not quantized.is_right()


def test_vectors_in_memory_need_no_torch():
    code = (
        "import sys; import numpy as np; from pipelines.search.vectors import QuantizedVectors;"
        "held = QuantizedVectors(4); assert held.is_right();"
        "held._add(dict(enumerate(np.eye(4, dtype=np.float32))));"
        "print(held._candidates(np.float32([0, 0, 1, 0]), 1, None), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[2] False\n"
