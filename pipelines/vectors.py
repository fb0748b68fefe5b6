"""Arithmetic on unit vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def mean_vector(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32] | None:
    """Return the mean of unit vectors at unit length; None if there are none, or if they cancel each other out."""
    if not vectors:
        return None
    mean: NDArray[np.float32] = np.stack(vectors).mean(axis=0)
    length = np.float32(np.linalg.norm(mean))
    return mean / length if length else None
