"""Find the lines that repeat through a folder's notes, such as those of a template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

_SHARE = 0.2
_FEWEST_NOTES = 5


def repeated_lines(notes: Sequence[str]) -> frozenset[str]:
    """Return the lines, without white space at their ends, that are in more than a fifth of the notes' texts.

    Fewer than five notes say nothing about a template.
    """
    if len(notes) < _FEWEST_NOTES:
        return frozenset()
    counts = Counter(line for note in notes for line in {one.strip() for one in note.splitlines()} if line)
    return frozenset(line for line, count in counts.items() if count > _SHARE * len(notes))


def boilerplate_share(text: str, repeated: Collection[str]) -> float:
    """Return the share of a text's lines, without empty ones, that are repeated lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return sum(line in repeated for line in lines) / len(lines) if lines else 0.0
