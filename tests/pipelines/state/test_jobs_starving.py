"""What jobs say of a domain whose pending work makes no progress."""

from __future__ import annotations

import pytest

from pipelines.state.jobs import History, Result

ON_BOTH_STORES = True


@pytest.fixture
def history(place):
    opened = History(place)
    yield opened
    opened.close()


def job(history, state, *, domain="garden", error=None, notes=0):
    number = history.start("id", "index_notes", domain, worker="here")
    history.finish(number, Result(state, 1.0, notes=notes, error=error))


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
