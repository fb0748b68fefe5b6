"""Find quotations and links in a paragraph, so that nothing is left out from the middle of one."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Each opening mark with the marks that close it: „German“, “English”, ”Swedish”, «French», »Finnish», 「Japanese」.
_CLOSED_BY = {
    '"': '"',
    "\u201c": '\u201d"',
    "\u201e": "\u201c\u201d",
    "\u201d": "\u201d",
    "\u00ab": "\u00bb",
    "\u00bb": "\u00ab\u00bb",
    "\u2039": "\u203a",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
    "\u2018": "\u2019",
    "\u201a": "\u2018\u2019",
}
_SINGLE = "\u2018\u201a"
"""Marks that are also apostrophes: without a closing mark they open nothing."""

_AFTER_WORDS = '"\u201d\u00bb'
"""Marks that open a quotation only where no word ends: elsewhere they close one, or mean inches."""

_LINK = re.compile(r"\[\[[^\[\]]*\]\]|\[[^\[\]]*\][(\[][^()\[\]]*[)\]]")


def unbroken(text: str) -> list[tuple[int, int]]:
    """Return the ranges of a paragraph that are quotations or links, by their start.

    A quotation that is not closed goes on to the end.
    """
    return sorted([*_quotations(text), *(match.span() for match in _LINK.finditer(text))])


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    at, unclosed = 0, ""
    while at < len(text):
        mark = text[at]
        is_opening = mark in _CLOSED_BY and not (mark in _AFTER_WORDS and at and text[at - 1].isalnum())
        if not is_opening or mark in unclosed:
            at += 1
            continue
        end = _end(text, at + 1, _CLOSED_BY[mark])
        if end is None and mark in _SINGLE:
            unclosed += mark  # no later one is closed, either, so the text is searched once
            at += 1
            continue
        yield at, end or len(text)
        at = end or len(text)


def _end(text: str, at: int, closing: str) -> int | None:
    """Return where a quotation ends that is open at `at`; an apostrophe within a word closes nothing."""
    for place in range(at, len(text)):
        if text[place] in closing and not (text[place] == "\u2019" and text[place + 1 : place + 2].isalnum()):
            return place + 1
    return None
