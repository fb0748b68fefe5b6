"""Killed at every place of proposing, reviewing, promoting, taking back and renaming."""

import pytest

from . import places, tag_places


@pytest.fixture(scope="module")
def life():
    with tag_places.stage() as played:
        yield played


def test_the_life_reaches_every_place_that_the_source_names(life):
    reached = {name for told in life.reached for name in told}
    written = {name for name in places.written(everywhere=True) if tag_places._is_ours(name)}
    assert [one for one in sorted(written - reached) if not one.startswith(tag_places.OTHERWISE)] == []


def test_after_a_crash_everything_is_as_without_it_or_as_before_the_act(life):
    wrong = {}
    for act, place in tag_places.trials(life):
        died, found = life.die_at(act, place, 1)
        assert died, place
        if found:
            wrong[f"act {act}, {place}"] = found
    assert wrong == {}
