"""Lay out running text as a browser does: white space collapses, blocks end lines, rows are lines of cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pipelines.documents.document import DocumentLink
from pipelines.model import Note, NoteHeading
from pipelines.notes.frontmatter import line_starts
from pipelines.notes.markdown import parse_note

_ITEM = "- "
_CELL = "| "


@dataclass(slots=True)
class FlowingText:
    """The text of one block while it is being collected.

    What separates two pieces of text is pending until the second one comes, so that empty elements leave nothing.
    """

    links: list[DocumentLink] = field(default_factory=list)
    size: int = 0
    cells: int = 0
    """How many table cells are open; inside a cell nothing ends the line."""
    _parts: list[str] = field(default_factory=list)
    _pending: str = ""

    @property
    def next(self) -> int:
        """The offset of the text that is written next."""
        return self.size + len(self._separator())

    def _separator(self) -> str:
        if not self._parts:
            return self._pending.lstrip()
        ended = len(self._parts[-1]) - len(self._parts[-1].rstrip("\n"))
        return self._pending[min(ended, len(self._pending) - len(self._pending.lstrip("\n"))) :]

    @property
    def pieces(self) -> int:
        """How many pieces of text there are; `since` takes this number."""
        return len(self._parts)

    def since(self, pieces: int) -> str:
        """Return, on one line, the text that follows the first `pieces` pieces."""
        return " ".join("".join(self._parts[pieces:]).split())

    def write(self, text: str) -> None:
        """Write text in which any run of white space is one space."""
        words = text.split()
        if text[:1].isspace():
            self.space()
        if words:
            self.write_as_it_is(" ".join(words))
            if text[-1].isspace():
                self.space()

    def write_as_it_is(self, text: str) -> None:
        """Write preformatted text."""
        if text:
            text = self._separator() + text
            self._parts.append(text)
            self.size += len(text)
            self._pending = ""

    def space(self) -> None:
        """Separate words."""
        if not self._pending:
            self._pending = " "

    def end_line(self, blank_lines: int = 0) -> None:
        """Begin a new line, after an empty one if `blank_lines` is 1; inside a cell separate words."""
        if self.cells:
            self.space()
        elif not self._pending.endswith(_ITEM):
            ended = self._pending.count("\n")
            self._pending = "\n" * max(blank_lines + 1, ended)

    def begin_item(self) -> None:
        """Begin an item of a list."""
        self.end_line()
        if not self.cells and not self._pending.endswith(_ITEM):
            self._pending += _ITEM

    def begin_cell(self, *, is_first: bool) -> None:
        """Begin a cell of a row."""
        if not is_first:
            before = self._pending.rstrip(" ")
            self._pending = f"{before}{'' if before.endswith(chr(10)) else ' '}{_CELL}"

    def finished(self) -> tuple[str, Iterator[DocumentLink]]:
        """Return the text without white space around it, and the links with offsets in it."""
        whole = "".join(self._parts)
        text = whole.strip()
        cut = len(whole) - len(whole.lstrip())
        return text, (replace(link, at=min(max(link.at - cut, 0), len(text))) for link in self.links)


# Read Markdown that is a part of another document: a card of a canvas, a cell of a notebook.


@dataclass(frozen=True, slots=True)
class InnerMarkdown:
    """The headings, links and tags of a Markdown text; a link's offset is that of its line."""

    headings: tuple[NoteHeading, ...] = ()
    links: tuple[DocumentLink, ...] = ()
    tags: tuple[str, ...] = ()

    def links_from(self, offset: int) -> Iterator[DocumentLink]:
        """Yield the links of a text that begins at an offset of its document."""
        return (replace(link, at=link.at + offset) for link in self.links)


def read_markdown(path: str, text: str) -> InnerMarkdown:
    """Return the headings, the links to other files and the tags of a Markdown text, by the rules for notes."""
    # Parsing costs a hundred times as much as this, and most cards are a few words.
    if "[" not in text and "#" not in text:
        return InnerMarkdown()
    note = parse_note(path, text)
    return InnerMarkdown(note.headings, tuple(_links(note)), note.tags)


def _links(note: Note) -> Iterator[DocumentLink]:
    starts = line_starts(note.text)
    for link in note.links:
        if link.target:
            at = starts[link.line - 1]
            yield DocumentLink(link.target, at, link.fragment, link.text, link.kind == "embed", link.type)
