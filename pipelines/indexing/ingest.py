"""Index leased ledger rows, one commit per note: words first for a scan, words and vectors together for a save."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from pipelines.brake import Looked
from pipelines.chunk import chunk_note, embedded_text
from pipelines.disk import vault
from pipelines.documents.reading import is_read_apart
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
from pipelines.indexing.apart import ApartParser, is_heavy
from pipelines.indexing.owed_vectors import TEXTS_AT_ONCE, vectors_of
from pipelines.indexing.pipeline import Ingest, Outcome, ms_since, park_crasher, reason_alone
from pipelines.lexical import ChunkWords
from pipelines.model import Chunk, FileContent, LeasedRow, Note
from pipelines.priorities import HIGH_PRIORITY
from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import transaction
from pipelines.store.leases import MAX_ATTEMPTS
from pipelines.store.note_log import NoteEvent, RemovalReason, file_key

_ROWS_PER_SLICE = 32
# A batch is cut short so that a new save does not wait for 32 notes that take long to parse.
_PREPARE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Prepared:
    row: LeasedRow
    content: FileContent
    note: Note
    chunks: tuple[Chunk, ...]
    words: Sequence[ChunkWords] | None = None
    ms: float = 0.0


def index_saved(cache: Cache, ingest: Ingest) -> Outcome:
    """Index the newest pending saves, each with its vectors in one commit.

    A note's vectors stay pending if the batch has more new texts than a slice, or while the model loads, so that no
    save waits for them, nor for a model that is broken.
    """
    outcome = Outcome()
    rows = cache.leases.take_saves(_ROWS_PER_SLICE, ingest.owner)
    prepared = _prepare_all(cache, ingest, rows, outcome)
    missing = _missing_texts(cache, prepared) if ingest.encoder_ready() else {}
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
    new = texts.keys() - cache.vectors(texts).keys()
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
    rows = cache.leases.take("words", _ROWS_PER_SLICE, ingest.owner, together=ingest.apart)
    prepared = _prepare_all(cache, ingest, rows, outcome)
    with transaction(cache.con):
        _commit_all(cache, prepared, {}, outcome)
    ingest.record(outcome.events)
    return outcome


def index_apart(
    cache: Cache, ingest: Ingest, parser: ApartParser, said: Callable[[str, float], None] = lambda *_: None
) -> Outcome:
    """Index the words of the newest note that is set apart; its vectors follow.

    It may take minutes, during which the lease is renewed and `said` is called with the path and the seconds. Work on
    content that is no longer wanted ends at once.
    """
    outcome = Outcome()
    for row in cache.leases.take_apart(ingest.owner):
        outcome.attempt = row.attempts
        began = time.monotonic()

        def beat(seconds: float) -> None:
            cache.leases.renew(row, sha)  # noqa: B023 - called within this turn
            said(row.path, seconds)  # noqa: B023

        with _failures_of(cache, ingest, row, outcome):
            if row.attempts > MAX_ATTEMPTS:
                park_crasher(cache, row, outcome, keep_words=False)
                continue
            content = vault.read(ingest.root, row.raw, ingest.max_bytes)
            sha = content.sha256
            extracted = ingest.files.extract(row.path, content.data, beat)
            found = parser.parse(row.path, extracted, ingest.chunking, beat)
            note = ingest.files.dated(found.note)
            ready = _Prepared(row, content, note, found.chunks, found.words, ms=ms_since(began))
            _commit_all(cache, [ready], {}, outcome)
    ingest.record(outcome.events)
    return outcome


def _prepare_all(
    cache: Cache, ingest: Ingest, rows: Sequence[LeasedRow], outcome: Outcome
) -> list[_Prepared]:
    """Read and parse rows until the batch's time is over; release the remaining rows."""
    prepared: list[_Prepared] = []
    until = time.monotonic() + _PREPARE_SECONDS
    for index, row in enumerate(rows):
        if index and time.monotonic() >= until:
            cache.leases.release(rows[index:])
            break
        outcome.attempt = max(outcome.attempt, row.attempts)
        try:
            prepared += _prepare_one(cache, ingest, row, outcome)
        except (VaultNotFoundError, CacheError):
            cache.leases.release(rows)
            raise
    return prepared


def _prepare_one(cache: Cache, ingest: Ingest, row: LeasedRow, outcome: Outcome) -> list[_Prepared]:
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
            content = vault.read(ingest.root, row.raw, ingest.max_bytes)
            if not ingest.apart or not (is_read_apart(row.path) or is_heavy(content.data)):
                note = ingest.files.read(row.path, content.data)
                chunks = chunk_note(note, ingest.chunking)
                return [_Prepared(row, content, note, chunks, ms=ms_since(began))]
            since = datetime.now(UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
            cache.leases.set_apart(
                row, f"it is parsed in a separate process, which may take long, since {since}"
            )
            outcome.postponed += 1
    return []


def _why_removed(cache: Cache, ingest: Ingest, row: LeasedRow) -> RemovalReason | None:
    """Return why a note was removed; None where its file is there and the last look found no rule that ignores it."""
    try:
        if vault.look_closely(ingest.root, row.raw) is None:
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
        ingest.domain, [row.path], cache.ledger.known, Looked(frozenset([row.path]))
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
