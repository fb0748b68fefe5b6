"""What indexing and retrieval need of the cache of a domain: the promises that every store keeps.

- A method that writes does so in one transaction, or joins the one in progress. When it raises, nothing is written.
- A method that reads sees one state. Within `Cache.snapshot` and `Cache.transaction`, all reads see the same state.
- Every method may raise StorageUnavailableError (a retry may succeed) and CacheCorruptError, which are CacheErrors.
- Paths, ids and hashes that the store does not know are missing from an answer. Paths sort by code point.
- A chunk's id stands for the same text as long as the chunk exists. Ids only grow and are never used again.
- Vectors are of unit length and of the model's dimension, as float32.
- A connection belongs to one thread. The commits of one are visible to all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pipelines.cache.graph import GraphEdge, Linked, RankedBy, StoredGraph
from pipelines.cache.leases import Among, Stage, Waiting
from pipelines.cache.ledger import LedgerRow, ParkedRow, ScanDifference
from pipelines.cache.passages import ChunkRow, FileSymbols, LinkChunk, NodeRow, Quantized
from pipelines.cache.schema import CacheMeta
from pipelines.cache.vectors import Vector
from pipelines.filters import Filters
from pipelines.model import (
    Chunk,
    Counts,
    DateOrder,
    DiffEvent,
    FileContent,
    FoundFile,
    LeasedRow,
    Note,
    NoteFacts,
    PagerankOver,
    StatedDates,
)
from pipelines.notes.lexical import ChunkWords, LexicalQuery

# The writing side: what is on disk, what is to be done about it, and who does it.


class Ledger(Protocol):
    """What is on disk, compared with what is indexed; all pending work is recorded here.

    A row is pending while the disk wants another generation of it than the one that is indexed. A deleted file keeps
    its row until its deletion is applied. Times are monotonic seconds of the cache's clock.
    """

    def record(
        self, domain: str, seen: Sequence[tuple[FoundFile, str]], gone: Sequence[str], *, priority: int
    ) -> list[DiffEvent]:
        """Record the files seen (file, hash) and the paths gone; return an event for each real difference.

        Each difference begins a new generation: it makes the row pending with this priority (of several that wait,
        the highest counts), forgets its failures and makes work on older content stale. A file of which only the time
        changed is no difference.
        """

    def compare_scan(
        self, found: Iterable[FoundFile], folder: str = "", suspects: AbstractSet[str] = frozenset()
    ) -> ScanDifference:
        """Compare a scan of a folder with the ledger, by `stat` alone; `suspects` always count as changed.

        So do rows that are parked because their file could not be read, as `stat` may not show that it can be now.
        """

    def keep_indexed(self, row: LeasedRow) -> bool:
        """Accept the indexed content as wanted and release the lease; say whether there is any.

        When the file is back, it counts as changed whatever it contains: the pipeline may have changed meanwhile.
        """

    def retry(self, path: str | None = None) -> int:
        """Make a parked note (None: all of them) pending again; return how many there were."""

    def hasten(self, path: str) -> bool:
        """Let a pending note take its turn with the saves; say whether it is pending."""

    def want_version(self, version: str | None) -> list[str]:
        """Make the notes pending that a pipeline indexed, by its version or whole name; None: those of earlier ones.

        Return their paths. Until they are indexed again, they are found as they are. A note that waits for this
        pipeline counts for every earlier one that left notes.
        """

    def row(self, path: str) -> LedgerRow | None:
        """Return the state of one path, or None if the ledger has never seen it."""

    def pending(self, besides: Collection[str] = ()) -> tuple[int, float]:
        """Return how many rows `besides` some paths are pending, and for how many seconds the oldest one has been."""

    def known(self) -> int:
        """Count the files that the ledger believes to exist."""

    def paths_below(self, folder: str) -> list[str]:
        """Return the paths below a folder (`""`: all) that the ledger believes to exist."""

    def raws_after(self, path: str, count: int) -> list[tuple[str, str]]:
        """Return up to `count` existing paths that sort after a path, with the names that open them."""

    def hashes_of(self, paths: Collection[str]) -> dict[str, str]:
        """Return the hash on disk of each of the paths that the ledger believes to exist."""

    def paths_of(self, hashes: Collection[str]) -> dict[str, str]:
        """Return the paths whose file on disk has one of the hashes, with the hash; this reads every row."""

    def settled(self) -> dict[str, str]:
        """Return the hash of each note that is completely indexed, including vectors, and has nothing pending."""

    def stat_of(self, paths: Sequence[str]) -> dict[str, tuple[str, int, int, bool]]:
        """Return for each path that is to stay: the name that opens it, size, mtime in ns, whether it is pending."""

    def without_files(self, gone: Sequence[str], on_disk: AbstractSet[tuple[int, int]]) -> list[str]:
        """Return the paths whose file (inode, size) is not on disk under another name either."""

    def parked_notes(self) -> list[ParkedRow]:
        """Return the parked notes, by path."""

    def saved_ms(self, paths: Sequence[str]) -> list[float]:
        """Return, for each of these saves that is findable, the milliseconds from its discovery to being findable.

        A save that newer content has followed is counted with the newer one; what a first index or a comparison of
        the disk found is no save.
        """


class Leases(Protocol):
    """Who works on which pending row. A lease that is neither released nor renewed ends by itself.

    What a worker does with a lease that another one has taken over, or with content that is no longer wanted, raises
    StaleWorkError and changes nothing.
    """

    def has_pending(self, stage: Stage, among: Among = "all") -> bool:
        """Say whether a row is pending, due and free."""

    def take(self, stage: Stage, limit: int, owner: str, among: Among = "all") -> list[LeasedRow]:
        """Lease up to `limit` rows that are pending, due and free, and count the attempt.

        The most urgent rows come first, and among these the newest, so a save does not wait for a bulk change. A row
        that failed before is leased alone, so that whatever broke its batch cannot break other notes again.

        Of saves, one half are the newest by their files' times, which finds a note just written. The other half are
        those discovered last, because a file that was moved here keeps its old time. Deletions come last.
        """

    def renew(self, row: LeasedRow, sha: str) -> None:
        """Extend the lease of a row while its content `sha` is being indexed. Raises StaleWorkError."""

    def release(self, rows: Sequence[LeasedRow]) -> None:
        """Release rows untried: the attempt does not count. Rows that another worker holds by now stay his."""

    def set_apart(self, row: LeasedRow, reason: str) -> None:
        """Release a row untried; it is leased only `apart` from others until its content changes."""

    def postpone(self, row: LeasedRow, kind: str, reason: str, *, counted: bool = True) -> None:
        """Release a row after a failure that may pass; it is due again after a growing pause, if kept after a minute.

        A failure that is not the note's fault does not count as an attempt (`counted` false).
        """

    def release_all_of(self, owners: Collection[str]) -> None:
        """Release everything that these owners hold after the disk failed: the attempt does not count."""

    def free_those_of_the_dead(self, alive: Callable[[str], bool]) -> None:
        """Release the leases of owners that no longer live; the attempt still counts."""

    def waiting(self) -> Waiting | None:
        """Return what is pending, for how long and why, or None if nothing is."""


class Edges(Protocol):
    """The files that links may mean. Each link has an edge to the file that it means, as `resolve` decides.

    Every change of the files or of a note's links also changes, in the same transaction, the edges that depend on it.
    """

    def change_paths(self, new: Collection[str], gone: Collection[str]) -> None:
        """Record added and removed files; files that are known already, or unknown, change nothing."""

    def paths_below(self, folder: str) -> list[str]:
        """Return the known files below a folder (`""`: all)."""

    def ranks_behind(self) -> bool:
        """Say whether edges, titles or tags changed since the ranks were computed."""

    def ranks_due(self) -> bool:
        """Say whether the ranks are behind, and the edges either quiet for a while or behind for long."""


class Vectors(Protocol):
    """Vectors by the hash of their text, so that a text that moves to another note keeps its vector."""

    def of(self, hashes: Iterable[str]) -> dict[str, Vector]:
        """Return the stored vectors among these hashes."""

    def has_any(self) -> bool:
        """Say whether a vector is stored."""

    def store(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors; what is stored stays. Raises BadVectorError if one is of another dimension or zero."""

    def drop_unused(self) -> int:
        """Delete the vectors without a chunk for longer than the grace period, and free room; return how many."""

    def pending_texts(self, path: str, most: int) -> dict[str, str]:
        """Return up to `most` of a note's texts, below their contexts, that have no stored vector, by hash."""

    def pending(self, besides: Collection[str] = ()) -> int:
        """Count the chunks whose vectors are pending, without those of parked and kept notes and of `besides`."""

    def probes(self) -> list[Vector]:
        """Return the vectors of the sentences that identify the model; none for one that ran on this machine."""

    def keep_probes(self, probes: Sequence[Vector]) -> list[Vector]:
        """Let these identify the model, unless there are vectors by now; return those that do.

        Raises BadVectorError.
        """


class SecondVectors(Protocol):
    """Vectors of texts by a second model, as signed bytes; a text's go when its own vector does."""

    def want(self, model: str | None) -> None:
        """Have all texts with a vector wait for one by this model; None: by no model. What is stored stays."""

    def pending(self, most: int) -> dict[str, str]:
        """Return up to `most` texts of chunks, below their contexts, that wait for the wanted model, by hash."""

    def keep(self, model: str, quantized: Mapping[str, Quantized]) -> None:
        """Store vectors of texts by their hashes; an empty one says that the model has none for the text."""

    def of_chunks(self, model: str, ids: Sequence[int]) -> dict[int, Quantized]:
        """Return the vectors of chunks by id, without unprepared ones; empty: the model has none for the text."""


class Dating(Protocol):
    """What decides a note's dates: what it states itself, by an order of sources, and what git knows of its file."""

    def order(self) -> DateOrder:
        """Return the order of sources by which all notes were dated last."""

    def stated(self) -> list[tuple[str, str, str]]:
        """Return path, properties and warnings (JSON) of all notes."""

    def restate(self, order: DateOrder, notes: Iterable[tuple[str, StatedDates, Sequence[str]]]) -> None:
        """Replace the dates that notes (by path) state and their warnings, and the order by which all are dated."""

    def commit(self) -> str:
        """Return the commit, with the dates wanted from it, as of which git's dates are stored; `""`: none."""

    def keep_commits(
        self, commit: str, files: Iterable[tuple[str, str | None, str | None, int | None]]
    ) -> None:
        """Replace what git knows of files: path, first and last commit, and the time for which the last is valid."""


# Retrieval: what is near, what matches, and what a hit shows.


class Retrieval(Protocol):
    """What the retrievers read. `only` restricts an answer to these chunks; None does not.

    Words are those of `notes.lexical`, and count in any of their English forms. Nothing is found by a vector before
    all vectors of its note are stored.
    """

    def nearest(
        self, vector: Vector, depth: int, only: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return chunks with their cosine to a unit vector, nearest first; at least 4,096 can be asked for."""

    def chunks_as_near(self, vector: Vector, cosine: float, only: Collection[int] | None = None) -> list[int]:
        """Return the chunks with at least this cosine to a unit vector."""

    def passages_nearer(self, vector: Vector, cosine: float, only: Collection[int] | None = None) -> int:
        """Count the chunks that are nearer to a unit vector than a cosine."""

    def cosines(self, vector: Vector, ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of chunks to a unit vector, by id; chunks without a vector yet are left out."""

    def vectors_of_chunks(self, ids: Sequence[int]) -> dict[int, Vector]:
        """Return the vectors of chunks by id; chunks without a vector yet are left out."""

    def matching(
        self, wanted: LexicalQuery, depth: int, only: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return chunks with their BM25 (more is better) for a question's words, best first; equal ones by id."""

    def notes_matching(self, phrase: str) -> set[str]:
        """Return the paths of the notes that have a passage with a phrase."""

    def notes_having(self, words: Sequence[str], within: int, has_it: Callable[[str], bool]) -> set[str]:
        """Return the paths of notes of which `has_it` accepts a name, or a passage that has the words close together.

        Their order does not matter; at most `within` other words lie between them.
        """

    def notes_of(self, only: Collection[int] | None) -> set[str]:
        """Return the paths of the notes that have chunks."""

    def chunks_of_notes(
        self, among: Collection[str] | None, without: Collection[str], only: Collection[int] | None
    ) -> list[int]:
        """Return the chunks of the notes `among` these paths (None: all) and not `without`, by id."""

    def citations_touching(
        self, paths: Sequence[str], over: PagerankOver, most: int, hidden: Collection[str] = frozenset()
    ) -> int:
        """Count, up to `most`, the edges that PageRank uses, at these notes and not at `hidden` ones."""

    def linked_from(self, paths: Sequence[str], hidden: Collection[str] = frozenset()) -> dict[str, set[str]]:
        """Return the notes of the domain, without `hidden` ones, that each of these notes links to, in any way."""

    def stems_beginning(self, letter: str) -> list[str]:
        """Return the words of the index that begin with a letter, stemmed."""

    def texts_with_stem(self, stem: str, hidden: Collection[str], most: int) -> list[str]:
        """Return texts, with the names of their notes, of chunks with a stemmed word, but not of `hidden` notes."""

    # What keeps an index in memory in step with the stored one

    def newest_chunk(self) -> int:
        """Return the highest id that a chunk ever had."""

    def chunk_changes(self, after: int | None) -> tuple[int, set[int] | None]:
        """Return the number of the last change, and the chunks embedded or deleted after the change `after`.

        None instead of chunks if the changes are no longer known or `after` is None: any chunk may have changed.
        """

    def chunks_with_vectors(self, only: Collection[int] | None) -> set[int]:
        """Return the chunks that have a vector."""

    def chunks_with_vectors_between(self, after: int, upto: int) -> set[int]:
        """Return those of the chunks with ids in (after, upto] that have a vector."""

    def lengths(self, after: int, upto: int = ...) -> list[tuple[int, int]]:
        """Return the chunks with ids in (after, upto], in order, each with its number of words."""

    def lengths_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return those of these chunks that exist, in order, each with its number of words."""

    def occurrences(self, phrase: str, after: int, upto: int = ...) -> list[tuple[int, float]]:
        """Return the chunks in (after, upto] that contain a phrase, in order, with its count by column weight."""

    def occurrences_in(self, phrase: str, ids: Sequence[int]) -> list[tuple[int, float]]:
        """Return those of these chunks that contain a phrase, in order, with its count by column weight."""

    def count_having(self, phrase: str) -> int:
        """Count the chunks that contain a phrase."""

    def totals(self) -> tuple[int, int]:
        """Return the number of chunks, and the number of words in all of them."""

    def generation(self) -> str:
        """Return a name for the state that rankings depend on; it changes with chunks, vectors, links and ranks."""

    def visible_generation(self, hidden: Collection[str]) -> str:
        """Return a name for the state of the notes that are not hidden; a change of hidden notes does not change it.

        Ranks are left out, because they depend on the links of all notes.
        """


class Passages(Protocol):
    """Chunks and what is known of their notes, the vectors of their sentences, and the symbols of source files."""

    def note_facts(self, paths: Sequence[str]) -> dict[str, NoteFacts]:
        """Return the facts that the later layers need of notes, by path."""

    def node(self, path: str) -> NodeRow | None:
        """Return a note's own row, or None if it is not indexed."""

    def nodes(self, paths: Collection[str]) -> dict[str, NodeRow]:
        """Return the rows of those of these notes that are indexed, by path."""

    def chunk_paths(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the paths of chunks by id."""

    def chunk_rows(self, ids: Sequence[int]) -> dict[int, ChunkRow]:
        """Return chunks by id."""

    def chunks_of(self, path: str) -> list[ChunkRow]:
        """Return a note's chunks in order."""

    def chunks_around(self, ids: Sequence[int], within: int) -> dict[str, list[ChunkRow]]:
        """Return, by path, the chunks of a note up to `within` places before and after each of these, in order."""

    def text_around(self, ids: Sequence[int], most: int) -> dict[int, tuple[str, str]]:
        """Return, by chunk id, up to `most` characters before and after each chunk that overlaps with its neighbours.

        Only windows of a long section overlap; their edges may be anywhere in a sentence.
        """

    def texts_in_folder(self, folder: str, first: int, without: Collection[str]) -> dict[str, list[str]]:
        """Return, by path, the texts of the chunks of the `first` notes directly in a folder, except some of them."""

    def text_hashes(self, paths: Sequence[str]) -> dict[str, list[str]]:
        """Return, by path, the hashes of notes' passages that have a vector, in the order of the text."""

    def chunks_of_names(self, ids: Sequence[int]) -> set[int]:
        """Return those of these chunks that hold only their note's names, because the note has no text."""

    def later_chunks_with_links(self, ids: Sequence[int]) -> list[LinkChunk]:
        """Return these chunks, without first ones, that have many links.

        These are at least two and one per 100 characters; in a short chunk one is enough.
        """

    def pending_sentences(self, most: int) -> dict[str, str]:
        """Return up to `most` texts of chunks whose sentences have no vectors yet, by hash."""

    def keep_quantized(self, quantized: Mapping[str, Quantized]) -> None:
        """Store the quantized vectors of texts' sentences by text hash: shape (sentences, dimension)."""

    def quantized_of_chunks(self, ids: Sequence[int]) -> dict[int, Quantized]:
        """Return the quantized vectors of chunks' sentences by chunk id, without unprepared ones."""

    def source_files_since(self, newest: int) -> list[str]:
        """Return the paths of the source files that have a chunk with an id above `newest`.

        A file with a new symbol has a new chunk.
        """

    def symbols_of(self, paths: Collection[str]) -> dict[str, FileSymbols]:
        """Return the symbols of each of these source files that is indexed."""

    def referring(self, paths: Collection[str]) -> dict[str, set[str]]:
        """Return, by the path of each other indexed source file, which of these files refer to it."""


class Filtering(Protocol):
    """Which notes pass a question's filters; `filters.domains` selects caches and is ignored here."""

    def matching_chunks(self, filters: Filters, hidden: Collection[str] = frozenset()) -> list[int] | None:
        """Return the chunks of all notes that pass, or None if every note does; `hidden` notes count as missing."""

    def days_of(self, only: Collection[int] | None) -> list[tuple[str, int, str]]:
        """Return path, first chunk (of `only` these) and day of the notes that have chunks."""

    def facets(self, paths: Collection[str]) -> list[tuple[str, list[str], str]]:
        """Return path, tags and day of notes, as `tag`, `since` and `until` compare them."""

    def values_in_use(
        self, longest: Mapping[str, int], hidden: Collection[str] = frozenset()
    ) -> Iterator[tuple[str, str, int]]:
        """Yield filter, value and number of notes for the tags, folders and kinds that notes have.

        `longest` gives the most characters of a `tag`, a `folder` and a `kind`; longer values are left out. `hidden`
        notes do not count.
        """

    def count_warned(self) -> int:
        """Count the notes of which a part could not be read."""


class Notes(Protocol):
    """What is known of notes by their names."""

    def names(self, paths: Collection[str] | None = None) -> dict[str, tuple[str, str]]:
        """Return the title, and the aliases as JSON, of every note or of those at `paths`, by path."""

    def names_since(self, newest: int) -> dict[str, tuple[str, str]]:
        """Return the same of the notes that have a chunk with an id above `newest`.

        A note whose title or aliases changed has new chunks.
        """

    def first_chunks(self, paths: Collection[str]) -> dict[str, int]:
        """Return the id of each note's first chunk; notes without one are left out."""

    def has_note_called(self, name: str) -> bool:
        """Say whether an indexed note has a title, an alias or a file called so, whatever the case of ASCII."""

    def unindexed_files_called(self, name: str) -> list[str]:
        """Return the notes that are ignored, parked or not indexed yet and whose file is called so."""


class Graph(Protocol):
    """The edges among a domain's notes, and the ranks and communities that are computed from them."""

    def edges_at(self, paths: Sequence[str]) -> list[Linked]:
        """Return the edges from and to notes of a domain, per pair, kind and type, for each end that was asked."""

    def edges_and_communities(self) -> tuple[int, int]:
        """Count the links that mean a file, and the communities."""

    def read(self) -> StoredGraph:
        """Return the graph of a domain's own notes, without edges that leave the domain; types are not told apart."""

    def read_edges(self) -> list[GraphEdge]:
        """Return the edges from a domain's notes to any other file, one per pair, kind and type."""

    def read_ranks(self) -> dict[str, tuple[float, float, int]]:
        """Return PageRank, centrality and community of each note in the graph; 0 means none, as in `write_ranks`."""

    def read_labels(self) -> dict[int, str]:
        """Return the label of each community."""

    def ranked_by(self) -> RankedBy | None:
        """Return how the ranks were computed, with settings that no domain has if an earlier version did; or None."""

    def write_ranks(
        self,
        generation: int,
        ranks: Iterable[tuple[str, float, float, int]],
        labels: Mapping[int, str],
        by: RankedBy,
    ) -> None:
        """Replace all ranks (path, PageRank, centrality, community) and communities at once.

        0 means no PageRank or no community (real values are greater); without a community there is no centrality. If
        edges changed since `generation`, the ranks stay behind the graph.
        """


class Cache(Protocol):
    """A connection to the cache of a domain."""

    @property
    def path(self) -> Path:
        """Where it is stored: another cache has another path."""

    @property
    def meta(self) -> CacheMeta:
        """What it was built with."""

    @property
    def ledger(self) -> Ledger:
        """What is on disk, compared with what is indexed."""

    @property
    def leases(self) -> Leases:
        """Who works on which pending row."""

    @property
    def edges(self) -> Edges:
        """The files that links may mean."""

    @property
    def vectors(self) -> Vectors:
        """Vectors by the hash of their text."""

    @property
    def second(self) -> SecondVectors:
        """Vectors of texts by a second model."""

    @property
    def dates(self) -> Dating:
        """What decides a note's dates."""

    @property
    def search(self) -> Retrieval:
        """What the retrievers read."""

    @property
    def passages(self) -> Passages:
        """Chunks and what is known of their notes."""

    @property
    def filters(self) -> Filtering:
        """Which notes pass a question's filters."""

    @property
    def notes(self) -> Notes:
        """What is known of notes by their names."""

    @property
    def graph(self) -> Graph:
        """The edges among a domain's notes, and their ranks."""

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context that runs a write transaction, or joins the one in progress; an error rolls it back."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Return a context whose reads all see the same state, or that joins the transaction in progress."""

    def data_version(self) -> int:
        """Return a number that changes with each commit of another connection; compare it only on this connection."""

    def tidy(self) -> None:
        """Do what a store needs now and then to stay small and fast; cheap if there is nothing to do."""

    def close(self) -> None:
        """Close the connection."""

    # One transaction per note: what a question finds is always one whole version of a note, and never a part of one.

    def commit_note(
        self,
        row: LeasedRow,
        content: FileContent,
        note: Note,
        chunks: Sequence[Chunk],
        vectors: Mapping[str, Vector],
        *,
        words: Sequence[ChunkWords] | None = None,
    ) -> bool:
        """Write a note's words and links, and its vectors if all of them are stored; say whether they are.

        Chunks whose words are unchanged keep their ids. `words` are those of the chunks, if they are already known.
        Raises StaleWorkError or BadVectorError.
        """

    def commit_vectors(self, row: LeasedRow) -> bool:
        """Make a note's chunks findable by their vectors if all are stored; say so. Raises StaleWorkError."""

    def commit_deletion(self, row: LeasedRow) -> tuple[str | None, int]:
        """Remove a deleted note and its row; raises StaleWorkError if its file is back.

        Return the hash of the content that was indexed, None if none was, and the inode of its file.
        """

    def park(self, row: LeasedRow, kind: str, reason: str, *, keep_words: bool = False) -> None:
        """Park a note until it changes, and remove it from the index. Raises StaleWorkError.

        `keep_words`: only its vectors failed, and its words stay indexed.
        """

    # Files that rules ignore, and figures

    def set_ignored(self, ignored: Mapping[str, str]) -> None:
        """Replace the list of ignored files (path -> rule); write nothing if it is unchanged."""

    def note_ignored(self, path: str, rule: str | None) -> None:
        """Record the rule that ignores a path, or None if no rule does."""

    def ignored_rule(self, path: str) -> str | None:
        """Return the rule by which the last scan ignored a path, or None."""

    def counts(self, besides: Collection[str] = ()) -> Counts:
        """Count what `status` shows, all as of one moment; files `besides` the notes are none of these."""


if TYPE_CHECKING:
    from pipelines.cache.cache import SqliteCache
    from pipelines.cache.postgres import PostgresCache

    def _keeps_the_promises(cache: SqliteCache) -> Cache:
        """Have mypy compare the signatures."""
        return cache

    def _keeps_them_too(cache: PostgresCache) -> Cache:
        return cache


WritableCache: TypeAlias = "SqliteCache | PostgresCache"
"""A cache as workers have it: a file, or a schema of PostgreSQL with this host's copy."""
