"""The scores of a question's words by BM25, as FTS5 computes it, from the words' postings in arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

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
    found: Sequence[tuple[Postings, int]]
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
