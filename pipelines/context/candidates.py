"""A passage that may become part of a block, and whether it repeats another."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

# How much a passage is worth per token, and how many notes a block may draw on.


_BOILERPLATE = 0.5
_CODE = 2.0
_FEWEST_FILES, _MOST_FILES, _PASSAGES_PER_FILE = 3, 8, 3
_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)")


def density(score: float, tokens: int, *, boilerplate: float = 0.0, is_code: bool = False) -> float:
    """Return a passage's relevance over 1 + ln(1 + tokens) (the source document's cost model).

    `boilerplate` is the share (0 to 1) of its lines that repeat through its folder: all of them halve the relevance.
    Source code counts twice. The source's lowest share for Markdown, 0.85, is left out: it would punish every note.
    """
    relevance = score * (1 - _BOILERPLATE * boilerplate) * (_CODE if is_code else 1.0)
    return relevance / (1 + math.log(1 + max(1, tokens)))


def most_files(passages: int) -> int:
    """Return how many notes a block may draw on: a third of its candidates, at least 3 and at most 8."""
    return min(max(_FEWEST_FILES, passages // _PASSAGES_PER_FILE), _MOST_FILES)


def is_fenced_code(text: str) -> bool:
    """Say whether more than half of a text's lines are in fenced code blocks."""
    inside, code, others = False, 0, 0
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif line.strip():
            code, others = code + inside, others + (not inside)
    return code > others


_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")
_SHINGLE = 4
_ALIKE = 0.8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage, `text[start:end]` of its note, on the lines `first` to `last` (from 1).

    `place` says where it is in a document that is not Markdown; empty: its lines do.
    `relevance` is its score for the question, `why` says in words why it is here. `is_whole`: it is a whole section,
    of which `parts` are the passages, best first; they stand for a section that is too long. `compressed`: its text
    leaves parts of the original out and marks them. `boilerplate`: see `density`. `is_source`: of a source file.
    """

    domain: str
    path: str
    title: str
    section: str
    date: str
    text: str
    start: int
    end: int
    first: int
    last: int
    relevance: float
    why: str
    slot: str | None = None
    is_whole: bool = False
    parts: tuple[Candidate, ...] = ()
    compressed: bool = False
    boilerplate: float = 0.0
    place: str = ""
    is_source: bool = False

    @property
    def note(self) -> tuple[str, str]:
        """The domain and path of its note."""
        return self.domain, self.path

    @property
    def is_code(self) -> bool:
        """Whether it is of a source file, or more than half of it is in fenced code blocks."""
        return self.is_source or is_fenced_code(self.text)

    def overlaps(self, other: Candidate) -> bool:
        """Say whether both have characters of the same note in common."""
        return self.note == other.note and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class _Shingles:
    words: frozenset[tuple[str, ...]]
    numbers: frozenset[str]


class Duplicates:
    """Tells whether a passage repeats one that was added before.

    A passage repeats another if they have the same numbers, and four fifths of the shorter one's runs of four words
    are in the other (the containment of Broder, "On the resemblance and containment of documents", 1997). Reports of
    two quarters differ in their numbers.
    """

    def __init__(self) -> None:
        self._added: list[_Shingles] = []
        self._of = cache(_shingles)  # a passage is looked at in several turns

    def add(self, text: str) -> None:
        """Remember a passage."""
        self._added.append(self._of(text))

    def has(self, text: str) -> bool:
        """Say whether a passage repeats one that was added."""
        new = self._of(text)
        return any(_is_alike(new, other) for other in self._added)


def _shingles(text: str) -> _Shingles:
    words = _WORD.findall(text.casefold())
    runs = (tuple(words[at : at + _SHINGLE]) for at in range(max(1, len(words) - _SHINGLE + 1)))
    return _Shingles(frozenset(runs), frozenset(_NUMBER.findall(text)))


def _is_alike(one: _Shingles, other: _Shingles) -> bool:
    shorter = min(len(one.words), len(other.words))
    return one.numbers == other.numbers and len(one.words & other.words) >= _ALIKE * shorter


def joined(parts: Sequence[Candidate]) -> list[Candidate]:
    """Join passages of one section that overlap or touch; each keeps the better relevance. Compressed ones stay."""
    found: list[Candidate] = []
    for part in sorted(parts, key=lambda one: (one.domain, one.path, one.start)):
        before = found[-1] if found else None
        if before and _continues(before, part):
            found[-1] = _join(before, part)
        else:
            found.append(part)
    return found


def _continues(before: Candidate, part: Candidate) -> bool:
    same = before.note == part.note and before.section == part.section and before.slot == part.slot
    return same and part.start <= before.end and not (before.compressed or part.compressed)


def _join(before: Candidate, part: Candidate) -> Candidate:
    if part.end <= before.end:
        return replace(before, relevance=max(before.relevance, part.relevance))
    return replace(
        before,
        text=before.text + part.text[before.end - part.start :],
        end=part.end,
        last=part.last,
        relevance=max(before.relevance, part.relevance),
    )


def whole_section(parts: Iterable[Candidate]) -> Candidate:
    """Return a section as one passage, from all its passages, which overlap or have white space between them."""
    in_order = sorted(parts, key=lambda one: one.start)
    whole = in_order[0]
    for part in in_order[1:]:
        gap = "\n\n" if part.start > whole.end else ""
        whole = _join(replace(whole, text=whole.text + gap, end=max(whole.end, part.start)), part)
    best_first = sorted(in_order, key=lambda one: -one.relevance)
    return replace(whole, is_whole=True, parts=tuple(best_first) if len(in_order) > 1 else ())
