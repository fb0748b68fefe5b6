"""Prepare a workbook for calamine, which reads every cell of a sheet and limits neither its time nor its memory."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO

from pipelines.documents.limits import MOST_CELLS
from pipelines.documents.readers.packages import Package

_ROW_OR_FILLED = re.compile(
    rb"""<(?:\w+:)?(?:(row)[\s>]|c\s(?>[^<>]*?\br\s*=\s*["']([A-Za-z]+)([0-9]+)["'])[^<>]*+(?<!/)>\s*<[^/])"""
)
"""The start of a row, or the place of a cell that holds something: empty cells with a format are no content."""
_LONGEST_TAG = 65_536
_ENDING = b"</sheetData></worksheet>"


@dataclass(frozen=True, slots=True)
class Survey:
    """What a sheet's part holds.

    `places` is the size of the rectangle around the filled cells of its first rows. `end` is the offset at which
    these rows end, or None if they are all of them: the others come after more cells than are read.
    """

    places: int
    end: int | None


@dataclass(slots=True)
class _Rectangle:
    columns: set[bytes] = field(default_factory=set)
    first: int = 0
    last: int = 0
    cells: int = 0

    def add(self, column: bytes, row: int) -> None:
        self.columns.add(column)
        self.first = min(self.first, row) if self.cells else row
        self.last = max(self.last, row)
        self.cells += 1

    def places(self) -> int:
        numbers = [_column(letters) for letters in self.columns]
        return (max(numbers) - min(numbers) + 1) * (self.last - self.first + 1) if numbers else 0


def survey(package: Package, part: str) -> Survey:
    """Return how far the cells of a sheet reach, and where it is cut. Raises DocumentError if the part is damaged."""
    seen = _Rectangle()
    passed = 0
    rest = b""
    for piece in package.pieces(part):
        text = rest + piece
        done = 0
        for found in _ROW_OR_FILLED.finditer(text):
            if not found[1]:
                seen.add(found[2], int(found[3][:9]))
            elif seen.cells > MOST_CELLS:
                return Survey(seen.places(), passed + found.start())
            # The last two characters of a match may begin another.
            done = found.end() - 2
        kept = max(done, len(text) - _LONGEST_TAG)
        passed += kept
        rest = text[kept:]
    return Survey(seen.places(), None)


def without_later_rows(package: Package, ends: Mapping[str, int]) -> bytes:
    """Return a workbook of the same cells in which the sheets with these parts end at these offsets.

    Raises DocumentError if a part is damaged.
    """
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for part in package.parts:
            if not part.endswith((".xml", ".rels")):
                continue
            content = package.pieces(part)
            if part in ends:
                content = _cut(content, ends[part])
            archive.writestr(package.written_name(part), b"".join(content))
    return out.getvalue()


def _cut(pieces: Iterable[bytes], end: int) -> Iterator[bytes]:
    for piece in pieces:
        yield piece[:end]
        end -= len(piece)
        if end <= 0:
            break
    yield _ENDING


def _column(letters: bytes) -> int:
    """Return the number of a column from its letters, from 1."""
    number = 0
    for letter in letters.upper()[:9]:
        number = number * 26 + letter - ord("A") + 1
    return number
