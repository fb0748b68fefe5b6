"""What a process holds of its caches in memory, kept in step with what others commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import structlog

from pipelines.retrieval.codes import VectorCodes
from pipelines.retrieval.postings import WordPostings
from pipelines.store.cache import Cache
from pipelines.store.notes import data_version

# With fewer chunks reading the file is faster: a scan of it costs less than reading those of the candidates.
_FEWEST = 4_000

log = structlog.get_logger()

Held = TypeVar("Held", VectorCodes, WordPostings)


def _if_many(held: Held | None) -> Held | None:
    return held if held is not None and len(held) >= _FEWEST else None


class InMemory:
    """Vectors and words by cache file. One thread, always the same, calls `follow`; any may ask for them.

    What is not there (yet), or of few chunks, is None: the file is read instead.
    """

    def __init__(self) -> None:
        self._codes: dict[Path, VectorCodes] = {}
        self._words: dict[Path, WordPostings] = {}
        self._versions: dict[Path, int] = {}
        self._multiplies = True

    def codes(self, cache: Cache) -> VectorCodes | None:
        """Return a cache's vectors."""
        return _if_many(self._codes.get(cache.path))

    def words(self, cache: Cache) -> WordPostings | None:
        """Return a cache's words."""
        return _if_many(self._words.get(cache.path))

    def follow(self, caches: Sequence[Cache]) -> None:
        """Take in what was committed to these caches, and let go of those that are no longer among them."""
        for cache in caches:
            version = data_version(cache)
            if self._versions.get(cache.path) == version:
                continue
            self._follow_vectors(cache)
            words = self._words.setdefault(cache.path, WordPostings())
            if words.follow(cache):
                self._versions[cache.path] = version
        kept = {cache.path for cache in caches}
        for held in (self._codes, self._words, self._versions):
            for path in held.keys() - kept:
                del held[path]

    def _follow_vectors(self, cache: Cache) -> None:
        if not self._multiplies:
            return
        codes = self._codes.get(cache.path)
        if codes is None:
            codes = VectorCodes(cache.meta.dimension)
            self._multiplies = codes.is_right()
            if not self._multiplies:
                log.warning(
                    "vectors are read from the file for each question: this machine cannot multiply bytes"
                )
                return
        codes.follow(cache)
        # Only now: codes of half of a cache would hide the other half.
        self._codes[cache.path] = codes
