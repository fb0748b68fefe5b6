"""The vectors of a process's caches in memory, kept in step with what others commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from pipelines.retrieval.codes import VectorCodes
from pipelines.store.cache import Cache
from pipelines.store.notes import data_version

# With fewer vectors a scan of the file is faster than reading those of the candidates one by one.
_FEWEST = 4_000

log = structlog.get_logger()


class VectorsInMemory:
    """Codes by cache file. One thread, always the same, calls `follow`; any may ask for codes."""

    def __init__(self) -> None:
        self._codes: dict[Path, VectorCodes] = {}
        self._versions: dict[Path, int] = {}
        self._cannot = False

    def codes(self, cache: Cache) -> VectorCodes | None:
        """Return the codes of a cache; None where there are none (yet), or few: the file is read instead."""
        codes = self._codes.get(cache.path)
        return codes if codes is not None and len(codes) >= _FEWEST else None

    def follow(self, caches: Sequence[Cache]) -> None:
        """Take in what was committed to these caches, and let go of those that are no longer among them."""
        if self._cannot:
            return
        for cache in caches:
            version = data_version(cache)
            if self._versions.get(cache.path) != version:
                codes = self._codes.get(cache.path) or self._begin(cache)
                if codes is None:
                    return
                codes.follow(cache)
                # Only now: codes of half of a cache would hide the other half.
                self._codes[cache.path] = codes
                self._versions[cache.path] = version
        for path in self._codes.keys() - {cache.path for cache in caches}:
            del self._codes[path], self._versions[path]

    def _begin(self, cache: Cache) -> VectorCodes | None:
        codes = VectorCodes(cache.meta.dimension)
        if codes.is_right():
            return codes
        self._cannot = True
        log.warning("vectors are read from the file for each question: this machine cannot multiply bytes")
        return None
