"""Find the notes that a question's quotes and minus signs leave: required phrases present, unwanted ones absent.

They apply to the whole note: its text, its title and its aliases. The full-text index finds the passages that
may contain a phrase, and their texts decide.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from pipelines.cache.vectors import Vector
from pipelines.filters import Filters
from pipelines.notes.chunk import CJK
from pipelines.notes.lexical import SYMBOL, fold_letters, index_tokens, whole_words
from pipelines.question import Question, Signs
from pipelines.search.thresholds import lowest_cosine
from pipelines.store import Cache

# How many index words the parts of an identifier may put between two words.
_BETWEEN = 16
# Passages of a section overlap by more words than a piece has, so one of them contains the whole piece.
_PIECE, _PIECE_STEP = 6, 3
_END = "\0"  # what no phrase goes across
_LETTER = rf"[^\W_{CJK}]"
_WORD = re.compile(_LETTER)
_HEADING = re.compile(r"^[ \t>]*#{1,6}[ \t].*$", re.MULTILINE)
_BLOCK_END = re.compile(
    r"\n[ \t>]*\n|\n(?=[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]|(?:=+|-+)[ \t]*$))", re.MULTILINE
)
# A full stop after a short word may be that of an abbreviation.
_SENTENCE_END = re.compile(
    r"(?<=[^\W\d_]{4})(?<!\b(?:Prof|Capt|Dept|Sept|Univ|Corp))[)\]\"'\u2019\u201d*_]*[.!?](?=\W*\s(?![a-z]))|[\u3002\uff01\uff1f]"
)


def restricted(cache: Cache, question: Question, only: Sequence[int] | None) -> Sequence[int] | None:
    """Return the ids of the chunks (of `only` these) whose notes satisfy a question's signs; None means all.

    Raises CacheError.
    """
    signs = question.signs
    if not signs:
        return only
    if not signs.asks:
        return []
    having = [notes_with_any(cache, phrases) for phrases in signs.required]
    among = set.intersection(*having) if having else None
    return cache.search.chunks_of_notes(among, notes_left_out(cache, signs), only)


def notes_with_any(cache: Cache, phrases: Iterable[str]) -> set[str]:
    """Return the paths of the notes that have one of several phrases. Raises CacheError."""
    return set[str]().union(*(notes_with_phrase(cache, phrase) for phrase in phrases))


def notes_with_phrase(cache: Cache, phrase: str) -> set[str]:
    """Return the paths of the notes that have exactly these words in this order.

    Case, diacritics and the characters between the words do not matter, except where these end a block of Markdown,
    or a sentence (unless the phrase has such an end, too). Raises CacheError.
    """
    ends = [_BLOCK_END] if re.search(r"[.!?]\s|[\u3002\uff01\uff1f]", phrase) else [_BLOCK_END, _SENTENCE_END]
    pieces = [_notes_with(cache, piece, ends) for piece in _pieces(whole_words(phrase))]
    return set.intersection(*pieces)


def why_not(cache: Cache, question: Question, path: str) -> str | None:
    """Say why a question's signs exclude a note; None if they do not. Raises CacheError."""
    signs = question.signs
    lacking = [phrases for phrases in signs.required if path not in notes_with_any(cache, phrases)]
    if lacking:
        return f"it lacks the phrase {quoted_each(lacking)}, which the question has in quotes"
    if path in notes_left_out(cache, signs):
        return "it has what the question leaves out with a minus sign"
    return None


def notes_left_out(cache: Cache, signs: Signs) -> set[str]:
    """Return the paths of the notes that have what a question leaves out. Raises CacheError."""
    having = [cache.search.notes_matching(word) for word in signs.unwanted_words]
    return set().union(*having, *(notes_with_phrase(cache, phrase) for phrase in signs.unwanted_phrases))


def quoted(texts: Iterable[str], joined: str) -> str:
    """Return texts in quotes, with a word between them."""
    return f" {joined} ".join(f'"{text}"' for text in texts)


def quoted_each(required: Iterable[Iterable[str]]) -> str:
    """Return phrases that are all required, each as its alternatives, in quotes."""
    return " and ".join(quoted(phrases, "or") for phrases in required)


def _pieces(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a phrase in overlapping pieces, because a long phrase may cross two passages."""
    for start in range(0, max(1, len(words) - _PIECE + _PIECE_STEP), _PIECE_STEP):
        yield words[start : start + _PIECE]


def _notes_with(cache: Cache, words: Sequence[str], ends: Sequence[re.Pattern[str]]) -> set[str]:
    tokens = [index_tokens(word)[0] for word in words]
    has_it = re.compile(_pattern([fold_letters(word) for word in words]))

    def has_phrase(text: str) -> bool:
        parts = _HEADING.sub("\n\n\\g<0>\n\n", text) if len(words) > 1 else text
        for end in ends if len(words) > 1 else ():
            parts = end.sub(_END, parts)
        return has_it.search(fold_letters(parts)) is not None

    return cache.search.notes_having(tokens, _BETWEEN * len(words), has_phrase)


def _pattern(words: Sequence[str]) -> str:
    """Return the regular expression for consecutive words, separated by anything except words, symbols and ends."""
    pattern = rf"(?<!{_LETTER})" if _WORD.match(words[0]) else ""
    pattern += re.escape(words[0])
    for before, word in pairwise(words):
        apart = "+" if _WORD.match(before) and _WORD.match(word) else "*"
        pattern += rf"(?:(?!{SYMBOL}|{_END})[\W_]){apart}{re.escape(word)}"
    return pattern + (rf"(?!{_LETTER})" if _WORD.match(words[-1]) else "")


# Which passages pass a question's filters: those of the store, and the nearness to the question.


_ROUNDING = 0.000_05  # answers show four digits of a similarity, and what shows one has to pass it


def passing_chunks(
    cache: Cache, filters: Filters, hidden: Collection[str], vector: Vector | None
) -> list[int] | None:
    """Return the ids of the chunks that pass, or None if all do. Raises CacheError.

    `vector` is the question's. Where it is not known yet, no passage is known to be as near as `min_similarity`.
    """
    only = cache.filters.matching_chunks(filters, hidden)
    if filters.min_similarity is None:
        return only
    if vector is None:
        return []
    lowest = lowest_cosine(cache.meta.model, filters.min_similarity)
    return cache.search.chunks_as_near(vector, lowest - _ROUNDING, only)


def notes_that_fail(
    cache: Cache, filters: Filters, hidden: Collection[str], vector: Vector | None
) -> Collection[str]:
    """Return the paths of the notes that do not pass, and the hidden ones. Raises CacheError."""
    only = passing_chunks(cache, filters, hidden, vector)
    return hidden if only is None else {*hidden, *(cache.search.notes_of(None) - cache.search.notes_of(only))}
