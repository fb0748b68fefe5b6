"""How fast and in how much memory documents are read in the process without rights.

    python -m benchmarks.documents [--files N] [--pages N] [--rows N]

It makes files of each format by turns, with the libraries that programs write them with, a PDF of many pages and a
sheet of many rows, and reads them through one sandbox, as a worker does. `start` is the first file of a format: it
includes the start of a process that loads the reader. Memory is resident memory, looked at every 10 ms: that of
this process above what it had before, and that of the process that reads.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing import get_context
from typing import cast

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.command import conditions, parser
from benchmarks.made_up import WORDS, word
from benchmarks.running import sampled
from pipelines.documents.document import Document
from pipelines.documents.read import Files
from tests.documents import DOCUMENTS, document

SUFFIXES = [suffix for suffix in DOCUMENTS if not suffix.endswith(".md")]
_LOOK_SECONDS = 0.01


def words(number: int, count: int) -> str:
    """Return a sentence of made-up words; the same number gives the same one."""
    chance = np.random.default_rng(number)
    return " ".join(word(one) for one in np.minimum(chance.zipf(1.3, count), WORDS)) + "."


def make(suffix: str, number: int) -> bytes:
    """Return a document of a format."""
    return document(suffix, words(number, 60))


def pdf(pages: int) -> bytes:
    """Return a PDF of pages with twenty lines each."""
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    drawing = Canvas(file)
    for page in range(pages):
        for line in range(20):
            drawing.drawString(72, 760 - 20 * line, words(page + line, 10))
        drawing.showPage()
    drawing.save()
    return file.getvalue()


def sheet(rows: int) -> bytes:
    """Return a workbook with rows of a date, words and two numbers."""
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    page = book.create_sheet("Costs")
    page.append(["Date", "Item", "Count", "Share"])
    for row in range(rows):
        page.append([f"2026-{1 + row % 12:02}-{1 + row % 28:02}", words(row, 3), row, row / 7])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def memory() -> Callable[[], tuple[int, int]]:
    """Return what looks at the memory of this process above what it has now, and at that of the one that reads."""
    this = psutil.Process()
    before = this.memory_info().rss

    def look() -> tuple[int, int]:
        reading = 0
        for child in this.children():
            with suppress(psutil.Error):
                reading = max(reading, child.memory_info().rss)
        return this.memory_info().rss - before, reading

    return look


def most(seen: Sequence[tuple[int, int]]) -> str:
    """Say the most memory that was seen."""
    own, reading = (max(sizes) / 1e6 for sizes in zip(*seen, strict=True))
    return f"at most {own:.0f} MB more here, {reading:.0f} MB there"


@dataclass
class Spent:
    """What the files of one kind took."""

    files: int = 0
    size: int = 0
    characters: int = 0
    blocks: int = 0
    first: float = 0.0
    seconds: float = 0.0

    def read(self, reader: Files, path: str, data: bytes) -> tuple[str, ...]:
        """Read a file, count it, and return the warnings of its reader."""
        began = time.perf_counter()
        document = cast("Document", reader.extract(path, data))  # Markdown alone has none, and none is made
        took = time.perf_counter() - began
        self.first = self.first or took
        self.files += 1
        self.size += len(data)
        self.characters += len(document.text)
        self.blocks += len(document.blocks)
        self.seconds += took
        return document.warnings

    def row(self, name: str) -> tuple[str, ...]:
        """Return the figures as a row of the table."""
        rest = f"{(self.seconds - self.first) / (self.files - 1) * 1000:.1f}" if self.files > 1 else ""
        return (
            name,
            f"{self.files:,}",
            f"{self.size / 1e6:.1f}",
            f"{self.characters:,}",
            f"{self.blocks:,}",
            f"{self.seconds:.2f}",
            f"{self.first * 1000:.0f}",
            rest,
        )


def read_many(suffixes: Sequence[str], made: Sequence[bytes], console: Console) -> None:
    """Read files of all formats by turns."""
    spent = {suffix: Spent() for suffix in SUFFIXES}
    reader = Files()
    with sampled(memory(), _LOOK_SECONDS) as seen:
        for number, (suffix, data) in enumerate(zip(suffixes, made, strict=True)):
            spent[suffix].read(reader, f"{number}{suffix}", data)
    reader.reader.close()
    table = Table("format", "files", "MB", "characters", "blocks", "s", "start ms", "then ms per file")
    for suffix, one in spent.items():
        table.add_row(*one.row(suffix))
    console.print(table)
    seconds = sum(one.seconds for one in spent.values())
    rate = len(made) / seconds
    console.print(f"{len(made):,} files: {seconds:.1f} s, {rate:.0f} files per second; {most(seen)}")


def read_large(path: str, data: bytes, console: Console) -> None:
    """Read one large file."""
    spent, reader = Spent(), Files()
    with sampled(memory(), _LOOK_SECONDS) as seen:
        warnings = spent.read(reader, path, data)
    reader.reader.close()
    console.print(
        f"{path}, {spent.size / 1e6:.1f} MB: {spent.seconds:.1f} s, {spent.characters:,} characters, "
        f"{spent.blocks:,} blocks; {most(seen)}; {'; '.join(warnings) or 'nothing left out'}"
    )


def main() -> None:
    """Measure, and print the tables."""
    options = parser(__doc__)
    options.add_argument("--files", type=int, default=2_000)
    options.add_argument("--pages", type=int, default=2_000, help="pages of the PDF")
    options.add_argument("--rows", type=int, default=100_000, help="rows of the sheet")
    given = options.parse_args()
    console = Console(width=120, highlight=False)
    suffixes = list(islice(cycle(SUFFIXES), given.files))
    # The libraries that write documents take memory: it is not to be that of this process.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        made = list(pool.map(make, suffixes, range(given.files), chunksize=50))
        pages, rows = pool.submit(pdf, given.pages).result(), pool.submit(sheet, given.rows).result()
    read_many(suffixes, made, console)
    read_large(f"{given.pages:,} pages.pdf", pages, console)
    read_large(f"{given.rows:,} rows.xlsx", rows, console)
    console.print(conditions())


if __name__ == "__main__":
    main()
