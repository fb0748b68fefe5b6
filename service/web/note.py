"""A note's page: the note, rendered or as it is written, and beside it what the index knows about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from pipelines.formats import format_of
from pipelines.vault.obsidian import open_link
from service.http.auth import SCRIPTED_POLICY
from service.schemas.notes import NodeChunk
from service.usecases.notes import Reader, log_entries
from service.usecases.search import View
from service.web.files import diagram_address
from service.web.filters import Pages
from service.web.note_html import OutlineEntry, RenderedNote, Targets, render_note
from workers.attention import chosen

# A document as HTML: the text that was read from it, part by part, each under its place and headings.


_MOST_OUTLINED = 200
_PART = Markup(
    '<section id="{id}" data-end="{end}"><h2{anchor}>{name}</h2>\n<pre class="{kind}">{text}</pre></section>\n'
)
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
        anchor = Markup(' id="page={}"').format(place.first) if place and place.kind == "page" else ""
        parts.append(
            _PART.format(id=f"L{first}", end=last, anchor=anchor, name=name, kind=kind, text=_text(part))
        )
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
# Formulas have fonts of their own, and a diagram is drawn in a frame.
_POLICY = f"{SCRIPTED_POLICY}; font-src 'self'; frame-src 'self'"


def add_note_page(app: FastAPI, pages: Pages, reader: Reader, view: View) -> None:
    """Add the route."""
    resources = view.resources

    @app.get("/notes/{path:path}", response_class=HTMLResponse, include_in_schema=False)
    def note_page(path: str, *, raw: bool = False) -> HTMLResponse:
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
        log = log_entries(view, note.path, _LATEST_ENTRIES)
        return pages.show(
            "note", policy=_POLICY, diagram=diagram_address(), note=note, rendered=rendered, raw=raw, log=log
        )
