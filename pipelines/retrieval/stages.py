"""Measure how long the stages of an answer take: timed where the work is done, collected by the caller."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

STAGES = ("encode", "knn", "words", "fusion", "decay", "graph", "excerpts")
"""In the order in which an answer passes through them."""


class _Stopwatch:
    """Seconds per stage. A nested stage stops the outer one's time, so that no time is counted twice."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside: list[str] = []
        self._since = 0.0

    def enter(self, name: str) -> None:
        self._charge()
        self._inside.append(name)

    def leave(self) -> None:
        self._charge()
        self._inside.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._inside:
            self.seconds[self._inside[-1]] += now - self._since
        self._since = now


_watch: ContextVar[_Stopwatch | None] = ContextVar("watch", default=None)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time the `with` block, or the decorated function, as a stage of the answer that is being timed."""
    watch = _watch.get()
    if watch is None:
        yield
        return
    watch.enter(name)
    try:
        yield
    finally:
        watch.leave()


@contextmanager
def timing() -> Iterator[Mapping[str, float]]:
    """Time the stages within the `with` block; yield the seconds by stage, complete at its end."""
    watch = _Stopwatch()
    token = _watch.set(watch)
    try:
        yield watch.seconds
    finally:
        _watch.reset(token)
