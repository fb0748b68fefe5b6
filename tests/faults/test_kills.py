"""Processes that are killed at any moment: the index equals the disk afterwards, and no question hangs."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from itertools import islice

import pytest

from tests.documents import DOCUMENTS
from tests.faults.kills import KILLS, SOME_DOCUMENTS, kills
from tests.sweeps import ALL, long, share
from tests.whole.conftest import PATIENCE

ROUNDS = share(len(KILLS), 15)


@pytest.mark.timeout(ROUNDS * 60)
@pytest.mark.parametrize("queue", ["embedded", pytest.param("redis", marks=long)])
def test_killing_any_process_during_edits_loses_no_note_and_leaves_no_stale_or_duplicate_ones(
    queue, request, tmp_path, tiny_model
):
    redis_url = request.getfixturevalue("redis_url") if queue == "redis" else None
    total = Counter()
    chance = random.Random(queue)  # noqa: S311 - no secret
    documents = DOCUMENTS if ALL else SOME_DOCUMENTS
    with closing(kills(chance, tmp_path, redis_url, tiny_model, documents)) as rounds:
        for one in islice(rounds, ROUNDS):
            assert one.pop("worst_quiet_s") < PATIENCE
            total.update(one)
    assert total["kills"] == ROUNDS
    assert total["answers"] > ROUNDS
    names = ("lost", "ghosts", "duplicates", "drift", "orphans", "failed_answers", "restarts")
    assert {name: total[name] for name in names} == dict.fromkeys(names, 0)
