"""Who decides which vanished notes are forgotten: the interface, and the simplest way to decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

# A fifth of the notes, and at least twenty: an unmounted folder, a sync gone wrong.
MASS_AT_LEAST = 20
_MASS_SHARE = 0.2


def is_mass_deletion(vanished: int, known: Callable[[], int]) -> bool:
    """Say whether so many notes of a domain vanished at once that it is more likely an accident.

    `known` counts every row: it is asked only where many vanished, for this is on the way of each save.
    """
    return vanished >= MASS_AT_LEAST and vanished > _MASS_SHARE * known()


@dataclass(frozen=True, slots=True)
class Release:
    """What a brake decided: the vanished notes to be forgotten now, and how many of the domain it holds."""

    going: AbstractSet[str]
    held: int = 0


@dataclass(frozen=True, slots=True)
class Looked:
    """Where vanished notes were found missing: the paths that were looked at, and whether these are all."""

    paths: AbstractSet[str]
    whole: bool = False


class Brake(Protocol):
    """Decides which vanished notes of a domain are forgotten."""

    def release(
        self, slug: str, vanished: Sequence[str], known: Callable[[], int], looked: Looked
    ) -> Release:
        """Decide on the notes of a domain that vanished.

        `known` counts the notes of the domain; it is asked only where many vanished.
        """


class _HoldEveryMass:
    """Forgets what vanished at once, unless it is a mass; remembers nothing."""

    def release(
        self, _slug: str, vanished: Sequence[str], known: Callable[[], int], _looked: Looked
    ) -> Release:
        """Hold all of a mass, and let anything else go."""
        if is_mass_deletion(len(vanished), known):
            return Release(frozenset(), held=len(vanished))
        return Release(frozenset(vanished))


AT_ONCE: Brake = _HoldEveryMass()
"""A brake without a memory: what vanished goes at once, unless it is a mass."""
