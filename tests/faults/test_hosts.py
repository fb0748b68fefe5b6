"""Several hosts with one PostgreSQL: whatever is cut off, killed or frozen, they agree with the disk afterwards."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from itertools import islice

import pytest

from tests.faults.hosts import NoNetworkError, rounds
from tests.postgres import programs
from tests.sweeps import share

ROUNDS = share(5, 20)

pytestmark = pytest.mark.slow


@pytest.mark.timeout(ROUNDS * 120)
def test_hosts_that_are_cut_off_killed_or_frozen_lose_nothing_and_do_nothing_twice(tmp_path):
    programs()
    total = Counter()
    with closing(rounds(random.Random(0), tmp_path / "hosts")) as played:  # noqa: S311 - no secret
        try:
            for one in islice(played, ROUNDS):
                total.update(one)
        except NoNetworkError as error:
            pytest.skip(str(error))
    assert total["rounds"] == ROUNDS
    names = ("lost", "ghosts", "duplicates", "drift", "unequal", "restarts")
    assert {name: total[name] for name in names} == dict.fromkeys(names, 0)
