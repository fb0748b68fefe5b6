from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import NoteFacts
from pipelines.retrieval.rerank import graph_scores

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LONG_AGO = "2020-01-01T00:00:00+00:00"


def note(path, pagerank=None, centrality=None, modified=LONG_AGO):
    return NoteFacts(
        path, None, None, None, modified, evergreen=False, pagerank=pagerank, centrality=centrality
    )


def scored(scores, notes, mode):
    found = graph_scores(
        scores, {n.path: n for n in notes}, mode, now=NOW, recency_days=30, recency_amount=0.05
    )
    return {path: terms.score for path, terms in found.items()}


def test_the_linear_form_is_as_worked_by_hand():
    notes = [note("a", 0.02, 0.1), note("b", 0.01, 0.4), note("c")]
    assert scored({"a": 0.9, "b": 0.5, "c": 0.7}, notes, "linear") == pytest.approx(
        {
            "a": 0.8875,  # 0.6 * 1 + 0.25 * 0.02/0.02 + 0.15 * 0.1/0.4
            "b": 0.275,  # 0.6 * 0 + 0.25 * 0.01/0.02 + 0.15 * 0.4/0.4
            "c": 0.5,  # v = (0.7 - 0.5)/(0.9 - 0.5) = 0.5; nothing else is known of it, so all of it is v
        }
    )


def test_in_the_lifting_form_a_rank_below_the_value_changes_nothing():
    notes = [note("a", 0.02, 0.1), note("b", 0.01, 0.4), note("c")]
    assert scored({"a": 0.9, "b": 0.5, "c": 0.7}, notes, "lift") == pytest.approx(
        {
            "a": 1.0,  # PageRank 1, centrality 0.25 < v = 1: it folds back
            "b": 0.275,  # 0.25 * 0.5 + 0.15 * 1
            "c": 0.5,
        }
    )


def test_a_barely_cited_note_falls_behind_an_uncited_one_in_the_linear_form_only():
    notes = [note("hub", 0.9, 0.9), note("cited once", 0.001, 0.001), note("uncited")]
    scores = {"hub": 0.2, "cited once": 0.8, "uncited": 0.7}
    assert scored(scores, notes, "linear")["cited once"] < scored(scores, notes, "linear")["uncited"]
    assert scored(scores, notes, "lift")["cited once"] > scored(scores, notes, "lift")["uncited"]


def test_what_was_modified_within_the_days_gets_the_bonus():
    notes = [
        note("new", modified="2026-10-22T00:00:00+00:00"),
        note("old", modified="2026-10-21T23:59:59+00:00"),
    ]
    assert scored({"new": 1.0, "old": 1.0}, notes, "linear") == pytest.approx({"new": 1.05, "old": 1.0})


def test_candidates_of_one_score_all_have_the_full_value():
    assert scored({"a": 0.3}, [note("a")], "linear") == pytest.approx({"a": 1.0})


RANK = st.one_of(st.none(), st.floats(0, 1))
CANDIDATES = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0, 1), RANK, RANK), min_size=1)


@pytest.mark.parametrize("mode", ["linear", "lift"])
@given(found=CANDIDATES)
def test_scores_lie_between_zero_and_one_without_a_bonus(mode, found):
    notes = [note(path, pagerank, centrality) for path, (_, pagerank, centrality) in found.items()]
    result = scored({path: score for path, (score, _, _) in found.items()}, notes, mode)
    assert all(-1e-9 <= score <= 1 + 1e-9 for score in result.values())


@given(found=CANDIDATES)
def test_in_the_lifting_form_nobody_scores_below_their_value(found):
    notes = [note(path, pagerank, centrality) for path, (_, pagerank, centrality) in found.items()]
    scores = {path: score for path, (score, _, _) in found.items()}
    lifted = scored(scores, notes, "lift")
    plain = scored(scores, [note(path) for path in found], "lift")
    assert all(lifted[path] >= plain[path] - 1e-12 for path in found)


@pytest.mark.parametrize("mode", ["linear", "lift"])
@given(found=CANDIDATES, data=st.data())
def test_a_better_pagerank_never_lowers_a_note(mode, found, data):
    path = data.draw(st.sampled_from(sorted(found)))
    scores = {path: score for path, (score, _, _) in found.items()}

    def place(rank):
        notes = [note(p, rank if p == path else pr, c) for p, (_, pr, c) in found.items()]
        result = scored(scores, notes, mode)
        return sum(score > result[path] + 1e-9 for score in result.values())

    low = data.draw(st.floats(0, 1))
    assert place(data.draw(st.floats(low, 1))) <= place(low)
