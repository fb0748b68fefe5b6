"""Which worker has which pending work, and for how long."""

from __future__ import annotations

import pytest

from pipelines.cache.leases import LEASE_SECONDS
from pipelines.errors import StaleWorkError
from pipelines.model import HIGH_PRIORITY

from .conftest import record


def test_saves_are_leased_before_a_scans_rows(cache):
    record(cache.ledger, "scanned.md")
    record(cache.ledger, "saved.md", priority=HIGH_PRIORITY)
    assert [row.path for row in cache.leases.take("words", 10, "me")] == ["saved.md", "scanned.md"]


def test_a_leased_row_is_not_leased_again_until_the_lease_runs_out(cache, clock):
    record(cache.ledger, "a.md")
    assert len(cache.leases.take("words", 10, "me")) == 1
    assert (cache.leases.take("words", 10, "you"), cache.leases.owes("words")) == ([], False)
    clock.now += LEASE_SECONDS + 1
    assert cache.leases.owes("words")
    assert len(cache.leases.take("words", 10, "you")) == 1


def test_a_clock_that_starts_again_after_a_reboot_leaves_no_lease_stuck(cache, clock):
    clock.now = 1_000_000.0
    record(cache.ledger, "leased.md")
    cache.leases.take("words", 10, "me")
    record(cache.ledger, "postponed.md")
    cache.leases.postpone(cache.leases.take("words", 10, "me")[0], "unreadable", "why")
    clock.now = 5.0
    assert {row.path for row in cache.leases.take("words", 10, "you")} | {
        row.path for row in cache.leases.take("words", 10, "you")
    } == {"leased.md", "postponed.md"}


def test_a_lost_lease_cannot_be_claimed(cache, clock):
    record(cache.ledger, "a.md")
    (mine,) = cache.leases.take("words", 10, "me")
    clock.now += LEASE_SECONDS + 1
    cache.leases.take("words", 10, "you")
    with pytest.raises(StaleWorkError):
        cache.leases.claim(mine, "h1")


def test_an_expired_lease_that_was_not_taken_can_still_be_claimed(cache, clock):
    record(cache.ledger, "a.md")
    (mine,) = cache.leases.take("words", 10, "me")
    clock.now += LEASE_SECONDS + 1
    assert cache.leases.claim(mine, "h1") == 1


def test_newer_content_makes_older_work_stale_but_not_work_on_that_content(cache):
    record(cache.ledger, "a.md")
    (row,) = cache.leases.take("words", 10, "me")
    record(cache.ledger, "a.md", sha="h2")
    with pytest.raises(StaleWorkError):
        cache.leases.claim(row, "h1")
    assert cache.leases.claim(row, "h2") == 2


def test_postponed_rows_wait_longer_each_time_and_released_ones_do_not(cache, clock):
    record(cache.ledger, "a.md")
    waits = []
    for _ in range(3):
        (row,) = cache.leases.take("words", 10, "me")
        cache.leases.postpone(row, "unreadable", "why")
        start = clock.now
        while not cache.leases.owes("words"):
            clock.now += 0.5
        waits.append(clock.now - start)
    assert waits == sorted(set(waits))
    (row,) = cache.leases.take("words", 10, "me")
    cache.leases.release([row])
    (again,) = cache.leases.take("words", 10, "me")
    assert again.attempts == row.attempts


def test_a_parked_row_is_pending_again_on_request_only(cache):
    record(cache.ledger, "a.md")
    (row,) = cache.leases.take("words", 10, "me")
    cache.leases.parked(row, "too-large", "why", indexed=False)
    assert (cache.leases.owes("words"), cache.ledger.pending()[0]) == (False, 0)
    assert cache.ledger.retry("a.md")
    assert cache.leases.owes("words")
    assert not cache.ledger.retry("a.md")
