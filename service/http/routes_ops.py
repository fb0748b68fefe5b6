"""The operators' routes, as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query

from pipelines.state.jobs import LAST_ID, JobFilter, JobState
from pipelines.state.tags import ProposalState
from service.schemas.operations import (
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
from service.schemas.tags import (
    MOST,
    Asked,
    ChangeItem,
    Decided,
    Decisions,
    MissingTags,
    Promoted,
    ProposalList,
    TakenBack,
    WaitAgain,
)
from service.usecases.operations import Operations
from service.usecases.tags import Tags

_MOST_JOBS = 500
_Name = Annotated[str | None, Query(max_length=200)]
_Text = Annotated[str | None, Query(max_length=1_000)]


def add_operations(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    _add_facts(app, operations)
    _add_queue(app, operations)
    _add_parked(app, operations)


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


def _add_parked(app: FastAPI, operations: Operations) -> None:
    notes = operations.parked

    @app.get("/ops/parked.json")
    def parked() -> ParkedList:
        """List the notes that cannot be indexed, and why."""
        return notes.shown()

    @app.post("/ops/parked/retry")
    def retry(choice: ParkedChoice) -> ParkedPaths:
        """Retry parked notes: those named, and all with the given kind of reason."""
        return notes.retry(choice, operations.tasks)

    @app.post("/ops/parked/forget")
    def forget(choice: ParkedChoice) -> ParkedPaths:
        """Hide parked notes until they change and fail again."""
        return notes.forget(choice)


# The routes of tags.


def add_tags(app: FastAPI, tags: Tags) -> None:
    """Add the routes."""
    _add_proposals(app, tags)
    _add_changes(app, tags)


def _add_proposals(app: FastAPI, tags: Tags) -> None:
    @app.get("/proposals")
    def proposals(
        domain: str | None = None,
        state: Annotated[list[ProposalState] | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 200,
    ) -> ProposalList:
        """List proposed tags: those that wait, unless other states are asked for."""
        return tags.proposals(domain, state or ["waiting", "addition"], limit)

    @app.post("/proposals/decide")
    def decide(decisions: Decisions) -> Decided:
        """Accept and reject proposals; a worker writes the notes and the queue."""
        return tags.decide(decisions)

    @app.post("/proposals/undo")
    def undo(taken_back: TakenBack) -> WaitAgain:
        """Let decided proposals wait again; a worker takes tags out of notes as it undoes any change."""
        return tags.undo_decisions(taken_back.ids)

    @app.get("/missing-tags")
    def missing(domain: str | None = None) -> MissingTags:
        """List phrases that many notes share and no tag covers."""
        return tags.missing(domain)

    @app.post("/proposals/ask")
    def ask(path: str | None = None, domain: str | None = None) -> Asked:
        """Request proposals for a note, or for all notes without a tag."""
        return tags.ask(path, domain)


def _add_changes(app: FastAPI, tags: Tags) -> None:
    @app.post("/promote")
    def promote(domain: str | None = None) -> Promoted:
        """Apply what is ticked in the review queues, and rewrite them."""
        return tags.promote(domain)

    @app.post("/apply-renames")
    def apply_renames(domain: str | None = None, *, dry_run: bool = False) -> Promoted:
        """Rename tags as the vocabularies say, in every note of their domains or in none."""
        return tags.rename(domain, dry_run=dry_run)

    @app.get("/changes")
    def changes(
        limit: Annotated[int, Query(ge=1, le=MOST)] = 50, path: str | None = None
    ) -> list[ChangeItem]:
        """List the changes made to notes, newest first."""
        return tags.changes(limit, path)

    @app.post("/changes/undo")
    def undo(number: Annotated[int | None, Query(ge=1, alias="id")] = None) -> Promoted:
        """Undo a promotion or a run of renames, by default the last change; the answer names it."""
        return tags.undo(number)
