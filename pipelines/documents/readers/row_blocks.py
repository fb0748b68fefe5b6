"""Turn the rows of a table into blocks: each begins with the header and holds twenty rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipelines.documents.document import MOST_CELLS, MOST_CHARACTERS, Builder
from pipelines.model import Locator

ROWS_PER_BLOCK = 20
LONGEST_REPEATED_HEADER = 1_000
"""Characters of a header that every block repeats; the first block has all of it."""


class RowBlocks:
    """Adds the rows of one or more tables to a builder, until a limit is reached.

    `cut` says what was left out, in a sentence; it is empty if everything was read.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._cells = 0
        self.cut = ""

    def add(self, rows: Iterable[tuple[int, Sequence[str]]], sheet: str = "") -> None:
        """Add the rows of a table, each with its number; the first row that is not blank is the header."""
        header: tuple[int, str] | None = None
        batch: list[tuple[int, str]] = []
        characters = 0
        last = 0
        for number, cells in rows:
            line = self._line(cells)
            if not line:
                continue
            if self._is_full(characters, sheet, last):
                break
            last = number
            characters += len(line)
            if header is None:
                header = number, line
                continue
            batch.append((number, line))
            if len(batch) == ROWS_PER_BLOCK:
                self._flush(header, batch, sheet)
                header = header[0], header[1][:LONGEST_REPEATED_HEADER]
                batch, characters = [], 0
        if header is not None and (batch or last == header[0]):
            self._flush(header, batch, sheet)

    def _line(self, cells: Sequence[str]) -> str:
        """Return a row as one line without the empty cells at its end."""
        shown = [" ".join(cell.split()) for cell in cells]
        while shown and not shown[-1]:
            del shown[-1]
        self._cells += sum(map(bool, shown))
        return " | ".join(shown).strip()

    def _is_full(self, characters: int, sheet: str, last: int) -> bool:
        """Say whether a limit is reached, and note in `cut` up to which row was read."""
        if self._cells > MOST_CELLS:
            read = f"the first {MOST_CELLS:,} cells"
        elif self._builder.size + characters >= MOST_CHARACTERS:
            read = f"about {MOST_CHARACTERS:,} characters"
        else:
            return False
        place = f" of sheet {sheet!r}" if sheet else ""
        self.cut = f"only {read} were read, up to row {last:,}{place}"
        return True

    def _flush(self, header: tuple[int, str], batch: Sequence[tuple[int, str]], sheet: str) -> None:
        lines = [f"[Sheet: {sheet}]"] if sheet else []
        first, last = (batch[0][0], batch[-1][0]) if batch else (header[0], header[0])
        self._builder.add(
            "\n".join([*lines, header[1], *(line for _, line in batch)]),
            label=sheet,
            headings=(sheet,) if sheet else (),
            place=Locator("rows", sheet, first, last),
        )
