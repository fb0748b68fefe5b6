"""A person and the service write one queue at full speed; any number of edits by `benchmarks.faults reviews`."""

from __future__ import annotations

import random

from tests.faults.reviews import race


def test_nothing_that_a_person_writes_is_lost_and_nothing_comes_back(tmp_path, tiny_model):
    found = race(random.Random(), tmp_path, tiny_model, 120)  # noqa: S311 - an editor, not a secret
    wrong = ("lost", "lines_twice", "items_twice", "resurrected", "ticks_lost")
    assert {name: found[name] for name in wrong} == dict.fromkeys(wrong, 0.0)
