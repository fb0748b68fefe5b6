"""The interface that decides which vanished notes are forgotten, and its simplest implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from pipelines.state.health import Vanished
from pipelines.state.state import HELD, Hold, State

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
class CheckedPaths:
    """The paths that were checked when notes were found missing; `whole`: these are all paths of the domain."""

    paths: AbstractSet[str]
    whole: bool = False


class Brake(Protocol):
    """Decides which vanished notes of a domain are forgotten."""

    def release(
        self, slug: str, vanished: Sequence[str], known: Callable[[], int], looked: CheckedPaths
    ) -> Release:
        """Decide on the vanished notes of a domain.

        `known` counts the notes of the domain; it is called only if many vanished.
        """


class _HoldEveryMass:
    """Forgets notes that vanish at once unless they are a mass; keeps no state."""

    def release(
        self, _slug: str, vanished: Sequence[str], known: Callable[[], int], _looked: CheckedPaths
    ) -> Release:
        """Hold a mass as a whole; let anything else go."""
        if is_mass_deletion(len(vanished), known):
            return Release(frozenset(), held=len(vanished))
        return Release(frozenset(vanished))


AT_ONCE: Brake = _HoldEveryMass()
"""A brake without state: vanished notes are forgotten at once, unless they are a mass."""


# The brake on deletions: vanished notes wait until no more vanish, and a mass of them until it is confirmed.


HOLD_SECONDS = 3600.0
WINDOW_SECONDS = 600.0
"""Deletions within this time count together."""

SETTLE_SECONDS = 5.0
"""Vanished notes are forgotten when no other note of the domain has vanished for this long."""

# Many vanished notes may be the start of an accident, and a slow disk pauses between them.
_SETTLE_MANY_SECONDS = 15.0
# Deletions that trickle without a pause must not keep the first notes for ever.
_LONGEST_SETTLE_SECONDS = 60.0
_EXAMPLES = 5


class DeletionBrake:
    """Decides which vanished notes may be forgotten; a `Brake` that stores them in `state.db`.

    Notes that vanished and notes forgotten within the last minutes count together. If they are a mass, all that
    still wait are held until they are confirmed, come back, or stay the same for an hour, however few are left. The
    hour begins again with each process, which has run for `running_s` seconds: while nothing runs, nothing reports
    the hold, and an unmounted disk cannot come back. `settle`: wait until no more vanish; a comparison requested by
    a person does not wait. `confirmed`: let all of them go.
    """

    def __init__(
        self,
        state: State,
        vanished: Vanished,
        *,
        running_s: float,
        settle: bool = True,
        confirmed: bool = False,
    ) -> None:
        self._state = state
        self._vanished = vanished
        self._running_s = running_s
        self._settle = settle
        self._confirmed = confirmed

    def release(
        self, slug: str, vanished: Sequence[str], known: Callable[[], int], looked: CheckedPaths
    ) -> Release:
        """Return which vanished notes may be forgotten now, and how many of the domain are held."""
        hold = self._state.get(HELD, slug)
        gone = frozenset(vanished)
        if not (gone or looked.whole or self._confirmed or self._vanished.any_of(slug, looked.paths)):
            # Every save comes through here, and the waiting notes may be most of a vault: do not read them in vain.
            return Release(frozenset(), held=self._vanished.count_waiting(slug) if hold else 0)
        before = self._vanished.waiting(slug)
        returned = self._vanished.forgotten_among(slug, looked.paths - gone)
        back = (before.keys() if looked.whole else before.keys() & looked.paths) - gone
        new = gone - before.keys()
        self._vanished.drop(slug, back | returned)
        self._vanished.add(slug, new)
        waiting = {path: age for path, age in before.items() if path not in back} | dict.fromkeys(new, 0.0)
        if self._confirmed:
            return self._let_go(slug, gone)
        if not waiting or (hold is None and not self._is_mass(slug, len(waiting), known)):
            if hold:
                self._state.delete(HELD, slug)
            going = gone & self._settled(waiting)
            self._vanished.forget(slug, going)
            return Release(going)
        if hold is None or back or new:
            self._state.put(HELD, Hold(len(waiting), tuple(sorted(waiting)[:_EXAMPLES])), slug)
        elif looked.whole and min(hold.age_s, self._running_s) >= HOLD_SECONDS:
            return self._let_go(slug, gone)
        return Release(frozenset(), held=len(waiting))

    def _let_go(self, slug: str, gone: AbstractSet[str]) -> Release:
        """Release notes that were decided on; they do not count among later vanished notes."""
        self._vanished.drop(slug, gone)
        self._state.delete(HELD, slug)
        return Release(gone)

    def _is_mass(self, slug: str, waiting: int, known: Callable[[], int]) -> bool:
        recent = self._vanished.forgotten(slug, WINDOW_SECONDS)
        return is_mass_deletion(waiting + recent, lambda: known() + recent)

    def _settled(self, waiting: Mapping[str, float]) -> AbstractSet[str]:
        """Return the waiting notes, given with their ages, that have waited long enough."""
        quiet = _SETTLE_MANY_SECONDS if len(waiting) >= MASS_AT_LEAST else SETTLE_SECONDS
        if not self._settle or min(waiting.values(), default=0.0) >= quiet:
            return waiting.keys()
        return {path for path, age in waiting.items() if age >= _LONGEST_SETTLE_SECONDS}

    def due(self, slug: str) -> AbstractSet[str]:
        """Return the notes of a domain to check again, which have waited long enough and are not held."""
        if self.is_holding(slug):
            return frozenset()
        return self._settled(self._vanished.waiting(slug))

    def is_holding(self, slug: str) -> bool:
        """Say whether deletions of a domain are held."""
        return self._state.get(HELD, slug) is not None
