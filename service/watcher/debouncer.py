"""Decide which paths are quiet enough to be read; the clock is an argument."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(slots=True)
class _Marked:
    first: float
    last: float


class Debouncer:
    """Paths that may have changed, each held until quiet for `quiet` seconds, but at most `longest`.

    `mark` may be called from any thread.
    """

    def __init__(self, quiet: float, longest: float) -> None:
        self._quiet = quiet
        self._longest = longest
        self._lock = threading.Lock()
        self._marked: dict[str, _Marked] = {}

    def mark(self, path: str, now: float) -> None:
        """Record an event on a path."""
        with self._lock:
            marked = self._marked.setdefault(path, _Marked(now, now))
            marked.last = now

    def settled(self, now: float) -> set[str]:
        """Take the paths that are due."""
        with self._lock:
            due = {
                path
                for path, marked in self._marked.items()
                if now - marked.last >= self._quiet or now - marked.first >= self._longest
            }
            for path in due:
                del self._marked[path]
        return due

    def next_due(self, now: float) -> float | None:
        """Return the seconds until the next path is due, or None if there is none."""
        with self._lock:
            return min(
                (
                    max(0.0, min(m.last + self._quiet, m.first + self._longest) - now)
                    for m in self._marked.values()
                ),
                default=None,
            )
