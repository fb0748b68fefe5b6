"""Other names of what a question names are searched for, too, at less weight, in domains that say so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search.bm25 import WordPostings
from pipelines.search.names import MOST_OTHERS, NoteNames, equivalents, phrases_of
from pipelines.search.rank import Source, depth_for, rank_notes
from tests.pipelines.conftest import housed

NOW = datetime(2026, 11, 27, tzinfo=UTC)
OFF = Domain("vault", "", legacy=True, graph_mode="off")
ON = replace(OFF, vocabulary=0.3)
NOTES = {
    "roic.md": "---\ntitle: Return on invested capital\naliases: [ROCE]\n---\nA ratio.",
    "Firms.md": "Good firms have a high return on invested capital for decades.",
    "Sleep.md": "Deep sleep restores.",
    "Diary.md": "---\naliases: [ROIC, my secret debt]\n---\nNothing.",
    "Debt.md": "My secret debt grows.",
    "Many.md": f"---\naliases: [everything, {', '.join(f'thing {n}' for n in range(50))}]\n---\nNo more.",
    **{f"noise/{n}.md": f"On {n}: a high chair, a good decade." for n in range(9)},
}
TAGS = equivalents([("spaced-repetition", "SRS", "flash cards"), ("sleep", "rest"), ("rest", "remainder")])
HIDDEN = {"Diary.md"}


@pytest.fixture(scope="module")
def house(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("others"), tiny_embedder, NOTES) as house:
        yield house


def others(house, text, hidden=()):
    with house.cache.snapshot():
        return NoteNames().others(house.cache, text, TAGS, hidden)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("what is ROCE worth", ["Return on invested capital"]),
        ("the srs of today", ["spaced-repetition", "flash cards"]),
        ("Flash-cards!", ["spaced-repetition", "SRS"]),
        ("spaced repetition", ["SRS", "flash cards"]),
        ("rest", ["sleep", "remainder"]),  # two tags have this name
        ("return on invested capital", ["ROCE"]),  # the whole, and no part of it
        ("what is it about", []),
        ("", []),
    ],
)
def test_a_part_of_a_question_that_is_a_name_has_the_other_names(house, text, found):
    assert others(house, text, HIDDEN) == found


def test_a_hidden_notes_names_are_not_known(house):
    assert "my secret debt" in others(house, "roic")
    assert others(house, "roic", HIDDEN) == ["Return on invested capital", "ROCE"]


def test_names_are_bounded_in_number_and_a_long_question_in_its_parts(house):
    assert len(others(house, "everything")) == MOST_OTHERS
    assert len(list(phrases_of("word " * 10_000))) < 6 * 64
    assert others(house, "everything " * 10_000)[:2] == ["Many", "thing 0"]


def ranked(house, query, domain=ON, **given):
    source = Source(domain, house.cache, None, tags=lambda: TAGS, **given)
    return rank_notes(source, read_question(query), depth_for(10), NOW)


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_note_is_found_by_another_name_and_counts_less_than_one_with_the_word(house, in_memory):
    words = WordPostings() if in_memory else None
    if words:
        words.follow(house.cache)
    off = ranked(house, "roce", OFF, words=words)
    on = ranked(house, "roce", words=words)
    assert "Firms.md" not in {hit.path for hit in off.hits}
    scores = {hit.path: hit.scores["bm25"] for hit in on.hits if "bm25" in hit.scores}
    (whole,) = (
        hit.scores["bm25"]
        for hit in ranked(house, '"return on invested capital"', OFF, words=words).hits
        if hit.path == "Firms.md"
    )
    assert scores["Firms.md"] == pytest.approx(0.3 * whole)


def test_the_names_of_hidden_notes_add_nothing_to_an_answer(house):
    for hidden, there in (((), True), (HIDDEN, False)):
        found = {hit.path for hit in ranked(house, "roic", hidden=hidden).hits}
        assert ("Debt.md" in found) is there


def test_without_the_signal_and_at_weight_0_the_answers_are_the_same(house):
    for query in ("roce", "rest and srs", "good firms"):
        plain = ranked(house, query, OFF)
        assert ranked(house, query, without=frozenset({"vocabulary"})) == plain


def test_a_word_of_a_compound_question_weighs_twice_and_so_does_another_name():
    assert read_question("what of roce").wanted_with(["return on capital"], 0.3).weights == {
        "roce": 1,
        "return on capital": 0.3,
    }
    weights = read_question("roce of GmbH2").wanted_with(["return on capital", "roce"], 0.3).weights
    assert (weights["roce"], weights["return on capital"]) == (2, 0.6)
