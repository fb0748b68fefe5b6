"""Every job of a worker is in the history with its outcome, even when the worker is killed."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
import structlog

from pipelines.errors import StorageUnavailableError
from pipelines.indexing.reconcile import check_paths
from pipelines.state.jobs import History, JobFilter
from tests.consumer import work
from workers.heartbeat import process_name
from workers.jobs import job
from workers.run import make_upkeep_tasks, recorded
from workers.tasks import announce, make_tasks, reconcile_now, sweep


@pytest.fixture
def recorder(resources, queue):
    with recorded(queue, resources) as made:
        yield made


@pytest.fixture
def tasks(resources, queue, recorder):  # noqa: ARG001 - what is done is recorded
    return make_tasks(queue, resources)


@pytest.fixture
def recompute(resources, queue, recorder):  # noqa: ARG001 - what is done is recorded
    (domain,) = resources.domains()
    resources.cache(domain).edges.graph_changed()
    return make_upkeep_tasks(queue, resources).recompute_graph


@pytest.fixture
def history(resources):
    resources.state()
    opened = History(resources.place.state)
    yield opened
    opened.close()


def save(resources, queue, tasks, **notes):
    """Do what the watcher does when notes were saved."""
    for name, text in notes.items():
        (resources.root / f"{name}.md").write_text(text)
    (domain,) = resources.domains()
    reports = check_paths(
        resources.root,
        resources.registry(),
        resources.caches(),
        {f"{name}.md" for name in notes},
        max_bytes=1_000_000,
    )
    announce(queue, tasks, domain, resources.cache(domain), reports[domain.slug].events)


def test_a_saved_note_is_in_the_history_with_how_long_it_took(resources, queue, tasks, history):
    save(resources, queue, tasks, soil="Compost for the tomato.")
    work(queue)
    (job,) = history.page(JobFilter(task="index_notes"))
    assert (job.state, job.domain, job.path, job.notes, job.attempt) == ("done", "vault", "soil.md", 1, 1)
    assert job.worker == process_name()
    assert job.waited_ms >= 0
    assert job.ran_ms > 0
    assert len(job.saved_ms) == 1
    assert 0 < job.saved_ms[0] < 60_000
    assert job.error is None
    assert history.histogram("saved_seconds").at_most[float("inf")] == 1


def test_a_save_that_newer_content_followed_is_counted_once(resources, queue, tasks, history):
    save(resources, queue, tasks, soil="first")
    save(resources, queue, tasks, soil="second")
    work(queue)
    assert history.counts()["index_notes", "done"] == 1
    assert history.histogram("saved_seconds").at_most[float("inf")] == 1


def test_a_first_index_counts_its_notes_but_no_saves(resources, queue, tasks, history):
    for n in range(3):
        (resources.root / f"{n}.md").write_text(f"note {n}")
    reconcile_now(queue, tasks, resources)
    work(queue)
    job = history.page(JobFilter(task="drain"))[-1]
    assert (job.state, job.notes, job.saved_ms) == ("done", 3, ())


def test_saves_of_several_domains_that_one_job_indexed_count_for_their_own(resources, queue, tasks, history):
    (resources.root / "_domains.yaml").write_text("notes: {legacy: true}\nwork: {path: work}\n")
    (resources.root / "work").mkdir()
    reconcile_now(queue, tasks, resources)
    work(queue)
    names = {"soil.md": "notes", "work/plan.md": "work", "work/offer.md": "work"}
    for name in names:
        (resources.root / name).write_text(f"The text of {name}.")
    reports = check_paths(
        resources.root,
        resources.registry(),
        {one.slug: resources.cache(one) for one in resources.domains()},
        set(names),
        max_bytes=1_000_000,
    )
    first = resources.domains()[0]
    announce(queue, tasks, first, resources.cache(first), reports[first.slug].events)
    work(queue)
    assert {slug: len(found) for slug, found in history.saved_seconds("2000-01-01").items()} == {
        "notes": 1,
        "work": 2,
    }


def test_a_job_that_fails_says_why_and_shows_its_log(queue, recompute, history, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("that was wrong")

    monkeypatch.setattr("workers.run.rank_domain", broken)
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    try:
        recompute("vault")
        work(queue)
    finally:
        structlog.reset_defaults()
    (job,) = history.page(JobFilter(state="failed"))
    assert job.error == "ZeroDivisionError: that was wrong"
    assert any("job failed" in line for line in job.log)
    assert any(line.startswith("Traceback") for line in job.log)
    assert job.log[-1]
    assert history.page(JobFilter(error="that was")) == [job]


def test_a_log_line_outside_a_job_belongs_to_none(queue, recompute, history):
    logging.getLogger("before").warning("outside of the job")
    recompute("vault")
    work(queue)
    (job,) = history.page(JobFilter())
    assert not any("outside of the job" in line for line in job.log)


def test_a_job_that_is_postponed_says_why(resources, queue, tasks, history):
    resources.root.rename(resources.root.with_name("away"))
    tasks.reconcile_vault("request", False)  # noqa: FBT003 - a task's argument
    work(queue)
    resources.root.with_name("away").rename(resources.root)
    (job,) = history.page(JobFilter())
    assert (job.state, job.domain) == ("put off", "*")
    assert "is not there" in job.error


def test_a_review_that_postpones_a_note_is_done(queue, recorder, history):  # noqa: ARG001 - what is done is recorded
    @queue.task(name="review_tags", context=True)
    def review_tags(domain, task):
        with job(task, domain) as doing:
            doing |= {"applied": [], "put_off": ["a.md"]}

    review_tags("vault")
    work(queue)
    (done,) = history.page(JobFilter())
    assert (done.state, done.error) == ("done", None)


def test_a_full_disk_keeps_no_job_from_running(resources, queue, tasks, history, monkeypatch):
    def full(*_, **__):
        raise StorageUnavailableError("the disk is full")

    monkeypatch.setattr("pipelines.state.jobs.History.start", full)
    save(resources, queue, tasks, soil="Compost.")
    work(queue)
    (domain,) = resources.domains()
    assert resources.cache(domain).counts().notes == 1
    assert history.page(JobFilter()) == []


def test_an_end_that_could_not_be_written_is_written_before_the_next_job(
    queue, recompute, history, monkeypatch
):
    def full(*_, **__):
        raise StorageUnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.state.jobs.History.finish", full)
        recompute("vault")
        work(queue)
    (job,) = history.running()
    recompute("vault")
    work(queue)
    assert history.get(job.id).state == "done"
    assert history.running() == []


@pytest.mark.parametrize("part", ["start", "finish"])
def test_a_disk_that_has_no_space_for_the_history_is_said_once(queue, recompute, monkeypatch, capsys, part):
    def full(*_, **__):
        raise StorageUnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(f"pipelines.state.jobs.History.{part}", full)
        for _ in range(3):
            recompute("vault")
            work(queue)
    assert capsys.readouterr().out.count("job history cannot be written") == 1
    recompute("vault")
    work(queue)
    assert capsys.readouterr().out.count("this is over") == 1


def test_a_message_of_an_older_version_has_no_wait(queue, recompute, history):
    recompute("vault")
    task = queue.dequeue()
    del task.enqueued_at
    queue.execute(task)
    (job,) = history.page(JobFilter())
    assert (job.state, job.waited_ms) == ("done", None)


KILLED = """
import os, signal, sys
from pathlib import Path
from workers.heartbeat import process_name
from pipelines.state.jobs import History
History(Path(sys.argv[1])).start("id", "drain", "vault", worker=process_name())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_job_of_a_killed_worker_is_lost_and_ours_runs_on(resources, recorder, history):
    subprocess.run([sys.executable, "-c", KILLED, str(resources.place.state)], check=False)
    ours = history.start("id", "drain", "vault", worker=process_name())
    (killed, _) = history.running()
    recorder.sweep(14, 1000)
    assert (history.get(killed.id).state, history.get(ours).state) == ("lost", "running")


def test_the_sweep_forgets_old_jobs(queue, recompute, recorder, history):
    for _ in range(5):
        recompute("vault")
    work(queue)
    recorder.sweep(14, 2)
    assert len(history.page(JobFilter())) == 2


# A paused domain


def pending(resources):
    (domain,) = resources.domains()
    return resources.cache(domain).counts().pending


def test_a_paused_domain_is_not_indexed_and_nothing_is_lost(resources, queue, tasks, history):
    resources.state().decisions.pause("vault", "now")
    save(resources, queue, tasks, soil="Compost.")
    work(queue)
    (job,) = history.page(JobFilter(task="index_notes"))
    assert (job.state, "paused" in job.error, pending(resources)) == ("put off", True, 1)
    for _ in range(3):
        sweep(queue, tasks, resources)
        reconcile_now(queue, tasks, resources)
    assert queue.pending_count() == 0
    resources.state().decisions.resume("vault")
    sweep(queue, tasks, resources)
    work(queue)
    assert pending(resources) == 0


def test_a_drain_that_waits_when_its_domain_is_paused_does_nothing(resources, queue, tasks, history):
    (resources.root / "a.md").write_text("note")
    reconcile_now(queue, tasks, resources)
    resources.state().decisions.pause("vault", "now")
    work(queue)
    (job,) = history.page(JobFilter(task="drain"))
    assert (job.state, pending(resources)) == ("put off", 1)
