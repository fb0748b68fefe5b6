"""The statistics behind a verdict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from pipelines.search.evaluate import holm, judge

GAINS = st.lists(st.integers(-4, 4).map(lambda n: n / 4), min_size=2, max_size=60)


@settings(max_examples=20)
@given(GAINS)
def test_p_is_that_of_a_paired_randomisation_test(gains):
    theirs = permutation_test(
        (np.array(gains),),
        np.mean,
        permutation_type="samples",
        n_resamples=4_000,
        rng=np.random.default_rng(2),
    )
    assert judge(gains).p == pytest.approx(theirs.pvalue, abs=0.035)


@settings(max_examples=50)
@given(GAINS)
def test_the_word_says_where_the_interval_lies(gains):
    found = judge(gains)
    assert -1.0 <= found.low <= found.gain + 1e-9
    assert found.gain - 1e-9 <= found.high <= 1.0
    if found.word == "useful":
        assert found.low > 0.0
    elif found.word == "harmful":
        assert found.high < 0.0
    elif found.word == "neutral":
        assert found.low <= 1e-9
        assert found.high >= -1e-9


@settings(max_examples=20)
@given(GAINS)
def test_a_loss_is_a_gain_the_other_way_round(gains):
    one, other = judge(gains), judge([-gain for gain in gains])
    assert (one.p, one.gain, one.low, one.high) == pytest.approx(
        (other.p, -other.gain, -other.high, -other.low)
    )


@settings(max_examples=20)
@given(GAINS, st.integers(1, 5))
def test_weights_that_are_equal_change_nothing(gains, weight):
    assert judge(gains, [weight] * len(gains)).gain == pytest.approx(judge(gains).gain)
    assert judge(gains, [weight] * len(gains)).p == judge(gains).p


def test_the_interval_of_a_plain_sample_is_close_to_the_one_of_student():
    gains = np.random.default_rng(3).normal(0.1, 0.2, 200)
    found, half = judge(list(gains)), 1.972 * gains.std(ddof=1) / 200**0.5
    assert (found.low, found.high) == pytest.approx((gains.mean() - half, gains.mean() + half), abs=0.003)
    assert found.word == "useful"


@pytest.mark.parametrize(
    ("gains", "word"),
    [
        ([0.2] * 19, "too few questions to tell"),
        ([0.2] * 20, "useful"),
        ([-0.2] * 20, "harmful"),
        ([0.2, -0.2] * 10, "neutral"),
        ([0.0] * 20, "neutral"),
        ([0.2] * 5 + [0.0] * 100, "too few questions to tell"),
        ([0.2] * 6 + [0.0] * 100, "useful"),
        ([], "too few questions to tell"),
    ],
)
def test_the_word_of(gains, word):
    assert judge(gains).word == word


def test_the_draws_are_the_same_each_time():
    gains = [0.1, -0.3, 0.2, 0.05] * 8
    assert judge(gains) == judge(gains)


def test_each_set_counts_alike_by_weights():
    assert judge([1.0] + [0.0] * 9, [1.0] + [1 / 9] * 9).gain == pytest.approx(0.5)


def test_p_is_corrected_for_all_that_were_tried():
    # 3 x 0.01, 2 x 0.03, and 0.04, which may not be below the one before it.
    assert holm({"b": 0.03, "a": 0.01, "c": 0.04}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
