"""A note that was chosen gains a share of the best score, and no note more than that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.domains import parse
from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search.fusion import NoteHit, lift_attended
from pipelines.search.rank import Source, depth_for, rank_notes

HITS = [
    NoteHit("best.md", 1, {"meaning": 1.0}),
    NoteHit("next.md", 2, {"meaning": 0.5, "words": 0.4}),
    NoteHit("last.md", 3, {"meaning": 0.2}),
]
NOW = datetime(2026, 11, 23, tzinfo=UTC)
PLAIN = Domain("vault", "", legacy=True, graph_mode="off")


def test_a_note_that_was_chosen_gains_a_share_of_the_best_score_and_moves_up():
    lifted = lift_attended(HITS, {"next.md": 1.0, "last.md": 0.5}, 0.2)
    assert [hit.path for hit in lifted] == ["next.md", "best.md", "last.md"]
    first, second, third = lifted
    assert first.signals["attention"] == pytest.approx(0.2)
    assert first.score == first.scores["attended"] == pytest.approx(1.1)
    assert third.signals["attention"] == pytest.approx(0.1)
    assert (third.scores["attention"], second.signals) == (0.5, {"meaning": 1.0})


@given(
    st.dictionaries(st.sampled_from([hit.path for hit in HITS]), st.floats(0, 1000)),
    st.floats(0, 1000),
)
def test_however_often_a_note_is_chosen_it_gains_no_more_than_its_share(attention, amount):
    for hit in lift_attended(HITS, attention, amount):
        assert 0.0 <= hit.signals.get("attention", 0.0) <= amount
        assert hit.signals.get("attention", 0.0) == amount * min(1.0, attention.get(hit.path, 0.0))


def test_no_hits_are_no_hits():
    assert lift_attended([], {"gone.md": 1.0}, 0.2) == []


def test_a_domain_turns_it_on():
    (garden, other) = parse("garden:\n  path: G\n  attention: 0.1\nother:\n", "_domains.yaml")
    assert (garden.attention, other.attention) == (0.1, 0.0)


@pytest.fixture
def rivers(house):
    for name in ("weirs", "mills", "locks"):
        house.write(f"{name}.md", f"The river harvest. {name.title()}.")
    house.index()
    return Source(PLAIN, house.cache, house.embedder._embedder.encode_query("river harvest"))


def rank(source):
    return rank_notes(source, read_question("river harvest"), depth_for(10), NOW)


def test_the_layer_asks_about_the_candidates_only_and_leaves_its_order_and_its_number(rivers):
    asked = []

    def attended(paths, domain):
        assert domain.attention == 0.9
        asked.append(sorted(paths))
        return {"locks.md": 0.5}

    lifted = replace(rivers, domain=replace(PLAIN, attention=0.9), attended=attended)
    ranking = rank(lifted)
    assert asked == [["locks.md", "mills.md", "weirs.md"]]
    assert list(ranking.layers) == ["meaning", "words", "fused", "attended"]
    assert ranking.ranks_of("locks.md")["attended"] == 1
    assert ranking.hits[0].scores["attention"] == 0.5


def test_with_weight_0_nothing_is_asked_and_nothing_differs(rivers):
    def attended(*_):
        raise AssertionError("attention was read despite its weight of 0")

    assert rank(replace(rivers, attended=attended)) == rank(rivers)
