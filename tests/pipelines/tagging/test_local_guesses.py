"""A guessed tag counts as often right as in other vaults, until the vault's own notes show otherwise."""

import numpy as np
import pytest

from pipelines.tagging.local import FEWEST, FEWEST_TAGS, Guesses

NOTHING = (-4.0, -4.0, 0.0, 0.0, 0.0, 0.0)
VOTED, TITLED, WRITTEN, NEAREST, STANDS_OUT = (
    {0: 0.5},
    {3: 1.0},
    {4: 1.0},
    {5: 1.0},
    {2: 2.5},
)


def evidence(*parts):
    features = list(NOTHING)
    for part in parts:
        for place, value in part.items():
            features[place] = value
    return features


def guesses(seen=(), right=(), voters=FEWEST, tags=FEWEST_TAGS):
    return Guesses(np.array(seen, float).reshape(-1, 6), np.array(right, bool), voters=voters, tags=tags)


def chance(made, *parts, tagged=False):
    return made.chances(np.array([evidence(*parts)]), tagged=tagged)[0]


@pytest.mark.parametrize("parts", [(), (NEAREST,), (WRITTEN,), (TITLED,), (STANDS_OUT,), (VOTED,)])
def test_one_piece_of_evidence_alone_is_no_guess(parts):
    assert chance(guesses(), *parts) == 0.0


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ((VOTED, WRITTEN), (WRITTEN, NEAREST)),
        ((TITLED, NEAREST), (WRITTEN, NEAREST)),
        ((WRITTEN, NEAREST, STANDS_OUT), (WRITTEN, NEAREST)),
        ((WRITTEN, NEAREST), (WRITTEN, STANDS_OUT)),
        ((NEAREST, VOTED), (WRITTEN, STANDS_OUT)),
    ],
)
def test_more_evidence_is_a_better_guess_and_none_is_sure(more, less):
    assert 0.9 > chance(guesses(), *more) > chance(guesses(), *less) >= 0.5


def test_what_a_few_notes_have_in_common_says_nothing():
    assert chance(guesses(voters=FEWEST - 1), NEAREST, VOTED) == 0.0
    assert chance(guesses(voters=FEWEST - 1), WRITTEN, NEAREST, VOTED) == chance(guesses(), WRITTEN, NEAREST)


def test_the_vaults_own_notes_move_a_guess_towards_what_holds_there():
    seen = [evidence(WRITTEN, NEAREST)] * 30
    before = chance(guesses(), WRITTEN, NEAREST)
    assert chance(guesses(seen, [True] * 30), WRITTEN, NEAREST) > 0.85
    assert chance(guesses(seen, [False] * 30), WRITTEN, NEAREST) < 0.2
    assert chance(guesses(seen[:2], [False] * 2), WRITTEN, NEAREST) > before - 0.15
    assert chance(guesses(seen, [False] * 30), TITLED, NEAREST) == chance(guesses(), TITLED, NEAREST)


def test_what_a_tagged_note_lacks_is_half_as_likely():
    assert chance(guesses(), TITLED, NEAREST, tagged=True) == chance(guesses(), TITLED, NEAREST) / 2


def test_the_votes_of_notes_that_share_a_handful_of_tags_say_nothing():
    assert chance(guesses(), VOTED, NEAREST) > 0.5
    assert chance(guesses(tags=FEWEST_TAGS - 1), VOTED, NEAREST) == 0.0
