"""The operators' routes, as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query

from pipelines.state.jobs import LAST_ID, JobFilter, JobState
from service.usecases.operations import Operations
from service.usecases.parked import Parked
from service.usecases.schemas.operations import (
    Confirmation,
    Emptied,
    JobItem,
    JobList,
    Overview,
    ParkedChoice,
    ParkedList,
    ParkedPaths,
    Paused,
    QueueState,
    Series,
)

_MOST_JOBS = 500
_Name = Annotated[str | None, Query(max_length=200)]
_Text = Annotated[str | None, Query(max_length=1_000)]


def add_operations(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    _add_facts(app, operations)
    _add_queue(app, operations)
    _add_parked(app, operations.parked)


def _add_facts(app: FastAPI, operations: Operations) -> None:
    @app.get("/ops/overview.json")
    def overview() -> Overview:
        """Return the state of domains, watcher, embedder and processes."""
        return operations.overview()

    @app.get("/ops/jobs.json")
    def jobs(
        task: _Name = None,
        domain: _Name = None,
        state: JobState | None = None,
        path: _Text = None,
        error: _Text = None,
        before: Annotated[int | None, Query(ge=1, le=LAST_ID)] = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_JOBS)] = 50,
    ) -> JobList:
        """List jobs, newest first; `path` and `error` match any part of a job's path or error."""
        wanted = JobFilter(task=task, domain=domain, state=state, path=path, error=error)
        return operations.jobs(wanted, before=before, limit=limit)

    @app.get("/ops/jobs/{number}.json")
    def job(number: Annotated[int, Path(ge=1, le=LAST_ID)]) -> JobItem:
        """Return one job with its log lines."""
        return operations.job(number)

    @app.get("/ops/series.json")
    def series(hours: Literal["1", "24"] = "1") -> Series:
        """Return throughput and duration of the last hour, minute by minute, or of the last day."""
        return operations.series(int(hours))


def _add_queue(app: FastAPI, operations: Operations) -> None:
    @app.get("/ops/queue.json")
    def queue() -> QueueState:
        """Return the waiting tasks by priority and task, the running jobs, and the paused domains."""
        return operations.queue_state()

    @app.post("/ops/queue/pause")
    def pause(domain: str) -> Paused:
        """Pause the indexing of a domain. Saves are still recorded, and nothing is lost."""
        return operations.pause(domain, paused=True)

    @app.post("/ops/queue/resume")
    def resume(domain: str) -> Paused:
        """Resume the indexing of a paused domain."""
        return operations.pause(domain, paused=False)

    @app.post("/ops/queue/empty")
    def empty(_: Confirmation) -> Emptied:
        """Remove everything from the queue. Pending work is found again within seconds."""
        return operations.empty()


def _add_parked(app: FastAPI, notes: Parked) -> None:
    @app.get("/ops/parked.json")
    def parked() -> ParkedList:
        """List the notes that cannot be indexed, and why."""
        return notes.shown()

    @app.post("/ops/parked/retry")
    def retry(choice: ParkedChoice) -> ParkedPaths:
        """Retry parked notes: those named, and all with the given kind of reason."""
        return notes.retry(choice)

    @app.post("/ops/parked/forget")
    def forget(choice: ParkedChoice) -> ParkedPaths:
        """Hide parked notes until they change and fail again."""
        return notes.forget(choice)
