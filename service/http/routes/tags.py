"""The routes of tags."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from pipelines.state.tags import ProposalState
from service.usecases.schemas.tags import (
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
from service.usecases.tags import Tags


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
