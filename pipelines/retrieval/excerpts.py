"""The part of a chunk that shows why it was found, with the words that were asked for marked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.chunk import CJK

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_HEADING = re.compile(r"#{1,6}\s")
_CJK = re.compile(f"[{CJK}]")
_SENTENCES = 2
_LONGEST = 320


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of text and the ranges `(start, end)` in it that match the question."""

    text: str
    marks: tuple[tuple[int, int], ...]


def excerpt(text: str, terms: Sequence[str]) -> Excerpt:
    """Choose the two sentences of a chunk with the most of the terms, in the text's order, and mark them.

    Where no term occurs (the chunk was found by meaning), its first sentences are shown.
    """
    text = unicodedata.normalize("NFC", text)  # as the terms are
    sentences = [s for s in (" ".join(part.split()) for part in _SENTENCE_END.split(text)) if s]
    # A heading's line alone says little; it counts only if nothing else is there.
    body = [s for s in sentences if not _HEADING.match(s)] or sentences
    pattern = _pattern(terms)
    found = [{m.lastindex for m in pattern.finditer(s)} if pattern else set() for s in body]
    best = sorted(range(len(body)), key=lambda i: (-len(found[i]), i))[:_SENTENCES]
    shown = " … ".join(_around(body[i], pattern) for i in sorted(best))
    marks = tuple(m.span() for m in pattern.finditer(shown)) if pattern else ()
    return Excerpt(shown, marks)


def _pattern(terms: Sequence[str]) -> re.Pattern[str] | None:
    """Match any of the terms: a Latin word whole, or with an English ending; anything else as it stands."""
    parts = [
        rf"((?<!\w){re.escape(term)}(?:s|es|ed|ing)?(?!\w))"
        if term.isalnum() and not _CJK.search(term)
        else f"({re.escape(term)})"
        for term in sorted(terms, key=len, reverse=True)
        if term
    ]
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def _around(sentence: str, pattern: re.Pattern[str] | None) -> str:
    """Cut a very long sentence down to what stands around its first match."""
    if len(sentence) <= _LONGEST:
        return sentence
    match = pattern.search(sentence) if pattern else None
    start = max(0, min((match.start() if match else 0) - _LONGEST // 3, len(sentence) - _LONGEST))
    end = start + _LONGEST
    # Whole words where there are spaces to cut at.
    if start and " " in sentence[start : start + _LONGEST // 4]:
        start = sentence.index(" ", start) + 1
    if end < len(sentence) and " " in sentence[end - _LONGEST // 4 : end]:
        end = sentence.rindex(" ", 0, end)
    return ("…" if start else "") + sentence[start:end].strip() + ("…" if end < len(sentence) else "")
