"""The domain's types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, Self, get_args

# The parts of a document, and where in its file each is: a page, a slide, rows, a key, a cell, a card.


LocatorKind = Literal["page", "slide", "rows", "key", "cell", "card", "symbol"]
KINDS: tuple[LocatorKind, ...] = get_args(LocatorKind)


@dataclass(frozen=True, slots=True)
class Locator:
    """A place in a document. Numbers count from 1; a kind without numbers has 0 in both.

    `name` is the sheet of rows (empty where a file has only one), the path of a key (`thesis.summary`; empty for what
    is at the top of a record), the first words of a card, or the name of a symbol. The numbers of a symbol are its
    lines, those of a key both the line of the file on which it begins (0: unknown).
    """

    kind: LocatorKind
    name: str = ""
    first: int = 0
    last: int = 0

    def shown(self) -> str:
        """Return the place as a person writes it after a file's name: `p. 3`, `[Costs] rows 21-40`, `thesis`."""
        numbers = f"{self.first}-{self.last}" if self.last > self.first else str(self.first)
        if self.kind == "page":
            return f"{'pp.' if self.last > self.first else 'p.'} {numbers}"
        if self.kind == "rows":
            rows = f"row{'s' if self.last > self.first else ''} {numbers}"
            return f"[{self.name}] {rows}" if self.name else rows
        if self.kind in ("slide", "cell"):
            return f"{self.kind}{'s' if self.last > self.first else ''} {numbers}"
        if self.kind == "key":
            return self.name or "top level"
        return self.name or self.kind

    def as_json(self) -> str:
        """Return the place as it is stored."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return a stored place. Raises ValueError if the text is not one."""
        stored = json.loads(text)
        if not isinstance(stored, dict) or stored.keys() != cls.__dataclass_fields__.keys():
            raise ValueError(f"not a place in a document: {text[:100]!r}")
        return cls(**stored)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document that is never merged with another: a page, a slide, twenty rows, a function.

    It is the document's `text[start:end]`. `label` names it as a heading does, and `headings` are those that enclose
    it, outermost first, its own included; both may be empty. `place` is None where lines say where it is.
    """

    start: int
    end: int
    label: str = ""
    headings: tuple[str, ...] = ()
    place: Locator | None = None


# Times in the format of tables and answers: UTC, ISO 8601. Texts of equal precision sort by time.


Precise = Literal["seconds", "milliseconds"]


def as_iso(moment: datetime, precise: Precise = "milliseconds") -> str:
    """Return a time as text, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec=precise)


def now_iso(precise: Precise = "milliseconds") -> str:
    """Return the current time as text, in UTC."""
    return as_iso(datetime.now(UTC), precise)


def iso_ago(span: timedelta) -> str:
    """Return the time that is a span before now, as text."""
    return as_iso(datetime.now(UTC) - span)


def seconds_since(at: str) -> float:
    """Return how many seconds ago a time was; 0 for a future time, which means that a clock was set back."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())


def moment_of(text: str | None) -> datetime | None:
    """Return the time of an ISO date or time, None if it is none.

    A date means its midnight, a time without a zone means UTC.
    """
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# The priorities of tasks on the queue; a higher one runs first.


SAVE_PRIORITY = 110
"""The task that indexes saves; no other task runs before it."""

REQUEST_PRIORITY = 105
"""The task that looks at one note on request: before all others but saves, which no flood of requests may delay."""

HIGH_PRIORITY = 100
"""A save or a request, for which a person is waiting."""

LOW_PRIORITY = 10
"""A scan or a re-chunk; it may take any time."""

LOWEST_PRIORITY = 1
"""Optional work (ranks, sentence vectors); runs only when nothing else waits."""


Matched = Literal["title", "alias", "path"]
LinkKind = Literal["wikilink", "embed", "markdown", "property"]
EdgeKind = Literal["citation", "wikilink", "embed"]
PagerankOver = Literal["citations", "links"]
CentralOver = Literal["citations", "links", "all"]
CentralityBy = Literal["eigenvector", "degree"]
Communities = Literal["louvain", "leiden"]
Fusion = Literal["rrf", "convex"]
GraphMode = Literal["off", "linear", "lift", "walk"]
Absent = Literal["nothing", "penalty"]
Promote = Literal["on_save", "manual"]
EventKind = Literal["created", "modified", "deleted"]
TagStatus = Literal["active", "retired"]
Precision = Literal["float32", "bfloat16"]
EmbeddingContext = Literal["off", "title", "breadcrumb"]


@dataclass(frozen=True, slots=True)
class NoteHeading:
    """A heading of a note: its level (1-6), its plain text, its first line (from 1) and character offset."""

    level: int
    text: str
    line: int
    start: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link as it is written: its target, its text and its position.

    `target` is the part before the first `#`, percent-decoded for a Markdown link, and empty for a link within the
    note; `fragment` is the part after it. `property` names the frontmatter key that contains the link. `cites`: the
    link names a source, by that key, by the heading above it, or because it is in a footnote. `type`: what the
    target is to the note, by the key of the property or field that contains the link (`notes.links.type_of`).
    """

    kind: LinkKind
    target: str
    fragment: str
    text: str
    line: int
    section: str
    property: str | None = None
    cites: bool = False
    type: str | None = None


@dataclass(frozen=True, slots=True)
class OwnPrivacy:
    """What a note itself says about its privacy, whatever its domain's settings are.

    `private`: it must not leave the machine under any settings. `place` and `tags`: its path and its tags in the form
    in which settings are compared with them (`privacy.compared`).
    """

    private: bool
    place: str
    tags: tuple[str, ...]


BY_GIT, BY_FILE_NAME = "git", "file name"
"""The sources of a date that are no properties, as `dates:` of `_domains.yaml` names them."""


@dataclass(frozen=True, slots=True)
class DateOrder:
    """The sources of a note's two dates, first to last: properties by name, the file's name, git.

    The time of the file is always last. `daily` is the format of daily notes in Obsidian, with its folder.
    """

    created: tuple[str, ...] = (
        *("published_at", "published", "date", "created", "created_at", "created on", "created time"),
        *("date created", "creation date", "create time", "ctime", BY_FILE_NAME, BY_GIT),
    )
    changed: tuple[str, ...] = (
        *(
            "updated",
            "updated_at",
            "modified",
            "modified_at",
            "date modified",
            "date updated",
            "last_modified",
        ),
        *("last_modified_at", "lastmod", "last_updated", "updated on", "updated time", "modified time"),
        *("modification date", "update time", "mtime", BY_GIT),
    )
    daily: str | None = None


@dataclass(frozen=True, slots=True)
class StatedDate:
    """A date that a note states (ISO 8601), and by what: `property created`, `file name`.

    `after_git`: a date by git takes precedence.
    """

    at: str
    by: str
    after_git: bool = False


@dataclass(frozen=True, slots=True)
class StatedDates:
    """When a note was created and changed, if it says so, and what in it is no date though it should be."""

    created: StatedDate | None = None
    changed: StatedDate | None = None
    warnings: tuple[str, ...] = ()

    def as_row(self) -> list[str | int | None]:
        """Return date, source and `after_git` of both as a cache stores them."""
        return [
            part
            for one in (self.created, self.changed)
            for part in ((one.at, one.by, int(one.after_git)) if one else (None, None, 0))
        ]


@dataclass(frozen=True, slots=True)
class Note:
    """A parsed file. `text` is the whole decoded file; offsets and lines refer to it. Its body is what is indexed.

    Of another document, `text` is what was read, `blocks` are its parts. `own_title`: empty if `title` is the file's.
    `warnings` contain those of `dates`.
    """

    path: str
    title: str
    text: str
    body_start: int
    body_end: int
    frontmatter: Mapping[str, object]
    headings: tuple[NoteHeading, ...]
    links: tuple[Link, ...]
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    author: str | None
    kind: str | None
    evergreen: bool
    warnings: tuple[str, ...]
    privacy: OwnPrivacy
    blocks: tuple[Block, ...] = ()
    own_title: str = ""
    dates: StatedDates = field(default_factory=StatedDates)

    @property
    def published_at(self) -> str | None:
        """The date of creation that the note states."""
        return self.dates.created.at if self.dates.created else None

    @property
    def stated_dates(self) -> list[str | int | None]:
        """Both dates that the note states, as a cache stores them."""
        return self.dates.as_row()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a note, `note.text[start:end]` on `first_line..last_line` (from 1); an empty range: its names.

    `place`: where it is in a document whose lines do not say it. `text_hash`: of what is embedded, context and text.
    """

    text: str
    text_hash: str
    section: str
    heading_path: tuple[str, ...]
    position: int
    start: int
    end: int
    first_line: int
    last_line: int
    place: Locator | None = None
    context: str = ""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How notes are split: words per chunk, words of overlap, a ceiling in characters, and each chunk's context."""

    target_words: int
    overlap_words: int
    max_chars: int
    context: EmbeddingContext = "off"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A note's file seen on disk: its key (NFC, POSIX), the name that opens it, and its `stat` values."""

    path: str
    raw: str
    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class FileContent:
    """The exact bytes read from a file, their SHA-256, and the file's `fstat` values."""

    data: bytes
    sha256: str
    found: FoundFile


@dataclass(frozen=True, slots=True)
class DiffEvent:
    """A change that the watcher puts on the queue: one path of a domain went from one content to another."""

    domain: str
    path: str
    kind: EventKind
    old_hash: str | None
    new_hash: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class LeasedRow:
    """A ledger row that this worker holds until it commits, fails, or the lease expires."""

    path: str
    raw: str
    wanted_hash: str | None
    generation: int
    applied_generation: int
    attempts: int
    token: str


@dataclass(frozen=True, slots=True)
class NoteFacts:
    """The facts about a candidate for the layers after fusion: its row, and its place in the graph (None: none).

    `created` and `changed` are its dates by whatever source states them, `modified_at` is the time of its file.
    """

    path: str
    author: str | None
    kind: str | None
    created: str | None
    changed: str | None
    modified_at: str
    evergreen: bool
    pagerank: float | None
    centrality: float | None


@dataclass(frozen=True, slots=True)
class TagEntry:
    """A tag of a domain's vocabulary: the heading above it, its description, its aliases, its line.

    A retired tag is valid (a note may have it, an operator may type it) but is never proposed.
    """

    tag: str
    group: str
    description: str
    aliases: tuple[str, ...] = ()
    status: TagStatus = "active"
    line: int = 0


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """A domain's controlled vocabulary, and the pending renames (old tag, new tag)."""

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
    """How a domain lowers the weight of older notes."""

    mode: Literal["off", "ranked_grouped"] = "off"
    ladder: tuple[float, ...] = (1.0, 0.6, 0.45, 0.35, 0.25)
    recency_boost_days: int = 30
    recency_boost_amount: float = 0.05
    kind_overrides: Mapping[str, Kind] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RankFusion:
    """The weights of further lists in fusion by ranks. `absent`: see `reciprocal_rank_fusion`."""

    absent: Absent = "nothing"
    usage: float = 0.0
    names: float = 0.0


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """How a domain's passages are packed and compressed. `max_files`: 0 leaves the number of notes to the packer.

    `target_ratio`: the share of a text that strong compression aims at; `max_prune_ratio`: the most that it leaves
    out, of what may be left out.
    """

    max_files: int = 0
    target_ratio: float = 0.4
    max_prune_ratio: float = 0.7


@dataclass(frozen=True, slots=True)
class EndpointUse:
    """What an endpoint did: requests, those of them without a usable answer, texts embedded, tokens, US dollars.

    The texts by which a model is identified count as tokens alone.
    """

    endpoint: str
    requests: int
    failures: int
    texts: int
    tokens: int
    dollars: float


@dataclass(frozen=True, slots=True)
class Privacy:
    """What never leaves the machine: notes with these tags or in these folders, and without `llm` all notes.

    A tag includes those nested in it; a folder, relative to the vault like notes' paths, includes its subfolders.
    """

    tags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    llm: bool = True


@dataclass(frozen=True, slots=True)
class Relations:
    """What a domain says about types of links: what each is from the other end (`inverses`), and in words."""

    inverses: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def back(self, kind: str | None) -> str | None:
        """Return the type of a link as it is seen from its target: the same where no inverse is known."""
        return None if kind is None else self.inverses.get(kind, kind)

    def name(self, kind: str | None) -> str | None:
        """Return a type as people read it."""
        return None if kind is None else self.names.get(kind) or kind.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Domain:
    """A part of the vault with its own cache, taxonomy, review queue and retrieval settings.

    `path` is the folder it owns (`""`: the whole vault), `threshold` the least confidence of a local proposal.
    `formats` are the names of the formats that it indexes; None: those of the vault. `documents`: how each is read.
    `import_inject_threshold`: None: 2 for source files in a search, 1 for linked notes in a context. `rerank_depth`:
    None: as many as the model can rank in time.
    """

    slug: str
    path: str
    legacy: bool = False
    taxonomy: str = "_taxonomy.md"
    review_queue: str = "_review-queue.md"
    embedding: str | None = None
    embedding_dim: int | None = None
    embedding_context: EmbeddingContext = "off"
    decay: Decay = field(default_factory=Decay)
    attention: float = 0.0
    attention_half_life_days: float = 7.0
    attention_session_minutes: float = 30.0
    fusion: Fusion = "convex"
    lexical_weight: float = 1.0
    rrf: RankFusion = field(default_factory=RankFusion)
    vocabulary: float = 0.0
    sentences: bool = True
    pagerank_over: PagerankOver = "links"
    central_over: CentralOver = "all"
    communities: Communities = "louvain"
    walk_restart: float = 0.15
    rerank_model: str | None = None
    rerank_depth: int | None = None
    rerank_weight: float = 0.0
    import_inject_threshold: int | None = None
    context: ContextLimits = field(default_factory=ContextLimits)
    graph_mode: GraphMode = "lift"
    privacy: Privacy = field(default_factory=Privacy)
    promote: Promote = "on_save"
    threshold: float | None = None
    formats: tuple[str, ...] | None = None
    documents: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    dates: DateOrder = field(default_factory=DateOrder)
    relations: Relations = field(default_factory=Relations)

    @property
    def configuration(self) -> tuple[str, ...]:
        """The paths of the domain's configuration: Markdown that links lead to, found by name alone, without tags."""
        return (self.within(self.taxonomy), self.within(self.review_queue))

    def within(self, name: str) -> str:
        """Return the vault path of a file that is named relative to the domain's folder."""
        return f"{self.path}/{name}" if self.path else name


@dataclass(frozen=True, slots=True)
class Counts:
    """The state of a domain in numbers, as printed by `status`."""

    notes: int
    chunks: int
    vectors: int
    pending: int
    oldest_pending_s: float
    vectors_pending: int
    parked: int
    ignored: int


@dataclass(frozen=True, slots=True, order=True)
class NoteName:
    """A name of a note: its title, an alias, or its path."""

    domain: str
    path: str
    title: str
    matched: Matched
    name: str


# Where a vault's state and caches are.


LONGEST_SCHEMA = 63
"""The longest name of a schema that PostgreSQL keeps, in bytes."""


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """Where a vault's state and caches are: the server's address, and the folder for this host's copies.

    `vault` begins the names of its schemas; of several vaults in one database each has its own.
    """

    folder: Path
    address: str
    vault: str

    def schema(self, name: str) -> str:
        """Return the schema of the vault's state or of a cache; a long name is replaced by its hash."""
        whole = f"{self.vault}_{name}"
        if len(whole.encode()) <= LONGEST_SCHEMA:
            return whole
        return f"{self.vault[:20]}_{sha256(name.encode()).hexdigest()[:32]}"  # `views.sql` computes it, too


class VectorIndex(NamedTuple):
    """How pgvector finds a cache's nearest passages: `exact`, `ivfflat` or `hnsw`, built with so many passages.

    `recall`: the share of the ten exactly nearest passages among the ten that it finds, measured when it was built.
    """

    kind: str
    passages: int
    recall: float


Place = Path | PostgresPlace
"""Where a vault's state is: in a folder, or in PostgreSQL."""


def folder_of(place: Place) -> Path:
    """Return the folder of this host's own files."""
    return place if isinstance(place, Path) else place.folder
