"""What a vocabulary lacks: phrases of titles that many notes share and no tag covers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pipelines.model import Taxonomy
from pipelines.stopwords import STOPWORDS
from pipelines.store.cache import Cache
from pipelines.store.notes import note_names, notes_having

MOST = 20
FEWEST_NOTES = 3
"""A phrase that fewer notes share needs no tag."""

_COMMON = 0.2  # a phrase that more of the notes have tells them apart no better than a stop word
_TITLED = 2  # notes that have it in their title, and so are about it
_EXAMPLES = 3
_TRIED = 200
_SHORTEST = 3
_SAME = 0.7  # a word that mostly occurs within a longer phrase is not listed beside it
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Missing:
    """A phrase, how many notes have it, and the paths of a few of them."""

    phrase: str
    notes: int
    examples: tuple[str, ...]


def missing(cache: Cache, taxonomy: Taxonomy, leave_out: Collection[str] = ()) -> list[Missing]:
    """Return what the most notes share and no tag of the vocabulary covers; `leave_out` are no notes."""
    covered = {
        _stem(word)
        for entry in taxonomy.entries
        for name in (entry.tag, *entry.aliases)
        for word in _words(name)
    }
    titled: dict[str, set[str]] = {}
    notes = set()
    for path, (title, _) in note_names(cache).items():
        if path not in leave_out:
            notes.add(path)
            for phrase in _phrases(title, covered):
                titled.setdefault(phrase, set()).add(path)
    candidates = [phrase for phrase, paths in titled.items() if len(paths) >= _TITLED]
    candidates.sort(key=lambda phrase: (-len(titled[phrase]), phrase))
    found: dict[str, set[str]] = {}
    for phrase in sorted(candidates[:_TRIED], key=lambda phrase: -len(phrase.split())):
        paths = set(notes_having(cache, phrase)).intersection(notes)
        if FEWEST_NOTES <= len(paths) <= _COMMON * len(notes) and not _within(phrase, paths, found):
            found[phrase] = paths
    # What many titles have, and few notes besides, is what notes are about.
    best = sorted(found, key=lambda phrase: (-(len(titled[phrase]) ** 2) / len(found[phrase]), phrase))[:MOST]
    return [Missing(one, len(found[one]), _examples(found[one], titled[one])) for one in best]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _stem(word: str) -> str:
    return word.removesuffix("s")


def _phrases(text: str, covered: Collection[str]) -> Iterator[str]:
    """Yield the words and pairs of words of a title that say something no tag says."""
    words = _words(text)
    tells = {
        word: len(word) >= _SHORTEST and word not in STOPWORDS and _stem(word) not in covered
        for word in words
    }
    yield from (word for word in words if tells[word])
    yield from (f"{one} {other}" for one, other in pairwise(words) if tells[one] and tells[other])


def _within(phrase: str, paths: Collection[str], found: dict[str, set[str]]) -> bool:
    """Say whether most of a word's notes have it within a longer phrase that was found."""
    return any(
        phrase in longer.split() and len(others.intersection(paths)) >= _SAME * len(paths)
        for longer, others in found.items()
    )


def _examples(paths: Collection[str], titled: Collection[str]) -> tuple[str, ...]:
    """Return a few of the notes, first those that have the phrase in their title."""
    return tuple(sorted(paths, key=lambda path: (path not in titled, path))[:_EXAMPLES])
