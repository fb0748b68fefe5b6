"""A cache's words in memory: BM25 as FTS5 computes it, without walking through its lists for every question.

FTS5 takes a microsecond for each chunk that has any of the words, and fifteen words find a third of all chunks.
Here a word's list is read once and is an array from then on; when chunks were added, only its end is read.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from pipelines import lexical
from pipelines.store import postings as store
from pipelines.store import search
from pipelines.store.cache import Cache
from pipelines.store.connection import snapshot

# FTS5's: https://sqlite.org/fts5.html#the_bm25_function
_K1, _B, _LEAST_IDF = 1.2, 0.75, 1e-6

_SAMPLE = 2_000
_COMMON = 2  # chunks of the sample: the list of a rarer word is read in a moment
_AHEAD_SECONDS = 0.05
_GROWN = 2.0
_MOST_POSTINGS = 192  # for each chunk, 8 bytes each: all its words twice, and some phrases


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The chunks in order of their ids: how many words they have, and whether they are still there."""

    ids: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.float64]
    there: npt.NDArray[np.bool_]
    newest: int

    def rows(self, ids: npt.ArrayLike) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Return the rows of those of these ids that are known, and which these are."""
        asked = np.asarray(ids, np.int64)
        rows = np.searchsorted(self.ids, asked)
        known = rows < len(self.ids)
        known[known] = self.ids[rows[known]] == asked[known]
        return rows[known].astype(np.int32), known


@dataclass(frozen=True, slots=True)
class _Postings:
    """The rows that have a word, its counts in them by column weight, and up to which chunk they were read."""

    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]
    newest: int


_NO_CHUNKS = _Chunks(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_), 0)
_NO_POSTINGS = _Postings(np.zeros(0, np.int32), np.zeros(0, np.float32), 0)


class WordPostings:
    """The words of one cache file. One thread keeps them in step (`follow`); any may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead: list[str] = []
        self._begin()

    def _begin(self) -> None:
        self._followed: int | None = None
        self._chunks = _NO_CHUNKS
        self._postings: dict[str, _Postings] = {}
        """Those that were asked for last stand last."""
        self._held = 0
        self._sampled = 0

    def __len__(self) -> int:
        """Return how many chunks are there."""
        return int(self._chunks.there.sum())

    def follow(self, cache: Cache) -> bool:
        """Take in what was committed since the last time, and read some common words; say whether all are read.

        Raises CacheError.
        """
        with self._lock, snapshot(cache.con):
            mostly_gone = len(self._chunks.ids) > 2 * len(self)
            if mostly_gone or not self._take_in(cache):
                self._begin()
                self._take_in(cache)
        if len(self) > _GROWN * self._sampled:
            self._ahead = _common_words(cache, self._chunks.ids)
            self._sampled = len(self)
        until = time.monotonic() + _AHEAD_SECONDS
        while self._ahead and time.monotonic() < until:
            with self._lock, snapshot(cache.con):
                self._read(cache, self._ahead.pop(), store.newest_chunk(cache))
        return not self._ahead

    def _take_in(self, cache: Cache) -> bool:
        """Learn which chunks came and went; say whether that could be told from the journal."""
        last, changed = search.chunk_changes(cache, self._followed)
        if changed is None and self._followed is not None:
            return False
        chunks = self._chunks
        if changed:
            gone, _ = chunks.rows(sorted(changed - search.chunk_paths(cache, list(changed)).keys()))
            there = chunks.there.copy()
            there[gone] = False
            chunks = replace(chunks, there=there)
        newest = store.newest_chunk(cache)
        if newest > chunks.newest:
            new = _pairs(store.lengths(cache, chunks.newest))
            chunks = _Chunks(
                np.concatenate([chunks.ids, new[:, 0].astype(np.int64)]),
                np.concatenate([chunks.lengths, new[:, 1]]),
                np.concatenate([chunks.there, np.ones(len(new), np.bool_)]),
                newest,
            )
        self._chunks, self._followed = chunks, last
        return True

    def _read(self, cache: Cache, phrase: str, newest: int) -> _Postings:
        """Return a word's postings, reading what is not known of them.

        `newest` is the newest chunk that this connection sees: another one may have taken in more.
        """
        known = self._postings.get(phrase, _NO_POSTINGS)
        if newest > known.newest:
            found = _pairs(store.occurrences(cache, phrase, known.newest))
            rows, are_known = self._chunks.rows(found[:, 0].astype(np.int64))
            known = _Postings(
                np.concatenate([known.rows, rows]),
                np.concatenate([known.counts, found[are_known, 1].astype(np.float32)]),
                newest,
            )
            self._held += len(rows)
        self._postings.pop(phrase, None)
        self._postings[phrase] = known
        while self._held > _MOST_POSTINGS * len(self._chunks.ids):
            self._held -= len(self._postings.pop(next(iter(self._postings))).rows)
        return known

    def scores(self, cache: Cache, wanted: lexical.Wanted) -> WordScores:
        """Return how well each chunk matches. Call it within a snapshot of the cache. Raises CacheError."""
        with self._lock:
            self._take_in(cache)
            chunks, newest = self._chunks, store.newest_chunk(cache)
            found = [(self._read(cache, phrase, newest), weight) for phrase, weight in wanted.weights.items()]
            excluded = [self._read(cache, phrase, newest) for phrase in wanted.excluded]
        scores = _bm25(chunks, found)
        scores[~chunks.there] = 0.0
        for postings in excluded:
            scores[postings.rows] = 0.0
        return WordScores(chunks, scores)


class WordScores:
    """The BM25 (higher is better) of all chunks for one question."""

    def __init__(self, chunks: _Chunks, scores: npt.NDArray[np.float64]) -> None:
        self._chunks = chunks
        self._scores = scores

    def best(self, depth: int, only: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """Return chunk ids (of `only` these) that have any of the words, with their scores, best first."""
        scores = self._scores
        if only is not None:
            rows, _ = self._chunks.rows(only)
            scores = np.zeros_like(scores)
            scores[rows] = self._scores[rows]
        best = _best(scores, depth)
        return list(zip(self._chunks.ids[best].tolist(), scores[best].tolist(), strict=True))


def _pairs(found: Sequence[tuple[float, float]]) -> npt.NDArray[np.float64]:
    return np.fromiter(chain.from_iterable(found), np.float64, 2 * len(found)).reshape(-1, 2)


def _bm25(chunks: _Chunks, found: Sequence[tuple[_Postings, int]]) -> npt.NDArray[np.float64]:
    """Return the score of each row; 0 where none of the words is."""
    scores = np.zeros(len(chunks.ids))
    total = np.count_nonzero(chunks.there)
    if not total:
        return scores
    average = chunks.lengths[chunks.there].sum() / total
    norms = _K1 * (1 - _B + _B * chunks.lengths / average)
    for postings, weight in found:
        have_it = np.count_nonzero(chunks.there[postings.rows])
        idf = max(float(np.log((total - have_it + 0.5) / (have_it + 0.5))), _LEAST_IDF)
        counts = postings.counts
        scores[postings.rows] += weight * idf * (_K1 + 1) * counts / (counts + norms[postings.rows])
    return scores


def _best(scores: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Return the rows of the largest scores above 0, the largest first; of equal ones the first row leads."""
    rows = np.flatnonzero(scores)
    if len(rows) > count:
        own = scores[rows]
        rows = rows[own >= np.partition(own, -count)[-count]]
    return rows[np.argsort(-scores[rows], kind="stable")][:count]


def _common_words(cache: Cache, ids: npt.NDArray[np.int64]) -> list[str]:
    """Return the words that many chunks have, as a sample of them tells, the most common last."""
    sample = ids[:: len(ids) // _SAMPLE + 1].tolist()
    found = Counter(
        word
        for chunk in search.chunk_rows(cache, sample).values()
        for word in lexical.telling_words(chunk.text)
    )
    return [word for word, count in reversed(found.most_common()) if count >= _COMMON]
