"""A job says what it did, why it was postponed, or why it failed; a paused domain's work waits."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from pipelines.errors import DomainPausedError, StorageUnavailableError
from tests.consumer import work
from workers.jobs import is_paused, job, require_running


@pytest.fixture
def do(queue):
    """Run a function as a job of the queue, and return the lines that it logged and what is known of it."""

    def run(function):
        known = []

        @queue.task(name="drain", context=True)
        def drain(domain, task):
            try:
                with job(task, domain, notes=1) as doing:
                    function(doing)
            finally:
                known.append(task.doing)

        with capture_logs() as lines:
            drain("vault")
            work(queue)
        return lines, *known

    return run


def test_a_job_is_one_line_with_what_it_was_given_and_what_it_did(do):
    lines, known = do(lambda doing: doing.update(words=3))
    # That another test's trouble is over is a line of its own.
    (line,) = [line for line in lines if line["event"] == "job done"]
    assert (line["notes"], line["words"]) == (1, 3)
    assert line["ms"] >= 0
    assert known == {"notes": 1, "words": 3}


def test_an_error_that_explains_itself_postpones_the_job(do):
    def full(_):
        raise StorageUnavailableError("the disk is full")

    lines, known = do(full)
    assert known["postponed"] == "the disk is full"
    assert "job failed" not in [line["event"] for line in lines]


def test_an_error_of_ours_is_logged_with_its_traceback(do):
    lines, known = do(lambda _: 1 / 0)
    (line,) = [line for line in lines if line["event"] == "job failed"]
    assert line["exc_info"]
    assert line["log_level"] == "error"
    assert known == {"notes": 1}


def test_a_paused_domain_is_no_place_to_work_until_it_is_resumed(resources):
    decisions = resources.state().decisions
    require_running(resources, "vault")
    decisions.pause("vault", "2026-11-23")
    assert is_paused(resources, "vault")
    assert not is_paused(resources, "other")
    with pytest.raises(DomainPausedError, match="the domain vault is paused"):
        require_running(resources, "vault")
    decisions.resume("vault")
    require_running(resources, "vault")
