"""How much of a sweep runs: a share of it for every change, all of it if EVERINDEX_TEST_ALL is set."""

from __future__ import annotations

import os

import pytest

ALL = bool(os.environ.get("EVERINDEX_TEST_ALL"))

long = pytest.mark.skipif(not ALL, reason="it takes a minute, so `.ci/full` makes it")


def share(some: int, everything: int) -> int:
    """Return how many rounds are made: some of them, or everything."""
    return everything if ALL else some
