"""The facts that processes tell each other through `state.db`: each subject and the type of its value."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")
_REPLY_KEPT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Subject(Generic[T]):
    """The subject of a fact: the name in its key, and the type of its value.

    `is_momentary`: it is true only while the vault's processes run, so backups leave it out.
    `kept_s`: such facts are deleted after this many seconds; None: never.
    """

    name: str
    shape: Any
    is_momentary: bool = False
    kept_s: float | None = None

    def key(self, about: str) -> str:
        """Return the key of the fact about a domain, model or request; `about` is empty if there is only one fact."""
        return f"{self.name}:{about}" if about else self.name

    def adapter(self) -> TypeAdapter[T]:
        """Return the adapter that serialises and validates the values."""
        return _adapter(self.shape)


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """The last value of a fact, and how many seconds ago it was recorded."""

    value: T
    age_s: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Deletions that wait for confirmation: how many, and the first few paths."""

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """What the last comparison of the disk with the ledgers found, by domain, and how long it took.

    `others`, by domain and format: files that could be indexed, but are not asked for.
    """

    found: dict[str, dict[str, int]]
    took_ms: int
    others: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbeddingSpeed:
    """How fast a domain's texts were embedded last."""

    texts_per_s: float


@dataclass(frozen=True, slots=True)
class EmbedderFacts:
    """The device that a loaded model runs on, and its precision."""

    device: str
    precision: str


@dataclass(frozen=True, slots=True)
class RefusedMessages:
    """How many queue messages were refused: not signed by us, for an unknown task, or replayed."""

    foreign: int = 0
    unknown: int = 0
    replayed: int = 0


@dataclass(frozen=True, slots=True)
class WatcherFacts:
    """The watcher's state; `last_event_s` and `last_probe_s` are seconds before the fact was recorded."""

    mode: Literal["events", "polling"]
    polling_because: str | None
    last_event_s: float | None
    last_probe_s: float | None
    overflows: int
    process: int


class ReviewState(NamedTuple):
    """A review queue as last read: size, time and inode of its file and of the vocabulary; the proposals' version.

    `notes` is a hash of what is indexed of the notes whose tags wait, because the queue shows how they begin.
    """

    file: tuple[int, int, int] | None
    proposals: list[list[str | int]]
    vocabulary: tuple[int, int, int] | None = None
    notes: str | None = None


HELD: Subject[Hold] = Subject("held", Hold, is_momentary=True)
COMPARISON: Subject[Compared] = Subject("comparison", Compared, is_momentary=True)
EMBEDDING_SPEED: Subject[EmbeddingSpeed] = Subject("embed", EmbeddingSpeed, is_momentary=True)
EMBEDDER: Subject[EmbedderFacts] = Subject("embedder", EmbedderFacts, is_momentary=True)
REFUSED: Subject[RefusedMessages] = Subject("refused", RefusedMessages, is_momentary=True)
WATCHER: Subject[WatcherFacts] = Subject("watcher", WatcherFacts, is_momentary=True)
RELOADED: Subject[dict[str, dict[str, int]]] = Subject(
    "reload", dict[str, dict[str, int]], is_momentary=True, kept_s=_REPLY_KEPT_SECONDS
)
"""A worker's reply to a request to compare the vault, by the request's id."""

LOOKED_AT: Subject[bool] = Subject("looked-at", bool, is_momentary=True, kept_s=_REPLY_KEPT_SECONDS)
"""A worker's reply to a request to index a note, by the request's id: whether its file was quiet."""

TAGGED: Subject[dict[str, Any]] = Subject(
    "tags", dict[str, Any], is_momentary=True, kept_s=_REPLY_KEPT_SECONDS
)
"""A worker's reply to a request about tags, by the request's id."""

REVIEWED: Subject[ReviewState] = Subject("review", ReviewState)
TAGGING_BEGAN: Subject[str] = Subject("tags-began", str)
"""When a domain's notes were first examined for tags (UTC, ISO 8601)."""

REHASHED: Subject[str] = Subject("rehash", str)
"""The path up to which a domain's notes have been rehashed."""

MEMORY: Subject[dict[str, tuple[int, int]]] = Subject("memory", dict[str, tuple[int, int]])
"""By domain: how many in-memory lists were compared with the cache, and how many differed."""

SUBJECTS: tuple[Subject[Any], ...] = (
    HELD,
    COMPARISON,
    EMBEDDING_SPEED,
    EMBEDDER,
    REFUSED,
    WATCHER,
    RELOADED,
    LOOKED_AT,
    TAGGED,
    REVIEWED,
    TAGGING_BEGAN,
    REHASHED,
    MEMORY,
)
