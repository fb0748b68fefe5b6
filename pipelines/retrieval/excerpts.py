"""Layer 4: pick the two sentences of a chunk that answer best, and mark the words of the question in them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from pipelines.chunk import CJK
from pipelines.documents.formats import format_of
from pipelines.parsing.normal_forms import fold_letters
from pipelines.retrieval.plain_text import PlainText, plain_text
from pipelines.retrieval.splitting import HEADING, Sentence

_CJK = re.compile(f"[{CJK}]")
_SENTENCES = 2
_LONGEST = 320
# What is folded together: plain characters, or a letter with its accents or a half-width one with its voice mark.
_MARK = r"[\u0300-\u036f\u3099\u309a\uff9e\uff9f]"
_FOLDED_TOGETHER = re.compile(rf"[\0-\x7f]+(?!{_MARK})|.{_MARK}*", re.DOTALL)
_READ, _OPENING_LINES, _LONGEST_LINE = 1_000, 4, 300


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A chunk's excerpt as plain text, the ranges in it that match, and the ranges of its sentences in the chunk."""

    text: str
    marks: tuple[tuple[int, int], ...]
    sentences: tuple[tuple[int, int], ...]


def opening(text: str) -> list[str]:
    """Return the first lines of a Markdown text as a reader sees them, without headings and empty lines."""
    beginning = text[:_READ]
    reading, lines, start = plain_text(beginning), list[str](), 0
    for line in beginning.splitlines(keepends=True):
        shown = reading.between(start, start + len(line))
        start += len(line)
        if shown and not HEADING.match(line):
            lines.append(shown[:_LONGEST_LINE])
        if len(lines) == _OPENING_LINES:
            break
    return lines


def read_passage(path: str, text: str) -> PlainText:
    """Read a passage of a file: as Markdown if its format writes it, otherwise as it is written."""
    form = format_of(path)
    return plain_text(text) if form is None or form.markdown else PlainText(text, text)


def excerpt(
    text: PlainText,
    sentences: Sequence[Sentence],
    terms: Sequence[str],
    similarities: Sequence[float] | None = None,
) -> Excerpt:
    """Choose two sentences of a text, in its order; return them as shown, with the terms marked.

    Chooses those most similar to the question (the source document's "Excerpt extraction"); if no term occurs in
    them, the second gives way to the sentence with most of the terms. If the similarities are unknown, chooses those
    with most of the terms, or the first ones if no term occurs. A sentence that consists only of links, addresses or
    tags is chosen only if there is no other.
    """
    pattern = _pattern(tuple(terms))
    shown = [_composed(text.between(s.start, s.end)) for s in sentences]
    worth = similarities if similarities is not None else [_terms_in(one, pattern) for one in shown]
    ranked = sorted(range(len(shown)), key=lambda i: (-worth[i], i))
    telling = [i for i in ranked if text.says(sentences[i].start, sentences[i].end)]
    ranked = telling or [i for i in ranked if shown[i]] or ranked
    best = ranked[:_SENTENCES]
    if similarities is not None and not any(_terms_in(shown[i], pattern) for i in best):
        most = max(ranked, key=lambda i: _terms_in(shown[i], pattern), default=None)
        if most is not None and _terms_in(shown[most], pattern):
            best[-1] = most
    best.sort()
    cut = " … ".join(_around(shown[i], pattern) for i in best if shown[i])
    marks = tuple(_marks(cut, pattern)) if pattern else ()
    return Excerpt(cut, marks, tuple((sentences[i].start, sentences[i].end) for i in best))


def _composed(text: str) -> str:
    """Return a text in composed Unicode (NFC), in which it is shown."""
    return unicodedata.normalize("NFC", text)


def _terms_in(sentence: str, pattern: re.Pattern[str] | None) -> int:
    return len({match.lastindex for match in pattern.finditer(fold_letters(sentence))}) if pattern else 0


def _marks(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a text whose folded letters match, in order; overlapping ones are one."""
    folded = ""
    spans: list[
        tuple[int, int]
    ] = []  # of each folded letter: where the one begins and ends from which it comes
    for part in _FOLDED_TOGETHER.finditer(text):
        letters, (first, last) = fold_letters(part[0]), part.span()
        folded += letters
        spans += pairwise(range(first, last + 1)) if part[0].isascii() else [(first, last)] * len(letters)
    start = end = 0
    for match in pattern.finditer(folded):
        first, last = match.span() if match[0] else match.span(match.lastindex or 0)
        begins, ends = spans[first][0], spans[last - 1][1]
        if begins >= end:
            if end:
                yield start, end
            start = begins
        end = max(end, ends)
    if end:
        yield start, end


@lru_cache(maxsize=16)  # every hit of an answer has the same terms
def _pattern(terms: tuple[str, ...]) -> re.Pattern[str] | None:
    """Match any term in a folded text, one group each: words whole or with an English ending, CJK anywhere."""
    longest_first = sorted(filter(None, map(fold_letters, terms)), key=len, reverse=True)
    words = [term for term in longest_first if term.isalnum() and not _CJK.search(term)]
    # Pairs of CJK characters overlap: each is found where it begins, and takes no characters from the next.
    parts = [f"(?=({re.escape(term)}))" for term in longest_first if term not in words]
    if words:
        # No word is tried where none can begin.
        any_word = "|".join(f"({re.escape(word)})" for word in words)
        parts.append(rf"(?<!\w)(?:{any_word})(?:s|es|ed|ing)?(?!\w)")
    return re.compile("|".join(parts)) if parts else None


def _around(sentence: str, pattern: re.Pattern[str] | None) -> str:
    """Cut a very long sentence down to the part around its first match."""
    if len(sentence) <= _LONGEST:
        return sentence
    first, _ = next(_marks(sentence, pattern), (0, 0)) if pattern else (0, 0)
    start = max(0, min(first - _LONGEST // 3, len(sentence) - _LONGEST))
    end = start + _LONGEST
    # Cut between words if there are spaces.
    if start and " " in sentence[start : start + _LONGEST // 4]:
        start = sentence.index(" ", start) + 1
    if end < len(sentence) and " " in sentence[end - _LONGEST // 4 : end]:
        end = sentence.rindex(" ", 0, end)
    return ("…" if start else "") + sentence[start:end].strip() + ("…" if end < len(sentence) else "")
