"""Workers parse expensive notes in a separate process, and report it while it lasts."""

from __future__ import annotations

from pipelines.errors import StorageUnavailableError
from pipelines.indexing.ingest import Outcome
from pipelines.indexing.reconcile import check_paths
from pipelines.state.jobs import History, JobFilter
from tests.consumer import work
from workers.jobs import REPORTED_SECONDS, forget_reports, reports_of_parsing
from workers.run import recorded
from workers.tasks import announce, make_tasks, reconcile_now, sweep


def test_heavy_notes_of_a_save_and_of_a_scan_are_found_one_job_each(resources, queue):
    tasks = make_tasks(queue, resources)
    (domain,) = resources.domains()
    (resources.root / "scanned.md").write_text("[" * 20_000)
    with recorded(queue, resources):
        reconcile_now(queue, tasks, resources)
        work(queue)
        (resources.root / "saved.md").write_text("[" * 20_001)
        report = check_paths(
            resources.root, resources.registry(), resources.caches(), ["saved.md"], max_bytes=1_000_000
        )[domain.slug]
        announce(queue, tasks, domain, resources.cache(domain), report.events)
        work(queue)
        sweep(queue, tasks, resources)  # writes what the last job came to
        work(queue)
    counts = resources.cache(domain).counts()
    assert (counts.notes, counts.pending) == (2, 0)
    history = History(resources.place.state)
    jobs = history.page(JobFilter(task="index_apart"), limit=9)
    history.close()
    assert [job.paths for job in jobs if job.paths] == [("saved.md",), ("scanned.md",)]


def test_a_note_that_cannot_be_written_down_now_is_left_to_the_sweep(resources, queue, monkeypatch):
    tasks = make_tasks(queue, resources)
    (domain,) = resources.domains()
    (resources.root / "heavy.md").write_text("[" * 20_000)
    tries = []

    def full(*_):
        tries.append(1)
        if len(tries) < 10:
            raise StorageUnavailableError("the disk is full")
        return Outcome()

    with monkeypatch.context() as patch:
        patch.setattr("workers.tasks.index_apart_of", full)
        reconcile_now(queue, tasks, resources)
        work(queue)
    assert len(tries) == 1
    sweep(queue, tasks, resources)
    work(queue)
    assert resources.cache(domain).counts().notes == 1


def test_a_job_that_could_not_open_the_index_prevents_no_later_one(resources, queue, monkeypatch):
    tasks = make_tasks(queue, resources)
    (domain,) = resources.domains()
    (resources.root / "heavy.md").write_text("[" * 20_000)

    def unavailable(_):
        raise StorageUnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(resources, "cache", unavailable)
        tasks.index_apart(domain.slug)
        work(queue)
    reconcile_now(queue, tasks, resources)
    work(queue)
    assert resources.cache(domain).counts().notes == 1


def test_a_note_that_is_parsed_for_long_is_a_problem_until_that_ends(resources):
    problems = resources.problems()
    with reports_of_parsing(problems) as said:
        said("a.md", REPORTED_SECONDS - 1)
        assert problems.reported() == []
        said("a.md", REPORTED_SECONDS)
        said("a.md", REPORTED_SECONDS + 2)
        (problem,) = problems.reported()
        assert "a.md" in problem.message
    assert problems.reported() == []


def test_what_a_dead_worker_reported_goes_when_another_one_starts(resources):
    problems = resources.problems()
    problems.report("parsing", "a.md", "long")
    problems.report("other", "a.md", "stays")
    forget_reports(problems)
    assert [problem.kind for problem in problems.reported()] == ["other"]
