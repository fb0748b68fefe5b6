"""Correct the misspelt words of a question by those of the notes, and the values of its filters by those in use."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, takewhile

from rapidfuzz.distance import OSA

from pipelines.filters import Filters, fold
from pipelines.notes.lexical import LexicalQuery, fold_letters, index_tokens, telling_words
from pipelines.question import MOST_TERMS, Question
from pipelines.search.rank import Source
from pipelines.store import Cache

CountTokens = Callable[[Sequence[str]], Sequence[int]]
# A word of a question that may be misspelt: letters alone, without a sign that means something.
_TYPED = re.compile(r"(?<!\S)[\"'(\u201c\u201e]*([^\W\d_]{4,30})[\"'),.;:!?\u201d\u201c]*(?!\S)")
_WORD = re.compile(r"[^\W\d_]{3,}")
_LONG = 12  # letters of a word that may have two mistakes; a shorter one may have one
_MAY_LACK_A_LETTER = 5  # letters; most words of four differ from another in one
_FEW_UNKNOWN, _MOST_UNKNOWN = 2, 4  # each is compared with every stem of its first letter
_SHORTEST_STEM = 3
_LONGEST_ENDING = 7
_MOST_STEMS = 12
_MOST_TEXTS = 5


def corrected(sources: Sequence[Source], question: Question, count_tokens: CountTokens) -> str | None:
    """Return a question with the words that were probably meant for those that no note has; None if there are none.

    A word is replaced by one that begins with the same letter and differs by one letter (inserted, left out, wrong or
    swapped with the next), or by two if it has twelve letters; of four letters, two may be swapped. A word that is
    one token to the model is spelled well, and the notes are about something else; so they are if they have few of
    the words. Only what the asker may see counts. Raises CacheError.
    """
    typed = list(dict.fromkeys(_TYPED.findall(question.text)))[:MOST_TERMS]
    words = [one for one in typed if not one.isupper() and telling_words(one)]
    unknown = _unknown(sources, words) if words else []
    if not 0 < len(unknown) <= min(_MOST_UNKNOWN, max(_FEW_UNKNOWN, len(words) / 2)):
        return None
    tokens = dict(zip(unknown, count_tokens(unknown), strict=True))
    meant = {word: near for word in unknown if tokens[word] > 1 and (near := _meant(sources, word))}
    spelled = _TYPED.sub(
        lambda match: match[0].replace(match[1], meant.get(match[1], match[1])), question.text
    )
    return spelled if meant else None


def _unknown(sources: Sequence[Source], words: Sequence[str]) -> list[str]:
    """Return the words that no note has."""
    terms = [" ".join(index_tokens(word)) for word in words]
    wanted = LexicalQuery(dict.fromkeys(terms, 1))
    counts = [one.look_up(wanted, ()).statistics.having for one in sources]
    known = {term for having in counts for term, count in zip(wanted.weights, having, strict=True) if count}
    return [word for word, term in zip(words, terms, strict=True) if term not in known]


def _meant(sources: Sequence[Source], typed: str) -> str | None:
    """Return the word of a note that is spelled most like this one, in its case; None if none is near."""
    word = fold_letters(typed)
    near: Counter[str] = Counter()
    for one in sources:
        for stem in _stems_near(one.cache.search.stems_beginning(word[0]), word):
            for text in one.cache.search.texts_with_stem(stem, one.hidden, _MOST_TEXTS):
                near.update(found for found in _WORD.findall(text) if _is_near(word, fold_letters(found)))
    best = min(
        near,
        key=lambda one: (OSA.distance(word, fold_letters(one)), -len(one), -near[one], one),
        default=None,
    )
    if best is None:
        return None
    return best.lower() if typed.islower() else best.title()


def _is_near(word: str, other: str) -> bool:
    if len(word) < _MAY_LACK_A_LETTER and sorted(word) != sorted(other):
        return False
    return word[0] == other[0] and OSA.distance(word, other) <= _mistakes(word)


def _mistakes(word: str) -> int:
    return 1 if len(word) < _LONG else 2


def _stems_near(stems: Sequence[str], word: str) -> list[str]:
    """Return the stems that a word may have that is spelled like this one, the nearest first."""
    most = _mistakes(word) + 1  # a stem may end in another letter than its word
    near = {
        stem: min(OSA.distance(word[: len(stem) + more], stem, score_cutoff=most) for more in (-1, 0, 1))
        for stem in stems
        if max(_SHORTEST_STEM, len(word) - _LONGEST_ENDING) <= len(stem) <= len(word) + most
    }
    return sorted(
        (stem for stem in near if near[stem] <= most), key=lambda stem: (near[stem], -len(stem), stem)
    )[:_MOST_STEMS]


# Folders, tags and kinds that a filter names and no note has, each with the one that was probably meant.


_CLAUSES = {
    "folder": "no note is in the folder {}",
    "tag": "no note has the tag {}",
    "kind": "no note is of the kind {}",
}
_NESTED = ("folder", "tag")
_LONGEST = 4_096  # characters of a value
_ALIKE = 3  # a value that is alike is not longer than this times the wanted one


def unknown_values(caches: Iterable[tuple[Cache, Collection[str]]], filters: Filters) -> list[str]:
    """Return a clause for each folder, tag and kind of the filters, also nested ones, that no note has.

    With a cache come the paths that are hidden. Raises CacheError.
    """
    wanted: dict[str, tuple[str, ...]] = {"folder": (), "tag": (), "kind": ()}
    for one in _required(filters):
        for name, values in (("folder", one.folders), ("tag", one.tags), ("kind", one.kinds)):
            wanted[name] += values
    longest = {
        name: min(_LONGEST, _ALIKE * max(map(len, values), default=0)) for name, values in wanted.items()
    }
    in_use: dict[str, dict[str, str]] = {name: {} for name in wanted}
    if any(longest.values()):
        for cache, hidden in caches:
            for name, value, _ in cache.filters.values_in_use(dict.fromkeys(wanted, _LONGEST), hidden):
                in_use[name] |= {fold(one): one for one in _levels(name, value, longest[name])}
    return [
        _clause(name, value, in_use[name])
        for name, values in wanted.items()
        for value in values
        if value not in in_use[name]
    ]


def _required(filters: Filters) -> Iterator[Filters]:
    """Yield filters and those nested in them, without the negated ones."""
    yield filters
    for one in (*filters.scopes, *filters.either):
        yield from _required(one)


def _levels(name: str, value: str, longest: int) -> Iterator[str]:
    """Yield a value and what contains it, as far as they may be alike to what is wanted."""
    levels = accumulate(value.split("/"), "{}/{}".format) if name in _NESTED else iter([value])
    return takewhile(lambda level: len(level) <= longest, levels)


def _clause(name: str, value: str, in_use: dict[str, str]) -> str:
    near = difflib.get_close_matches(value, in_use, 1)
    return _CLAUSES[name].format(value) + (f"; did you mean {in_use[near[0]]}?" if near else "")
