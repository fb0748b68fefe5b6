"""Layer 4: the two sentences of a chunk that answer best, with the words that were asked for marked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.chunk import CJK
from pipelines.retrieval.plain_text import plain_text

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
    """What is shown of a chunk, as plain text; the ranges of it that match; where its sentences are in the chunk."""

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
    text: str,
    sentences: Sequence[Sentence],
    terms: Sequence[str],
    similarities: Sequence[float] | None = None,
) -> Excerpt:
    """Choose two sentences of a text, in its order, show them without Markdown, and mark the terms in them.

    Those most similar to the question are chosen (the source document's "Excerpt extraction"); where the
    similarities are not known, those with the most of the terms, and the first ones where no term occurs. A sentence
    of links, addresses or tags alone is chosen only where there is no other.
    """
    pattern = _pattern(terms)
    plain = plain_text(text)
    shown = [_composed(plain.between(s.start, s.end)) for s in sentences]
    worth = similarities if similarities is not None else [_terms_in(one, pattern) for one in shown]
    ranked = sorted(range(len(shown)), key=lambda i: (-worth[i], i))
    telling = [i for i in ranked if plain.says(sentences[i].start, sentences[i].end)]
    best = sorted((telling or [i for i in ranked if shown[i]] or ranked)[:_SENTENCES])
    cut = " … ".join(_around(shown[i], pattern) for i in best if shown[i])
    marks = tuple(m.span() for m in pattern.finditer(cut)) if pattern else ()
    return Excerpt(cut, marks, tuple((sentences[i].start, sentences[i].end) for i in best))


def _composed(text: str) -> str:
    """Return a text as the terms are: composed, in one piece."""
    return unicodedata.normalize("NFC", text)


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
