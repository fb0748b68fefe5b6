"""A cache's vectors in memory, quantized to bytes: they select the candidates, the stored vectors decide.

A scan of 25,000 quantized vectors of 384 dimensions takes 0.25 ms on a processor with VNNI. For every query tried,
the exact nearest sixty were among the best seventy-five (docs/notes/performance.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import simsimd

from pipelines.cache.passages import Quantized
from pipelines.cache.vectors import Vector
from pipelines.errors import CacheError
from pipelines.language import Language, language_of
from pipelines.search.bm25 import Compared
from pipelines.search.thresholds import scaled, thresholds_of
from pipelines.store import Cache

if TYPE_CHECKING:
    from pipelines.cache.pgvector import VectorTable

_LARGEST = 127
_AT_ONCE = 4_000
_CANDIDATES = 2  # as a multiple of the requested number
_NO_CHUNK = -1
_FIRST_ROOM = 1_024
_EVERY = 16


@dataclass(frozen=True, slots=True)
class _Table:
    """Quantized vectors as rows, the scale of each, and the chunk of each row; a free row has no chunk."""

    quantized: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float32]
    ids: npt.NDArray[np.int64]

    def first(self, count: int) -> _Table:
        """Return the first rows, as many as there are of `count`."""
        return _Table(self.quantized[:count], self.scales[:count], self.ids[:count])


def quantize(vectors: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return vectors as signed bytes, and the scale of each: shapes (..., dimension), (...)."""
    scales = np.abs(vectors).max(axis=-1) / _LARGEST
    return np.round(vectors / scales[..., np.newaxis]).astype(np.int8), scales


class QuantizedVectors:
    """The quantized vectors of one cache file. One thread keeps them up to date (`follow`); any thread may ask."""

    def __init__(self, dimension: int) -> None:
        self._table = _room_for(_FIRST_ROOM, dimension)
        self._rows: dict[int, int] = {}
        self._freed: list[int] = []
        self._used = 0  # the number of rows that ever had a chunk
        self._followed: int | None = None

    def __len__(self) -> int:
        """Return how many chunks are known."""
        return len(self._rows)

    def follow(self, cache: Cache) -> None:
        """Take in only what was committed since the last call. Raises CacheError."""
        with cache.snapshot():
            self._take_in(cache)

    def _take_in(self, cache: Cache) -> None:
        last, changed = cache.search.chunk_changes(self._followed)
        there = cache.search.chunks_with_vectors(changed)
        known = self._rows.keys() if changed is None else self._rows.keys() & changed
        for chunk in known - there:
            row = self._rows.pop(chunk)
            self._table.ids[row] = _NO_CHUNK
            self._freed.append(row)
        # Not a set difference, which would visit all rows for each commit.
        new = sorted(chunk for chunk in there if chunk not in self._rows)
        for start in range(0, len(new), _AT_ONCE):
            self._add(cache.search.vectors_of_chunks(new[start : start + _AT_ONCE]))
        self._followed = last

    def _add(self, vectors: dict[int, Vector]) -> None:
        while len(self._rows) + len(vectors) > len(self._table.ids):
            self._grow()
        for chunk, vector in vectors.items():
            row = self._freed.pop() if self._freed else self._used
            self._table.quantized[row], self._table.scales[row] = quantize(vector)
            self._table.ids[row] = chunk  # after its vector: until then the row has no chunk
            self._rows[chunk] = row
            self._used = max(self._used, row + 1)

    def _grow(self) -> None:
        old = self._table
        size, dimension = old.quantized.shape
        table = _room_for(2 * size, dimension)
        for name in ("quantized", "scales", "ids"):
            getattr(table, name)[:size] = getattr(old, name)
        self._table = table

    def compare(self, cache: Cache, after: int, upto: int, most: int) -> Compared:
        """Compare with the cache which chunks with ids in (after, upto] are known, and some of their vectors.

        Only for the thread that calls `follow`. Raises CacheError.
        """
        with cache.snapshot():
            self._take_in(cache)
            stored = cache.search.chunks_with_vectors_between(after, upto)
            known = {chunk for chunk in self._rows if after < chunk <= upto}
            both = np.random.default_rng().permutation(sorted(stored & known))[:most]
            vectors = cache.search.vectors_of_chunks(both.tolist())
        differing = [chunk for chunk, vector in vectors.items() if not self._has(chunk, vector)]
        return Compared(1 + len(vectors), int(stored != known) + len(differing))

    def _has(self, chunk: int, vector: Vector) -> bool:
        row, (quantized, scale) = self._rows[chunk], quantize(vector)
        table = self._table
        return bool(
            table.ids[row] == chunk
            and table.scales[row] == scale
            and np.array_equal(table.quantized[row], quantized)
        )

    def nearest(
        self, cache: Cache, vector: Vector, depth: int, only: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return chunk ids (of `only` these) with their exact cosine to a unit vector, nearest first."""
        return _by_cosine(cache, vector, self._candidates(vector, _CANDIDATES * depth, only), depth)

    def _candidates(self, vector: Vector, count: int, only: Sequence[int] | None) -> list[int]:
        # A row that is being added or removed may be missing here.
        table = self._table.first(self._used)
        allowed = table.ids != _NO_CHUNK if only is None else np.isin(table.ids, np.fromiter(only, np.int64))
        count = min(count, int(allowed.sum()))
        if count == 0:
            return []
        question, _ = quantize(vector)
        scores = _product(table.quantized, question) * table.scales
        scores[~allowed] = -np.inf
        found: list[int] = table.ids[_best(scores, count)].tolist()
        return found

    def is_right(self) -> bool:
        """Say whether bytes are multiplied correctly here: SimSIMD has instructions of its own for each processor."""
        shape = 256, self._table.quantized.shape[1]
        matrix = np.random.default_rng(0).integers(-_LARGEST, _LARGEST, shape, np.int8, endpoint=True)
        exact = matrix.astype(np.int64) @ matrix[0].astype(np.int64)
        return np.array_equal(_product(matrix, matrix[0]), exact.astype(np.float32))


def _product(matrix: npt.NDArray[np.int8], question: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
    """Return the product of each row and the question: exact up to 1,040 dimensions, with more the nearest float32.

    One call waits for Python's lock once, while numpy would for each block of rows (docs/notes/performance.md).
    """
    return np.asarray(simsimd.dot(matrix, question, out_dtype="float32"))


def _best(scores: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
    """Return the rows of the `count` largest scores; every 16th score gives a lower bound for the rest."""
    some = scores[::_EVERY]
    place = min(max(1, count // 4), len(some))
    bound = np.partition(some, -place)[-place]
    rows = np.flatnonzero(scores >= bound)
    if len(rows) < count:
        rows = np.arange(len(scores))
    return rows[np.argpartition(scores[rows], -count)[-count:]]


def _room_for(rows: int, dimension: int) -> _Table:
    return _Table(
        np.zeros((rows, dimension), np.int8),
        np.zeros(rows, np.float32),
        np.full(rows, _NO_CHUNK, np.int64),
    )


def _by_cosine(
    cache: Cache, vector: Vector, candidates: Sequence[int], depth: int
) -> list[tuple[int, float]]:
    exact = cache.search.cosines(vector, candidates)
    return sorted(exact.items(), key=lambda pair: (-pair[1], pair[0]))[:depth]


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """The vectors of one cache in PostgreSQL, which select the candidates there. Any thread may ask."""

    table: VectorTable

    def nearest(
        self, cache: Cache, vector: Vector, depth: int, only: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return chunk ids (of `only` these) with their exact cosine to a unit vector, nearest first."""
        try:
            candidates = self.table.nearest(vector, _CANDIDATES * depth, only)
        except CacheError:  # the thread that follows commits says why
            self.table.is_complete = False  # until it has reached the server again
            return cache.search.nearest(vector, depth, only)
        return _by_cosine(cache, vector, candidates, depth)


class Nearest(Protocol):
    """The vectors of one cache outside its file."""

    def nearest(
        self, cache: Cache, vector: Vector, depth: int, only: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return chunk ids (of `only` these) with their exact cosine to a unit vector, nearest first."""


# Find how near the nearest piece of a passage is to a question: the whole passage, or one of its sentences.


Id = TypeVar("Id")


def nearest_pieces(
    passages: Mapping[Id, float], quantized: Mapping[Id, Quantized], question: Vector
) -> dict[Id, float]:
    """Return for each passage, given by its cosine, the best of that cosine and its sentences' cosines.

    The vector of a whole passage averages all that it says; the sentence that answers is one of many, or lies beyond
    what the model reads of a passage. Callan, "Passage-Level Evidence in Document Retrieval", SIGIR 1994, with
    sentences as passages. Return nothing while no passage's sentences are prepared.
    """
    prepared = {item: own for item, own in quantized.items() if len(own) and item in passages}
    if not prepared:
        return {}
    vectors = np.concatenate(list(prepared.values())).astype(np.float32)
    # `einsum` stays in this thread; OpenBLAS would wait for other threads on a busy machine.
    cosines = np.einsum("ij,j->i", vectors, question) / np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    starts = np.cumsum([0, *map(len, prepared.values())])[:-1]
    best = dict(zip(prepared, np.maximum.reduceat(cosines, starts).tolist(), strict=True))
    return {item: max(cosine, best.get(item, cosine)) for item, cosine in passages.items()}


# Read cosines so that they can be compared with other scores, and between languages.


def comparable(cache: Cache, cosines: Mapping[int, float], spoken: Language | None) -> dict[int, float]:
    """Return the cosines of chunks, scaled, as if all were in the language of the question. Raises CacheError.

    Also a model of many languages has passages in the question's own nearer than others that say the same: in a vault
    of several languages, these would never be among the first.
    """
    bars = thresholds_of(cache.meta.model)
    if spoken is not None and spoken in bars.across:
        rows = cache.passages.chunk_rows(list(cosines))
        offsets = {chunk: bars.offset(spoken, language_of(row.text)) for chunk, row in rows.items()}
        cosines = {chunk: cosine - offsets.get(chunk, 0.0) for chunk, cosine in cosines.items()}
    return scaled(cache.meta.model, cosines)
