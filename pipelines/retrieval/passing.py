"""Which passages pass a question's filters: those of the store, and the nearness to the question."""

from __future__ import annotations

from collections.abc import Collection

from pipelines.filters import Filters
from pipelines.retrieval.thresholds import lowest_cosine
from pipelines.store import search as store
from pipelines.store.cache import Cache, Vector
from pipelines.store.filters import matching_chunks

_ROUNDING = 0.000_05  # answers show four digits of a similarity, and what shows one has to pass it


def passing_chunks(
    cache: Cache, filters: Filters, hidden: Collection[str], vector: Vector | None
) -> list[int] | None:
    """Return the ids of the chunks that pass, or None if all do. Raises CacheError.

    `vector` is the question's. Where it is not known yet, no passage is known to be as near as `min_similarity`.
    """
    only = matching_chunks(cache, filters, hidden)
    if filters.min_similarity is None:
        return only
    if vector is None:
        return []
    lowest = lowest_cosine(cache.meta.model, filters.min_similarity)
    return store.chunks_as_near(cache, vector, lowest - _ROUNDING, only)


def notes_left_out(
    cache: Cache, filters: Filters, hidden: Collection[str], vector: Vector | None
) -> Collection[str]:
    """Return the paths of the notes that do not pass, and the hidden ones. Raises CacheError."""
    only = passing_chunks(cache, filters, hidden, vector)
    return hidden if only is None else {*hidden, *(store.notes_of(cache, None) - store.notes_of(cache, only))}
