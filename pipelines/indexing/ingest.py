"""Index leased ledger rows, one commit per note: words first for a scan, words and vectors together for a save."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from pipelines.cache.cache import readable_vectors
from pipelines.cache.leases import MAX_ATTEMPTS
from pipelines.cache.vectors import KEPT, Vector
from pipelines.documents.read import Files, Options
from pipelines.errors import (
    ApartStoppedError,
    BadVectorError,
    CacheError,
    ModelUnavailableError,
    NoteChangedError,
    NoteError,
    NoteVanishedError,
    StaleWorkError,
    VaultNotFoundError,
)
from pipelines.indexing.deletions import AT_ONCE, Brake, CheckedPaths
from pipelines.indexing.parse import (
    ROWS_PER_SLICE,
    ApartParser,
    FileRead,
    FilesRead,
    ParserAhead,
    ReadSettings,
    parse_content,
)
from pipelines.model import (
    HIGH_PRIORITY,
    Chunk,
    ChunkSettings,
    EmbeddingContext,
    FileContent,
    LeasedRow,
    Note,
)
from pipelines.notes.chunk import embedded_text
from pipelines.notes.lexical import ChunkWords
from pipelines.state.note_log import NoteEvent, RemovalReason, file_key
from pipelines.store import Cache
from pipelines.vault import files

# The inputs for indexing a domain, and the result of a slice of it.


PIPELINE_VERSION = 12
"""Increase it when the same note would give other chunks, sentences, links, index words or privacy.

Every note is then indexed again; until it is, agents do not see it. Only new texts are embedded, but all sentences.
"""


_SPLIT_BY = re.compile(r"\d+:(\d+)/(\d+)/(\d+)(?::(title|breadcrumb))?(?::[0-9a-f]{12})?", re.ASCII)


class DocumentEncoder(Protocol):
    """The part of an embedder that ingest needs. Several threads may call it."""

    def encode_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one unit vector per text: shape (len(texts), dimension)."""


Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""`DocumentEncoder.encode_documents`."""


@dataclass(frozen=True, slots=True)
class Remote:
    """What embedding by servers needs: `private` returns the paths of notes whose texts must not leave this machine.

    `local` returns what encodes these, None while there is nothing.
    """

    private: Callable[[], AbstractSet[str]]
    local: Callable[[], Encode | None]


@dataclass(frozen=True, slots=True)
class Ingest:
    """The inputs for indexing a domain.

    `present` says whether the vault is available, `encoder_ready` whether the encoder is available without a wait;
    `siblings` are the other caches in use, `kept` those that another one replaced. `brake` decides on indexed notes
    whose files are gone. `apart`: notes that take long to parse are set apart for `index_apart`. `files` reads them.
    `record` is called with what happened to each note, once it is committed. `remote`: the encoder asks servers, so
    that no save waits for it. `content` reads notes where the vault is not.
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
    kept: Callable[[], Iterable[Path]] = tuple
    brake: Brake = AT_ONCE
    apart: bool = False
    files: Files = field(default_factory=Files)
    record: Callable[[Sequence[NoteEvent]], None] = lambda _: None
    remote: Remote | None = None
    content: Callable[[LeasedRow], FileContent] | None = None

    def read(self, row: LeasedRow) -> FileContent:
        """Return the bytes of a note. Raises NoteError, StaleWorkError."""
        return self.content(row) if self.content else files.read(self.root, row.raw, self.max_bytes)


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


# Embed pending texts and commit their vectors per note, after a scan's words or for a save's new texts.


TEXTS_AT_ONCE = 32
"""Upper bound on texts embedded before the worker checks for waiting saves (about 0.5 s with a small model)."""
# While one slice is being stored, the threads that finished it compute the next one.
_SLICES_AT_ONCE = 2
_LARGEST_SLICE = TEXTS_AT_ONCE // _SLICES_AT_ONCE
_FIRST_SLICE = 2
_SLICE_SECONDS = 0.125
# How many are read together, so that texts of similar length share a slice.
_ROWS_AHEAD = _TEXTS_AHEAD = 256
_NOTES_AT_ONCE = 32
"""Notes whose vectors are attached in one transaction."""

REMOTE_TEXTS, REMOTE_AT_ONCE = 64, 4
"""How many texts a server gets in one request, and how many requests wait for answers."""

_KEPT_BECAUSE = (
    "it must not leave this machine, and no endpoint marked `local: true` can be used; its words are indexed"
)

_Slice = tuple[Sequence[str], Future[npt.NDArray[np.float32]]]
"""The hashes of some texts, and the future of their vectors."""


def embed_pending(cache: Cache, ingest: Ingest, hurried: Callable[[], bool] = lambda: False) -> Outcome:
    """Embed the next pending texts, and attach the vectors of each note whose vectors are now complete.

    If `hurried`, stop after the slices in progress. Notes that must not leave this machine, and have nothing on it
    that embeds them, are looked at again after a minute. Raises ModelUnavailableError.
    """
    outcome = Outcome()
    rows = cache.leases.take("vectors", _ROWS_AHEAD, ingest.owner)
    if not rows:
        return outcome
    if rows[0].attempts > MAX_ATTEMPTS:
        park_crasher(cache, rows[0], outcome, keep_words=True)
        ingest.record(outcome.events)
        return outcome
    chosen, texts, private = _choose_texts(cache, rows, ingest.remote)
    local = ingest.remote.local() if ingest.remote and private else None
    if private and local is None:
        _keep(cache, private, outcome)
        chosen = {row: own for row, own in chosen.items() if row not in private}
        private = set()
    open_texts = {h for row, own in chosen.items() if row not in private for h in own}
    try:
        missing, bad = _embed(
            cache,
            ingest,
            {h: text for h, text in texts.items() if h in open_texts},
            outcome,
            hurried,
            lambda: ingest.encoder().encode_documents,
        )
        if local:
            secret = {h: text for h, text in texts.items() if h not in open_texts}
            also_missing, also_bad = _embed(cache, ingest, secret, outcome, hurried, lambda: local)
            missing, bad = missing | also_missing, bad or also_bad
    except ModelUnavailableError:
        cache.leases.release(list(chosen))  # it is no note's fault
        raise
    if bad is None:
        _attach_all(cache, chosen, missing, outcome, hurried)
    else:
        for row, own in chosen.items():
            _finish_vectors(cache, row, own, outcome, bad, alone=len(chosen) == 1)
    ingest.record(outcome.events)
    return outcome


def _choose_texts(
    cache: Cache, rows: Sequence[LeasedRow], remote: Remote | None
) -> tuple[dict[LeasedRow, Collection[str]], dict[str, str], set[LeasedRow]]:
    """Return enough rows for a batch of new texts, each with the hashes of its own, and those texts by hash.

    The third are the rows of notes that must not leave this machine. Releases the rows that are not returned.
    """
    texts: dict[str, str] = {}
    chosen: dict[LeasedRow, Collection[str]] = {}
    with cache.snapshot() if remote else nullcontext():  # a text and whether it is private belong together
        private = remote.private() if remote else frozenset[str]()
        for row in rows:
            if len(texts) >= _TEXTS_AHEAD:
                break
            own = cache.vectors.pending_texts(row.path, _TEXTS_AHEAD - len(texts))
            chosen[row] = own.keys()
            texts |= own
    cache.leases.release(rows[len(chosen) :])
    return chosen, texts, {row for row in chosen if row.path in private}


def _keep(cache: Cache, rows: Collection[LeasedRow], outcome: Outcome) -> None:
    """Leave notes without vectors for now, because nothing may embed them."""
    with cache.transaction():
        for row in rows:
            cache.leases.postpone(row, KEPT, _KEPT_BECAUSE, counted=False)
    outcome.postponed += len(rows)


def _embed(
    cache: Cache,
    ingest: Ingest,
    texts: Mapping[str, str],
    outcome: Outcome,
    hurried: Callable[[], bool],
    encoder: Callable[[], Encode],
) -> tuple[set[str], BadVectorError | None]:
    """Embed and store texts, one slice after another.

    Return the hashes of those that are not stored, and the error of a bad vector, if any. Raises
    ModelUnavailableError if none could be stored.
    """
    bad: BadVectorError | None = None
    gone: ModelUnavailableError | None = None
    began, before = time.monotonic(), len(outcome.embedded)
    known = _known_elsewhere(cache, ingest, texts)
    cache.vectors.store(known)
    new = {text_hash: text for text_hash, text in texts.items() if text_hash not in known}
    slices = _slices(new, lambda: gone is not None or hurried(), encoder, is_remote=ingest.remote is not None)
    with closing(slices):
        for hashes, vectors in slices:
            try:
                cache.vectors.store(dict(zip(hashes, vectors.result(), strict=True)))
                outcome.embedded.update(hashes)
            except BadVectorError as error:
                bad = error
            except ModelUnavailableError as error:
                gone = error  # the slices that were begun may have their vectors, which were paid for
    outcome.embedding_ms += ms_since(began)
    if gone and len(outcome.embedded) == before:
        raise gone
    return texts.keys() - known.keys() - outcome.embedded, bad


def _slices(
    texts: Mapping[str, str],
    hurried: Callable[[], bool],
    encoder: Callable[[], Encode],
    *,
    is_remote: bool,
) -> Generator[_Slice, None, None]:
    """Yield slices of texts whose vectors are being computed, one slice ahead; start no more if `hurried`.

    Texts of similar length go together, because threads share them best. The first slices are small, because a large
    model takes seconds for what a small one does at once, while a save may be waiting.
    """
    ordered = sorted(texts, key=lambda text_hash: len(texts[text_hash]))
    count, at_once = (REMOTE_TEXTS, REMOTE_AT_ONCE) if is_remote else (_FIRST_SLICE, _SLICES_AT_ONCE)
    # Slices that are computed together may end together, so what counts is their mean.
    ends = deque([time.monotonic()], maxlen=at_once + 1)
    begun: deque[_Slice] = deque()
    with ThreadPoolExecutor(at_once) as encoders:
        while ordered or begun:
            while ordered and len(begun) < at_once:
                hashes, ordered = ordered[:count], ordered[count:]
                encode = encoder()
                begun.append((hashes, encoders.submit(encode, [texts[h] for h in hashes])))
            yield begun.popleft()
            if hurried():
                ordered = []
            if is_remote:
                continue
            ends.append(time.monotonic())
            took = (ends[-1] - ends[0]) / (len(ends) - 1)
            if took < _SLICE_SECONDS:
                count = min(2 * count, _LARGEST_SLICE)
            elif took > 2 * _SLICE_SECONDS:  # longer texts follow shorter ones
                count = max(count // 2, _FIRST_SLICE)


def _attach_all(
    cache: Cache,
    chosen: Mapping[LeasedRow, Collection[str]],
    missing: AbstractSet[str],
    outcome: Outcome,
    hurried: Callable[[], bool],
) -> None:
    """Attach the vectors of the notes that lack none, and release the others together.

    A transaction for each note would make a save wait a hundred times for other writers. If `hurried`, only the
    first notes are finished; the next slice has nothing to embed for those that follow.
    """
    ready = [row for row, own in chosen.items() if missing.isdisjoint(own)]
    done: set[LeasedRow] = set()
    for start in range(0, len(ready), _NOTES_AT_ONCE):
        if start and hurried():
            break
        group = ready[start : start + _NOTES_AT_ONCE]
        with cache.transaction():
            for row in group:
                _finish_vectors(cache, row, chosen[row], outcome, None, alone=len(chosen) == 1)
        done.update(group)
    left = [row for row in chosen if row not in done]
    cache.leases.release(left)
    for row in left:
        _postponed(row, chosen[row], outcome)


def _postponed(row: LeasedRow, own: Collection[str], outcome: Outcome) -> None:
    """Count a note whose vectors the next slice completes."""
    outcome.postponed += 1
    texts, ms = outcome.embedded_of(own)
    if texts:
        outcome.events.append(NoteEvent(row.path, "embedded", ms, texts_embedded=texts, vectors_pending=True))


def _finish_vectors(
    cache: Cache,
    row: LeasedRow,
    own: Collection[str],
    outcome: Outcome,
    bad: BadVectorError | None,
    *,
    alone: bool,
) -> None:
    """Attach a note's vectors if all are stored; else release the row, or park the note if a vector was bad.

    In a batch of several notes the source of a bad vector is unknown, so each note is retried alone before it is
    parked. The log names the texts of this slice, also if others of the note are left for the next one.
    """
    began = time.monotonic()
    texts, ms = outcome.embedded_of(own)
    try:
        with cache.transaction():
            attached = cache.commit_vectors(row)
        if attached:
            outcome.committed += 1
            done = NoteEvent(row.path, "embedded", ms + ms_since(began), texts_embedded=texts)
            outcome.events.append(done)
        elif bad is None:
            cache.leases.release([row])
            _postponed(row, own, outcome)
        elif alone and row.attempts >= MAX_ATTEMPTS:
            cache.park(row, "bad-vector", str(bad), keep_words=True)
            outcome.parked += 1
            outcome.events.append(NoteEvent(row.path, "parked", ms_since(began), error=f"bad-vector: {bad}"))
        else:
            cache.leases.postpone(row, "bad-vector", str(bad))
            outcome.postponed += 1
    except StaleWorkError:
        cache.leases.release([row])
        outcome.postponed += 1


def vectors_of(cache: Cache, ingest: Ingest, texts: Mapping[str, str], outcome: Outcome) -> dict[str, Vector]:
    """Return a vector for each text."""
    found = _known_elsewhere(cache, ingest, texts)
    new = [text_hash for text_hash in texts if text_hash not in found]
    if new:
        began = time.monotonic()
        found |= dict(zip(new, ingest.encoder().encode_documents([texts[h] for h in new]), strict=True))
        outcome.embedded.update(new)
        outcome.embedding_ms = ms_since(began)
    return found


def _known_elsewhere(cache: Cache, ingest: Ingest, texts: Mapping[str, str]) -> dict[str, Vector]:
    """Return the vectors of those texts that another cache with the same model has."""
    found: dict[str, Vector] = {}
    for path in chain(ingest.siblings(), ingest.kept()) if texts else ():
        found |= readable_vectors(path, cache.meta, texts.keys() - found.keys(), cache.vectors.probes())
        if len(found) == len(texts):
            break
    return found


# A batch is cut short so that a new save does not wait for 32 notes that take long to parse.
_PREPARE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Prepared:
    row: LeasedRow
    content: FileContent
    note: Note
    chunks: tuple[Chunk, ...]
    words: Sequence[ChunkWords]
    ms: float = 0.0


def index_saved(cache: Cache, ingest: Ingest) -> Outcome:
    """Index the newest pending saves, each with its vectors in one commit.

    A note's vectors stay pending if the batch has more new texts than a slice, while the model loads, or if servers
    embed, so that no save waits for them, nor for a model that is broken.
    """
    outcome = Outcome()
    rows = cache.leases.take("words", ROWS_PER_SLICE, ingest.owner, "saves")
    prepared = _prepare_all(cache, ingest, rows, outcome)
    at_once = ingest.remote is None and ingest.encoder_ready()
    missing = _missing_texts(cache, prepared) if at_once else {}
    vectors: Mapping[str, Vector] = {}
    # Despite a bad vector the words are committed; the later vector stage parks the note with the error.
    with suppress(BadVectorError, ModelUnavailableError):
        vectors = vectors_of(cache, ingest, missing, outcome)
    _commit_all(cache, prepared, vectors, outcome)
    ingest.record(outcome.events)
    return outcome


def _missing_texts(cache: Cache, prepared: Sequence[_Prepared]) -> dict[str, str]:
    """Return the new texts, by hash, of those notes that together have no more new texts than a slice holds."""
    texts = {
        chunk.text_hash: embedded_text(chunk.text, chunk.context)
        for item in prepared
        for chunk in item.chunks
    }
    new = texts.keys() - cache.vectors.of(texts).keys()
    missing: dict[str, str] = {}
    for item in prepared:
        own = {chunk.text_hash for chunk in item.chunks} & new
        if len(own | missing.keys()) <= TEXTS_AT_ONCE:
            missing |= {text_hash: texts[text_hash] for text_hash in own}
    return missing


def index_words(cache: Cache, ingest: Ingest) -> Outcome:
    """Index the words and links of the next pending notes; their vectors follow, unless they are already known.

    The notes share a transaction, because per transaction the full-text index writes and merges a segment: a seventh
    of all work.
    """
    outcome = Outcome()
    rows = cache.leases.take(
        "words", ROWS_PER_SLICE, ingest.owner, among="together" if ingest.apart else "all"
    )
    _index_batch(cache, ingest, rows, outcome)
    return outcome


def _index_batch(
    cache: Cache, ingest: Ingest, rows: Sequence[LeasedRow], outcome: Outcome, read: FilesRead | None = None
) -> None:
    prepared = _prepare_all(cache, ingest, rows, outcome, read)
    with cache.transaction():
        _commit_all(cache, prepared, {}, outcome)
    ingest.record(outcome.events)


def index_words_ahead(
    cache: Cache, ingest: Ingest, parser: ParserAhead, enough: Callable[[], bool]
) -> Outcome:
    """Index the words of pending notes until `enough`, while another process parses the notes that come next."""
    total = Outcome()
    batches = parser.batches(cache.leases, ingest.owner, _reading(ingest), enough)
    with suppress(ApartStoppedError), closing(batches):
        for rows, read in batches:
            outcome = Outcome()
            _index_batch(cache, ingest, rows, outcome, read)
            total.add(outcome)
    return total


def index_apart(
    cache: Cache, ingest: Ingest, parser: ApartParser, said: Callable[[str, float], None] = lambda *_: None
) -> Outcome:
    """Index the words of the newest note that is set apart; its vectors follow.

    It may take minutes, during which the lease is renewed and `said` is called with the path and the seconds. Work on
    content that is no longer wanted ends at once.
    """
    outcome = Outcome()
    for row in cache.leases.take("words", 1, ingest.owner, "apart"):
        outcome.attempt = row.attempts
        began = time.monotonic()

        def beat(seconds: float) -> None:
            cache.leases.renew(row, sha)  # noqa: B023 - called within this turn
            said(row.path, seconds)  # noqa: B023

        with _failures_of(cache, ingest, row, outcome):
            if row.attempts > MAX_ATTEMPTS:
                park_crasher(cache, row, outcome, keep_words=False)
                continue
            content = ingest.read(row)
            sha = content.sha256
            extracted = ingest.files.extract(row.path, content.data, beat)
            found = parser.parse(row.path, extracted, ingest.chunking, beat)
            note = ingest.files.dated(found.note)
            ready = _Prepared(row, content, note, found.chunks, found.words, ms=ms_since(began))
            _commit_all(cache, [ready], {}, outcome)
    ingest.record(outcome.events)
    return outcome


def _prepare_all(
    cache: Cache, ingest: Ingest, rows: Sequence[LeasedRow], outcome: Outcome, read: FilesRead | None = None
) -> list[_Prepared]:
    """Read and parse rows, unless they were `read`, until the batch's time is over; release the remaining rows."""
    prepared: list[_Prepared] = []
    until = time.monotonic() + _PREPARE_SECONDS
    for index, (row, own) in enumerate(zip(rows, read or repeat(None, len(rows)), strict=True)):
        if index and time.monotonic() >= until:
            cache.leases.release(rows[index:])
            break
        outcome.attempt = max(outcome.attempt, row.attempts)
        try:
            prepared += _prepare_one(cache, ingest, row, outcome, own)
        except (VaultNotFoundError, CacheError):
            cache.leases.release(rows)
            raise
    return prepared


def _prepare_one(
    cache: Cache, ingest: Ingest, row: LeasedRow, outcome: Outcome, read: FileRead | Exception | None
) -> list[_Prepared]:
    """Do a row's pending work; return what has to be committed for it. Raises VaultNotFoundError, CacheError."""
    began = time.monotonic()
    with _failures_of(cache, ingest, row, outcome):
        if row.attempts > MAX_ATTEMPTS:
            park_crasher(cache, row, outcome, keep_words=False)
        elif row.wanted_hash is None:
            sha, inode = cache.commit_deletion(row)
            outcome.removed += 1
            outcome.paths.append(row.path)
            key = file_key(sha, inode) if sha else None
            why = _why_removed(cache, ingest, row)
            outcome.events.append(NoteEvent(row.path, "removed", ms_since(began), file_key=key, reason=why))
        else:
            if read is None:
                reader = None if ingest.apart else ingest.files
                read = parse_content(row.path, ingest.read(row), _reading(ingest), reader)
            elif isinstance(read, Exception):
                raise read
            if read.parsed:
                parsed = read.parsed
                return [_Prepared(row, read.content, parsed.note, parsed.chunks, parsed.words, read.ms)]
            since = datetime.now(UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
            cache.leases.set_apart(
                row, f"it is parsed in a separate process, which may take long, since {since}"
            )
            outcome.postponed += 1
    return []


def _reading(ingest: Ingest) -> ReadSettings:
    return ReadSettings(ingest.root, ingest.max_bytes, ingest.chunking, ingest.files.dates)


def _why_removed(cache: Cache, ingest: Ingest, row: LeasedRow) -> RemovalReason | None:
    """Return why a note was removed; None where its file is there and the last look found no rule that ignores it."""
    try:
        if files.look_closely(ingest.root, row.raw) is None:
            return "deleted"
    except OSError:
        return None
    return "ignored" if cache.ignored_rule(row.path) else None


@contextmanager
def _failures_of(cache: Cache, ingest: Ingest, row: LeasedRow, outcome: Outcome) -> Iterator[None]:
    """Confine the failures of a note to that note. Raises VaultNotFoundError, CacheError."""
    began = time.monotonic()
    try:
        yield
    except NoteVanishedError:
        _vanished(cache, ingest, row)
        outcome.postponed += 1
    except (StaleWorkError, ApartStoppedError):
        cache.leases.release([row])
        outcome.postponed += 1
    except NoteError as error:
        _fail(cache, row, error.kind, str(error), outcome, began, cause=error)
    except (VaultNotFoundError, CacheError):
        raise
    except Exception as error:  # noqa: BLE001 - a bug triggered by one note must not stop the others
        reason = f"{type(error).__name__} while reading {row.path!r}: {error}"
        _fail(cache, row, "internal-error", reason, outcome, began, cause=error)


def _vanished(cache: Cache, ingest: Ingest, row: LeasedRow) -> None:
    """Leave an indexed note whose file is gone to the brake on deletions; forget a note that was never indexed."""
    if not ingest.present():
        raise VaultNotFoundError(f"the vault {ingest.root} is not there; its notes are kept until it is back")
    release = ingest.brake.release(
        ingest.domain, [row.path], cache.ledger.known, CheckedPaths(frozenset([row.path]))
    )
    if row.path not in release.going and cache.ledger.keep_indexed(row):
        return
    cache.leases.release([row])
    cache.ledger.record(ingest.domain, [], [row.path], priority=HIGH_PRIORITY)
    cache.edges.change_paths((), (row.path,))


def _fail(
    cache: Cache, row: LeasedRow, kind: str, reason: str, outcome: Outcome, began: float, *, cause: Exception
) -> None:
    """Park a note, or postpone it if a later try may succeed."""
    retry = isinstance(cause, NoteError) and cause.retry_helps
    # A file that is being written is not broken, so it is retried for as long as it takes.
    changing = isinstance(cause, NoteChangedError)
    try:
        if retry and (changing or row.attempts < MAX_ATTEMPTS):
            cache.leases.postpone(row, kind, reason, counted=not changing)
            outcome.postponed += 1
        else:
            reason = reason_alone(row, reason)
            cache.park(row, kind, reason)
            outcome.parked += 1
            outcome.paths.append(row.path)
            outcome.events.append(NoteEvent(row.path, "parked", ms_since(began), error=f"{kind}: {reason}"))
    except StaleWorkError:
        cache.leases.release([row])
        outcome.postponed += 1


def _commit_all(
    cache: Cache,
    prepared: Sequence[_Prepared],
    vectors: Mapping[str, Vector],
    outcome: Outcome,
) -> None:
    for item in prepared:
        began = time.monotonic()
        own = {c.text_hash: vectors[c.text_hash] for c in item.chunks if c.text_hash in vectors}
        try:
            embedded = cache.commit_note(
                item.row, item.content, item.note, item.chunks, own, words=item.words
            )
            outcome.committed += 1
            outcome.paths.append(item.row.path)
            outcome.events.append(_indexed(item, own, outcome, ms_since(began), vectors_pending=not embedded))
        except StaleWorkError:
            cache.leases.release([item.row])
            outcome.postponed += 1
        except CacheError:
            cache.leases.release([other.row for other in prepared])
            raise


def _indexed(
    item: _Prepared, own: Mapping[str, Vector], outcome: Outcome, commit_ms: float, *, vectors_pending: bool
) -> NoteEvent:
    """Return what the log says of a note whose words were committed."""
    texts, embedding_ms = outcome.embedded_of(own)
    return NoteEvent(
        path=item.row.path,
        action="indexed",
        ms=item.ms + embedding_ms + commit_ms,
        passages=len(item.chunks),
        texts_embedded=texts,
        vectors_pending=vectors_pending,
        file_key=file_key(item.content.sha256, item.content.found.inode),
    )
