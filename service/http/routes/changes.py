"""The routes that change which notes are indexed."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Response

from service.usecases.ignoring import stop_indexing
from service.usecases.index_request import IndexRequests
from service.usecases.new_notes import write_note
from service.usecases.schemas.changes import IgnoredAnswer, IndexAnswer, NewNote, WrittenNote
from service.usecases.search import SearchService


def add_changes(app: FastAPI, questions: SearchService) -> None:
    """Add the routes."""
    requests = IndexRequests(questions)

    @app.post("/index", responses={202: {"model": IndexAnswer}})
    def index(
        path: Annotated[str, Query(min_length=1, examples=["Concepts/Moats.md"])],
        response: Response,
        *,
        wait: bool = False,
    ) -> IndexAnswer:
        """Index a note now; with `wait`, answer when a search finds it, or after 30 seconds.

        The status is 202 as long as the note waits: no worker runs, its domain is paused, or it is being written to.
        """
        answer = requests.index(path, wait=wait)
        response.status_code = 202 if answer.state in ("queued", "pending") else 200
        return answer

    @app.post("/notes", status_code=201)
    def write(note: NewNote) -> WrittenNote:
        """Write a new note into the operator's inbox, under a name made from its title; nothing is overwritten.

        Off unless the setting `inbox` names a folder.
        """
        return write_note(questions, note)

    @app.delete("/documents/{path:path}")
    def stop(path: str) -> IgnoredAnswer:
        """Stop indexing a note, by a line in the vault's `.everindexignore`; its file stays.

        `everindex ignore --undo` removes the line.
        """
        return stop_indexing(questions, path)
