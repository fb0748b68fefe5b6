"""Copies are folded behind the best one of them; notes that only resemble it are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cache.passages import ChunkRow
from pipelines.question import read_question
from pipelines.search.fusion import Found, NoteHit
from pipelines.search.near_duplicates import fold_near_duplicates

KNOWN, UNKNOWN = "hub/all-MiniLM-L6-v2", "hub/another"
TEXT = "The quarter ended well: revenue was 254 and grew."


def found(path, text=TEXT, domain="d", title=""):
    name = title or path.removesuffix(".md")
    chunk = ChunkRow(hash(path), path, name, "", (), text, 1, 1, 0, len(text), "")
    return Found(
        domain, NoteHit(path, chunk.chunk_id, {"meaning": 0.5}), chunk, {}, stale=False, sentences=None
    )


def folded(several, query="revenue", model=KNOWN, cosine=None):
    """Return the paths that are shown, each with those behind it; two passages have this cosine, if they have vectors."""
    vectors = {}
    for number, one in enumerate(several):
        angle = np.arccos(cosine) * number if cosine is not None else None
        if angle is not None:
            vectors[one.domain, one.hit.chunk_id] = np.array([np.cos(angle), np.sin(angle)], np.float32)
    models = {one.domain: model for one in several}
    result = fold_near_duplicates(several, read_question(query), models, vectors)
    return [(one.first.hit.path, [other.hit.path for other in one.alike]) for one in result]


def test_the_same_text_is_alike_whatever_its_spaces_and_case_its_domain_and_model():
    same = [found("a.md"), found("b.md", TEXT.upper().replace(" ", "\n ")), found("c.md", domain="e")]
    assert folded(same, model=UNKNOWN) == [("a.md", ["b.md", "c.md"])]


def test_passages_as_near_as_copies_are_alike():
    near = [found("a.md"), found("b.md", f"Well, well. {TEXT}")]
    assert folded(near, cosine=0.97) == [("a.md", ["b.md"])]
    assert folded(near, cosine=0.95) == [("a.md", []), ("b.md", [])]
    assert folded(near, cosine=0.99, model=UNKNOWN) == [("a.md", []), ("b.md", [])]
    assert folded(near) == [("a.md", []), ("b.md", [])]


def test_two_reports_with_other_numbers_are_two_notes():
    reports = [found("Q1.md"), found("Q2.md", TEXT.replace("254", "261"))]
    assert folded(reports, cosine=0.999) == [("Q1.md", []), ("Q2.md", [])]


def test_notes_without_text_are_like_none_however_near_their_names_are():
    drafts = [found(path, "Untitled", title="Untitled") for path in ("a.md", "b.md")]
    empty = [replace(one, chunk=replace(one.chunk, end=0)) for one in drafts]
    assert folded(empty, cosine=1.0) == [("a.md", []), ("b.md", [])]
    assert folded(drafts, cosine=1.0) == [("a.md", ["b.md"])]


def test_vectors_of_different_models_are_not_compared():
    near = [found("a.md"), found("b.md", TEXT + " More.", domain="e")]
    vectors = {(one.domain, one.hit.chunk_id): np.array([1.0, 0.0], np.float32) for one in near}
    assert len(fold_near_duplicates(near, read_question("revenue"), {"d": KNOWN, "e": UNKNOWN}, vectors)) == 2
    assert len(fold_near_duplicates(near, read_question("revenue"), {"d": KNOWN, "e": KNOWN}, vectors)) == 1


@pytest.mark.parametrize("query", ["Zone Two", "zone-two", '"Zone Two"', "later"])
def test_a_note_that_the_question_names_is_not_folded(query):
    copies = [found("first.md"), found("later.md", title="Zone Two"), found("other.md")]
    assert folded(copies, query) == [("first.md", ["other.md"]), ("later.md", [])]


@given(st.lists(st.sampled_from(["one", "two", "three 3", "three 4"]), max_size=12), st.floats(0.9, 1))
def test_every_note_is_shown_or_folded_behind_a_better_one(texts, cosine):
    several = [found(f"{number}.md", text) for number, text in enumerate(texts)]
    result = folded(several, cosine=cosine)
    places = [int(path.removesuffix(".md")) for path, _ in result]
    assert places == sorted(places)
    assert sorted([path for path, _ in result] + [p for _, behind in result for p in behind]) == sorted(
        one.hit.path for one in several
    )
    for path, behind in result:
        assert all(int(path.removesuffix(".md")) < int(other.removesuffix(".md")) for other in behind)
