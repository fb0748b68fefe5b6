"""The chance of a tag is learnt from the vault's own tagged notes; few of them give low chances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tagging.local import THRESHOLD, Calibration, _isotonic, _lower_bound

PAIRS, TAGS = 400, 4


def evidence(strength: float) -> np.ndarray:
    """Return the features of one pair; only the first one tells anything."""
    return np.array([[strength, 0.0, 0.0, 0.0, 0.0, 0.0]])


def calibrated(*, forgotten: int) -> Calibration:
    """Learn from pairs of which the stronger half is right, except every `forgotten`-th (0: none)."""
    strengths = np.linspace(-1.0, 1.0, PAIRS)
    right = strengths > 0
    if forgotten:
        right[PAIRS // 2 :: forgotten] = False
    features = np.concatenate([evidence(one) for one in strengths])
    return Calibration(features, right, np.arange(PAIRS) % TAGS)


@pytest.mark.parametrize("forgotten", [0, 9])
def test_stronger_evidence_never_has_a_lower_chance(forgotten):
    learnt = calibrated(forgotten=forgotten)
    for tagged in (False, True):
        chances = learnt.chances(
            np.concatenate([evidence(one) for one in (-1.0, -0.2, 0.2, 1.0)]), tagged=tagged
        )
        assert (np.diff(chances) >= 0).all()
        assert ((chances >= 0) & (chances <= 1)).all()


def test_a_note_without_tags_gets_what_is_right_in_others():
    learnt = calibrated(forgotten=0)
    assert learnt.chances(evidence(0.9), tagged=False)[0] >= THRESHOLD
    assert learnt.chances(evidence(-0.9), tagged=False)[0] < 0.1


def test_a_tagged_note_lacks_nothing_in_a_vault_that_forgets_nothing():
    assert calibrated(forgotten=0).chances(evidence(0.9), tagged=True)[0] == 0
    assert calibrated(forgotten=9).chances(evidence(0.9), tagged=True)[0] > 0


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=60))
def test_isotonic_shares_rise_with_the_score_and_keep_the_sum(pairs):
    scores, right = np.array([p[0] for p in pairs], float), np.array([p[1] for p in pairs])
    edges, shares, sizes = _isotonic(scores, right)
    assert (np.diff(edges[:, 0]) > 0).all()
    assert (edges[:-1, 1] < edges[1:, 0]).all()
    assert (np.diff(shares) > 0).all()
    assert sizes.sum() == len(pairs)
    assert shares @ sizes == pytest.approx(right.sum())


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_a_lower_bound_lies_below_the_share_and_rises_with_the_number(size, share):
    assert _lower_bound(share, size) >= -1e-9
    assert _lower_bound(share, size) <= share + 1e-9
    assert _lower_bound(share, size) <= _lower_bound(share, size * 2) + 1e-9


@pytest.mark.parametrize(("seen", "enough"), [(1, False), (3, False), (5, True)])
def test_a_few_right_ones_are_not_enough(seen, enough):
    assert (_lower_bound(1.0, seen) >= THRESHOLD) == enough
