"""How much a passage is worth per token, and how many notes a block may draw on."""

from __future__ import annotations

import math
import re

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
