"""Whether pending work makes progress, and why not."""

from __future__ import annotations

import pytest

from pipelines.cache.leases import LEASE_SECONDS
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
    assert cache.leases.waiting() is None


def test_the_oldest_note_says_for_how_long_work_waits(cache, clock):
    record(cache.ledger, "old.md")
    clock.now += 30
    record(cache.ledger, "new.md")
    clock.now += 10
    found = cache.leases.waiting()
    assert (found.words, found.done_s, found.is_leased, found.reason) == (2, None, False, None)
    assert found.oldest_s == pytest.approx(40)


def test_a_lease_counts_while_it_lasts(cache, clock):
    record(cache.ledger, "a.md")
    cache.leases.take("words", 1, "me")
    assert cache.leases.waiting().is_leased
    clock.now += LEASE_SECONDS
    assert not cache.leases.waiting().is_leased


def test_the_reason_is_that_of_a_note_that_waits(cache):
    record(cache.ledger, "a.md")
    (row,) = cache.leases.take("words", 1, "me")
    cache.leases.postpone(row, "unreadable", "permission denied")
    assert cache.leases.waiting().reason == "permission denied"


def test_a_domain_was_worked_on_if_a_job_of_its_own_indexed_notes(history):
    job(history, "done", domain="other", notes=3)
    job(history, "done", notes=0)
    assert not history.was_worked_on("garden", 60)
    job(history, "done", notes=1)
    assert history.was_worked_on("garden", 60)
    assert not history.was_worked_on("garden", -1)


@pytest.mark.parametrize("domain", ["garden", "*"])
def test_the_last_trouble_is_that_of_the_domain_or_of_all(history, domain):
    job(history, "failed", error="first")
    job(history, "put off", domain=domain, error="last")
    job(history, "failed", domain="other", error="another's")
    job(history, "done", notes=1)
    assert history.last_trouble("garden", 60) == "last"
    assert history.last_trouble("garden", -1) is None
