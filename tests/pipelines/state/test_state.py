"""The facts that processes tell each other, and their age."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.model import VectorIndex
from pipelines.state.state import (
    COMPARISON,
    EMBEDDER,
    EMBEDDING_SPEED,
    HELD,
    LOOKED_AT,
    MEMORY,
    REFUSED,
    REHASHED,
    RELOADED,
    REVIEWED,
    SUBJECTS,
    TAGGED,
    TAGGING_BEGAN,
    VAULT,
    VECTORS,
    WATCHER,
    WRITTEN,
    Clocks,
    ComparisonFacts,
    EmbedderFacts,
    EmbeddingSpeed,
    Hold,
    RefusedMessages,
    ReviewState,
    State,
    VaultFacts,
    WatcherFacts,
    WrittenFacts,
)

ON_BOTH_STORES = True

DAY = 24 * 3600.0


class Times:
    up = 100.0
    wall = 1_800_000_000.0

    def pass_by(self, seconds: float) -> None:
        self.up += seconds
        self.wall += seconds


@pytest.fixture
def clocks():
    return Times()


@pytest.fixture
def state(place, clocks):
    opened = State(place, Clocks(lambda: clocks.up, lambda: clocks.wall))
    yield opened
    opened.close()


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_fact_is_as_old_as_it_is_when_the_wall_clock_jumps(state, clocks, jump):
    state.put(REHASHED, "a.md", "vault")
    clocks.pass_by(7)
    clocks.wall += jump
    assert state.get(REHASHED, "vault").age_s == 7


def test_a_fact_grows_older_while_the_machine_is_off(state, clocks):
    state.put(REHASHED, "a.md", "vault")
    clocks.up, clocks.wall = 5.0, clocks.wall + DAY
    assert state.get(REHASHED, "vault").age_s == DAY


def test_a_fact_is_replaced_and_deleted(state):
    state.put(HELD, Hold(3, ("a.md",)), "vault")
    state.put(HELD, Hold(4, ("a.md", "b.md")), "vault")
    assert state.get(HELD, "vault").value == Hold(4, ("a.md", "b.md"))
    state.delete(HELD, "vault")
    assert state.get(HELD, "vault") is None


VALUES: list[tuple[Any, Any]] = [
    (HELD, Hold(3, ("a.md",))),
    (COMPARISON, ComparisonFacts({"vault": {"new": 1}}, 12)),
    (EMBEDDING_SPEED, EmbeddingSpeed(12.5)),
    (EMBEDDER, EmbedderFacts("cpu", "float32")),
    (REFUSED, RefusedMessages(foreign=1)),
    (WATCHER, WatcherFacts("polling", "a network disk", 1.5, None, overflows=2, process=7)),
    (RELOADED, {"vault": {"new": 1}}),
    (LOOKED_AT, True),
    (TAGGED, {"error": "it cannot be read"}),
    (REVIEWED, ReviewState((1, 2, 3), [["waiting", 2, 4, 6]])),
    (REVIEWED, ReviewState(None, [])),
    (TAGGING_BEGAN, "2026-05-04T12:00:00.000+00:00"),
    (REHASHED, "a.md"),
    (MEMORY, {"vault": (40, 2)}),
    (WRITTEN, WrittenFacts("In/a.md", ("5e8f", "07ab"))),
    (VAULT, VaultFacts("0a1b2c", "all: {}", None)),
    (VECTORS, VectorIndex("hnsw", 120_000, 0.98)),
]


@pytest.mark.parametrize(("subject", "value"), VALUES, ids=lambda one: getattr(one, "name", ""))
def test_every_subject_returns_what_was_put(state, subject, value):
    state.put(subject, value, "vault")
    assert state.get(subject, "vault").value == value
    assert state.get(subject, "other") is None


def test_every_subject_is_tried():
    assert {subject.name for subject, _ in VALUES} == {subject.name for subject in SUBJECTS}


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda one: one.name)
@pytest.mark.parametrize("written", ["", "{", "17", "null", '[["x"]]'])
def test_a_value_that_does_not_fit_is_no_fact(state, subject, written):
    state._con.execute("INSERT INTO fact VALUES (?, ?, 0, 0)", (subject.key("vault"), written))
    assert state.get(subject, "vault") is None


@pytest.mark.parametrize("subject", [HELD, COMPARISON, EMBEDDING_SPEED, EMBEDDER, WATCHER, RELOADED, MEMORY])
@pytest.mark.parametrize("written", ['{"count": "many"}', '{"examples": [1], "found": {}, "mode": "events"}'])
def test_a_value_that_lacks_what_it_should_have_is_no_fact(state, subject, written):
    state._con.execute("INSERT INTO fact VALUES (?, ?, 0, 0)", (subject.key("vault"), written))
    assert state.get(subject, "vault") is None


@pytest.mark.parametrize("subject", [RELOADED, TAGGED], ids=lambda one: one.name)
def test_a_reply_that_is_not_collected_is_deleted_with_a_later_one(state, clocks, subject):
    state.put(subject, {}, "abandoned")
    state.put(REHASHED, "a.md", "vault")
    clocks.pass_by(subject.kept_s / 2)
    state.put(subject, {}, "fresh")
    assert state.get(subject, "abandoned")
    clocks.pass_by(subject.kept_s / 2 + 1)
    state.put(subject, {}, "last")
    assert state.get(subject, "abandoned") is None
    assert state.get(subject, "fresh")
    assert state.get(REHASHED, "vault")
