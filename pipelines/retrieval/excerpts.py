"""Layer 4: the two sentences of a chunk that answer best, with the words that were asked for marked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.chunk import CJK

_SENTENCE = re.compile(r"(?=\S)(?:.*?(?:[.!?](?=\s)|[\u3002\uff01\uff1f])|.+)")
_HEADING = re.compile(r"#{1,6}\s")
_CJK = re.compile(f"[{CJK}]")
_SENTENCES = 2
_LONGEST = 320


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text, `text[start:end]`, its white space folded."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is shown of a chunk, the ranges in it that match the question, and where its sentences stand there."""

    text: str
    marks: tuple[tuple[int, int], ...]
    sentences: tuple[tuple[int, int], ...]


def split_sentences(text: str) -> list[Sentence]:
    """Split a text at ends of lines, and after `.`, `!` or `?` before a space and their CJK forms.

    A heading's line alone says little: headings are among them only if nothing else is there.
    """
    found = [
        Sentence(" ".join(match[0].split()), match.start(), match.start() + len(match[0].rstrip()))
        for match in _SENTENCE.finditer(text)
    ]
    return [s for s in found if not _HEADING.match(s.text)] or found


def excerpt(
    sentences: Sequence[Sentence], terms: Sequence[str], similarities: Sequence[float] | None = None
) -> Excerpt:
    """Choose two sentences, in the text's order, and mark the terms in them.

    Those most similar to the question are chosen (the source document's "Excerpt extraction"); where the
    similarities are not known, those with the most of the terms, and the first ones where no term occurs.
    """
    shown = [
        Sentence(unicodedata.normalize("NFC", s.text), s.start, s.end) for s in sentences
    ]  # as the terms are
    pattern = _pattern(terms)
    worth = similarities if similarities is not None else [_terms_in(s.text, pattern) for s in shown]
    best = sorted(sorted(range(len(shown)), key=lambda i: (-worth[i], i))[:_SENTENCES])
    text = " … ".join(_around(shown[i].text, pattern) for i in best)
    marks = tuple(m.span() for m in pattern.finditer(text)) if pattern else ()
    return Excerpt(text, marks, tuple((shown[i].start, shown[i].end) for i in best))


def _terms_in(sentence: str, pattern: re.Pattern[str] | None) -> int:
    return len({match.lastindex for match in pattern.finditer(sentence)}) if pattern else 0


def _pattern(terms: Sequence[str]) -> re.Pattern[str] | None:
    """Match any of the terms, a group each: a Latin word whole or with an English ending, others as they stand."""
    longest_first = sorted(filter(None, terms), key=len, reverse=True)
    words = [term for term in longest_first if term.isalnum() and not _CJK.search(term)]
    parts = [f"({re.escape(term)})" for term in longest_first if term not in words]
    if words:
        # Where no word begins, none of them is tried.
        any_word = "|".join(f"({re.escape(word)})" for word in words)
        parts.append(rf"(?<!\w)(?:{any_word})(?:s|es|ed|ing)?(?!\w)")
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
