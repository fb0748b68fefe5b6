"""Whether pending work makes progress, and why not."""

from __future__ import annotations

import time

import pytest

from pipelines.cache.leases import LEASE_SECONDS, last_trouble, waiting, was_worked_on
from pipelines.state.jobs import History, Result

from .conftest import record


@pytest.fixture
def history(tmp_path):
    opened = History(tmp_path)
    yield opened
    opened.close()


def job(history, state, *, domain="garden", error=None, notes=0):
    number = history.start("id", "index_notes", domain, worker="here")
    history.finish(number, Result(state, 1.0, notes=notes, error=error))


def test_nothing_waits_in_a_cache_that_owes_nothing(cache):
    assert waiting(cache.con) is None


def test_the_oldest_note_says_for_how_long_work_waits(cache, clock):
    clock.now = time.monotonic() - 40
    record(cache.ledger, "old.md")
    clock.now += 30
    record(cache.ledger, "new.md")
    found = waiting(cache.con)
    assert (found.words, found.done_s, found.is_leased, found.reason) == (2, None, False, None)
    assert 40 <= found.oldest_s < 40 + LEASE_SECONDS


def test_a_lease_counts_while_it_lasts(cache, clock):
    clock.now = time.monotonic()
    record(cache.ledger, "a.md")
    cache.leases.take("words", 1, "me")
    assert waiting(cache.con).is_leased
    cache.con.execute("UPDATE vault_file SET lease_until = ?", (time.monotonic() - 1,))
    assert not waiting(cache.con).is_leased


def test_the_reason_is_that_of_a_note_that_waits(cache, clock):
    clock.now = time.monotonic()
    record(cache.ledger, "a.md")
    (row,) = cache.leases.take("words", 1, "me")
    cache.leases.postpone(row, "unreadable", "permission denied")
    assert waiting(cache.con).reason == "permission denied"


def test_a_domain_was_worked_on_if_a_job_of_its_own_indexed_notes(history):
    job(history, "done", domain="other", notes=3)
    job(history, "done", notes=0)
    assert not was_worked_on(history._con, "garden", 60)
    job(history, "done", notes=1)
    assert was_worked_on(history._con, "garden", 60)
    assert not was_worked_on(history._con, "garden", -1)


@pytest.mark.parametrize("domain", ["garden", "*"])
def test_the_last_trouble_is_that_of_the_domain_or_of_all(history, domain):
    job(history, "failed", error="first")
    job(history, "put off", domain=domain, error="last")
    job(history, "failed", domain="other", error="another's")
    job(history, "done", notes=1)
    assert last_trouble(history._con, "garden", 60) == "last"
    assert last_trouble(history._con, "garden", -1) is None
