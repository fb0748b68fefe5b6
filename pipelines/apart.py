"""Parsing a note: in this process, or apart, in a process of its own, where it takes long.

How long is counted, not timed: a slow machine treats a note as a fast one does. Markdown of nothing but `[` takes
some 50 us a character, plain text 2 us; so its characters are weighed. Whatever takes longer than half a second or so
is parsed by a child process, while this one goes on with other notes; a child that dies takes nothing with it.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pipelines import lexical
from pipelines.child import Child
from pipelines.chunk import chunk_note
from pipelines.errors import ChildDiedError, ParserDiedError, ParserMemoryError
from pipelines.markdown import read_note
from pipelines.model import Chunk, ChunkSettings, Note

# What a character adds to the 2 us that any takes, in these.
_WEIGHTS = {b"[": 20, b"\n": 10, b"*": 5, b"_": 5, b"~": 5, b"`": 5, b"<": 5, b"$": 5, b"!": 5, b"|": 5}
_HEAVY = 200_000
MOST_MEMORY = 4 * 2**30
"""Bytes that the child may take. A line of 50 MB takes 1.5 GiB, 200,000 headings in 7 MB take 0.8 GiB."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed note, its chunks, and what the full-text index has of each of them."""

    note: Note
    chunks: tuple[Chunk, ...]
    words: list[lexical.ChunkWords]


def is_heavy(data: bytes) -> bool:
    """Say whether a note takes so long to parse that it is parsed apart."""
    return len(data) + sum(data.count(mark) * weight for mark, weight in _WEIGHTS.items()) > _HEAVY


def parse(path: str, data: bytes, chunking: ChunkSettings) -> tuple[Note, tuple[Chunk, ...]]:
    """Return a file's bytes as a note and its chunks."""
    note = read_note(path, data)
    return note, chunk_note(note, chunking)


class ApartParser:
    """Parses one note at a time in a child process. Any thread may stop it, for good."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        """Held by whoever uses it."""
        self._child = Child()

    def stop(self) -> None:
        """End the child, if there is one, and start no other."""
        self._child.stop()

    def parse(self, path: str, data: bytes, chunking: ChunkSettings, beat: Callable[[float], None]) -> Parsed:
        """Return a file's bytes parsed; call `beat` with the seconds that it has taken, every two seconds.

        Raises ParserDiedError where the child dies, ParserMemoryError where that takes too much, ApartStoppedError
        after `stop`, what the parser raises, and what `beat` raises.
        """
        try:
            parsed: Parsed = self._child.call(parse_whole, path, data, chunking, MOST_MEMORY, beat=beat)
        except ChildDiedError as error:
            raise ParserDiedError(f"{path!r} could not be parsed: {error}") from error
        return parsed


def parse_whole(path: str, data: bytes, chunking: ChunkSettings, most_memory: int) -> Parsed:
    """Return a file's bytes as a note, its chunks, and what the full-text index has of each of these.

    Raises ParserMemoryError where this process would take more than `most_memory` bytes.
    """
    try:
        with _at_most(most_memory):
            note, chunks = parse(path, data, chunking)
            words = [lexical.chunk_words(chunk.section, chunk.text, note.title) for chunk in chunks]
    except MemoryError:
        raise ParserMemoryError(
            f"{path!r} takes more than {most_memory / 2**30:.1f} GiB of memory to parse; split it"
        ) from None
    return Parsed(note, chunks, words)


@contextmanager
def _at_most(memory: int) -> Iterator[None]:
    """Let this process take at most `memory` bytes; afterwards it may again: an answer takes memory, too."""
    allowed = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):  # not every system can limit it, and another limit may be lower
        resource.setrlimit(resource.RLIMIT_AS, (memory, allowed[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, allowed)
