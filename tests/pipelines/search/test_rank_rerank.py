from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import NoteFacts
from pipelines.search.rank import by_walk, is_recent, linear_scores, link_votes, most_lifted, walked

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LONG_AGO, YESTERDAY = "2020-01-01T00:00:00+00:00", "2026-11-20T12:00:00+00:00"


def note(path, pagerank=None, centrality=None, modified=LONG_AGO, changed=None):
    return NoteFacts(
        path,
        author=None,
        kind=None,
        created=None,
        changed=changed or modified,
        modified_at=modified,
        evergreen=False,
        pagerank=pagerank,
        centrality=centrality,
    )


def linear(scores, notes):
    found = linear_scores(scores, {n.path: n for n in notes})
    return {path: terms.score for path, terms in found.items()}


def test_the_linear_form_is_as_worked_by_hand():
    notes = [note("a", 0.02, 0.1), note("b", 0.01, 0.4), note("c")]
    assert linear({"a": 0.9, "b": 0.5, "c": 0.7}, notes) == pytest.approx(
        {
            "a": 0.8875,  # 0.6 * 1 + 0.25 * 0.02/0.02 + 0.15 * 0.1/0.4
            "b": 0.275,  # 0.6 * 0 + 0.25 * 0.01/0.02 + 0.15 * 0.4/0.4
            "c": 0.5,  # v = (0.7 - 0.5)/(0.9 - 0.5) = 0.5; nothing else is known of it, so all of it is v
        }
    )


def test_in_the_linear_form_a_barely_cited_note_falls_behind_an_uncited_one():
    notes = [note("hub", 0.9, 0.9), note("cited once", 0.001, 0.001), note("uncited")]
    scores = linear({"hub": 0.2, "cited once": 0.8, "uncited": 0.7}, notes)
    assert scores["cited once"] < scores["uncited"]


def test_candidates_of_one_score_all_have_the_full_value():
    assert linear({"a": 0.3}, [note("a")]) == pytest.approx({"a": 1.0})


RANK = st.one_of(st.none(), st.floats(0, 1))
RANKED = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0, 1), RANK, RANK), min_size=1)


@given(found=RANKED)
def test_linear_scores_lie_between_zero_and_one(found):
    notes = [note(path, pagerank, centrality) for path, (_, pagerank, centrality) in found.items()]
    result = linear({path: score for path, (score, _, _) in found.items()}, notes)
    assert all(-1e-9 <= score <= 1 + 1e-9 for score in result.values())


@given(found=RANKED, data=st.data())
def test_a_better_pagerank_never_lowers_a_note(found, data):
    path = data.draw(st.sampled_from(sorted(found)))
    scores = {path: score for path, (score, _, _) in found.items()}

    def place(rank):
        notes = [note(p, rank if p == path else pr, c) for p, (_, pr, c) in found.items()]
        result = linear(scores, notes)
        return sum(score > result[path] + 1e-9 for score in result.values())

    low = data.draw(st.floats(0, 1))
    assert place(data.draw(st.floats(low, 1))) <= place(low)


def test_votes_are_as_worked_by_hand():
    scores = {"a": 0.9, "b": 0.5, "c": 0.3, "d": 0.1}
    links = {"a": {"c", "not a candidate", "nor this", "nor that"}, "b": {"c", "d", "b"}, "d": {"a"}}
    assert link_votes(scores, links) == pytest.approx(
        {
            "a": 0.0,  # d, which links to it, is the worst match
            "b": 0.0,  # its link to itself does not count
            "c": 1 - (1 - 1 / 2) * (1 - 0.25 / 2**0.5),  # a, the best, links to four; b, half as good, to two
            "d": 0.25 / 2**0.5,
        }
    )


CANDIDATES = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.integers(0, 100).map(lambda n: n / 100), st.sets(st.sampled_from("abcdefgh"))),
    min_size=1,
)


@given(
    found=CANDIDATES, scale=st.sampled_from([0.015625, 0.5, 64.0]), shift=st.sampled_from([0.0, -0.5, 3.0])
)
def test_votes_lie_between_zero_and_one_on_every_scale_of_scores(found, scale, shift):
    scores, links = {p: s for p, (s, _) in found.items()}, {p: to for p, (_, to) in found.items()}
    votes = link_votes(scores, links)
    assert votes.keys() == scores.keys()
    assert all(0.0 <= vote <= 1.0 for vote in votes.values())
    assert link_votes({p: scale * s + shift for p, s in scores.items()}, links) == pytest.approx(votes)


@given(found=CANDIDATES)
def test_a_gap_larger_than_the_lift_is_never_overturned(found):
    scores, links = {p: s for p, (s, _) in found.items()}, {p: to for p, (_, to) in found.items()}
    votes, most = link_votes(scores, links), most_lifted(scores.values())
    assert 0.0 <= most <= 0.15 * max(scores.values())
    lifted = {path: score + most * votes[path] for path, score in scores.items()}
    assert all(
        lifted[one] > lifted[other]
        for one in scores
        for other in scores
        if scores[one] - scores[other] > most + 1e-12
    )


def solved(start, links, restart):
    """Return the arrivals of a walk by solving its equations: p = M p + (1 - sum of M p) begin."""
    paths = list(links)
    moves = np.zeros((len(paths), len(paths)))
    for path, targets in links.items():
        for target in targets:
            if target in links:
                moves[paths.index(target), paths.index(path)] = (1 - restart) / len(targets)
    begin = np.array([start.get(path, 0.0) for path in paths]) / sum(start.values())
    there = np.linalg.solve(np.eye(len(paths)) - moves, begin)
    return dict(zip(paths, (moves @ (there / there.sum())).tolist(), strict=True))


WALK = {"a": {"b", "c"}, "b": {"c", "away"}, "c": {"a"}, "d": set()}


def test_a_walk_of_two_notes_is_as_worked_by_hand():
    # p(a) = 1/(1 + 0.5), as a walk at b always goes back; half of the steps from a come to b
    assert walked({"a": 1.0}, {"a": {"b"}, "b": set()}, 0.5) == pytest.approx({"a": 0.0, "b": 1 / 3})


@pytest.mark.parametrize("restart", [0.05, 0.15, 0.5, 1.0])
@pytest.mark.parametrize("start", [{"a": 1.0}, {"a": 0.5, "b": 0.25}, {"d": 1.0}])
def test_a_walk_with_restart_solves_its_equations(start, restart):
    assert walked(start, WALK, restart) == pytest.approx(solved(start, WALK, restart), abs=1e-5)


def test_a_walk_that_begins_nowhere_or_has_no_links_comes_nowhere():
    assert walked({}, WALK, 0.15) == dict.fromkeys(WALK, 0.0)
    assert walked({"a": 1.0}, {"a": set()}, 0.15) == {"a": 0.0}


def test_a_walk_adds_most_where_the_links_of_the_best_lead_also_by_way_of_notes_that_were_not_found():
    links = {"best": {"between"}, "between": {"far"}, "worst": {"near"}}
    asked = []

    def follow(paths):
        asked.append(sorted(paths))
        return {path: links[path] for path in paths if path in links}

    scores = {"best": 1.0, "second": 0.9, "near": 0.5, "far": 0.5, "worst": 0.4}
    added = by_walk(scores, follow, 0.15)
    assert asked == [sorted(scores), ["between"]]
    assert added["far"].left == {"walk": 1.0}
    assert added["far"].signals == {"walk": pytest.approx(most_lifted(scores.values()))}
    assert [added[path].signals["walk"] for path in ("best", "second", "near", "worst")] == [0.0] * 4


@given(found=CANDIDATES, restart=st.floats(0.01, 1))
def test_a_walk_never_overturns_a_gap_larger_than_the_lift(found, restart):
    scores, links = {p: s for p, (s, _) in found.items()}, {p: to - {p} for p, (_, to) in found.items()}
    added = by_walk(scores, lambda paths: {p: links[p] for p in paths if p in links}, restart)
    most = most_lifted(scores.values())
    assert added.keys() == scores.keys()
    assert all(-1e-12 <= one.signals["walk"] <= most + 1e-12 for one in added.values())


@pytest.mark.parametrize(
    ("scores", "most"),
    [
        ([1.0, 0.9, 0.8, 0.7, 0.2, 0.1, 0.1, 0.1, 0.1], 0.15),  # its lead is more: 1 - 0.2
        ([1.0, 0.99, 0.98, 0.97, 0.9, 0.1, 0.1, 0.1, 0.1], 0.1),  # 1 - 0.9
        ([0.9, 1.0, 0.5], 0.1),  # the middle one of three
        ([0.5], 0.0),
        ([-0.1, -0.5, -0.9], 0.0),
        ([], 0.0),
    ],
)
def test_what_links_add_at_most_is_as_worked_by_hand(scores, most):
    assert most_lifted(scores) == pytest.approx(most)


@given(found=CANDIDATES, data=st.data())
def test_one_more_link_to_a_note_never_lowers_its_votes(found, data):
    scores, links = {p: s for p, (s, _) in found.items()}, {p: to for p, (_, to) in found.items()}
    path, source = (data.draw(st.sampled_from(sorted(found))) for _ in range(2))
    # in place of a link elsewhere, as a link more makes each of the source's links count less
    more = links | {source: ({*list(links[source] - {path})[1:], path})}
    assert link_votes(scores, more)[path] >= link_votes(scores, links)[path] - 1e-12


def test_candidates_of_one_score_give_no_votes():
    assert link_votes({"a": 0.2, "b": 0.2}, {"a": {"b"}, "b": {"a"}}) == {"a": 0.0, "b": 0.0}
    assert link_votes({}, {}) == {}


@pytest.mark.parametrize(
    ("modified", "changed", "recent"),
    [
        ("2026-10-22T00:00:00+00:00", None, True),
        ("2026-10-21T23:59:59+00:00", None, False),
        (YESTERDAY, "2019-05-04", False),
        (LONG_AGO, "2026-11-01", True),
        (LONG_AGO, "2026-11-01T10:00:00", True),
        (LONG_AGO, "2026-10-21T23:00:00-05:00", True),
        (LONG_AGO, "2031-01-01", False),
        (YESTERDAY, "9999-12-31T23:59:59-14:00", True),
        (YESTERDAY, "0001-01-01T00:00:00+14:00", False),
    ],
)
def test_a_note_is_as_recent_as_its_last_change_and_one_in_the_future_is_none(modified, changed, recent):
    assert is_recent(note("a", modified=modified, changed=changed), NOW, 30) is recent


def test_any_number_of_days_can_be_asked_for():
    assert is_recent(note("a"), NOW, 10**12)
