"""The inputs for indexing a domain, and the result of a slice of it."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from pipelines.brake import AT_ONCE, Brake
from pipelines.documents.reading import Files, Options
from pipelines.model import ChunkSettings, EmbeddingContext, LeasedRow
from pipelines.store.cache import Cache
from pipelines.store.note_log import NoteEvent

PIPELINE_VERSION = 11
"""Increase it when the same note would give other chunks, sentences, links, index words or privacy.

Every note is then indexed again; until it is, agents do not see it. No text is embedded again, but its sentences are.
"""


_SPLIT_BY = re.compile(r"\d+:(\d+)/(\d+)/(\d+)(?::(title|breadcrumb))?(?::[0-9a-f]{12})?", re.ASCII)


class DocumentEncoder(Protocol):
    """The part of an embedder that ingest needs. Several threads may call it."""

    def encode_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one unit vector per text: shape (len(texts), dimension)."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """The inputs for indexing a domain.

    `present` says whether the vault is available, `encoder_ready` whether the encoder is available without a wait;
    `siblings` are the other caches. `brake` decides on indexed notes whose files are gone. `apart`: notes that take
    long to parse are set apart for `index_apart`. `files` reads them. `record` is called with what happened to each
    note, once it is committed.
    """

    domain: str
    root: Path
    max_bytes: int
    chunking: ChunkSettings
    owner: str
    present: Callable[[], bool]
    encoder: Callable[[], DocumentEncoder]
    encoder_ready: Callable[[], bool]
    siblings: Callable[[], Iterable[Path]]
    brake: Brake = AT_ONCE
    apart: bool = False
    files: Files = field(default_factory=Files)
    record: Callable[[Sequence[NoteEvent]], None] = lambda _: None


@dataclass(slots=True)
class Outcome:
    """The result of a slice of work; `attempt`: the most attempts of any of its notes, including this one.

    `embedded`: the hashes of the texts that were embedded, which took `embedding_ms`. `events`: what happened to
    each note in this slice alone.
    """

    committed: int = 0
    removed: int = 0
    parked: int = 0
    postponed: int = 0
    attempt: int = 1
    paths: list[str] = field(default_factory=list)
    embedded: set[str] = field(default_factory=set)
    embedding_ms: float = 0.0
    events: list[NoteEvent] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add the result of another slice."""
        self.committed += other.committed
        self.removed += other.removed
        self.parked += other.parked
        self.postponed += other.postponed
        self.embedded |= other.embedded
        self.attempt = max(self.attempt, other.attempt)
        self.paths += other.paths

    @property
    def embedded_texts(self) -> int:
        """How many texts were embedded."""
        return len(self.embedded)

    def embedded_of(self, texts: Iterable[str]) -> tuple[int, float]:
        """Return how many of these texts (hashes) were embedded, and their share of the time in milliseconds."""
        own = len(self.embedded.intersection(texts))
        return own, self.embedding_ms * own / max(1, len(self.embedded))

    @property
    def touched(self) -> int:
        """How many rows were processed in any way."""
        return self.committed + self.removed + self.parked + self.postponed


def pipeline_name(chunking: ChunkSettings, options: Options | None = None) -> str:
    """Return a name for everything that determines which chunks a note gives; a cache records it."""
    name = f"{PIPELINE_VERSION}:{chunking.target_words}/{chunking.overlap_words}/{chunking.max_chars}"
    if chunking.context != "off":
        name += f":{chunking.context}"
    if not options:
        return name
    return f"{name}:{hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:12]}"


def split_otherwise(pipeline: str, ingest: Ingest) -> str | None:
    """Return a sentence about notes that another pipeline than the one in use has split, None if none has."""
    wanted = pipeline_name(ingest.chunking, ingest.files.options)
    if pipeline == wanted:
        return None
    return f"its notes were split by {pipeline}, not by {wanted}; `everindex index` indexes them again"


def chunking_of(pipeline: str) -> ChunkSettings | None:
    """Return how a pipeline splits notes and what context it embeds, by its name; None for a name of another form."""
    found = _SPLIT_BY.fullmatch(pipeline)
    if found is None:
        return None
    words, overlap, chars, context = found.groups()
    return ChunkSettings(int(words), int(overlap), int(chars), cast("EmbeddingContext", context or "off"))


def park_crasher(cache: Cache, row: LeasedRow, outcome: Outcome, *, keep_words: bool) -> None:
    """Park a note that was being indexed alone when its worker died repeatedly."""
    began = time.monotonic()
    reason = f"it ended its worker {row.attempts - 1} times (out of memory, or a fault in a library)"
    cache.park(row, "crash", reason, keep_words=keep_words)
    outcome.parked += 1
    outcome.paths.append(row.path)
    outcome.events.append(NoteEvent(row.path, "parked", ms_since(began), error=f"crash: {reason}"))


def reason_alone(row: LeasedRow, reason: str) -> str:
    """Return why a note is parked without the path before it, because every list of reasons shows the path."""
    for name in (row.path, row.raw):
        said = reason.removeprefix(repr(name))
        if said != reason:
            return f"it{said}" if said.startswith(" ") else said.lstrip(",: ")
    return reason


def ms_since(began: float) -> float:
    """Return how many milliseconds have passed since a time of the monotonic clock."""
    return (time.monotonic() - began) * 1000
