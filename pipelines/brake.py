"""The interface that decides which vanished notes are forgotten, and its simplest implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

# A fifth of the notes, and at least twenty: an unmounted folder or a faulty sync.
MASS_AT_LEAST = 20
_MASS_SHARE = 0.2


def is_mass_deletion(vanished: int, known: Callable[[], int]) -> bool:
    """Say whether the notes of a domain that vanished at once are so numerous that it is probably an accident.

    `known` counts every row, so it is called only if many notes vanished: every save comes through here.
    """
    return vanished >= MASS_AT_LEAST and vanished > _MASS_SHARE * known()


@dataclass(frozen=True, slots=True)
class Release:
    """A brake's decision: the vanished notes to forget now, and how many of the domain it holds."""

    going: AbstractSet[str]
    held: int = 0


@dataclass(frozen=True, slots=True)
class Looked:
    """The paths that were checked when notes were found missing; `whole`: these are all paths of the domain."""

    paths: AbstractSet[str]
    whole: bool = False


class Brake(Protocol):
    """Decides which vanished notes of a domain are forgotten."""

    def release(
        self, slug: str, vanished: Sequence[str], known: Callable[[], int], looked: Looked
    ) -> Release:
        """Decide on the vanished notes of a domain.

        `known` counts the notes of the domain; it is called only if many vanished.
        """


class _HoldEveryMass:
    """Forgets notes that vanish at once unless they are a mass; keeps no state."""

    def release(
        self, _slug: str, vanished: Sequence[str], known: Callable[[], int], _looked: Looked
    ) -> Release:
        """Hold a mass as a whole; let anything else go."""
        if is_mass_deletion(len(vanished), known):
            return Release(frozenset(), held=len(vanished))
        return Release(frozenset(vanished))


AT_ONCE: Brake = _HoldEveryMass()
"""A brake without state: vanished notes are forgotten at once, unless they are a mass."""
