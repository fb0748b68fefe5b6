"""A note's page: the note, rendered or as it is written, and beside it what the index knows about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pipelines.formats import MARKDOWN, format_of
from pipelines.vault.obsidian import is_vault, open_link
from service.http.auth import SCRIPTED_POLICY
from service.http.errors import problem
from service.schemas.notes import NodeChunk
from service.usecases.notes import (
    Programs,
    Reader,
    log_entries,
    open_folder_of,
    open_in_program,
    programs_for,
)
from service.usecases.search import View
from service.web.files import diagram_address
from service.web.filters import Pages
from service.web.note_html import OutlineEntry, RenderedNote, Targets, file_address, render_note
from workers.attention import chosen

# A document as HTML: the text that was read from it, part by part, each under its place and headings.


_MOST_OUTLINED = 200
_PART = Markup(
    '<section id="{id}" data-end="{end}"><h2{anchor}>{name}{opens}</h2>\n<pre class="{kind}">{text}</pre></section>\n'
)
_OPENS = Markup(' <a class="there" href="{}#page={}" aria-label="Open the file at page {}">&#8599;</a>')
# In these, columns and indentation mean something.
_ALIGNED = ("csv", "xlsx", "ipynb", "yaml", "json", "code")


def render_document(path: str, title: str, chunks: Iterable[NodeChunk]) -> RenderedNote:
    """Return a document's parts as HTML in which nothing of it is active."""
    parts, outline = [], []
    form = format_of(path)
    kind = "read" if form is not None and form.name in _ALIGNED else "read running"
    for name, several in groupby(chunks, key=_name):
        part = list(several)
        first, last = part[0].lines[0], part[-1].lines[1]
        place = part[0].place
        # What `[[report.pdf#page=3]]` names.
        anchor, opens = Markup(), Markup()
        if place and place.kind == "page":
            anchor = Markup(' id="page={}"').format(place.first)
            opens = _OPENS.format(file_address(path), place.first, place.first)
        facts = {"id": f"L{first}", "end": last, "anchor": anchor, "name": name, "opens": opens}
        parts.append(_PART.format(kind=kind, text=_text(part), **facts))
        outline.append(OutlineEntry(2, name, f"L{first}"))
    heading = Markup("<h1>{}</h1>").format(title)
    return RenderedNote((), Markup(), heading, Markup().join(parts), tuple(outline[:_MOST_OUTLINED]))


def _name(chunk: NodeChunk) -> str:
    """Return the lines above a chunk: its headings, and its place if they do not say it."""
    place = chunk.place.shown if chunk.place else ""
    above = " › ".join(chunk.heading_path) or chunk.section
    return f"{above} · {place}" if place and place.casefold() not in above.casefold() else above


def _text(part: Sequence[NodeChunk]) -> str:
    """Return the text of consecutive chunks; what they share comes once."""
    text, end = "", part[0].range[0]
    for chunk in part:
        shared = end - chunk.range[0]
        text += chunk.text[shared:] if shared >= 0 else f"\n{chunk.text}"
        end = max(end, chunk.range[1])
    return text


_LATEST_ENTRIES = 5
_LOOPBACK = ("127.0.0.1", "::1")
# Formulas have fonts of their own, and a diagram is drawn in a frame.
_POLICY = f"{SCRIPTED_POLICY}; font-src 'self'; frame-src 'self'"


@dataclass(frozen=True, slots=True)
class Actions:
    """What a page can do with a note's file.

    `obsidian`: the address that opens it there, if the vault is one of Obsidian's. `file`: that of the file's bytes;
    a note's are its text. `shows_file`: the browser can show it. `programs` are those of this machine.
    """

    obsidian: str | None
    file: str | None
    shows_file: bool
    programs: Programs

    @property
    def primary(self) -> str:
        """Return the name of the action that comes first."""
        found = (
            ("file", self.shows_file),
            ("obsidian", self.obsidian),
            ("program", self.programs.opens),
            ("file", self.file),
        )
        return next((name for name, offered in found if offered), "")


def _actions(request: Request, root: Path, path: str) -> Actions:
    form = format_of(path)
    return Actions(
        obsidian=open_link(root, path) if is_vault(root) else None,
        file=None if form and form.name == MARKDOWN else file_address(path),
        shows_file=bool(form and form.name == "pdf"),
        programs=programs_for(path) if _is_here(request) else Programs(None, folder=False),
    )


def _is_here(request: Request) -> bool:
    """Say whether a browser on this machine asks, of a service that is for this machine alone."""
    return (
        bool(request.app.state.is_local) and request.client is not None and request.client.host in _LOOPBACK
    )


class Opening(BaseModel):
    """Where a note's file is to be opened, and at which line."""

    where: Literal["program", "folder"]
    line: Annotated[int, Field(ge=1, le=10_000_000)] = 1


def add_note_page(app: FastAPI, pages: Pages, reader: Reader, view: View) -> None:
    """Add the routes."""
    resources = view.resources

    @app.get("/notes/{path:path}", response_class=HTMLResponse, include_in_schema=False)
    def note_page(request: Request, path: str, *, raw: bool = False) -> HTMLResponse:
        """Show a note. The path is a key of the ledger, never opened as given."""
        note = reader.open(path)
        chosen(resources, [note.path], "opened")
        targets = Targets(
            note.meant, lambda file: open_link(resources.root, file), note.documents, note.pictures
        )
        rendered: RenderedNote | None = None
        if not note.markdown:
            rendered = render_document(note.path, note.title, note.node.chunks if note.node else ())
        elif not (raw or note.heavy):
            rendered = render_note(note.text, targets)
        return pages.show(
            "note",
            policy=_POLICY,
            diagram=diagram_address(),
            actions=_actions(request, resources.root, note.path),
            note=note,
            rendered=rendered,
            raw=raw,
            log=log_entries(view, note.path, _LATEST_ENTRIES),
        )

    @app.post("/notes/{path:path}", include_in_schema=False)
    def open_note(request: Request, path: str, wanted: Opening) -> Response:
        """Open a note's file in a program of this machine, or show it in its folder."""
        if not _is_here(request):
            return problem(
                request.scope, 403, "files are opened for a browser on the service's own machine alone"
            )
        if wanted.where == "folder":
            open_folder_of(view, path)
        else:
            open_in_program(view, path, wanted.line)
        return JSONResponse({"opened": path})

    @app.get("/parts/mentions", response_class=HTMLResponse, include_in_schema=False)
    def mentions(path: str) -> HTMLResponse:
        """Show the notes that mention a note and do not link to it."""
        return pages.show("mentions", mentions=reader.mentions(path))
