"""Read tables of plain text: comma-separated and tab-separated values, and their relatives."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO

from pipelines.documents.document import MOST_CHARACTERS, Builder, Document, decode_text
from pipelines.documents.readers.row_blocks import RowBlocks
from pipelines.errors import DocumentError

_DELIMITERS = ",;\t|"
_SEP = re.compile(rf"sep=([{_DELIMITERS}])", re.IGNORECASE)
_NAMED = 10
"""Rows that a warning names."""
_NO_DELIMITER = "\x1f"
"""The separator of ASCII that no program writes: a table with one column has it."""
_SAMPLE = 30
_LONGEST_RECORD = 1_000
"""Lines of one record; a quotation mark that is open for longer is an apostrophe or an inch."""
_MOST_UNCLOSED = 100
"""Records with such a mark before quotation marks stop to count; each costs a look at the lines below it."""

# The module's own limit, 131,072 characters, is less than a long text in one cell.
csv.field_size_limit(MOST_CHARACTERS)


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001 - every reader has them
    """Return a table of text as blocks of a header and twenty rows.

    Raises DocumentError if the file is not text.
    """
    text, warnings = _decode(path, data)
    if len(text) > MOST_CHARACTERS:
        warnings.append(f"only the first {MOST_CHARACTERS:,} of {len(text):,} characters were read")
        text = text[:MOST_CHARACTERS]
    lines = StringIO(text, newline=None).readlines()
    delimiter = "\t" if path.lower().endswith(".tsv") else None
    if lines and (stated := _SEP.fullmatch(lines[0].rstrip("\n"))):
        # Excel writes and obeys this line, and does not show it as a row.
        delimiter = stated[1]
        del lines[0]
    records = _Records(lines, delimiter or _sniffed(lines))
    builder = Builder()
    blocks = RowBlocks(builder)
    blocks.add(enumerate(records, 1))
    if not builder.size:
        warnings.append("the file has no rows")
    return builder.document(warnings=tuple(filter(None, [*warnings, blocks.cut, records.unclosed])))


def _decode(path: str, data: bytes) -> tuple[str, list[str]]:
    if b"\0" in data and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DocumentError(
            f"{path!r} is not a text file (it has NUL bytes); rename it, or save it as CSV in UTF-8"
        )
    text, warnings = decode_text(data)
    return text, list(warnings)


def _sniffed(lines: Sequence[str]) -> str:
    """Return the delimiter that cuts most of the first lines, and at least half, into equally many fields.

    Lines above the table, such as a title, need not fit. Of two delimiters, the one that gives more fields wins.
    """
    sample = [line for line in lines[: 2 * _SAMPLE] if line.strip()][:_SAMPLE]
    best = (0, 0)
    found = _NO_DELIMITER
    for delimiter in _DELIMITERS:
        records = csv.reader(sample, delimiter=delimiter, skipinitialspace=True)
        widths = Counter(len(record) for record in records)
        score = max(((count, width) for width, count in widths.items() if width > 1), default=(0, 0))
        if score > best and 2 * score[0] >= widths.total():
            best, found = score, delimiter
    return found


class _Records:
    """The records of a table; a record whose quotation marks make no sense is one line, cut at each delimiter.

    A mark that is never closed would otherwise make the rest of the file one cell. `unclosed` names such records,
    once all are read.
    """

    def __init__(self, lines: Sequence[str], delimiter: str) -> None:
        self._lines = lines
        self._delimiter = delimiter
        self._at = 0
        self._began = 0
        self._unclosed: list[int] = []

    def __iter__(self) -> Iterator[list[str]]:
        number = 0
        while self._at < len(self._lines):
            try:
                for record in self._reader():
                    number += 1
                    self._began = self._at
                    yield record
            except csv.Error:
                number += 1
                self._unclosed.append(number)
                self._at = self._began + 1
                yield self._lines[self._began].rstrip("\n").split(self._delimiter)
                self._began = self._at
            if len(self._unclosed) >= _MOST_UNCLOSED:
                break
        for line in self._lines[self._at :]:
            yield line.rstrip("\n").split(self._delimiter)

    @property
    def unclosed(self) -> str:
        """Return a sentence about the records with quotation marks that make no sense, or an empty string."""
        if not self._unclosed:
            return ""
        rows = f"row{'s' if len(self._unclosed) > 1 else ''}"
        more = " and all rows below" if len(self._unclosed) >= _MOST_UNCLOSED else ""
        shown = ", ".join(f"{number:,}" for number in self._unclosed[:_NAMED])
        unnamed = len(self._unclosed) - _NAMED
        others = f" and {unnamed:,} more" if unnamed > 0 else ""
        return f"{rows} {shown}{others}{more}: quotation marks do not match and were read as text"

    def _reader(self) -> Iterator[list[str]]:
        """Return what parses the next records; it raises csv.Error at the first that makes no sense."""
        return csv.reader(self._upcoming(), delimiter=self._delimiter, skipinitialspace=True, strict=True)

    def _upcoming(self) -> Iterator[str]:
        while self._at < len(self._lines) and self._at - self._began < _LONGEST_RECORD:
            self._at += 1
            yield self._lines[self._at - 1]
