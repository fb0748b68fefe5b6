"""A second model orders the best hits again, by its own scores or blended with those that they had."""

from __future__ import annotations

import pytest

from pipelines.search.fusion import NoteHit, SecondOpinion, rescored

HITS = [
    NoteHit("a.md", 1, {"meaning": 0.6, "words": 0.4}),
    NoteHit("b.md", 2, {"meaning": 0.5, "words": 0.3}),
    NoteHit("c.md", 3, {"meaning": 0.4}),
    NoteHit("d.md", 4, {"words": 0.3}),
]
COSINES = {1: 0.70, 2: 0.75, 3: 0.80, 4: 0.99}


def by(scores):
    return SecondOpinion(
        lambda ids: scores and {chunk: scores[chunk] for chunk in ids if chunk in scores}, 50, ""
    )


def paths(hits):
    return [hit.path for hit in hits]


def test_alone_it_gives_the_order_and_the_range_of_scores_stays():
    found = rescored(HITS, by(COSINES), 3, 0.0)
    assert paths(found) == ["c.md", "b.md", "a.md", "d.md"]
    assert [hit.score for hit in found] == pytest.approx([1.0, 0.7, 0.4, 0.3])
    assert found[0].signals["rerank"] == pytest.approx(0.6)
    assert (found[0].scores["second"], found[0].scores["rescored"]) == pytest.approx((0.80, 1.0))


def test_a_blend_is_as_worked_by_hand():
    # The scores 1.0, 0.8, 0.4 are 1, 2/3, 0 of their range, the cosines 0, 1/2, 1; so with a weight of 0.6:
    # a 0.6 * 1 + 0.4 * 0 = 0.6, b 0.6 * 2/3 + 0.4 * 1/2 = 0.6, c 0.6 * 0 + 0.4 * 1 = 0.4, from 0.4 to 1.0.
    found = rescored(HITS, by(COSINES), 3, 0.6)
    assert {hit.path: hit.score for hit in found} == pytest.approx(
        {"a.md": 0.76, "b.md": 0.76, "c.md": 0.64, "d.md": 0.3}
    )


def test_with_all_of_the_weight_on_the_score_nothing_changes():
    found = rescored(HITS, by(COSINES), 4, 1.0)
    assert paths(found) == paths(HITS)
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in HITS])


def test_those_below_the_depth_stay_behind_as_they_were():
    found = rescored(HITS, by(COSINES), 2, 0.0)
    assert paths(found) == ["b.md", "a.md", "c.md", "d.md"]
    assert [hit.signals for hit in found[2:]] == [hit.signals for hit in HITS[2:]]


def test_a_hit_of_which_it_says_nothing_has_its_own_score_twice():
    found = rescored(HITS, by({1: 0.70, 3: 0.80}), 3, 0.0)
    assert paths(found)[:3] == ["c.md", "b.md", "a.md"]
    (unknown,) = [hit for hit in found if hit.path == "b.md"]
    assert unknown.score == pytest.approx(HITS[1].score)
    assert "second" not in unknown.scores


@pytest.mark.parametrize("said", [None, {}])
def test_without_an_opinion_there_is_no_new_order(said):
    assert rescored(HITS, by(said), 4, 0.0) is None


def test_hits_that_are_equal_to_it_share_the_best_score():
    assert {hit.score for hit in rescored(HITS, by(dict.fromkeys(COSINES, 0.5)), 4, 0.0)} == {1.0}
