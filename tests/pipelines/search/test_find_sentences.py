from dataclasses import replace

import numpy as np
import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.errors import BadVectorError, ModelUnavailableError
from pipelines.search.excerpts import split_sentences
from pipelines.search.find import BUDGET_SECONDS, SentenceVectors, prepare


class Encoder:
    """Gives each text a unit vector by its length, takes a second for each text, and records the texts."""

    def __init__(self):
        self.asked = []
        self.now = 0.0

    def __call__(self, texts):
        self.asked += texts
        self.now += len(texts)
        angles = np.array([len(text) / 10 for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def clock(self):
        return self.now


@pytest.fixture
def encoder():
    return Encoder()


QUESTION = np.array([1.0, 0.0], np.float32)


def test_sentences_are_compared_with_the_question(encoder):
    similar = SentenceVectors(encoder, encoder.clock).similarities(QUESTION)
    assert similar(["a", "abc"], None) == pytest.approx([np.cos(0.1), np.cos(0.3)], abs=1e-3)


def test_a_sentence_is_encoded_once(encoder):
    vectors = SentenceVectors(encoder, encoder.clock)
    vectors.similarities(QUESTION)(["a", "b", "a"], None)
    assert len(vectors.similarities(QUESTION)(["a", "b"], None)) == 2
    assert encoder.asked == ["a", "b"]


def test_past_the_budget_only_known_sentences_are_compared(encoder):
    vectors = SentenceVectors(encoder, encoder.clock)
    similar = vectors.similarities(QUESTION)
    similar(["a"], None)
    assert encoder.now > BUDGET_SECONDS
    assert similar(["b"], None) is None
    assert len(similar(["a"], None)) == 1
    assert encoder.asked == ["a"]


@pytest.mark.parametrize("error", [BadVectorError, ModelUnavailableError])
def test_sentences_without_vectors_are_not_compared(error):
    def fail(_):
        raise error("not finite")

    assert SentenceVectors(fail).similarities(QUESTION)(["a"], None) is None


def test_no_sentence_has_no_similarity(encoder):
    assert SentenceVectors(encoder, encoder.clock).similarities(QUESTION)([], None) == []


# Prepared ones

NOTE = "Compost feeds the soil. A boat sails the river. Bread wants flour and time."


@pytest.fixture
def encode(house):
    return house.embedder._embedder.encode_queries


def prepare_all(house, encode):
    return prepare(house.cache, encode, lambda: False)


def chunk(house, path):
    (found,) = house.cache.passages.chunks_of(path)
    return found


def never(_):
    raise AssertionError("a prepared sentence was encoded")


def test_prepared_sentences_are_as_similar_as_encoded_ones_and_cost_nothing(house, encode):
    house.save("a.md", NOTE)
    assert prepare_all(house, encode) == 3
    row = chunk(house, "a.md")
    sentences = [s.text for s in split_sentences(row.text)]
    question = encode(["the river"])[0]
    quantized = house.cache.passages.quantized_of_chunks([row.chunk_id])[row.chunk_id]
    made = SentenceVectors(encode).similarities(question)(sentences, None)
    assert SentenceVectors(never).similarities(question)(sentences, quantized) == pytest.approx(
        made, abs=0.01
    )


def test_another_version_splits_and_prepares_every_text_again(house, encode):
    house.save("a.md", NOTE)
    assert prepare_all(house, encode) == 3
    SqliteCache.create(house.cache.path, replace(house.cache.meta, pipeline="another")).close()
    assert house.cache.passages.pending_sentences(1)
    assert prepare_all(house, encode) == 3


def test_only_what_is_new_is_prepared(house, encode):
    house.save("a.md", NOTE)
    house.save("b.md", "Sleep comes at night.")
    assert prepare_all(house, encode) == 4
    assert not house.cache.passages.pending_sentences(1)
    house.save("b.md", "Sleep comes in winter.")
    (house.root / "a.md").rename(house.root / "c.md")
    house.index()
    assert list(house.cache.passages.pending_sentences(10).values()) == ["Sleep comes in winter."]
    assert prepare_all(house, encode) == 1
    assert chunk(house, "c.md").chunk_id in house.cache.passages.quantized_of_chunks(
        [chunk(house, "c.md").chunk_id]
    )


def test_it_stops_when_it_is_enough_and_goes_on_later(house, encode):
    for n in range(20):
        house.save(f"{n}.md", f"Letter number {n}.")
    begun = prepare(house.cache, encode, lambda: True)
    assert 0 < begun < 20
    assert begun + prepare_all(house, encode) == 20


def test_a_text_whose_sentences_give_no_vectors_is_not_tried_for_ever(house):
    def bad(_):
        raise BadVectorError("zero")

    house.save("a.md", NOTE)
    prepare_all(house, bad)
    assert not house.cache.passages.pending_sentences(1)
    row = chunk(house, "a.md")
    quantized = house.cache.passages.quantized_of_chunks([row.chunk_id])[row.chunk_id]
    assert SentenceVectors(Encoder()).similarities(QUESTION)(["a"], quantized) == pytest.approx(
        [np.cos(0.1)], abs=1e-3
    )


def test_codes_of_another_dimension_are_not_used(house, encode):
    house.save("a.md", NOTE)
    prepare_all(house, encode)
    ((text_hash,),) = house.cache.con.execute("SELECT text_hash FROM vault_sentence").fetchall()
    house.cache.passages.keep_quantized({text_hash: np.ones((3, 31), np.int8)})
    assert house.cache.passages.quantized_of_chunks([chunk(house, "a.md").chunk_id]) == {}


def test_what_is_prepared_goes_with_the_vector(house, encode):
    house.save("a.md", NOTE)
    prepare_all(house, encode)
    house.cache.con.execute("DELETE FROM vault_vector")
    assert house.cache.con.execute("SELECT count(*) FROM vault_sentence").fetchone() == (0,)
