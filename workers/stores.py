"""A process's connections to `state.db` and to the caches: one per thread, opened at first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from pipelines.cache.cache import Cache
from pipelines.sqlite import FileId, file_id
from pipelines.state.state import State

Store = TypeVar("Store")

log = structlog.get_logger()


class Stores:
    """A process's connections to the databases of a state folder, one per thread and kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = threading.local()
        self.replaced = 0
        """How often a cache's file was deleted or replaced while it was open."""

    def of(self, kind: Callable[[Path], Store]) -> Store:
        """Return this thread's connection of a kind, which is a class that opens the `state.db` of a folder."""
        opened: dict[Callable[[Path], Store], Store] = self._own.__dict__.setdefault("opened", {})
        if kind not in opened:
            opened[kind] = kind(self._folder)
        return opened[kind]

    def cache(self, slug: str, opener: Callable[[Path], Cache], *, writable: bool) -> Cache:
        """Return this thread's connection to a domain's current cache.

        It is reopened when another cache became current, when the file was deleted or replaced, because writes to a
        deleted file are lost, and when the tables of this version were added to it.
        """
        path = self.of(State).cache_path(slug)
        held: dict[tuple[str, bool], tuple[Cache, FileId | None]] = self._own.__dict__.setdefault(
            "caches", {}
        )
        cache, opened = held.get((slug, writable), (None, None))
        if cache and cache.is_outgrown():
            held.pop((slug, writable))
            cache.close()
            cache = None
        if cache and (cache.path != path or opened != file_id(path)):
            if cache.path == path:
                self.replaced += 1
                log.error("the index was deleted or replaced while it was open", file=str(path))
            held.pop((slug, writable))
            cache.close()
            cache = None
        if cache is None:
            cache = opener(path)
            held[slug, writable] = cache, file_id(path)
        return cache
