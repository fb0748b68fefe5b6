"""Read a file of any format into a note."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from pipelines.child import unheard
from pipelines.documents.document import Document, decode_text
from pipelines.documents.sandbox import Sandbox
from pipelines.formats import MARKDOWN, RUNNING_TEXT, SCANNED, Format, format_of
from pipelines.model import Block, DateOrder, Domain, Link, LinkKind, Note, NoteHeading
from pipelines.notes.dates import read_dates, redated
from pipelines.notes.frontmatter import line_starts, read_properties
from pipelines.notes.links import with_few_types
from pipelines.notes.markdown import LONGEST_TITLE, read_note
from pipelines.notes.privacy import own_privacy

# Make a note of a document, so that everything after reading treats both alike.


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
        links=tuple(with_few_types(_links(document, starts))),
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


def _headings(document: Document, starts: list[int]) -> Iterator[NoteHeading]:
    """Yield each heading of the blocks where it begins."""
    above: tuple[str, ...] = ()
    for block in document.blocks:
        for level, text in enumerate(block.headings, 1):
            if block.headings[:level] != above[:level]:
                yield NoteHeading(min(level, 6), text, bisect_right(starts, block.start), block.start)
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
            type=link.type,
        )


# Read a text file: one block, whose lines are the file's.


def read(data: bytes) -> Document:
    """Return the text of a file. Never raises."""
    text, warnings = decode_text(data)
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return Document(text, (Block(start, end),) if start < end else (), warnings=warnings)


Options = Mapping[str, Mapping[str, object]]
"""What a domain's `documents:` says, by the name of the format."""


def options_of(domain: Domain) -> Options:
    """Return how a domain's documents are read: what it says, and whether scanned pages are.

    When that changes, because OCR was installed, the domain is indexed again.
    """
    if "pdf" in (domain.formats or ()) and SCANNED.lacks is None:
        return {**domain.documents, "pdf": {"scanned": SCANNED.reader}}
    return domain.documents


@dataclass(frozen=True, slots=True)
class Files:
    """Reads a domain's files.

    `options`: what it says about formats; `is_private` judges a path; `dates`: where dates come from.
    """

    reader: Sandbox = field(default_factory=Sandbox)
    options: Options = field(default_factory=dict)
    is_private: Callable[[str], bool] = lambda _path: False
    dates: DateOrder = field(default_factory=DateOrder)

    def read(self, path: str, data: bytes) -> Note:
        """Return the note that a file's bytes give.

        Raises NoteError if it is no readable document, ApartStoppedError.
        """
        return self.dated(note_from(path, self.extract(path, data)))

    def dated(self, note: Note) -> Note:
        """Return a note with the dates that the domain's own order of sources gives it."""
        if self.dates == DateOrder():
            return note
        dates = read_dates(note.path, note.frontmatter, self.dates)
        return replace(note, dates=dates, warnings=redated(note.warnings, note.dates, dates))

    def extract(self, path: str, data: bytes, beat: Callable[[float], None] = unheard) -> bytes | Document:
        """Return the document in a file's bytes; those of Markdown as they are.

        Every two seconds call `beat` with the seconds spent so far. Raises NoteError if it is no readable document,
        ApartStoppedError, and what `beat` raises.
        """
        form = format_of(path)
        if form is None or form.name == MARKDOWN:
            return data
        if not form.apart:
            return read(data)
        options = self.options.get(form.name, {})
        return self.reader.read(path, data, options, private=self.is_private(path), beat=beat)


def is_read_apart(path: str) -> bool:
    """Say whether a file is read in a process without rights."""
    form = format_of(path)
    return form is not None and form.apart
