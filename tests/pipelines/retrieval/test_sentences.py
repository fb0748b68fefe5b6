import numpy as np
import pytest

from pipelines.retrieval.sentences import BUDGET_SECONDS, SentenceVectors


class Encoder:
    """Gives each text a unit vector by its length, takes a second for each text, and notes what it was asked."""

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
    assert similar(["a", "abc"]) == pytest.approx([np.cos(0.1), np.cos(0.3)], abs=1e-3)


def test_a_sentence_is_encoded_once(encoder):
    vectors = SentenceVectors(encoder, encoder.clock)
    vectors.similarities(QUESTION)(["a", "b", "a"])
    assert len(vectors.similarities(QUESTION)(["a", "b"])) == 2
    assert encoder.asked == ["a", "b"]


def test_past_the_budget_only_known_sentences_are_compared(encoder):
    vectors = SentenceVectors(encoder, encoder.clock)
    similar = vectors.similarities(QUESTION)
    similar(["a"])
    assert encoder.now > BUDGET_SECONDS
    assert similar(["b"]) is None
    assert len(similar(["a"])) == 1
    assert encoder.asked == ["a"]


def test_no_sentence_has_no_similarity(encoder):
    assert SentenceVectors(encoder, encoder.clock).similarities(QUESTION)([]) == []
