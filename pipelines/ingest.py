"""Leased ledger rows -> commits, one a note: words first in a scan, words and vectors at once for a save."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipelines import vault
from pipelines.chunk import chunk_note
from pipelines.errors import (
    BadVectorError,
    CacheError,
    NoteChangedError,
    NoteError,
    NoteVanishedError,
    StaleWorkError,
    VaultNotFoundError,
)
from pipelines.markdown import read_note
from pipelines.model import HIGH_PRIORITY, Chunk, ChunkSettings, FileContent, LeasedRow, Note
from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import transaction
from pipelines.store.leases import MAX_ATTEMPTS

PIPELINE_VERSION = 3
"""Raise it when the same note would give other chunks, links or index words: every note is done again."""

TEXTS_AT_ONCE = 32
"""So many texts at most are embedded before a worker looks up: with a small model half a second of work."""
# While one slice of them is stored, the threads that are done with it compute the next.
_SLICES_AT_ONCE = 2
_LARGEST_SLICE = TEXTS_AT_ONCE // _SLICES_AT_ONCE
_FIRST_SLICE = 2
_SLICE_SECONDS = 0.125
_ROWS_PER_SLICE = 32
# So many are looked at together, to put those of like length into one slice.
_ROWS_AHEAD = _TEXTS_AHEAD = 256


class DocumentEncoder(Protocol):
    """What ingest needs of an embedder. Several threads may ask it."""

    def encode_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one unit vector a text: shape (len(texts), dimension)."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """What indexing a domain takes.

    `present` says whether the vault is there, `encoder_ready` whether the encoder is there without a wait;
    `siblings` are other caches.
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


@dataclass(slots=True)
class Outcome:
    """What a slice of work did."""

    committed: int = 0
    removed: int = 0
    parked: int = 0
    postponed: int = 0
    embedded_texts: int = 0
    paths: list[str] = field(default_factory=list)

    @property
    def touched(self) -> int:
        """How many rows were dealt with in any way."""
        return self.committed + self.removed + self.parked + self.postponed


@dataclass(frozen=True, slots=True)
class _Prepared:
    row: LeasedRow
    content: FileContent
    note: Note
    chunks: tuple[Chunk, ...]


def pipeline_name(chunking: ChunkSettings) -> str:
    """Name everything that decides what chunks a note gives; a cache records it."""
    return f"{PIPELINE_VERSION}:{chunking.target_words}/{chunking.overlap_words}/{chunking.max_chars}"


def index_saved(cache: Cache, ingest: Ingest, paths: Sequence[str]) -> Outcome:
    """Index notes that somebody just saved, each with its vectors in one commit.

    Its vectors stay owed where a batch has more new texts than a slice holds, or while the model loads: no save
    waits for that.
    """
    outcome = Outcome()
    while rows := cache.leases.take("words", _ROWS_PER_SLICE, ingest.owner, paths):
        prepared = _prepare_all(cache, ingest, rows, outcome)
        texts = {chunk.text_hash: chunk.text for item in prepared for chunk in item.chunks}
        missing = texts.keys() - cache.vectors(texts).keys()
        vectors: Mapping[str, Vector] = {}
        if not missing or (len(missing) <= TEXTS_AT_ONCE and ingest.encoder_ready()):
            # A bad vector: the words are committed, and the vectors' own turn parks the note with the error.
            with suppress(BadVectorError):
                vectors = _vectors_of(cache, ingest, {h: texts[h] for h in missing}, outcome)
        _commit_all(cache, prepared, vectors, outcome)
    return outcome


def index_words(cache: Cache, ingest: Ingest) -> Outcome:
    """Index the next owed notes' words and links; their vectors follow, unless they are known already.

    They share a transaction: the full-text index writes a segment each, and merges them, a seventh of all work.
    """
    outcome = Outcome()
    rows = cache.leases.take("words", _ROWS_PER_SLICE, ingest.owner)
    prepared = _prepare_all(cache, ingest, rows, outcome)
    with transaction(cache.con):
        _commit_all(cache, prepared, {}, outcome)
    return outcome


def embed_owed(cache: Cache, ingest: Ingest, hurried: Callable[[], bool] = lambda: False) -> Outcome:
    """Embed the next owed texts, and attach the vectors of each note that has all of its own by now.

    It ends after what is begun if `hurried`.
    """
    outcome = Outcome()
    rows = cache.leases.take("vectors", _ROWS_AHEAD, ingest.owner)
    if not rows:
        return outcome
    if rows[0].attempts > MAX_ATTEMPTS:
        _park_crasher(cache, rows[0], outcome, keep_words=True)
        return outcome
    chosen, texts = _choose_texts(cache, rows)
    bad = _embed(cache, ingest, texts, outcome, hurried)
    for row in chosen:
        _finish_vectors(cache, row, outcome, bad, alone=len(chosen) == 1)
    return outcome


def _embed(
    cache: Cache,
    ingest: Ingest,
    texts: Mapping[str, str],
    outcome: Outcome,
    hurried: Callable[[], bool],
) -> BadVectorError | None:
    """Embed and store texts, a slice after the other; return what was wrong with a vector.

    Texts of like length go together: they are best shared by threads.
    """
    bad: BadVectorError | None = None
    known = _known_to_siblings(cache, ingest, texts)
    cache.store_vectors(known)
    ordered = sorted((h for h in texts if h not in known), key=lambda text_hash: len(texts[text_hash]))
    count, last = _FIRST_SLICE, time.monotonic()
    begun: deque[tuple[list[str], Future[npt.NDArray[np.float32]]]] = deque()
    with ThreadPoolExecutor(_SLICES_AT_ONCE) as encoders:
        while ordered or begun:
            while ordered and len(begun) < _SLICES_AT_ONCE:
                hashes, ordered = ordered[:count], ordered[count:]
                encode = ingest.encoder().encode_documents
                begun.append((hashes, encoders.submit(encode, [texts[h] for h in hashes])))
            hashes, vectors = begun.popleft()
            try:
                cache.store_vectors(dict(zip(hashes, vectors.result(), strict=True)))
                outcome.embedded_texts += len(hashes)
            except BadVectorError as error:
                bad = error
            if hurried():
                ordered = []
            # A large model takes seconds for what a small one does at once, and a save waits meanwhile.
            began, last = last, time.monotonic()
            if last - began < _SLICE_SECONDS:
                count = min(2 * count, _LARGEST_SLICE)
    return bad


def _choose_texts(cache: Cache, rows: Sequence[LeasedRow]) -> tuple[list[LeasedRow], dict[str, str]]:
    """Return as many rows as give enough new texts, and those texts by hash; the others are given back."""
    owed = cache.owed_texts(rows)
    texts: dict[str, str] = {}
    chosen = []
    for row in rows:
        if len(texts) >= _TEXTS_AHEAD:
            break
        chosen.append(row)
        texts |= islice(owed[row.path].items(), _TEXTS_AHEAD - len(texts))
    cache.leases.release(rows[len(chosen) :])
    return chosen, texts


def _finish_vectors(
    cache: Cache, row: LeasedRow, outcome: Outcome, bad: BadVectorError | None, *, alone: bool
) -> None:
    """Attach a note's vectors if all are there; else give it back, or set it aside if one was bad.

    In company nobody knows whose vector was bad: each note is tried again alone, and then parked.
    """
    try:
        if cache.commit_vectors(row):
            outcome.committed += 1
        elif bad is None:
            cache.leases.release([row])  # the rest of it is the next slice's
            outcome.postponed += 1
        elif alone and row.attempts >= MAX_ATTEMPTS:
            cache.park(row, "bad-vector", str(bad), keep_words=True)
            outcome.parked += 1
        else:
            cache.leases.postpone(row, "bad-vector", str(bad))
            outcome.postponed += 1
    except StaleWorkError:
        cache.leases.release([row])
        outcome.postponed += 1


def _vectors_of(
    cache: Cache, ingest: Ingest, texts: Mapping[str, str], outcome: Outcome
) -> dict[str, Vector]:
    """Return a vector for each text."""
    found = _known_to_siblings(cache, ingest, texts)
    new = [text_hash for text_hash in texts if text_hash not in found]
    if new:
        found |= dict(zip(new, ingest.encoder().encode_documents([texts[h] for h in new]), strict=True))
        outcome.embedded_texts += len(new)
    return found


def _known_to_siblings(cache: Cache, ingest: Ingest, texts: Mapping[str, str]) -> dict[str, Vector]:
    """Return the vectors of those texts that a sibling cache of the same model has."""
    found: dict[str, Vector] = {}
    for path in ingest.siblings() if texts else ():
        try:
            sibling = Cache.open(path)
        except CacheError:
            continue  # another domain's trouble, reported where it belongs
        if (sibling.meta.model, sibling.meta.dimension) == (cache.meta.model, cache.meta.dimension):
            kept = sibling.vectors(texts.keys() - found.keys())
            # One that was damaged there is computed here.
            found |= {text_hash: vector for text_hash, vector in kept.items() if cache.can_keep(vector)}
        sibling.close()
    return found


def _prepare_all(
    cache: Cache, ingest: Ingest, rows: Sequence[LeasedRow], outcome: Outcome
) -> list[_Prepared]:
    prepared = []
    for row in rows:
        try:
            if row.attempts > MAX_ATTEMPTS:
                _park_crasher(cache, row, outcome, keep_words=False)
            elif row.wanted_hash is None:
                cache.commit_deletion(row)
                outcome.removed += 1
                outcome.paths.append(row.path)
            else:
                prepared.append(_prepare(ingest, row))
        except NoteVanishedError:
            _vanished(cache, ingest, row)
            outcome.postponed += 1
        except StaleWorkError:
            cache.leases.release([row])
            outcome.postponed += 1
        except NoteError as error:
            _fail(cache, row, error.kind, str(error), outcome, retry=error.retry_helps, cause=error)
        except (VaultNotFoundError, CacheError):
            cache.leases.release(rows)
            raise
        except Exception as error:  # noqa: BLE001 - a bug that one note brings out must not stop the others
            reason = f"{type(error).__name__} while reading {row.path!r}: {error}"
            _fail(cache, row, "internal-error", reason, outcome, retry=False, cause=error)
    return prepared


def _park_crasher(cache: Cache, row: LeasedRow, outcome: Outcome, *, keep_words: bool) -> None:
    """Set a note aside that was being worked on, alone, when its worker died, and died again."""
    reason = f"{row.path!r} ended its worker {row.attempts - 1} times (memory, or a fault in a library)"
    cache.park(row, "crash", reason, keep_words=keep_words)
    outcome.parked += 1
    outcome.paths.append(row.path)


def _prepare(ingest: Ingest, row: LeasedRow) -> _Prepared:
    content = vault.read(ingest.root, row.raw, ingest.max_bytes)
    note = read_note(row.path, content.data)
    return _Prepared(row, content, note, chunk_note(note, ingest.chunking))


def _vanished(cache: Cache, ingest: Ingest, row: LeasedRow) -> None:
    """Want the deletion of a note whose file is gone, if the vault itself is there."""
    if not ingest.present():
        raise VaultNotFoundError(f"the vault {ingest.root} is not there; its notes are kept until it is back")
    cache.leases.release([row])
    cache.ledger.record(ingest.domain, [], [row.path], priority=HIGH_PRIORITY)
    cache.edges.change_paths((), (row.path,))


def _fail(
    cache: Cache, row: LeasedRow, kind: str, reason: str, outcome: Outcome, *, retry: bool, cause: Exception
) -> None:
    """Park a note, or put it off where a later try may go well."""
    # A file that is being written is not a broken one: it is tried for as long as it takes.
    changing = isinstance(cause, NoteChangedError)
    try:
        if retry and (changing or row.attempts < MAX_ATTEMPTS):
            cache.leases.postpone(row, kind, reason, counted=not changing)
            outcome.postponed += 1
        else:
            cache.park(row, kind, reason)
            outcome.parked += 1
            outcome.paths.append(row.path)
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
        own = {c.text_hash: vectors[c.text_hash] for c in item.chunks if c.text_hash in vectors}
        try:
            cache.commit_note(item.row, item.content, item.note, item.chunks, own)
            outcome.committed += 1
            outcome.paths.append(item.row.path)
        except StaleWorkError:
            cache.leases.release([item.row])
            outcome.postponed += 1
        except CacheError:
            cache.leases.release([other.row for other in prepared])
            raise
