"""Killed before and after each commit, enqueue, dequeue and rename: after a restart, nothing is missing."""

import pytest

from tests.sweeps import ALL, share

from . import places
from .acts import documents_come_change_and_go

STRIDE = share(3, 1)  # odd, since the side after each act is beside the one before it


@pytest.fixture(scope="module")
def life():
    with places.stage() as played:
        yield played


def test_the_life_reaches_every_place_that_the_source_names(life):
    _, reached = life
    assert sorted(places.written() - reached.keys()) == []
    assert sorted(reached.keys() - places.written()) == [], "the source has a place that is not counted"


@pytest.mark.parametrize("place", sorted(places.written())[::STRIDE])
def test_after_a_crash_everything_is_as_without_it(place, life):
    played, reached = life
    with_documents = {
        number for number, act in enumerate(played.acts) if act.play is documents_come_change_and_go
    }
    last = {max(reached[place]), *with_documents & reached[place].keys()} if ALL else set()
    for act in sorted({min(reached[place]), *last}):
        died, wrong = places.die_at(played, act, place, 1)
        assert died
        assert {name: what for name, what in wrong.items() if what} == {}, f"in {played.acts[act].name}"
