"""Split a text into sentences, also one whose lines an editor wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

HEADING = re.compile(r"#{1,6}\s")
"""The beginning of a line that is a heading."""

# A full stop that ends a sentence, unlike those of "e.g.", "z.B." and these abbreviations. It comes before the
# lookbehinds, which are slow, because most characters are none.
_FULL_STOP = (
    r"\.(?<!\b\w\.\w\.)(?<!\b(?:Dr|Mr|Ms|No|Nr|ca|cf|eg|ft|ie|pp|vs)\.)(?<!\b(?:Abs|Fig|Mrs|Vol|bzw|vgl)\.)"
)
# The number of a list item ends no sentence either.
_SENTENCE = re.compile(
    rf"(?=\S)(?:\d{{1,3}}[.)][ \t]+)?(?:.*?(?:(?:{_FULL_STOP}|[!?])(?=\s)|[\u3002\uff01\uff1f])|.+)"
)
_FENCE = re.compile(r"[ \t>]*(?:`{3}|~{3})")
_MARGIN = re.compile(r"[ \t]*(?:>[ \t]?)*")
_NO_PROSE = re.compile(r"[={}<>\\]|->|::|\w\(| \| |://|\A(?:\||\[!|#{1,6}\s)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s")
_GOES_ON = re.compile(r"[\w,)\]\"'\u2019\u201d\u00bb*_`\u2013\u2014-]")
_CONTINUES = re.compile(r"[(\[\"'\u2018\u201c\u00ab*_`]*\w")
_BREAK = "  \n"
_SHORTEST_WRAPPED = 40
# Before a line that begins with a capital, only lines of the usual widths count as wrapped.
_WIDTHS = range(50, 121)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text, `text[start:end]`, with its white space collapsed."""

    text: str
    start: int
    end: int


def split_sentences(text: str) -> list[Sentence]:
    """Split a text after `.`, `!` or `?` before a space and their CJK forms, and where a line ends.

    A line that an editor wrapped ends no sentence. Headings are left out because they say little on their own,
    unless there is nothing else.
    """
    found = [
        Sentence(" ".join(match[0].split()), match.start(), match.start() + len(match[0].rstrip()))
        for match in _SENTENCE.finditer(_unwrapped(text))
    ]
    return [s for s in found if not HEADING.match(s.text)] or found


def whole_sentences(text: str, at: int, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences of a part of a text, which begins `at` an offset, where they are in the text.

    The first one is given the beginning, and the last one the end, that the part cut off.
    """
    moved = [replace(one, start=one.start + at, end=one.end + at) for one in sentences]
    for piece in split_sentences(text) if moved else ():
        if piece.start < moved[0].start < piece.end:
            moved[0] = replace(moved[0], start=piece.start)
        if piece.start < moved[-1].end < piece.end:
            moved[-1] = replace(moved[-1], end=piece.end)
    return moved


def _unwrapped(text: str) -> str:
    """Return a text with a space in place of the end of each line that was wrapped: it keeps its length."""
    return "".join(_lines(text)) if "\n" in text else text


def _lines(text: str) -> Iterator[str]:
    is_code = False
    for line, following in pairwise([*text.splitlines(keepends=True), ""]):
        is_code ^= bool(_FENCE.match(line))
        yield line if is_code or not _is_wrapped(line, following) else f"{line[:-1]} "


def _is_wrapped(line: str, following: str) -> bool:
    """Say whether a sentence goes on in the next line: both are prose, and neither ends or begins anything."""
    if len(line) < _SHORTEST_WRAPPED or not line.endswith("\n") or line.endswith(_BREAK):
        return False
    margin, next_margin = _margin(line), _margin(following)
    words, next_words = line[len(margin) :].rstrip(), following[len(next_margin) :]
    if (
        not (_GOES_ON.match(words[-1:]) and _CONTINUES.match(next_words))
        or margin.count(">") != next_margin.count(">")
        or _ITEM.match(next_words)
        or any(map(_NO_PROSE.search, (words, next_words)))
    ):
        return False
    is_of_usual_width = len(line) in _WIDTHS and (words[-1].islower() or words[-1] == ",")
    return next_words[0].islower() or is_of_usual_width


def _margin(line: str) -> str:
    """Return what stands before a line's words: its indentation, and the signs of quotes."""
    found = _MARGIN.match(line)
    return found[0] if found else ""
