"""How fast and in how much memory documents are read in the process without rights.

    python -m benchmarks.documents [--files N] [--pages N] [--rows N]

It makes files of each format by turns, with the libraries that programs write them with, a PDF of many pages and a
sheet of many rows, and reads them through one sandbox, as a worker does. `start` is the first file of a format: it
includes the start of a process that loads the reader. Memory is resident memory, looked at every 10 ms: that of
this process above what it had before, and that of the process that reads.
"""

from __future__ import annotations

import argparse
import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from multiprocessing import get_context
from typing import cast

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.made_up_documents import MAKERS, pdf, sheet
from pipelines.documents.document import Document
from pipelines.documents.read import Files

_LOOK_SECONDS = 0.01


@dataclass
class Peaks:
    """The most memory so far, in bytes."""

    before: int = field(default_factory=lambda: psutil.Process().memory_info().rss)
    own: int = 0
    reading: int = 0

    def look(self) -> None:
        """Look at the memory of this process and of the one that reads."""
        this = psutil.Process()
        self.own = max(self.own, this.memory_info().rss - self.before)
        for child in this.children():
            with suppress(psutil.Error):
                self.reading = max(self.reading, child.memory_info().rss)


@contextmanager
def watched() -> Iterator[Peaks]:
    """Look at the memory until the end of the block."""
    peaks, done = Peaks(), threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_SECONDS):
            peaks.look()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield peaks
    finally:
        done.set()
        watching.join()


def make(suffix: str, number: int) -> bytes:
    """Return a document of a format."""
    return MAKERS[suffix](number)


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
        rest = (self.seconds - self.first) / (self.files - 1) * 1000 if self.files > 1 else 0.0
        return (
            name,
            f"{self.files:,}",
            f"{self.size / 1e6:.1f}",
            f"{self.characters:,}",
            f"{self.blocks:,}",
            f"{self.seconds:.2f}",
            f"{self.first * 1000:.0f}",
            f"{rest:.1f}" if self.files > 1 else "",
        )


def read_many(suffixes: Sequence[str], made: Sequence[bytes], console: Console) -> None:
    """Read files of all formats by turns."""
    spent = {suffix: Spent() for suffix in MAKERS}
    reader = Files()
    with watched() as peaks:
        for number, (suffix, data) in enumerate(zip(suffixes, made, strict=True)):
            spent[suffix].read(reader, f"{number}.{suffix}", data)
    reader.reader.close()
    table = Table("format", "files", "MB", "characters", "blocks", "s", "start ms", "then ms per file")
    for suffix, one in spent.items():
        table.add_row(*one.row(suffix))
    console.print(table)
    seconds = sum(one.seconds for one in spent.values())
    rate = len(made) / seconds
    console.print(f"{len(made):,} files: {seconds:.1f} s, {rate:.0f} files per second; {_memory(peaks)}")


def read_large(path: str, data: bytes, console: Console) -> None:
    """Read one large file."""
    spent, reader = Spent(), Files()
    with watched() as peaks:
        warnings = spent.read(reader, path, data)
    reader.reader.close()
    console.print(
        f"{path}, {spent.size / 1e6:.1f} MB: {spent.seconds:.1f} s, {spent.characters:,} characters, "
        f"{spent.blocks:,} blocks; {_memory(peaks)}; {'; '.join(warnings) or 'nothing left out'}"
    )


def _memory(peaks: Peaks) -> str:
    return f"at most {peaks.own / 1e6:.0f} MB more here, {peaks.reading / 1e6:.0f} MB there"


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--pages", type=int, default=2_000, help="pages of the PDF")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the sheet")
    given = parser.parse_args()
    console = Console(width=120, highlight=False)
    suffixes = list(islice(cycle(MAKERS), given.files))
    # The libraries that write documents take memory: it is not to be that of this process.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        made = list(pool.map(make, suffixes, range(given.files), chunksize=50))
        pages = pool.submit(pdf, 0, given.pages).result()
        rows = pool.submit(sheet, 0, given.rows).result()
    read_many(suffixes, made, console)
    read_large(f"{given.pages:,} pages.pdf", pages, console)
    read_large(f"{given.rows:,} rows.xlsx", rows, console)
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    console.print(f"{when}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
