"""The piece of a passage that is nearest to a question."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.search.vectors import nearest_pieces, quantize

QUESTION = np.array([1.0, 0.0], np.float32)


def quantized(*angles):
    vectors = np.array([[np.cos(angle), np.sin(angle)] for angle in angles], np.float32)
    return quantize(vectors.reshape(-1, 2))[0]


def test_a_passage_is_as_near_as_its_nearest_sentence_or_itself():
    found = nearest_pieces(
        {1: 0.5, 2: 0.9, 3: 0.4},
        {1: quantized(2.0, 0.1, 1.0), 2: quantized(1.0), 3: quantized(1.5, 1.5)},
        QUESTION,
    )
    assert found == pytest.approx({1: np.cos(0.1), 2: 0.9, 3: 0.4}, abs=0.01)


def test_a_passage_whose_sentences_are_not_prepared_counts_as_a_whole():
    found = nearest_pieces({1: 0.5, 2: 0.3, 3: -0.2}, {1: quantized(0.0), 2: quantized()}, QUESTION)
    assert found == pytest.approx({1: 1.0, 2: 0.3, 3: -0.2}, abs=0.01)


def test_nothing_is_returned_while_no_sentence_is_prepared():
    assert nearest_pieces({1: 0.5}, {}, QUESTION) == {}
    assert nearest_pieces({1: 0.5}, {1: quantized()}, QUESTION) == {}
    assert nearest_pieces({}, {}, QUESTION) == {}


@given(st.dictionaries(st.integers(0, 9), st.lists(st.floats(-3, 3), max_size=4), max_size=8))
@settings(max_examples=50)
def test_pieces_of_many_passages_are_those_of_each_alone(angles):
    passages = dict.fromkeys(angles, 0.1)
    every = nearest_pieces(passages, {item: quantized(*own) for item, own in angles.items()}, QUESTION)
    alone = {
        item: nearest_pieces({item: 0.1}, {item: quantized(*own)}, QUESTION).get(item, 0.1)
        for item, own in angles.items()
    }
    assert every == pytest.approx(alone if any(angles.values()) else {})
