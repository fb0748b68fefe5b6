"""Parse a note: in this process, or in a separate process if it takes long.

Cost is estimated, not timed, so that a slow machine treats a note as a fast one does. Markdown that consists only of
`[` takes about 50 us per character, plain text 2 us, so a note's characters are weighed. A note that takes longer
than about half a second is parsed by a child process while this process continues with other notes. A child that dies
does not affect them.
"""

from __future__ import annotations

import resource
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.child import Child, LastingChild
from pipelines.documents.document import Document
from pipelines.documents.read import Files, is_read_apart, note_from
from pipelines.errors import ChildDiedError, ParserDiedError, ParserMemoryError
from pipelines.model import Chunk, ChunkSettings, DateOrder, FileContent, LeasedRow, Note
from pipelines.notes import lexical
from pipelines.notes.chunk import chunk_note
from pipelines.notes.encodings import is_utf_16
from pipelines.vault import files

if TYPE_CHECKING:
    from pipelines.store import Leases  # it loads numpy, which the process that parses does not need

# What a character costs besides the 2 us that every character takes, as a multiple of those.
_WEIGHTS = {b"[": 20, b"\n": 10, b"*": 5, b"_": 5, b"~": 5, b"`": 5, b"<": 5, b"$": 5, b"!": 5, b"|": 5}
_LIST_MARKS = (b"- ", b"+ ", b". ", b") ")
_LIST_MARK_WEIGHT = 10
_HEAVY = 200_000
# Characters of a document's text that are split here: half a second.
_SHORT = 200_000
_OF_A_DELIMITER_ROW = b"> \t|:-"
_CELL_WEIGHT = 10
_MOST_CELLS_OF_A_TABLE = 65_536  # markdown-it adds no more
ROWS_PER_SLICE = 32
"""Notes whose words are indexed together."""
_BATCHES_AHEAD, _ROWS_AHEAD = 2, 64
MOST_MEMORY = 4 * 2**30
"""Bytes that the child may use. A line of 50 MB takes 1.5 GiB, 200,000 headings in 7 MB take 0.8 GiB."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed note, its chunks, and the words that the full-text index stores for each chunk."""

    note: Note
    chunks: tuple[Chunk, ...]
    words: list[lexical.ChunkWords]


def is_heavy(data: bytes) -> bool:
    """Say whether a note is parsed in a separate process, because it may take long."""
    if is_utf_16(data):
        data = data.replace(b"\0", b"")  # half of each character that costs much
    if b"\r" in data:  # the parser ends a line there, too
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    weight = len(data) + sum(data.count(mark) * weight for mark, weight in _WEIGHTS.items())
    weight += _LIST_MARK_WEIGHT * sum(map(data.count, _LIST_MARKS))
    return weight + _CELL_WEIGHT * _table_cells(data) > _HEAVY


def _table_cells(data: bytes) -> int:
    """Return at least the number of table cells that the parser makes; it fills short rows up to the header."""
    if b"|" not in data:
        return 0
    cells = rows = 0
    for line in reversed(data.split(b"\n")):
        rows = rows + 1 if line.strip() else 0
        if b"|" in line and b"-" in line and not line.strip(_OF_A_DELIMITER_ROW):
            cells += min(line.count(b"|") * rows, _MOST_CELLS_OF_A_TABLE)
    return cells


class ApartParser:
    """Parses one note at a time in a child process. Any thread may stop it permanently."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        """Held by the thread that uses the parser."""
        self._child = Child()

    def stop(self) -> None:
        """End the child, if there is one, and start no other."""
        self._child.stop()

    def parse(
        self, path: str, found: bytes | Document, chunking: ChunkSettings, beat: Callable[[float], None]
    ) -> Parsed:
        """Parse the bytes of Markdown, or split a document; every two seconds call `beat` with the seconds so far.

        Raises ParserDiedError if the child dies, ParserMemoryError if it needs too much memory, ApartStoppedError
        after `stop`, and whatever the parser or `beat` raises.
        """
        if isinstance(found, Document) and len(found.text) <= _SHORT:
            return _split(note_from(path, found), chunking)
        try:
            parsed: Parsed = self._child.call(parse_whole, path, found, chunking, MOST_MEMORY, beat=beat)
        except ChildDiedError as error:
            raise ParserDiedError(f"{path!r} could not be parsed: {error}") from error
        return parsed


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How the files of a domain are read: where they are, the largest that are, how they are split and dated."""

    root: Path
    max_bytes: int
    chunking: ChunkSettings
    dates: DateOrder


@dataclass(frozen=True, slots=True)
class FileRead:
    """The content of a file, and what it gives; None if it is parsed apart from others. It took `ms` milliseconds."""

    content: FileContent
    parsed: Parsed | None
    ms: float


FilesRead = Sequence[FileRead | Exception]
"""What `parse_content` returned for each of some files, or what reading or parsing it raised."""


class ParserAhead:
    """Reads and parses batches of files in another process, while this one stores what was parsed before.

    Any thread may stop it permanently.
    """

    def __init__(self) -> None:
        self._child = LastingChild()
        self._caller = ThreadPoolExecutor(1, thread_name_prefix="parser")

    @property
    def is_running(self) -> bool:
        """Say whether there is a process."""
        return self._child.is_running

    def batches(
        self, leases: Leases, owner: str, how: ReadSettings, enough: Callable[[], bool]
    ) -> Generator[tuple[Sequence[LeasedRow], FilesRead | None], None, None]:
        """Lease pending rows until `enough`; yield them with what their files gave, or with None: parse them here.

        While the other process is not ready, this one has rows to parse, too. A note that was tried before is parsed
        here, alone, and so are the notes of a batch with which that process died. What was not yielded is released.
        Raises ApartStoppedError after `stop`.
        """
        begun: deque[tuple[list[LeasedRow], Future[FilesRead]]] = deque()
        more = True
        try:
            while more or begun:
                more = more and not enough()
                is_needed = len(begun) < _BATCHES_AHEAD
                if more and (is_needed or not begun[0][1].done()):
                    limit = _ROWS_AHEAD if is_needed else ROWS_PER_SLICE
                    rows = leases.take("words", limit, owner, "together")
                    more = bool(rows)
                    if is_needed and more and rows[0].attempts == 1:
                        names = [(row.path, row.raw) for row in rows]
                        begun.append((rows, self._caller.submit(self._child.call, read_files, names, how)))
                    elif more:
                        yield rows, None
                else:
                    read = _result(begun[0][1])
                    yield begun.popleft()[0], read
        finally:
            for rows, _ in begun:
                leases.release(rows)

    def end(self) -> None:
        """End the process when nothing is left to parse; the next batch starts another."""
        self._child.end()

    def stop(self) -> None:
        """End the process, and start no other."""
        self._child.stop()


def _result(begun: Future[FilesRead]) -> FilesRead | None:
    """Wait for what was read; return None if the process died. Raises ApartStoppedError."""
    try:
        return begun.result()
    except ChildDiedError:
        return None


def read_files(names: Sequence[tuple[str, str]], how: ReadSettings) -> FilesRead:
    """Read these files, and parse each unless that may take long."""
    found: list[FileRead | Exception] = []
    for path, raw in names:
        try:
            found.append(parse_content(path, files.read(how.root, raw, how.max_bytes), how))
        except Exception as error:  # noqa: BLE001 - it is raised where the file is indexed
            found.append(error)
    return found


def parse_content(
    path: str, content: FileContent, how: ReadSettings, reader: Files | None = None
) -> FileRead:
    """Parse what a file has: without a `reader`, which reads documents, too, unless that may take long.

    Raises NoteError.
    """
    began = time.monotonic()
    parsed = None
    if reader or not (is_read_apart(path) or is_heavy(content.data)):
        parsed = _split((reader or Files(dates=how.dates)).read(path, content.data), how.chunking)
    return FileRead(content, parsed, (time.monotonic() - began) * 1000)


def parse_whole(path: str, found: bytes | Document, chunking: ChunkSettings, most_memory: int) -> Parsed:
    """Parse the bytes of Markdown, or split a document, into a note, its chunks, and the words of each chunk.

    Raises ParserMemoryError if this process would use more than `most_memory` bytes.
    """
    try:
        with _at_most(most_memory):
            return _split(note_from(path, found), chunking)
    except MemoryError:
        raise ParserMemoryError(
            f"{path!r} needs more than {most_memory / 2**30:.1f} GiB of memory to parse; split it"
        ) from None


def _split(note: Note, chunking: ChunkSettings) -> Parsed:
    chunks = chunk_note(note, chunking)
    return Parsed(
        note, chunks, [lexical.chunk_words(c.section, c.heading_path, c.text, note.title) for c in chunks]
    )


@contextmanager
def _at_most(memory: int) -> Iterator[None]:
    """Limit this process to `memory` bytes; lift the limit afterwards, because the result takes memory, too."""
    allowed = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):  # not every system supports it, and another limit may be lower
        resource.setrlimit(resource.RLIMIT_AS, (memory, allowed[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, allowed)
