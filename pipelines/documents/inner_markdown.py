"""Read Markdown that is a part of another document: a card of a canvas, a cell of a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipelines.documents.document import DocumentLink
from pipelines.model import Heading, Note
from pipelines.parsing.lines import line_starts
from pipelines.parsing.markdown import parse_note


@dataclass(frozen=True, slots=True)
class InnerMarkdown:
    """The headings, links and tags of a Markdown text; a link's offset is that of its line."""

    headings: tuple[Heading, ...] = ()
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
            yield DocumentLink(link.target, at, link.fragment, link.text, embed=link.kind == "embed")
