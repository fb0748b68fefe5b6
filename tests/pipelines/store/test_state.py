"""What processes tell each other, and how old it is."""

from __future__ import annotations

import pytest

from pipelines.store.state import State

DAY = 24 * 3600.0


class Clocks:
    up = 100.0
    wall = 1_800_000_000.0

    def pass_by(self, seconds: float) -> None:
        self.up += seconds
        self.wall += seconds


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def state(tmp_path, clocks):
    opened = State(tmp_path, lambda: clocks.up, lambda: clocks.wall)
    yield opened
    opened.close()


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_fact_is_as_old_as_it_is_when_the_wall_clock_jumps(state, clocks, jump):
    state.say("held:vault", 1)
    clocks.pass_by(7)
    clocks.wall += jump
    assert state.heard("held:vault").age_s == 7


def test_a_fact_grows_older_while_the_machine_is_off(state, clocks):
    state.say("held:vault", 1)
    clocks.up, clocks.wall = 5.0, clocks.wall + DAY
    assert state.heard("held:vault").age_s == DAY


def test_a_fact_is_replaced_and_forgotten(state):
    state.say("a", [1])
    state.say("a", {"b": 2})
    assert state.heard("a").value == {"b": 2}
    state.forget("a")
    assert state.heard("a") is None
