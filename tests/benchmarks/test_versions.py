import pytest

from benchmarks.versions import interval


def test_two_versions_that_are_the_same_have_an_interval_around_one():
    rounds = [[1.0, 2.0, 3.0], [2.0, 3.0, 1.0], [1.5, 2.5, 2.0]]
    ratio, low, high = interval(rounds, rounds)
    assert ratio == 1.0
    assert low <= 1.0 <= high


def test_a_version_that_takes_twice_as_long_has_a_ratio_of_two():
    old = [[1.0, 1.1, 0.9]] * 10
    ratio, low, high = interval([[2 * ms for ms in taken] for taken in old], old)
    assert (ratio, low, high) == pytest.approx((2.0, 2.0, 2.0))
