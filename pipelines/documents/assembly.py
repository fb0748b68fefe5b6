"""Make a note of a document, so that everything after reading treats both alike."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import PurePosixPath

from pipelines.documents.document import Document
from pipelines.documents.formats import RUNNING_TEXT, Format, format_of
from pipelines.model import Heading, Link, LinkKind, Note
from pipelines.parsing.dates import read_dates
from pipelines.parsing.frontmatter import read_properties
from pipelines.parsing.lines import line_starts
from pipelines.parsing.markdown import LONGEST_TITLE, read_note
from pipelines.parsing.privacy import own_privacy

_NAMED, _LONGEST_NAME = 5, 60


def note_from(path: str, found: bytes | Document) -> Note:
    """Return a note from the bytes of Markdown, or from a document."""
    return note_of(path, found) if isinstance(found, Document) else read_note(path, found)


def note_of(path: str, document: Document) -> Note:
    """Return a document as a note, with the properties that its metadata states."""
    form = format_of(path)
    properties = read_properties(document.metadata, ())
    starts = line_starts(document.text)
    title = " ".join((properties.title or document.title).split())[:LONGEST_TITLE]
    dates = read_dates(path, document.metadata)
    warnings = (*document.warnings, *properties.warnings, *dates.warnings)
    return Note(
        path=path,
        title=title or PurePosixPath(path).stem,
        own_title=title,
        text=document.text,
        body_start=0,
        body_end=len(document.text),
        frontmatter=document.metadata,
        headings=tuple(_headings(document, starts)),
        links=tuple(_links(document, starts)),
        tags=properties.tags,
        aliases=properties.aliases,
        author=properties.author,
        kind=properties.kind,
        evergreen=properties.evergreen,
        warnings=(*warnings, *_left_out(document, form)),
        privacy=own_privacy(
            path=path,
            # `private:` is an ordinary word of programs.
            text="" if form is not None and form.name == "code" else document.text,
            frontmatter=document.metadata,
            tags=properties.tags,
            warnings=warnings,
        ),
        blocks=document.blocks,
        dates=dates,
    )


def _left_out(document: Document, form: Format | None) -> Iterator[str]:
    """Yield a sentence about the pages or sections that have too little text to be indexed."""
    if form is None or form.least < RUNNING_TEXT:
        return
    short = [block for block in document.blocks if block.end - block.start < form.least]
    if 0 < len(short) < len(document.blocks):
        names = [block.label or (block.place.shown() if block.place else "the beginning") for block in short]
        named = ", ".join(name[:_LONGEST_NAME] for name in names[:_NAMED]) + (
            ", …" if len(names) > _NAMED else ""
        )
        yield f"left out, because they have less than {form.least} characters: {named}"


def _headings(document: Document, starts: list[int]) -> Iterator[Heading]:
    """Yield each heading of the blocks where it begins."""
    above: tuple[str, ...] = ()
    for block in document.blocks:
        for level, text in enumerate(block.headings, 1):
            if block.headings[:level] != above[:level]:
                yield Heading(min(level, 6), text, bisect_right(starts, block.start), block.start)
        above = block.headings


def _links(document: Document, starts: list[int]) -> Iterator[Link]:
    begins = [block.start for block in document.blocks]
    for link in document.links:
        number = bisect_right(begins, link.at) - 1
        section = document.blocks[number].label if number >= 0 else ""
        kind: LinkKind = "embed" if link.embed else "wikilink"
        yield Link(
            kind,
            link.target,
            link.fragment,
            link.text or link.target,
            bisect_right(starts, link.at),
            section,
        )
