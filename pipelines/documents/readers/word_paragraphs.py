"""The text of Word's paragraphs and tables, without what was deleted, and the links in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pipelines.documents.readers.packages import (
    Element,
    attribute,
    child,
    local,
    relation_id,
    topmost,
    walk,
)

_LEFT_OUT = ("pPr", "rPr", "del", "moveFrom", "instrText", "rt", "Fallback")
"""Properties, deleted and moved text, codes of fields, reading aids over characters, copies for old programs."""
_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote"}
_WRITTEN = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}

Mark = Callable[[str, str], str]
"""Returns the mark that replaces a reference to a note, given its kind (`footnote`, `endnote`) and id."""


@dataclass(slots=True)
class Found:
    """A paragraph's or a row's text, and the links in it: the id of the relation, and the text of each."""

    text: str = ""
    links: list[tuple[str, str]] = field(default_factory=list)


def text_of(paragraph: Element, mark: Mark) -> Found:
    """Return the text of a paragraph; a line break in it is one in the text."""
    found = Found()
    parts = []
    for one in walk(paragraph, _LEFT_OUT):
        name = local(one)
        if name == "t":
            parts.append(one.text or "")
        elif name in _NOTES:
            parts.append(mark(_NOTES[name], attribute(one, "id")))
        elif name == "hyperlink":
            found.links.append((relation_id(one), _words(one)))
        elif name == "p" and one is not paragraph:
            # A text box.
            parts.append("\n")
        else:
            parts.append(_WRITTEN.get(name, ""))
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    found.text = "\n".join(filter(None, lines))
    return found


def rows_of(table: Element, mark: Mark) -> Iterator[Found]:
    """Yield each row of a table as one line; a table in a cell becomes the text of that cell."""
    for row in topmost(table, ("tr",), _LEFT_OUT):
        if child(row, "trPr", "del") is not None:
            continue
        line = Found()
        cells = []
        for cell in topmost(row, ("tc",), _LEFT_OUT):
            paragraphs = [text_of(one, mark) for one in topmost(cell, ("p",), _LEFT_OUT)]
            cells.append(" ".join(" ".join(one.text for one in paragraphs).split()))
            line.links += [link for one in paragraphs for link in one.links]
        if any(cells):
            line.text = " | ".join(cells).strip()
            yield line


def _words(element: Element) -> str:
    texts = (one.text or "" for one in walk(element, _LEFT_OUT) if local(one) == "t")
    return " ".join("".join(texts).split())
