"""Read a file of any format into a note."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pipelines.child import unheard
from pipelines.documents import plain_text
from pipelines.documents.assembly import note_from
from pipelines.documents.document import Document
from pipelines.documents.formats import MARKDOWN, SCANNED, format_of
from pipelines.documents.sandbox import Sandbox
from pipelines.model import DateOrder, Domain, Note
from pipelines.parsing.dates import read_dates, redated

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

    `options`: what it says about formats; `is_private` judges a path; `dates`: where dates are looked up.
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
            return plain_text.read(data)
        options = self.options.get(form.name, {})
        return self.reader.read(path, data, options, private=self.is_private(path), beat=beat)


def is_read_apart(path: str) -> bool:
    """Say whether a file is read in a process without rights."""
    form = format_of(path)
    return form is not None and form.apart
