"""Embed pending texts and commit their vectors per note, after a scan's words or for a save's new texts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import numpy as np
import numpy.typing as npt

from pipelines.errors import BadVectorError, ModelUnavailableError, StaleWorkError
from pipelines.indexing.pipeline import Ingest, Outcome, ms_since, park_crasher
from pipelines.model import LeasedRow
from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import transaction
from pipelines.store.foreign_vectors import readable_vectors
from pipelines.store.leases import MAX_ATTEMPTS
from pipelines.store.note_log import NoteEvent

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

_Slice = tuple[Sequence[str], Future[npt.NDArray[np.float32]]]
"""The hashes of some texts, and the future of their vectors."""


def embed_owed(cache: Cache, ingest: Ingest, hurried: Callable[[], bool] = lambda: False) -> Outcome:
    """Embed the next pending texts, and attach the vectors of each note whose vectors are now complete.

    If `hurried`, stop after the slices in progress. Raises ModelUnavailableError.
    """
    outcome = Outcome()
    rows = cache.leases.take("vectors", _ROWS_AHEAD, ingest.owner)
    if not rows:
        return outcome
    if rows[0].attempts > MAX_ATTEMPTS:
        park_crasher(cache, rows[0], outcome, keep_words=True)
        ingest.record(outcome.events)
        return outcome
    chosen, texts = _choose_texts(cache, rows)
    try:
        missing, bad = _embed(cache, ingest, texts, outcome, hurried)
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
    cache: Cache, rows: Sequence[LeasedRow]
) -> tuple[dict[LeasedRow, Collection[str]], dict[str, str]]:
    """Return enough rows for a batch of new texts, each with the hashes of its own, and those texts by hash.

    Releases the other rows.
    """
    texts: dict[str, str] = {}
    chosen: dict[LeasedRow, Collection[str]] = {}
    for row in rows:
        if len(texts) >= _TEXTS_AHEAD:
            break
        own = cache.owed_texts(row.path, _TEXTS_AHEAD - len(texts))
        chosen[row] = own.keys()
        texts |= own
    cache.leases.release(rows[len(chosen) :])
    return chosen, texts


def _embed(
    cache: Cache,
    ingest: Ingest,
    texts: Mapping[str, str],
    outcome: Outcome,
    hurried: Callable[[], bool],
) -> tuple[set[str], BadVectorError | None]:
    """Embed and store texts, one slice after another.

    Return the hashes of those that are not stored, and the error of a bad vector, if any.
    """
    bad: BadVectorError | None = None
    began = time.monotonic()
    known = _known_to_siblings(cache, ingest, texts)
    cache.store_vectors(known)
    new = {text_hash: text for text_hash, text in texts.items() if text_hash not in known}
    with closing(_slices(ingest, new, hurried)) as slices:
        for hashes, vectors in slices:
            try:
                cache.store_vectors(dict(zip(hashes, vectors.result(), strict=True)))
                outcome.embedded.update(hashes)
            except BadVectorError as error:
                bad = error
    outcome.embedding_ms = ms_since(began)
    return texts.keys() - known.keys() - outcome.embedded, bad


def _slices(
    ingest: Ingest, texts: Mapping[str, str], hurried: Callable[[], bool]
) -> Generator[_Slice, None, None]:
    """Yield slices of texts whose vectors are being computed, one slice ahead; start no more if `hurried`.

    Texts of similar length go together, because threads share them best. The first slices are small, because a large
    model takes seconds for what a small one does at once, while a save may be waiting.
    """
    ordered = sorted(texts, key=lambda text_hash: len(texts[text_hash]))
    count, last = _FIRST_SLICE, time.monotonic()
    begun: deque[_Slice] = deque()
    with ThreadPoolExecutor(_SLICES_AT_ONCE) as encoders:
        while ordered or begun:
            while ordered and len(begun) < _SLICES_AT_ONCE:
                hashes, ordered = ordered[:count], ordered[count:]
                encode = ingest.encoder().encode_documents
                begun.append((hashes, encoders.submit(encode, [texts[h] for h in hashes])))
            yield begun.popleft()
            if hurried():
                ordered = []
            began, last = last, time.monotonic()
            if last - began < _SLICE_SECONDS:
                count = min(2 * count, _LARGEST_SLICE)
            elif last - began > 2 * _SLICE_SECONDS:  # longer texts follow shorter ones
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
        with transaction(cache.con):
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
        with transaction(cache.con):
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
    found = _known_to_siblings(cache, ingest, texts)
    new = [text_hash for text_hash in texts if text_hash not in found]
    if new:
        began = time.monotonic()
        found |= dict(zip(new, ingest.encoder().encode_documents([texts[h] for h in new]), strict=True))
        outcome.embedded.update(new)
        outcome.embedding_ms = ms_since(began)
    return found


def _known_to_siblings(cache: Cache, ingest: Ingest, texts: Mapping[str, str]) -> dict[str, Vector]:
    """Return the vectors of those texts that a sibling cache with the same model has."""
    found: dict[str, Vector] = {}
    for path in ingest.siblings() if texts else ():
        found |= readable_vectors(path, cache.meta, texts.keys() - found.keys())
    return found
