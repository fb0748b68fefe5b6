"""The arithmetic of docs/notes/worked-example.md is that of the functions that rank an answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.model import Decay, NoteFacts
from pipelines.search.fusion import convex_combination, reciprocal_rank_fusion
from pipelines.search.rank import decay_weights, link_votes, most_lifted

PAGE = Path(__file__).parent.parent / "docs" / "notes" / "worked-example.md"
ROW = re.compile(r"^\| (\w+) \| ([\d.]+(?: \| [\d.]+)*) \|$", re.MULTILINE)
LINKS = {"Sleep": ["Journal"]}


@pytest.fixture(scope="module")
def tables():
    """The rows of each section in their order: a note, and its figures."""
    sections = re.split(r"^#{1,2} ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        section.partition("\n")[0]: {
            note: [float(figure) for figure in figures.split(" | ")] for note, figures in ROW.findall(section)
        }
        for section in sections
        if ROW.search(section)
    }


@pytest.fixture(scope="module")
def given(tables):
    cosine = {note: row[0] for note, row in tables["A ranking by hand"].items()}
    bm25 = {note: row[1] for note, row in tables["A ranking by hand"].items()}
    return {"meaning": cosine, "words": bm25}


@pytest.fixture(scope="module")
def fused(given):
    return {note: sum(signals.values()) for note, signals in convex_combination(given)}


@pytest.fixture(scope="module")
def decayed(fused):
    author = {
        "Sleep": ("A. Author", "2025-01-01"),
        "Caffeine": ("A. Author", "2024-01-01"),
        "Journal": (None, None),
    }
    notes = [
        NoteFacts(
            note,
            person,
            None,
            day,
            "2025-01-01T00:00:00+00:00",
            "2025-01-01T00:00:00+00:00",
            evergreen=False,
            pagerank=None,
            centrality=None,
        )
        for note, (person, day) in author.items()
    ]
    factors = decay_weights(notes, Decay(mode="ranked_grouped"))
    return factors, {note: score * factors[note] for note, score in fused.items()}


def ordered(scores):
    return sorted(scores, key=lambda note: -scores[note])


def shown(*figures):
    return pytest.approx(list(figures), abs=0.00005)


def test_scores_are_fused_as_the_page_says(tables, given):
    found = convex_combination(given)
    assert [note for note, _ in found] == list(tables["Fuse by score"])
    for note, signals in found:
        meaning, words = signals["meaning"], signals.get("words", 0.0)
        assert tables["Fuse by score"][note] == shown(meaning, words, meaning + words)


def test_ranks_are_fused_as_the_page_says(tables, given):
    ranks = {name: [note for note in ordered(scores) if scores[note]] for name, scores in given.items()}
    found = reciprocal_rank_fusion(ranks, {"meaning": 1.0, "words": 0.3})
    assert [note for note, _ in found] == list(tables["Fuse by rank"])
    for note, signals in found:
        meaning, words = signals["meaning"], signals.get("words", 0.0)
        assert tables["Fuse by rank"][note] == shown(meaning, words, meaning + words)


def test_older_notes_lose_as_the_page_says(tables, decayed):
    factors, scores = decayed
    assert list(tables["Decay"]) == ordered(scores)
    for note, row in tables["Decay"].items():
        assert row == shown(factors[note], scores[note])


def test_links_lift_as_the_page_says(tables, decayed):
    scores = decayed[1]
    votes, most = link_votes(scores, LINKS), most_lifted(scores.values())
    lifted = {note: score + most * votes[note] for note, score in scores.items()}
    assert list(tables["Links"]) == ordered(lifted)
    for note, row in tables["Links"].items():
        assert row == shown(votes[note], most * votes[note], lifted[note])
