"""Passages get their vectors by a second model in the background; a question reads them, or leaves the order."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.errors import BadVectorError
from pipelines.search.find import by_pairs, by_vectors, no_opinion, prepare_second

MODEL = "another model"
QUESTION = np.array([1.0, 0.0, 0.0], np.float32)
NOTES = {"a.md": "Compost feeds the soil.", "b.md": "A boat sails the river.", "c.md": "Bread wants flour."}


class Second:
    """A model of three dimensions, by the first letter of a text; it records the texts."""

    def __init__(self):
        self.texts = []

    def __call__(self, texts):
        self.texts += texts
        angles = np.array([(ord(text[0]) - ord("A")) / 10 for text in texts])
        return np.stack([np.cos(angles), np.sin(angles), np.zeros(len(texts))], axis=1).astype(np.float32)


@pytest.fixture
def second():
    return Second()


@pytest.fixture
def notes(house):
    for path, text in NOTES.items():
        house.save(path, text)
    house.cache.second.want(MODEL)
    return house


def prepare_all(house, encode):
    return prepare_second(house.cache, MODEL, encode, lambda: False)


def chunk(house, path):
    (found,) = house.cache.passages.chunks_of(path)
    return found.chunk_id


def test_every_passage_is_encoded_once_and_compared_with_the_question(notes, second):
    assert prepare_all(notes, second) == 3
    assert sorted(second.texts) == sorted(NOTES.values())
    ids = [chunk(notes, path) for path in NOTES]
    found = by_vectors(notes.cache, MODEL, lambda: QUESTION).scores(ids)
    assert [found[one] for one in ids] == pytest.approx([np.cos(0.2), np.cos(0.0), np.cos(0.1)], abs=0.01)
    assert prepare_all(notes, second) == 0


def test_only_a_new_text_waits_and_until_then_there_is_no_opinion(notes, second):
    prepare_all(notes, second)
    notes.save("c.md", "Sleep comes in winter.")
    (notes.root / "a.md").rename(notes.root / "moved.md")
    notes.index()
    assert list(notes.cache.second.pending(9).values()) == ["Sleep comes in winter."]
    ids = [chunk(notes, path) for path in ("moved.md", "b.md", "c.md")]
    opinion = by_vectors(notes.cache, MODEL, lambda: QUESTION)
    assert opinion.scores(ids) is None
    assert "still get their vectors" in opinion.why
    assert opinion.scores(ids[:2])
    prepare_all(notes, second)
    assert opinion.scores(ids).keys() == set(ids)


def test_what_is_prepared_goes_with_the_texts_own_vector(notes, second):
    prepare_all(notes, second)
    notes.cache.con.execute("DELETE FROM vault_vector")
    assert notes.cache.con.execute("SELECT count(*) FROM vault_second").fetchone() == (0,)


def test_it_stops_when_it_is_enough_and_goes_on_later(notes, second):
    for n in range(20):
        notes.save(f"{n}.md", f"Letter number {n}.")
    begun = prepare_second(notes.cache, MODEL, second, lambda: True)
    assert 0 < begun < 23
    assert begun + prepare_all(notes, second) == 23


def test_a_text_without_a_vector_is_not_tried_for_ever_and_has_no_score(notes, second):
    def bad(_):
        raise BadVectorError("zero")

    prepare_all(notes, bad)
    notes.save("d.md", "Dreams.")
    prepare_all(notes, second)
    assert not notes.cache.second.pending(1)
    ids = [chunk(notes, path) for path in ("a.md", "d.md")]
    assert by_vectors(notes.cache, MODEL, lambda: QUESTION).scores(ids).keys() == {ids[1]}
    assert by_vectors(notes.cache, MODEL, lambda: QUESTION).scores(ids[:1]) == {}


def test_a_question_is_not_encoded_while_vectors_are_missing_and_one_without_a_vector_is_not_compared(
    notes, second
):
    def never():
        raise AssertionError("the question was encoded for nothing")

    ids = [chunk(notes, path) for path in NOTES]
    assert by_vectors(notes.cache, MODEL, never).scores(ids) is None
    prepare_all(notes, second)
    assert by_vectors(notes.cache, MODEL, lambda: None).scores(ids) is None


def test_a_cross_encoder_reads_the_passages_themselves(notes):
    ids = [chunk(notes, path) for path in NOTES]
    assert by_pairs(notes.cache, lambda texts: [float(len(text)) for text in texts]).scores(ids) == {
        one: float(len(text)) for one, text in zip(ids, NOTES.values(), strict=True)
    }
    assert by_pairs(notes.cache, lambda _: None).scores(ids) is None


def test_by_default_fifty_notes_are_compared_and_twenty_read():
    assert no_opinion("").depth == 50
    assert by_pairs(None, lambda _: None).depth == 20
