"""Parse a note: in this process, or in a separate process if it takes long.

Cost is estimated, not timed, so that a slow machine treats a note as a fast one does. Markdown that consists only of
`[` takes about 50 us per character, plain text 2 us, so a note's characters are weighed. A note that takes longer
than about half a second is parsed by a child process while this process continues with other notes. A child that dies
does not affect them.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pipelines.child import Child
from pipelines.documents.document import Document
from pipelines.documents.read import note_from
from pipelines.errors import ChildDiedError, ParserDiedError, ParserMemoryError
from pipelines.model import Chunk, ChunkSettings, Note
from pipelines.notes import lexical
from pipelines.notes.chunk import chunk_note
from pipelines.notes.encodings import is_utf_16

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
