"""Proposals of tags, as the store keeps them."""

from __future__ import annotations

from typing import get_args

import pytest

from pipelines.model import Suggestion
from pipelines.state.state import State as StateFile
from pipelines.state.tags import Looked, Proposals, ProposalState

ON_BOTH_STORES = True


@pytest.fixture
def proposals(place):
    StateFile(place).close()
    opened = Proposals(place)
    yield opened
    opened.close()


def add(proposals, domain, path, *tags, at="2026-01-01"):
    suggested = [(Suggestion(tag, confidence), "topic") for tag, confidence in tags]
    proposals.add(domain, path, suggested, proposer="p", note_hash="h", at=at)


def test_a_notes_proposals_are_its_own_newest_first_then_the_best(proposals):
    add(proposals, "d", "a.md", ("low", 0.1), ("high", 0.9))
    add(proposals, "d", "a.md", ("new", 0.2), at="2026-01-02")
    add(proposals, "d", "A.md", ("other", 0.5))
    add(proposals, "e", "a.md", ("elsewhere", 0.5))
    assert [one.tag for one in proposals.of_note("d", "a.md")] == ["new", "high", "low"]
    assert proposals.of_note("d", "b.md") == []


def test_a_notes_proposals_are_found_whatever_became_of_them(proposals):
    states = get_args(ProposalState)
    add(proposals, "d", "a.md", *((state, 0.5) for state in states))
    for one in proposals.of_note("d", "a.md"):
        proposals.settle([one.id], one.tag, "2026-01-02")
    assert [one.state for one in proposals.of_note("d", "a.md")] == list(states)


def test_the_version_changes_when_a_note_with_waiting_tags_is_renamed(proposals):
    add(proposals, "d", "a.md", ("soil", 0.9))
    before = proposals.version("d")
    assert proposals.version("d") == before
    proposals.keys.move("d", "a.md", "b.md")
    assert proposals.version("d") != before


def test_proposals_are_found_by_tag_in_any_case_and_by_confidence(proposals):
    add(proposals, "d", "a.md", ("Soil", 0.9), ("river", 0.8))
    add(proposals, "e", "b.md", ("soil", 0.4))
    found = proposals.of_state(None, "waiting", tag="SOIL")
    assert [(one.path, one.tag) for one in found] == [("a.md", "Soil"), ("b.md", "soil")]
    assert [one.tag for one in proposals.of_state(None, "waiting", sure=0.8)] == ["Soil", "river"]
    assert [one.path for one in proposals.of_state("e", "waiting", tag="soil")] == ["b.md"]


def test_a_decision_of_the_new_domain_stays_when_proposals_of_the_old_one_come(proposals):
    add(proposals, "old", "a.md", ("soil", 0.9), ("river", 0.8), ("moss", 0.7))
    add(proposals, "new", "a.md", ("soil", 0.1), ("river", 0.1))
    decided = next(one for one in proposals.of_note("new", "a.md") if one.tag == "soil")
    proposals.decide([decided.id], "rejected", "2026-01-02")
    add(proposals, "old", "b.md", ("soil", 0.9))
    assert proposals.keys.notes() == [("new", "a.md"), ("old", "a.md"), ("old", "b.md")]
    proposals.keys.change_domains([("old", "new", "a.md")])
    found = {(one.tag, one.state, one.confidence) for one in proposals.of_note("new", "a.md")}
    assert found == {("soil", "rejected", 0.1), ("river", "waiting", 0.8), ("moss", "waiting", 0.7)}
    assert proposals.keys.notes() == [("new", "a.md"), ("old", "b.md")]


def test_a_note_with_a_tag_that_waits_is_not_one_without_a_proposal(proposals):
    for path in ("a.md", "b.md"):
        proposals.look("d", {path: Looked("h", b"", "nothing", "no tag fits", 0, None)})
    add(proposals, "d", "a.md", ("soil", 0.9))
    assert proposals.without("d") == {"b.md": "no tag fits"}
    proposals.decide([proposals.of_note("d", "a.md")[0].id], "rejected", "2026-01-02")
    assert proposals.without("d") == {"a.md": "no tag fits", "b.md": "no tag fits"}


def test_proposals_are_counted_by_tag(proposals):
    add(proposals, "d", "a.md", ("Soil", 0.9), ("river", 0.8))
    add(proposals, "e", "b.md", ("soil", 0.4))
    assert {tag.casefold(): count for tag, count in proposals.tags(None, "waiting").items()} == {
        "river": 1,
        "soil": 2,
    }
    assert proposals.tags("e", "waiting") == {"soil": 1}
    proposals.set_gone("e", ["b.md"])
    assert proposals.tags("e", "waiting") == {}
