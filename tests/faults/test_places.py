"""Killed before and after each commit, enqueue, dequeue and rename: after a restart, nothing is missing."""

import random
from collections import Counter
from contextlib import closing
from itertools import islice

import pytest

from tests.postgres import programs
from tests.sweeps import ALL, long, share

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


@long
@pytest.mark.timeout(1800)
def test_after_a_crash_at_any_place_everything_is_in_postgresql_as_without_it():
    programs()
    total: Counter[str] = Counter()
    chance = random.Random(0)  # noqa: S311 - no secret
    with closing(places.kill_at_every_place(chance, in_postgresql=True)) as rounds:
        for one in islice(rounds, 40):
            total.update(one)
    assert total.pop("kills") == 40
    assert dict(+total) == {}
