"""A note's page: the note, rendered or as it is written, and beside it what the index knows about it."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from pipelines.vault.obsidian import open_link
from service.dashboard.document_html import render_document
from service.dashboard.note_html import RenderedNote, render_note
from service.dashboard.note_inlines import Targets
from service.dashboard.rendering import Pages
from service.usecases.note_log import log_entries
from service.usecases.reading import Reader
from service.usecases.search import SearchService
from workers.attention import chosen

_LATEST_ENTRIES = 5


def add_note_page(app: FastAPI, pages: Pages, reader: Reader, questions: SearchService) -> None:
    """Add the route."""
    resources = questions.resources

    @app.get("/notes/{path:path}", response_class=HTMLResponse, include_in_schema=False)
    def note_page(path: str, *, raw: bool = False) -> HTMLResponse:
        """Show a note. The path is a key of the ledger, never opened as given."""
        note = reader.open(path)
        chosen(resources, [note.path], "opened")
        targets = Targets(note.meant, lambda file: open_link(resources.root, file), note.documents)
        rendered: RenderedNote | None = None
        if not note.markdown:
            rendered = render_document(note.path, note.title, note.node.chunks if note.node else ())
        elif not (raw or note.heavy):
            rendered = render_note(note.text, targets)
        log = log_entries(questions, note.path, _LATEST_ENTRIES)
        return pages.show("note", note=note, rendered=rendered, raw=raw, log=log)
