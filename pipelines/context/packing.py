"""Fill a budget of tokens with passages, the densest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipelines.context.candidates import Candidate, Duplicates, joined
from pipelines.context.density import density, is_source_code, most_files
from pipelines.context.tokens import Tokens

MOST_PER_NOTE = 2
_LARGEST_SHARE = 0.25  # of a budget, for a whole section
_SHORTEST = 40  # tokens that are worth a heading of their own

Reason = Literal["budget", "notes", "passages", "alike"]
"""Why a passage was left out: the budget, too many notes, too many passages of its note, or it repeats another."""

Render = Callable[[Candidate], str]
"""Return a passage as the block shows it."""

Shrink = Callable[[Candidate, int], Candidate | None]
"""Return a passage compressed towards a number of tokens, or None if nothing can be left out."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A passage that was left out, its size in tokens, and why."""

    candidate: Candidate
    tokens: int
    reason: Reason


@dataclass(slots=True)
class Packing:
    """The passages that were chosen, those that were left out, and how many tokens of the budget are still free."""

    room: int
    chosen: list[Candidate] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


class Packer:
    """Packs passages into one budget, in one or more rounds; a later round gets what an earlier one left."""

    def __init__(self, budget: int, tokens: Tokens, render: Render) -> None:
        self.packing = Packing(budget)
        self._budget, self._tokens, self._render = budget, tokens, render
        self._duplicates = Duplicates()
        self._kept_free = 0

    def add(
        self,
        candidates: Sequence[Candidate],
        shrink: Shrink,
        *,
        found: int = 0,
        per_note: int = MOST_PER_NOTE,
        share: float = 1.0,
    ) -> None:
        """Add the densest candidates that fit into a share of what is left of the budget.

        A section stays whole if it takes at most a quarter of the budget; of a longer one come the best parts.
        Only the best notes are drawn on: see `most_files`, of the candidates or of the notes that a search `found`.
        What does not fit is compressed; what still does not fit is left out.
        """
        parts = sum(max(1, len(one.parts)) for one in candidates)
        allowed = _best_notes(candidates, most_files(max(parts, found)))
        self._kept_free = self.packing.room - int(self.packing.room * share)
        for unit, size in self._units(candidates):
            reason = "notes" if unit.note not in allowed else self._refused(unit, per_note)
            if reason is None and not self._take(unit, size, shrink):
                reason = "budget"
            if reason:
                self.packing.left_out.append(LeftOut(unit, size, reason))

    def _units(self, candidates: Sequence[Candidate]) -> list[tuple[Candidate, int]]:
        """Return what is packed as one piece, densest first, with the tokens of its text."""
        sizes = self._tokens.of([one.text for one in candidates])
        units: list[Candidate] = []
        for one, size in zip(candidates, sizes, strict=True):
            is_long = one.parts and size > _LARGEST_SHARE * self._budget
            units += one.parts if is_long else [one]
        measured = zip(units, self._tokens.of([one.text for one in units]), strict=True)
        return sorted(measured, key=lambda pair: -_density(*pair))

    def _refused(self, unit: Candidate, per_note: int) -> Reason | None:
        chosen = self.packing.chosen
        if Counter(one.note for one in chosen)[unit.note] >= per_note:
            return "passages"
        is_near = any(unit.overlaps(one) for one in chosen)  # parts of one section share words at their ends
        return "alike" if not is_near and self._duplicates.has(unit.text) else None

    def _take(self, unit: Candidate, size: int, shrink: Shrink) -> bool:
        """Add a passage, whose text has `size` tokens, if it fits, whole or compressed; say whether it did."""
        room = self.packing.room - self._kept_free
        if room < _SHORTEST:
            return False
        (cost,) = self._tokens.of([self._render(unit)])
        chosen: Candidate | None = unit
        if cost > room:
            chosen = shrink(unit, room - (cost - size))
            cost = self._tokens.of([self._render(chosen)])[0] if chosen else cost
        if chosen is None or cost > room:
            return False
        self.packing.chosen.append(chosen)
        self.packing.room -= cost
        self._duplicates.add(unit.text)
        return True

    def finished(self) -> Packing:
        """Return the packing, with passages that overlap joined, in the order of a block: best note first."""
        best: dict[tuple[str | None, tuple[str, str]], float] = {}
        for one in self.packing.chosen:
            best[one.slot, one.note] = max(best.get((one.slot, one.note), 0.0), one.relevance)
        slots = list(dict.fromkeys(one.slot for one in self.packing.chosen))
        self.packing.chosen = sorted(
            joined(self.packing.chosen),
            key=lambda one: (slots.index(one.slot), -best[one.slot, one.note], one.path, one.start),
        )
        return self.packing


def _density(unit: Candidate, tokens: int) -> float:
    return density(unit.relevance, tokens, boilerplate=unit.boilerplate, is_code=is_source_code(unit.text))


def _best_notes(candidates: Sequence[Candidate], most: int) -> set[tuple[str, str]]:
    """Return the notes with the best passages.

    The source document's file filter takes the largest sums; here these would be those of the longest notes.
    """
    best: dict[tuple[str, str], float] = {}
    for one in candidates:
        best[one.note] = max(best.get(one.note, 0.0), one.relevance)
    return set(sorted(best, key=lambda note: -best[note])[:most])
