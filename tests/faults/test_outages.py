"""The queue is lost, or the disk is full: what is saved meanwhile is indexed later, without a user's help."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from itertools import islice

import pytest

from tests.documents import DOCUMENTS
from tests.faults.kills import SOME_DOCUMENTS
from tests.faults.outages import NoSmallDiskError, disk_full, queue_losses
from tests.sweeps import ALL, long, share
from tests.whole.conftest import PATIENCE

LOSSES = share(1, 2) * 4  # four kinds
MOST_LOGGED_KB = 20


@pytest.fixture
def chance():
    return random.Random(1)  # noqa: S311 - no secret


def add_up(rounds, count):
    """Return the sums of some rounds; of what begins with "worst", the largest."""
    total = Counter()
    with closing(rounds):
        for one in islice(rounds, count):
            for name, value in one.items():
                total[name] = max(total[name], value) if name.startswith("worst") else total[name] + value
    return total


def assert_nothing_amiss(total):
    amiss = ("unequal", "unsaid", "unmet", "restarts", "failed_answers")
    assert {name: total[name] for name in amiss} == dict.fromkeys(amiss, 0)
    assert total["answers"] > 0
    assert total["worst_equal_s"] < PATIENCE
    assert total["worst_log_kb"] < MOST_LOGGED_KB


@pytest.mark.timeout(1200)
def test_a_queue_that_is_deleted_damaged_flushed_or_killed_in_a_burst_of_saves_costs_no_note(
    chance, tmp_path, tiny_model
):
    documents = DOCUMENTS if ALL else SOME_DOCUMENTS
    total = add_up(queue_losses(chance, tmp_path, tiny_model, documents), LOSSES)
    assert total["losses"] == LOSSES
    assert_nothing_amiss(total)


@long
@pytest.mark.timeout(1200)
def test_a_full_disk_is_reported_and_indexing_goes_on_by_itself_once_there_is_space(
    chance, tmp_path, tiny_model
):
    try:
        total = add_up(disk_full(chance, tmp_path, tiny_model), 2)
    except NoSmallDiskError as error:
        pytest.skip(str(error))
    assert total["fills"] == 2
    assert_nothing_amiss(total)
