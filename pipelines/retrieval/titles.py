"""Find notes by name, as a quick switcher does: by prefix, by part of a name, or by similar spelling."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import accumulate, islice, takewhile
from typing import Literal

from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler

from pipelines.parsing.links import NOTE_SUFFIXES
from pipelines.parsing.normal_forms import fold_letters, normal_form

Matched = Literal["title", "alias", "path"]

_SHORTEST_MISSPELT = 3
_MOST_MISSPELT = 3
_NAMES_A_NOTE = 4
_ALIKE = 0.85  # at most 1; allows one letter wrong, missing or swapped in a short word
_ORDER: dict[Matched, int] = {"title": 0, "alias": 1, "path": 2}
_BETWEEN_WORDS = re.compile(r"[\s/_.-]+")


@dataclass(frozen=True, slots=True, order=True)
class NoteName:
    """A name of a note: its title, an alias, or its path."""

    domain: str
    path: str
    title: str
    matched: Matched
    name: str


def names_of(domain: str, path: str, title: str, aliases: Sequence[str]) -> list[NoteName]:
    """Return all names of a note."""
    return [
        NoteName(domain, path, title, "title", title),
        *(NoteName(domain, path, title, "alias", alias) for alias in aliases),
        NoteName(domain, path, title, "path", path),
    ]


def fold_name(name: str) -> str:
    """Return a name as it is compared: folded letters, and one space per run of `/`, `-`, `_`, `.` and spaces."""
    # Of a symbol, too, a name has what it stands for: \u2122 is TM.
    folded = fold_letters(name if name.isascii() else normal_form("NFKC", name))
    return _BETWEEN_WORDS.sub(" ", folded).strip()


class NameIndex:
    """The folded names of notes, in the order in which equal hits are shown: titles first, then short names first."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        # All texts joined, one per line, and the start of each line; None after a change. Every keystroke searches
        # this, which is several times faster than searching as many strings.
        self._lines: tuple[str, list[int]] | None = None
        # The entries that contain a word, and these words in order.
        self._words: dict[str, list[_Entry]] = {}
        self._spellings: list[str] = []

    def add(self, name: NoteName) -> None:
        """Add a name."""
        entry = _entry(name)
        insort(self._entries, entry)
        self._lines = None
        for word in _words(name):
            if word not in self._words:
                self._words[word] = []
                insort(self._spellings, word)
            self._words[word].append(entry)

    def remove(self, name: NoteName) -> None:
        """Remove a name, which must be present."""
        entry = _entry(name)
        del self._entries[bisect_left(self._entries, entry)]
        self._lines = None
        for word in _words(name):
            self._words[word].remove(entry)
            if not self._words[word]:
                del self._words[word]
                del self._spellings[bisect_left(self._spellings, word)]

    def find(
        self, query: str, limit: int, hidden: Mapping[str, Collection[str]] | None = None
    ) -> list[NoteName]:
        """Return at most `limit` notes, each by the name that matches best; `hidden` paths by domain are left out.

        First the names that equal the query, then those that begin with it, those in which a word begins with it, and
        those that contain it. Last come names with a word similar to each of the query's first three words, by
        Jaro-Winkler similarity (W. Winkler, "String Comparator Metrics", 1990).
        """
        wanted = fold_name(query)
        if not wanted:
            return []
        seen = _seen(hidden or {})
        return [name for *_, name in _distinct(self._matching(wanted, limit, seen), limit)]

    def _matching(self, wanted: str, limit: int, seen: _Seen) -> Iterator[_Entry]:
        for line in (f"\n{wanted}\n", f"\n{wanted}", f" {wanted}", wanted):
            yield from filter(seen, self._with_line_like(line))
        if len(wanted) >= _SHORTEST_MISSPELT:
            yield from self._alike(wanted, limit, seen)

    def _with_line_like(self, part: str) -> Iterator[_Entry]:
        if self._lines is None:
            texts = [text for _, _, text, _ in self._entries]
            starts = accumulate((len(text) + 1 for text in texts), initial=0)
            self._lines = "\n".join(["", *texts, ""]), list(starts)
        lines, starts_of = self._lines
        at = lines.find(part)
        while at >= 0:
            number = bisect_right(starts_of, at)
            yield self._entries[number - 1]
            at = lines.find(part, starts_of[number])

    def _alike(self, wanted: str, limit: int, seen: _Seen) -> list[_Entry]:
        first, *others = dict.fromkeys(wanted.split(" ")[:_MOST_MISSPELT])
        alike = self._with_word_like(first)
        for word in others:
            more = self._with_word_like(word)
            alike = {entry: score + more[entry] for entry, score in alike.items() if entry in more}
        shown = filter(seen, alike)
        return nsmallest(_NAMES_A_NOTE * limit, shown, key=lambda entry: (-alike[entry], entry))

    def _with_word_like(self, wanted: str) -> dict[_Entry, float]:
        """Return the entries with a word like the wanted one, and their similarity: 1 if the word begins with it."""
        onwards = islice(self._spellings, bisect_left(self._spellings, wanted), None)
        alike = dict.fromkeys(takewhile(lambda word: word.startswith(wanted), onwards), 1.0)
        close = process.extract(
            wanted, self._spellings, scorer=JaroWinkler.similarity, score_cutoff=_ALIKE, limit=None
        )
        for spelling, score, _ in close:
            alike.setdefault(spelling, score)
        best: dict[_Entry, float] = {}
        for spelling, score in alike.items():  # most similar first
            for entry in self._words[spelling]:
                best.setdefault(entry, score)
        return best


_Entry = tuple[int, int, str, NoteName]
_Seen = Callable[[_Entry], bool]


def _seen(hidden: Mapping[str, Collection[str]]) -> _Seen:
    """Return whether an entry's note may be seen."""
    return lambda entry: entry[3].path not in hidden.get(entry[3].domain, ())


def _entry(name: NoteName) -> _Entry:
    text = fold_name(_without_suffix(name))
    return _ORDER[name.matched], len(text), text, name


def _without_suffix(name: NoteName) -> str:
    """Return a name; a path loses the suffix that every note's path has."""
    lower = name.name.lower()
    ends = (end for end in NOTE_SUFFIXES if name.matched == "path" and lower.endswith(end))
    return name.name[: len(name.name) - len(next(ends, ""))]


def _words(name: NoteName) -> set[str]:
    """Return the words by which a misspelt query finds a name, without those of folders."""
    text = _without_suffix(name)
    return set(fold_name(text.rpartition("/")[2] if name.matched == "path" else text).split(" "))


def _distinct(ranked: Iterable[_Entry], limit: int) -> list[_Entry]:
    """Keep each note's best name, and at most `limit` notes."""
    best: dict[tuple[str, str], _Entry] = {}
    for entry in ranked:
        best.setdefault((entry[3].domain, entry[3].path), entry)
        if len(best) == limit:
            break
    return list(best.values())
