"""Arithmetic of vectors."""

import numpy as np
import pytest

from pipelines.cache.vectors import mean_vector


def test_the_mean_of_vectors_is_of_unit_length_unless_they_cancel():
    east, north = np.float32([1, 0]), np.float32([0, 1])
    assert mean_vector([east, north]) == pytest.approx(np.sqrt([0.5, 0.5]))
    assert mean_vector([east, -east]) is None
    assert mean_vector([]) is None
