"""The words of the domain as types; standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

LinkKind = Literal["wikilink", "embed", "markdown", "property"]
EdgeKind = Literal["citation", "wikilink", "embed"]
PagerankOver = Literal["citations", "links"]
CentralOver = Literal["citations", "links", "all"]
Communities = Literal["leiden", "louvain"]
Fusion = Literal["rrf", "convex"]
GraphMode = Literal["off", "linear", "lift"]
Promote = Literal["on_save", "manual"]
EventKind = Literal["created", "modified", "deleted"]
TagStatus = Literal["active", "retired"]
Precision = Literal["float32", "bfloat16"]

SAVE_PRIORITY = 110
"""The task that indexes saves: no other task goes before it."""

HIGH_PRIORITY = 100
"""A save, or a request: a person is waiting for it."""

LOW_PRIORITY = 10
"""A scan, a re-chunk: it may take as long as it takes."""

LOWEST_PRIORITY = 1
"""What makes answers better or faster, and is owed to nobody."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a note: its level (1-6), its plain text, its first line (from 1) and character offset."""

    level: int
    text: str
    line: int
    start: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link as it is written: where it points, what it shows, where it stands.

    `target` is what stands before the first `#`, percent-decoded for a Markdown link, empty for a link into
    the note itself; `fragment` is what follows it. `property` names the frontmatter key it was found in.
    `cites` says that it names a source: by that key, by the heading it stands under, or in a footnote.
    """

    kind: LinkKind
    target: str
    fragment: str
    text: str
    line: int
    section: str
    property: str | None = None
    cites: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """One Markdown file, parsed. `text` is the whole decoded file; offsets and lines count in it."""

    path: str
    title: str
    text: str
    body_start: int
    frontmatter: Mapping[str, object]
    headings: tuple[Heading, ...]
    links: tuple[Link, ...]
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    author: str | None
    kind: str | None
    published_at: str | None
    evergreen: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a note, `note.text[start:end]` on `first_line..last_line` (from 1); of no range: its names."""

    text: str
    text_hash: str
    section: str
    heading_path: tuple[str, ...]
    position: int
    start: int
    end: int
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How notes are cut: words a chunk, words of overlap, and a ceiling in characters."""

    target_words: int
    overlap_words: int
    max_chars: int


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A Markdown file seen on disk: its key (NFC, POSIX), the name that opens it, and what `stat` said."""

    path: str
    raw: str
    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class FileContent:
    """The exact bytes that were read of one file, their SHA-256, and what `fstat` said of them."""

    data: bytes
    sha256: str
    found: FoundFile


@dataclass(frozen=True, slots=True)
class DiffEvent:
    """What the watcher puts on the queue: one path of a domain changed from one content to another."""

    domain: str
    path: str
    kind: EventKind
    old_hash: str | None
    new_hash: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class LeasedRow:
    """A ledger row that this worker holds until it commits, fails or the lease runs out."""

    path: str
    raw: str
    wanted_hash: str | None
    generation: int
    applied_generation: int
    attempts: int
    token: str


@dataclass(frozen=True, slots=True)
class NoteFacts:
    """What the layers after fusion know of a candidate: its row, and its place in the graph (None: it has none).

    `updated` is what its frontmatter has as `modified` or `updated`, as it is written there.
    """

    path: str
    author: str | None
    kind: str | None
    published_at: str | None
    modified_at: str
    evergreen: bool
    pagerank: float | None
    centrality: float | None
    updated: str | None = None


@dataclass(frozen=True, slots=True)
class TagEntry:
    """A tag of a domain's vocabulary: the heading it stands under, what it means, its other names, its line.

    A retired tag is known (a note may have it, an operator may type it) but is never proposed.
    """

    tag: str
    group: str
    description: str
    aliases: tuple[str, ...] = ()
    status: TagStatus = "active"
    line: int = 0


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """A domain's controlled vocabulary, and the renames (old tag, new tag) that wait to be applied."""

    entries: tuple[TagEntry, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A tag that a proposer suggests for a note; `confidence` is from 0 to 1."""

    tag: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Kind:
    """Decay settings for notes of one kind."""

    group_by_path_prefix: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Decay:
    """How a domain weighs older material down."""

    mode: Literal["off", "ranked_grouped"] = "off"
    ladder: tuple[float, ...] = (1.0, 0.6, 0.45, 0.35, 0.25)
    recency_boost_days: int = 30
    recency_boost_amount: float = 0.05
    kind_overrides: Mapping[str, Kind] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Privacy:
    """What of a domain never leaves the machine: notes with these tags or in these folders; without `llm`, all.

    A tag covers those nested in it. A folder is relative to the vault, as notes' paths are, and covers all below it.
    """

    tags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    llm: bool = True


@dataclass(frozen=True, slots=True)
class Domain:
    """A slice of the vault with a cache, taxonomy, review queue and retrieval settings of its own.

    `path` is the folder it owns (`""`: the whole vault), `threshold` the least confidence of a local proposal.
    """

    slug: str
    path: str
    legacy: bool = False
    taxonomy: str = "_taxonomy.md"
    review_queue: str = "_review-queue.md"
    embedding: str | None = None
    embedding_dim: int | None = None
    decay: Decay = field(default_factory=Decay)
    fusion: Fusion = "convex"
    lexical_weight: float = 1.0
    sentences: bool = True
    pagerank_over: PagerankOver = "links"
    central_over: CentralOver = "all"
    communities: Communities = "leiden"
    graph_mode: GraphMode = "lift"
    privacy: Privacy = field(default_factory=Privacy)
    promote: Promote = "on_save"
    threshold: float | None = None

    @property
    def configuration(self) -> tuple[str, ...]:
        """The paths of what configures the domain: Markdown that is indexed (links lead there), and is no note.

        It is found by its name alone, and gets no tags.
        """
        return (self.within(self.taxonomy), self.within(self.review_queue))

    def within(self, name: str) -> str:
        """Return the vault path of a file that is named relative to the domain's folder."""
        return f"{self.path}/{name}" if self.path else name


@dataclass(frozen=True, slots=True)
class Counts:
    """How a domain stands: what `status` prints."""

    notes: int
    chunks: int
    vectors: int
    pending: int
    oldest_pending_s: float
    vectors_pending: int
    parked: int
    ignored: int
