"""The brake on deletions: how long vanished notes wait, how many go within a time, and what lets them go."""

from __future__ import annotations

import pytest

from pipelines.indexing.deletions import (
    HOLD_SECONDS,
    SETTLE_SECONDS,
    WINDOW_SECONDS,
    CheckedPaths,
    DeletionBrake,
)
from pipelines.state.health import Vanished
from pipelines.state.state import HELD, Clocks, State

ON_BOTH_STORES = True

SLUG = "vault"
LONG = 60.0  # longer than any wait for more deletions


class World:
    """A domain of `notes` notes, its brake, and the clocks of the machine."""

    def __init__(self, folder, notes):
        self.folder = folder
        self.up, self.wall = 1000.0, 1_700_000_000.0
        self.there = {f"{n}.md" for n in range(notes)}
        self.gone = set()
        self.open()

    def open(self):
        self.began = self.up
        clocks = Clocks(lambda: self.up, lambda: self.wall)
        self.state = State(self.folder, clocks)
        self.vanished = Vanished(self.folder, clocks)

    def close(self):
        self.state.close()
        self.vanished.close()

    def wait(self, seconds):
        self.up += seconds
        self.wall += seconds

    def lose(self, *paths):
        """Delete files, and report an event for them."""
        self.gone |= set(paths)
        return self.look(*paths)

    def lose_some(self, first, last):
        return self.lose(*(f"{n}.md" for n in range(first, last)))

    def come_back(self, *paths):
        self.gone -= set(paths)
        return self.look(*paths)

    def look(self, *paths):
        """Check some paths, as after an event."""
        return self._release(self.gone & set(paths), CheckedPaths(frozenset(paths)))

    def compare(self, **how):
        return self._release(self.gone, CheckedPaths(self.there - self.gone, whole=True), **how)

    def _release(self, vanished, looked, **how):
        released = self._brake(**how).release(SLUG, sorted(vanished), lambda: len(self.there), looked)
        assert released.going <= vanished
        self.there -= released.going
        self.gone -= released.going
        return released

    def _brake(self, **how):
        return DeletionBrake(self.state, self.vanished, running_s=self.up - self.began, **how)

    def turn(self):
        """What the watcher does every second."""
        due = self._brake().due(SLUG)
        return self.look(*due).going if due else frozenset()

    def turns(self, seconds):
        went = set()
        for _ in range(int(seconds)):
            self.wait(1.0)
            went |= self.turn()
        return went

    @property
    def held(self):
        fact = self.state.get(HELD, SLUG)
        return fact.value.count if fact else 0


@pytest.fixture
def world(tmp_path):
    made = []

    def make(notes):
        made.append(World(tmp_path, notes))
        return made[0]

    yield make
    for one in made:
        one.close()


def test_a_deleted_note_is_forgotten_when_nothing_else_vanished_for_a_moment(world):
    world = world(100)
    assert world.lose("1.md").going == set()
    world.wait(SETTLE_SECONDS - 1)
    assert world.turn() == set()
    world.wait(1)
    assert world.turn() == {"1.md"}
    assert world.turn() == set()


def test_a_comparison_that_a_person_asked_for_does_not_wait(world):
    world = world(100)
    world.gone |= {"1.md"}
    assert world.compare(settle=False).going == {"1.md"}


def test_notes_wait_for_each_other_but_not_for_ever(world):
    world = world(1000)
    went = set()
    for n in range(40):
        world.lose(f"{n}.md")
        went |= world.turns(SETTLE_SECONDS - 2)
        assert bool(went) == ((n + 1) * (SETTLE_SECONDS - 2) >= LONG)
    assert "0.md" in went
    assert "39.md" not in went


@pytest.mark.parametrize("pause", [0.0, 1.0])
def test_of_a_mass_that_vanishes_in_many_small_batches_none_is_forgotten(world, pause):
    world = world(545)
    for n in range(0, 500, 20):
        assert world.lose_some(n, n + 20).going == set()
        world.wait(pause)
        assert world.turn() == set()
    assert world.held == 500
    assert world.turns(2 * WINDOW_SECONDS) == set()
    assert len(world.there) == 545


def test_twelve_thousand_notes_that_vanish_one_by_one_in_half_a_minute_are_held(world):
    world = world(12_020)
    for n in range(0, 12_000, 200):
        assert world.lose_some(n, n + 200).going == set()
        world.wait(35 / 60)
        assert world.turn() == set()
    assert (world.held, len(world.there)) == (12_000, 12_020)


def test_what_was_forgotten_a_moment_ago_counts(world):
    world = world(100)
    world.lose_some(0, 15)
    assert len(world.turns(LONG)) == 15
    assert world.lose_some(15, 30).held == 15
    assert world.turns(LONG) == set()


def test_the_limit_is_of_the_notes_that_there_were_before(world):
    world = world(200)
    world.lose_some(0, 21)
    world.turns(LONG)
    world.lose_some(21, 40)
    assert len(world.turns(LONG)) == 19, "40 of 200 are a fifth"
    assert world.lose("40.md").held == 1


def test_a_slow_clean_up_is_no_accident(world):
    world = world(100)
    for n in range(0, 90, 10):
        world.lose_some(n, n + 10)
        assert len(world.turns(WINDOW_SECONDS + LONG)) == 10
    assert world.held == 0


def test_what_is_held_because_of_what_went_before_is_held_as_long_as_any(world):
    world = world(100)
    world.lose_some(0, 15)
    world.turns(LONG)
    assert world.lose_some(15, 30).held == 15
    world.wait(WINDOW_SECONDS)
    assert world.compare().held == 15
    world.wait(HOLD_SECONDS - WINDOW_SECONDS)
    assert len(world.compare().going) == 15
    assert world.held == 0


def test_notes_that_come_back_end_the_hold_at_once(world):
    world = world(100)
    world.lose_some(0, 50)
    assert world.held == 50
    world.come_back(*(f"{n}.md" for n in range(10)))
    assert world.held == 40
    world.come_back(*(f"{n}.md" for n in range(10, 50)))
    assert world.held == 0
    assert world.turns(WINDOW_SECONDS) == set()


def test_what_is_left_of_a_mass_is_held_however_few_it_is(world):
    world = world(100)
    world.lose_some(0, 50)
    world.come_back(*(f"{n}.md" for n in range(45)))
    assert world.turns(LONG) == set()
    assert world.held == 5
    world.wait(HOLD_SECONDS)
    assert world.compare().going == {f"{n}.md" for n in range(45, 50)}


@pytest.mark.parametrize("whole", [False, True])
def test_notes_that_came_back_do_not_count_among_those_that_were_forgotten(world, whole):
    world = world(100)
    world.lose_some(0, 15)
    world.turns(LONG)
    back = [f"{n}.md" for n in range(15)]
    world.there |= set(back)
    _ = world.compare() if whole else world.look(*back)
    assert world.lose_some(20, 35).held == 0


def test_a_hold_that_is_the_same_for_an_hour_ends_with_the_deletions(world):
    world = world(100)
    world.lose_some(0, 50)
    world.compare()
    world.wait(HOLD_SECONDS - 1)
    assert world.compare().held == 50
    world.wait(1)
    assert len(world.compare().going) == 50
    assert world.held == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.lose("60.md"),
        lambda world: world.come_back("3.md"),
        lambda world: (world.come_back("3.md"), world.lose("60.md")),
        lambda world: (world.gone.discard("3.md"), world.gone.add("60.md")),
    ],
    ids=["more", "fewer", "others", "others, unheard"],
)
def test_a_hold_whose_notes_changed_restarts_its_hour(world, change):
    world = world(100)
    world.lose_some(0, 50)
    world.wait(HOLD_SECONDS - 1)
    change(world)
    world.wait(1)
    assert world.compare().going == set()
    assert world.held >= 49
    world.wait(HOLD_SECONDS - 2)
    assert world.compare().going == set()
    world.wait(HOLD_SECONDS)
    assert world.compare().going != set()


def test_an_event_does_not_end_a_hold_for_it_does_not_tell_of_all(world):
    world = world(100)
    world.lose_some(0, 50)
    world.wait(2 * HOLD_SECONDS)
    assert world.look("3.md").going == set()
    assert world.held == 50


def test_the_hour_of_a_hold_does_not_pass_while_nothing_runs(world):
    world = world(100)
    world.lose_some(0, 50)
    world.wait(HOLD_SECONDS - 1)
    world.compare()
    world.close()
    world.wait(2 * HOLD_SECONDS)
    world.open()
    assert world.compare().held == 50
    world.wait(HOLD_SECONDS - 1)
    assert world.compare().held == 50
    world.wait(1)
    assert len(world.compare().going) == 50


def test_confirmed_deletions_go_and_do_not_count_later(world):
    world = world(100)
    world.lose_some(0, 50)
    assert len(world.compare(confirmed=True).going) == 50
    assert world.held == 0
    world.lose_some(50, 60)
    assert len(world.turns(LONG)) == 10


@pytest.mark.parametrize("reboot", [False, True])
def test_a_restart_forgets_neither_what_waits_nor_what_went(world, reboot):
    world = world(100)
    world.lose_some(0, 15)
    world.turns(LONG)
    world.lose("50.md")
    world.close()
    world.open()
    if reboot:
        world.up = 3.0
    world.wall += 1
    assert world.turn() == set()
    assert world.lose_some(15, 30).held == 16
    world.come_back(*(f"{n}.md" for n in range(15, 30)))
    assert world.turns(LONG) == set()
    assert world.held == 1


def test_what_is_counted_no_more_is_not_kept(world):
    world = world(100)
    world.lose("1.md")
    world.turns(LONG)
    assert world.vanished.forgotten(SLUG, WINDOW_SECONDS) == 1
    world.wait(WINDOW_SECONDS)
    world.vanished.prune(WINDOW_SECONDS)
    assert world.vanished.forgotten(SLUG, 10 * WINDOW_SECONDS) == 0
