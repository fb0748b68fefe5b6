"""Read Excel workbooks: every sheet, by the values that Excel saved. No formula is evaluated and no macro is run."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from io import BytesIO

from python_calamine import CalamineError, CalamineWorkbook, load_workbook

from pipelines.documents.document import Builder, Document
from pipelines.documents.readers.core_properties import core_properties
from pipelines.documents.readers.packages import Package, attribute, listed, relation_id
from pipelines.documents.readers.row_blocks import RowBlocks
from pipelines.errors import DocumentError

MOST_PLACES = 4_000_000
"""Places in the rectangle around a sheet's cells: calamine keeps 32 bytes for each, empty or not."""
_FILLED = re.compile(
    rb"""<(?:\w+:)?c\s[^<>]*?\br\s*=\s*["']([A-Za-z]+)([0-9]+)["'][^<>]*(?<!/)>\s*<[^/]""",
)
"""The place of a cell that holds something. Many sheets have formatted empty cells in their far corners."""
_LONGEST_TAG = 65_536
_WHOLE = 1e15
"""Excel keeps 15 digits, so that whole numbers below this are exact."""

_Value = int | float | str | bool | time | date | datetime | timedelta


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001 - every reader has them
    """Return a workbook as blocks of a sheet's header and twenty of its rows.

    Raises DocumentError if the file is damaged, encrypted, larger than the limits, or no workbook.
    """
    package = Package(path, data)
    main = package.main_part("workbook", "an Excel workbook (.xlsx or .xlsm)")
    title, metadata = core_properties(package)
    sheets = list(_worksheets(package, main))
    for part in package.parts - {part for _, part in sheets}:
        # calamine does not stop at the size that the archive states; `pieces` refuses a part that is larger.
        deque(package.pieces(part), maxlen=0)
    extents = {part: _extent(package, part) for _, part in sheets}
    builder = Builder()
    blocks = RowBlocks(builder)
    unread, warnings = [], []
    with _damage(path), load_workbook(BytesIO(data)) as workbook:
        for name, part in sheets:
            if blocks.cut:
                unread.append(name)
            elif extents[part] > MOST_PLACES:
                warnings.append(_too_sparse(name, extents[part]))
            else:
                blocks.add(_rows(workbook, name), " ".join(name.split()))
    if unread:
        warnings.append(f"sheets not read: {', '.join(unread)}")
    return builder.document(
        title=title, metadata=metadata, warnings=tuple(filter(None, [blocks.cut, *warnings]))
    )


def _worksheets(package: Package, main: str) -> Iterator[tuple[str, str]]:
    """Yield the name and part of each sheet of cells, hidden ones included, in the order of their tabs."""
    relations = package.relations(main)
    for sheet in listed(package.tree(main), "sheets"):
        relation = relations.get(relation_id(sheet))
        if relation is None:
            raise package.damaged(main, f"lists the sheet {attribute(sheet, 'name')!r}, which is missing")
        if relation.kind == "worksheet":
            yield attribute(sheet, "name"), relation.target


def _extent(package: Package, part: str) -> int:
    """Return the number of places in the rectangle around the cells of a sheet that hold something."""
    columns: set[bytes] = set()
    rows: set[int] = set()
    rest = b""
    for piece in package.pieces(part):
        text = rest + piece
        found = _FILLED.findall(text)
        columns.update(column for column, _ in found)
        rows.update(int(row[:9]) for _, row in found)
        rest = text[-_LONGEST_TAG:]
        rows = {min(rows), max(rows)} if rows else rows
    if not rows:
        return 0
    numbers = [_column(letters) for letters in columns]
    return (max(rows) - min(rows) + 1) * (max(numbers) - min(numbers) + 1)


def _column(letters: bytes) -> int:
    """Return the number of a column from its letters, from 1."""
    number = 0
    for letter in letters.upper()[:9]:
        number = number * 26 + letter - ord("A") + 1
    return number


def _too_sparse(name: str, extent: int) -> str:
    return (
        f"sheet {name!r} was not read: its outermost cells span {extent:,} places, more than {MOST_PLACES:,};"
        " delete what stands far from the rest"
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
