"""A document as HTML: the text that was read from it, part by part, each under its place and headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from markupsafe import Markup

from pipelines.formats import format_of
from service.dashboard.note_html import OutlineEntry, RenderedNote
from service.usecases.schemas.notes import NodeChunk

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
