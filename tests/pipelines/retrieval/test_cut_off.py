"""Answers end after the last note that matches in meaning or by its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import Domain
from pipelines.retrieval.cut_off import cut_off
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.layers import Source
from pipelines.retrieval.postings import WordPostings
from pipelines.retrieval.search import Found
from pipelines.retrieval.thresholds import best_match
from pipelines.store import passages
from tests.pipelines.conftest import housed

NOTES = {
    "nothing.md": "Something else.",
    "identifier.md": "The code is E4042-B here.",
    "chinese.md": "# 食品\n\n发酵食品和豆腐。",
    "Capital Allocation.md": "---\naliases: [CAPX]\n---\nWhere it goes.",
    "phrase.md": "A patient ledger keeps it.",
    "long.md": f"A gate. {'Some more of it. ' * 20}A garden.",
    **{f"common/{n}.md": f"A common garden and its gate, {n}." for n in range(60)},
}


@pytest.fixture(scope="module")
def house(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("cut"), tiny_embedder, NOTES) as house:
        yield house


@pytest.fixture(scope="module", params=["file", "memory"])
def source(request, house):
    """Return the domain, its words read from the file or held in memory."""
    words = WordPostings() if request.param == "memory" else None
    if words is not None:
        words.follow(house.cache)
    return Source(Domain("d", ""), house.cache, None, words=words)


def answers(source, query, *matches):
    """Return how many of these notes, each (path, how near it is), come up to the last answer."""
    found = []
    for path, match in matches:
        chunk = passages.chunks_of(source.cache, path)[0]
        hit = Hit(path, chunk.chunk_id, {"meaning": 0.5})
        found.append(Found("d", hit, chunk, {}, stale=False, sentences=None, match=match))
    return cut_off(found, best_match(match for _, match in matches), {"d": source}, query)


def test_what_is_weak_is_an_answer_only_where_nothing_is_strong(source):
    assert (
        answers(source, "?", ("nothing.md", "strong"), ("phrase.md", "weak"), ("identifier.md", "none")) == 1
    )
    assert answers(source, "?", ("nothing.md", "weak"), ("phrase.md", "weak"), ("identifier.md", "none")) == 2
    assert answers(source, "?", ("nothing.md", "none"), ("phrase.md", "none")) == 0
    assert answers(source, "?") == 0


def test_everything_above_an_answer_is_shown(source):
    assert (
        answers(source, "?", ("phrase.md", "none"), ("nothing.md", "strong"), ("identifier.md", "none")) == 2
    )


def test_only_where_the_tenth_is_an_answer_do_answers_go_on(source):
    nine, strong, none = [("nothing.md", "strong")] * 9, ("nothing.md", "strong"), ("nothing.md", "none")
    assert answers(source, "?", *nine, none, strong) == 9
    assert answers(source, "?", none, *nine, none, strong, none) == 12
    assert answers(source, "?", *nine, strong, none, none) == 10
    assert answers(source, "?", *nine, strong, *[none] * 10, strong) == 10


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("E4042-B", "identifier.md"),
        ("豆腐", "chinese.md"),
        ("capital allocation", "Capital Allocation.md"),
        ("on capital allocation and more", "Capital Allocation.md"),
        ("CAPX", "Capital Allocation.md"),
        ('"patient ledger" and what not', "phrase.md"),
        ("garden", "common/1.md"),
        ("garden gate", "common/1.md"),
    ],
)
def test_a_note_that_has_the_words_is_an_answer_however_far_its_meaning_is(source, query, path):
    assert answers(source, query, ("nothing.md", "strong"), ("phrase.md", "weak"), (path, "none")) == 3


def test_words_on_both_sides_of_where_a_section_is_cut_count_together(source):
    before, after = passages.chunks_of(source.cache, "long.md")
    assert ("gate" in before.text, "garden" in before.text) == (True, False)
    assert ("gate" in after.text, "garden" in after.text) == (False, True)
    assert answers(source, "garden gate", ("nothing.md", "strong"), ("long.md", "none")) == 2


def test_one_common_word_of_several_is_no_answer(source):
    assert answers(source, "garden walrus", ("nothing.md", "strong"), ("common/1.md", "none")) == 1


@given(st.lists(st.sampled_from(["strong", "weak", None]), max_size=10))
def test_nothing_is_cut_off_that_is_not_judged(source, matches):
    judged = [("nothing.md", match) for match in matches]
    last = max((n for n, match in enumerate(matches, start=1) if match is None), default=0)
    assert answers(source, "zebra", *judged) >= last
