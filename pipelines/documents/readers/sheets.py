"""Read Excel workbooks: every sheet, by the values that Excel saved. No formula is evaluated and no macro is run."""

from __future__ import annotations

import re
import zipfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from io import BytesIO

from python_calamine import CalamineError, CalamineWorkbook, load_workbook

from pipelines.documents.document import MOST_CELLS, Builder, Document
from pipelines.documents.readers.ooxml import Package, attribute, core_properties, listed, relation_id
from pipelines.documents.readers.row_blocks import RowBlocks
from pipelines.errors import DocumentError

# Prepare a workbook for calamine, which reads every cell of a sheet and limits neither its time nor its memory.


_ROW_OR_FILLED = re.compile(
    rb"""<(?:\w+:)?(?:(row)[\s>]|c\s(?>[^<>]*?\br\s*=\s*["']([A-Za-z]+)([0-9]+)["'])[^<>]*+(?<!/)>\s*<[^/])"""
)
"""The start of a row, or the place of a cell that holds something: empty cells with a format are no content."""
_LONGEST_TAG = 65_536
_ENDING = b"</sheetData></worksheet>"


@dataclass(frozen=True, slots=True)
class SheetExtent:
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


def survey(package: Package, part: str) -> SheetExtent:
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
                return SheetExtent(seen.places(), passed + found.start())
            # The last two characters of a match may begin another.
            done = found.end() - 2
        kept = max(done, len(text) - _LONGEST_TAG)
        passed += kept
        rest = text[kept:]
    return SheetExtent(seen.places(), None)


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


MOST_PLACES = 4_000_000
"""Places in the rectangle around a sheet's cells: calamine keeps 32 bytes for each, empty or not."""
_WITHOUT_CELLS = ("chartsheet", "dialogsheet")
_WHOLE = 1e15
"""Excel keeps 15 digits, so that whole numbers below this are exact."""

_Value = int | float | str | bool | time | date | datetime | timedelta


@dataclass(frozen=True, slots=True)
class _Sheet:
    name: str
    part: str
    survey: SheetExtent


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001 - every reader has them
    """Return a workbook as blocks of a sheet's header and twenty of its rows.

    Raises DocumentError if the file is damaged, encrypted, larger than the limits, or no workbook.
    """
    package = Package(path, data)
    main = package.main_part("workbook", "an Excel workbook (.xlsx or .xlsm)")
    title, metadata = core_properties(package)
    sheets = [_Sheet(name, part, survey(package, part)) for name, part in _worksheets(path, package, main)]
    builder = Builder()
    blocks = RowBlocks(builder)
    with _damage(path), load_workbook(BytesIO(_readable(package, data, sheets))) as workbook:
        warnings = list(_add(blocks, workbook, sheets))
    return builder.document(title=title, metadata=metadata, warnings=tuple(warnings))


def _readable(package: Package, data: bytes, sheets: Sequence[_Sheet]) -> bytes:
    """Return the workbook as calamine can read it within the limits."""
    ends = {sheet.part: sheet.survey.end for sheet in sheets if sheet.survey.end is not None}
    if ends:
        return without_later_rows(package, ends)
    for part in package.parts - {sheet.part for sheet in sheets}:
        # calamine does not stop at the size that the archive states; `pieces` refuses a part that is larger.
        deque(package.pieces(part), maxlen=0)
    return data


def _add(blocks: RowBlocks, workbook: CalamineWorkbook, sheets: Sequence[_Sheet]) -> Iterator[str]:
    """Add the rows of the sheets, and yield what was left out."""
    unread = []
    for sheet in sheets:
        if blocks.cut:
            unread.append(sheet.name)
        elif sheet.survey.places > MOST_PLACES:
            yield _too_sparse(sheet)
        else:
            blocks.add(_rows(workbook, sheet.name), " ".join(sheet.name.split()))
            if sheet.survey.end is not None and not blocks.cut:
                # Some of the cells turned out to be blank.
                blocks.cut = f"only the first {MOST_CELLS:,} cells of sheet {sheet.name!r} were read"
    if blocks.cut:
        yield blocks.cut
    if unread:
        yield f"sheets not read: {', '.join(unread)}"


def _worksheets(path: str, package: Package, main: str) -> Iterator[tuple[str, str]]:
    """Yield the name and part of each sheet of cells, hidden ones included, in the order of their tabs."""
    relations = package.relations(main)
    for sheet in listed(package.tree(main), "sheets"):
        relation = relations.get(relation_id(sheet))
        if relation is None:
            raise package.damaged(main, f"lists the sheet {attribute(sheet, 'name')!r}, which is missing")
        if relation.kind == "worksheet":
            yield attribute(sheet, "name"), relation.target
        elif relation.kind not in _WITHOUT_CELLS:
            raise DocumentError(
                f"{path!r} has the sheet {attribute(sheet, 'name')!r} of a kind that calamine cannot read"
                f" ({relation.kind}, such as macros of Excel 4); delete it, or save the workbook as .xlsx"
            )


def _too_sparse(sheet: _Sheet) -> str:
    return (
        f"sheet {sheet.name!r} was not read: its outermost cells span {sheet.survey.places:,} places, more than"
        f" {MOST_PLACES:,}; delete the cells that are far from the rest"
    )


def _rows(workbook: CalamineWorkbook, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row, as Excel shows it, and its cells."""
    sheet = workbook.get_sheet_by_name(name)
    for number, row in enumerate(sheet.iter_rows(), 1):
        yield number, [_shown(value) for value in row]


def _shown(value: _Value) -> str:
    """Return a cell's value as text: dates in ISO form, numbers without the noise of binary fractions."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < _WHOLE else f"{value:.15g}"
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return str(value)


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Turn the errors of calamine into a DocumentError."""
    try:
        yield
    except CalamineError as error:
        reason = " ".join(str(error).split())
        raise DocumentError(
            f"{path!r} is damaged ({reason}); open it in the program that wrote it and save it again"
        ) from error
