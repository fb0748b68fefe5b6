"""The scores of a question's words by BM25, as FTS5 computes it, from the words' postings in arrays."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from pipelines.notes import lexical
from pipelines.store import Cache

# FTS5's constants: https://sqlite.org/fts5.html#the_bm25_function
_K1, _B, _LEAST_IDF = 1.2, 0.75, 1e-6


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks by ascending id: how many words they have, and whether they still exist."""

    ids: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.float64]
    there: npt.NDArray[np.bool_]
    newest: int

    def rows(self, ids: npt.ArrayLike) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Return the rows of the known ids, and a mask of the ids that are known."""
        asked = np.asarray(ids, np.int64)
        rows = np.searchsorted(self.ids, asked)
        known = rows < len(self.ids)
        known[known] = self.ids[rows[known]] == asked[known]
        return rows[known].astype(np.int32), known

    def without(self, ids: Sequence[int]) -> Chunks:
        """Return the same rows, where the chunks with these ids do not exist."""
        there = self.there.copy()
        there[self.rows(ids)[0]] = False
        return replace(self, there=there)


@dataclass(frozen=True, slots=True)
class Postings:
    """The rows that have a word, its counts in them by column weight, and the newest chunk read so far."""

    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]
    newest: int

    def among(self, rows: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Return a mask of the rows that have the word, and their positions in this list."""
        at = np.searchsorted(self.rows, rows)
        has = at < len(self.rows)
        has[has] = self.rows[at[has]] == rows[has]
        return has, at[has]


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts for BM25: chunks, words in all chunks, and how many chunks have each word of a question."""

    chunks: int
    words: float
    having: tuple[int, ...]

    def __add__(self, other: Statistics) -> Statistics:
        """Return the combined statistics for the same question."""
        having = tuple(map(sum, zip(self.having, other.having, strict=True)))
        return Statistics(self.chunks + other.chunks, self.words + other.words, having)

    def rarity(self) -> list[float]:
        """Return the idf of each word; unlike in BM25, one that most chunks have keeps a little."""
        return [math.log(1 + (self.chunks - n + 0.5) / (n + 0.5)) for n in self.having]


@dataclass(frozen=True, slots=True)
class WordsFound:
    """Where the words of one question occur in some chunks, each word with its weight.

    `statistics` cover the whole cache, without hidden chunks.
    """

    chunks: Chunks
    found: Sequence[tuple[Postings, float]]
    statistics: Statistics

    def scores(self) -> WordScores:
        """Return how well each chunk matches."""
        scores = np.zeros(len(self.chunks.ids))
        for (postings, weight), have_it in zip(self.found, self.statistics.having, strict=True):
            lengths = self.chunks.lengths[postings.rows]
            scores[postings.rows] += weight * _bm25(postings.counts, lengths, have_it, self.statistics)
        scores[~self.chunks.there] = 0.0
        return WordScores(self.chunks, scores)

    def scores_of(self, ids: Sequence[int], over: Statistics) -> dict[int, float]:
        """Return how well these chunks match, by the statistics of several caches."""
        rows, known = self.chunks.rows(ids)
        scores = np.zeros(len(rows))
        for (postings, weight), have_it in zip(self.found, over.having, strict=True):
            has, at = postings.among(rows)
            scores[has] += weight * _bm25(postings.counts[at], self.chunks.lengths[rows[has]], have_it, over)
        return dict(zip(np.asarray(ids)[known].tolist(), scores.tolist(), strict=True))

    def having(self, ids: Sequence[int]) -> list[set[int]]:
        """Return, for each word in the question's order, which of these chunks have it."""
        rows, known = self.chunks.rows(ids)
        there = self.chunks.there[rows]
        found, rows = np.asarray(ids, np.int64)[known][there], rows[there]
        return [set(found[postings.among(rows)[0]].tolist()) for postings, _ in self.found]

    def reach(self, over: Statistics) -> float:
        """Return the upper bound of a chunk's score: it would contain each word infinitely often."""
        return sum(
            weight * _idf(n, over) * (_K1 + 1) for (_, weight), n in zip(self.found, over.having, strict=True)
        )


class WordScores:
    """The BM25 (higher is better) of all chunks for one question."""

    def __init__(self, chunks: Chunks, scores: npt.NDArray[np.float64]) -> None:
        self._chunks = chunks
        self._scores = scores

    def best(self, depth: int, only: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """Return the ids of chunks (of `only` these) that have any of the words, with their scores, best first."""
        scores = self._scores
        if only is not None:
            rows, _ = self._chunks.rows(only)
            scores = np.zeros_like(scores)
            scores[rows] = self._scores[rows]
        best = _best(scores, depth)
        return list(zip(self._chunks.ids[best].tolist(), scores[best].tolist(), strict=True))


def _idf(have_it: int, over: Statistics) -> float:
    return max(float(np.log((over.chunks - have_it + 0.5) / (have_it + 0.5))), _LEAST_IDF)


def _bm25(
    counts: npt.NDArray[np.float32], lengths: npt.NDArray[np.float64], have_it: int, over: Statistics
) -> npt.NDArray[np.float64]:
    """Return what a word adds to the scores of chunks, from its counts in them and their lengths."""
    average = over.words / over.chunks if over.words else 1.0
    norms = _K1 * (1 - _B + _B * lengths / average)
    return _idf(have_it, over) * (_K1 + 1) * counts / (counts + norms)


def _best(scores: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Return the rows of the largest scores above 0, largest first; ties keep the order of the rows."""
    rows = np.flatnonzero(scores)
    if len(rows) > count:
        own = scores[rows]
        rows = rows[own >= np.partition(own, -count)[-count]]
    return rows[np.argsort(-scores[rows], kind="stable")][:count]


# The result of comparing part of the in-memory data with the cache.


@dataclass(frozen=True, slots=True)
class Compared:
    """How many in-memory lists were compared with the cache, and how many differed."""

    checked: int
    differing: int

    def __add__(self, other: Compared) -> Compared:
        """Return the sum of both."""
        return Compared(self.checked + other.checked, self.differing + other.differing)


# A cache's words in memory, for BM25 as FTS5 computes it without walking FTS5's lists for every question.
#
# FTS5 takes a microsecond for each chunk that has any of the words, and fifteen words match a third of all chunks.
# Here a word's list is read once and kept as an array; when chunks are added, only the end of the list is read.


_SAMPLE = 2_000
_COMMON = 2  # chunks of the sample: the list of a rarer word is read quickly
_AHEAD_SECONDS = 0.05
_GROWN = 2.0
_MOST_POSTINGS = 192  # per chunk, 8 bytes each: all its words twice, and some phrases


_NO_CHUNKS = Chunks(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_), 0)
_NO_POSTINGS = Postings(np.zeros(0, np.int32), np.zeros(0, np.float32), 0)


class WordPostings:
    """The words of one cache file. One thread keeps them up to date (`follow`); any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead: list[str] = []
        self._begin()

    def _begin(self) -> None:
        self._followed: int | None = None
        self._chunks = _NO_CHUNKS
        self._postings: dict[str, Postings] = {}
        """By phrase, the least recently used first."""
        self._held = 0
        self._sampled = 0

    def __len__(self) -> int:
        """Return how many chunks exist."""
        return int(self._chunks.there.sum())

    def follow(self, cache: Cache) -> bool:
        """Take in what was committed since the last call, and read some common words; say whether all are read.

        Raises CacheError.
        """
        with self._lock, cache.snapshot():
            if len(self._chunks.ids) > 2 * len(self):
                self._begin()
            self._take_in(cache, is_latest=True)
        if len(self) > _GROWN * self._sampled:
            self._ahead = _common_words(cache, self._chunks.ids)
            self._sampled = len(self)
        until = time.monotonic() + _AHEAD_SECONDS
        while self._ahead and time.monotonic() < until:
            with self._lock, cache.snapshot():
                # Also in this snapshot, because a posting of a chunk that is not known yet would be lost.
                self._take_in(cache, is_latest=True)
                self._read(cache, self._ahead.pop(), cache.search.newest_chunk())
        return not self._ahead

    def _take_in(self, cache: Cache, *, is_latest: bool) -> None:
        """Take in added and deleted chunks, or start over if the journal no longer has them.

        `is_latest`: the snapshot began after this object was locked, so nothing newer can have been taken in.
        """
        last, changed = cache.search.chunk_changes(self._followed)
        if changed is None and self._followed is not None:
            if last < self._followed and not is_latest:
                return  # another thread took in a later state
            self._begin()
        chunks = self._chunks
        if changed:
            gone, _ = chunks.rows(sorted(changed - cache.passages.chunk_paths(list(changed)).keys()))
            there = chunks.there.copy()
            there[gone] = False
            chunks = replace(chunks, there=there)
        newest = cache.search.newest_chunk()
        if newest > chunks.newest:
            new = _pairs(cache.search.lengths(chunks.newest))
            chunks = Chunks(
                np.concatenate([chunks.ids, new[:, 0].astype(np.int64)]),
                np.concatenate([chunks.lengths, new[:, 1]]),
                np.concatenate([chunks.there, np.ones(len(new), np.bool_)]),
                newest,
            )
        self._chunks, self._followed = chunks, last

    def _read(self, cache: Cache, phrase: str, newest: int) -> Postings:
        """Return a word's postings, after reading those that are missing.

        `newest` is the newest chunk that this connection sees; another connection may have taken in more.
        """
        known = self._postings.get(phrase, _NO_POSTINGS)
        if newest > known.newest:
            found = _pairs(cache.search.occurrences(phrase, known.newest))
            rows, are_known = self._chunks.rows(found[:, 0].astype(np.int64))
            known = Postings(
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

    def look_up(self, cache: Cache, wanted: lexical.LexicalQuery, hidden: Sequence[int] = ()) -> WordsFound:
        """Return where a question's words occur, as if the `hidden` chunks did not exist.

        Call this within a snapshot of the cache. Raises CacheError.
        """
        with self._lock:
            self._take_in(cache, is_latest=False)
            chunks, newest = self._chunks, cache.search.newest_chunk()
            found = [(self._read(cache, phrase, newest), weight) for phrase, weight in wanted.weights.items()]
        if hidden:
            chunks = chunks.without(hidden)
        having = tuple(int(np.count_nonzero(chunks.there[postings.rows])) for postings, _ in found)
        total = int(np.count_nonzero(chunks.there))
        statistics = Statistics(total, float(chunks.lengths[chunks.there].sum()), having)
        return WordsFound(chunks, found, statistics)

    def window(self, after: int, count: int) -> int | None:
        """Return the id of the chunk that comes `count` after an id; None if fewer are left."""
        ids = self._chunks.ids
        end = int(np.searchsorted(ids, after, side="right")) + count
        return int(ids[end - 1]) if end < len(ids) else None

    def compare(self, cache: Cache, after: int, upto: int, most: int) -> Compared:
        """Compare with the cache the chunks with ids in (after, upto], and some of the words in them.

        Each word is compared in its own snapshot, so that a question waits for at most one of them.
        Raises CacheError.
        """
        with self._lock, cache.snapshot():
            self._take_in(cache, is_latest=True)
            held = self._lengths_between(after, upto)
            differing = int(not np.array_equal(held, _pairs(cache.search.lengths(after, upto))))
            known = list(self._postings)
        words = np.random.default_rng().permutation(len(known))[:most]
        for word in words:
            with self._lock, cache.snapshot():
                self._take_in(cache, is_latest=True)
                differing += self._differs(cache, known[word], after, upto)
        return Compared(1 + len(words), differing)

    def _lengths_between(self, after: int, upto: int) -> npt.NDArray[np.float64]:
        ids, there = self._chunks.ids, self._chunks.there
        start, end = np.searchsorted(ids, [after, upto], side="right")
        rows = start + np.flatnonzero(there[start:end])
        return np.column_stack([ids[rows], self._chunks.lengths[rows]])

    def _differs(self, cache: Cache, phrase: str, after: int, upto: int) -> bool:
        postings = self._postings.get(phrase)
        if postings is None:
            return False  # dropped meanwhile
        stored = _pairs(cache.search.occurrences(phrase, after, min(upto, postings.newest)))
        ids, there = self._chunks.ids[postings.rows], self._chunks.there[postings.rows]
        chosen = (ids > after) & (ids <= upto) & there
        return not np.array_equal(np.column_stack([ids[chosen], postings.counts[chosen]]), stored)


def read_words(
    cache: Cache, wanted: lexical.LexicalQuery, ids: Sequence[int], hidden: Sequence[int] = ()
) -> WordsFound:
    """Read from the file where a question's words occur in these chunks; `hidden` ones do not count anywhere.

    Raises CacheError.
    """
    lengths = _pairs(cache.search.lengths_of(ids))
    chunks = Chunks(lengths[:, 0].astype(np.int64), lengths[:, 1], np.ones(len(lengths), np.bool_), 0)

    def read(phrase: str) -> Postings:
        found = _pairs(cache.search.occurrences_in(phrase, ids))
        rows, known = chunks.rows(found[:, 0])
        return Postings(rows, found[known, 1].astype(np.float32), 0)

    def having(phrase: str) -> int:
        return cache.search.count_having(phrase) - len(cache.search.occurrences_in(phrase, hidden))

    count, words = cache.search.totals()
    unseen = cache.search.lengths_of(hidden)
    return WordsFound(
        chunks,
        [(read(phrase), weight) for phrase, weight in wanted.weights.items()],
        Statistics(
            count - len(unseen),
            words - sum(length for _, length in unseen),
            tuple(map(having, wanted.weights)),
        ),
    )


def _pairs(found: Sequence[tuple[float, float]]) -> npt.NDArray[np.float64]:
    return np.fromiter(chain.from_iterable(found), np.float64, 2 * len(found)).reshape(-1, 2)


def _common_words(cache: Cache, ids: npt.NDArray[np.int64]) -> list[str]:
    """Return the words that many chunks have, estimated from a sample, the most common last."""
    sample = ids[:: len(ids) // _SAMPLE + 1].tolist()
    found = Counter(
        word
        for chunk in cache.passages.chunk_rows(sample).values()
        for word in lexical.telling_words(chunk.text)
    )
    return [word for word, count in reversed(found.most_common()) if count >= _COMMON]
