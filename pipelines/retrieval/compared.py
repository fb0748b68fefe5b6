"""The result of comparing part of the in-memory data with the cache."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compared:
    """How many in-memory lists were compared with the cache, and how many differed."""

    checked: int
    differing: int

    def __add__(self, other: Compared) -> Compared:
        """Return the sum of both."""
        return Compared(self.checked + other.checked, self.differing + other.differing)
