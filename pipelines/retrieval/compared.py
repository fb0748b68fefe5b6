"""What came of comparing a part of what is held in memory with the cache."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compared:
    """How many lists in memory were compared with the cache, and how many differed."""

    checked: int
    differing: int

    def __add__(self, other: Compared) -> Compared:
        """Return both together."""
        return Compared(self.checked + other.checked, self.differing + other.differing)
