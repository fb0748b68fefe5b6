"""Find the notes that a question names, wholly (a title, alias or file name asks for that note) or by its words."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import accumulate, islice, pairwise, takewhile
from pathlib import PurePosixPath

from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler

from pipelines.model import Matched, NoteName
from pipelines.notes import lexical
from pipelines.notes.chunk import CJK
from pipelines.notes.lexical import STOPWORDS, fold_name, normal_form
from pipelines.notes.links import NOTE_SUFFIXES
from pipelines.question import Question
from pipelines.search.fusion import NoteHit
from pipelines.sqlite import stem
from pipelines.store import Cache

# Find notes by name, as a quick switcher does: by prefix, by part of a name, or by similar spelling.


_SHORTEST_MISSPELT = 3
_MOST_MISSPELT = 3
_NAMES_A_NOTE = 4
_ALIKE = 0.85  # at most 1; allows one letter wrong, missing or swapped in a short word
_ORDER: dict[Matched, int] = {"title": 0, "alias": 1, "path": 2}


def names_of(domain: str, path: str, title: str, aliases: Sequence[str]) -> list[NoteName]:
    """Return all names of a note."""
    return [
        NoteName(domain, path, title, "title", title),
        *(NoteName(domain, path, title, "alias", alias) for alias in aliases),
        NoteName(domain, path, title, "path", path),
    ]


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


TITLE, ALIAS, FILE = 1.2, 1.15, 1.1
"""The worth of a name as a share of the best score: above 1, so that its note comes first by its name alone."""
DEFINED = 1.25
"""The worth of the definition of a symbol that the question names exactly."""
SAME_WORDS = 0.3
"""The worth of a name that has exactly the question's words, as a share of the best score."""
_MOST_KEYWORDS = 6

_CLAIMS = {"title": "named", "definition": "defined"}
_MOST_NAMESAKES = 10
_SIGNS = "+#"  # C, C++ and C# are different names
_APOSTROPHE = re.compile("['\u2019\u02bc]")
_BETWEEN_CJK = re.compile(rf"(?<=[{CJK}]) (?=[{CJK}])")
_IS_CJK = re.compile(f"[{CJK}]")

Terms = tuple[str, ...]


def words_of_name(name: str) -> str:
    """Return a name's words without case, diacritics and punctuation, as a question is compared with names.

    If a name has no words (an emoji, `???`), all of its characters count. `links.name_key`, by which links find
    files, is stricter: there diacritics and punctuation count.
    """
    folded = fold_name(_APOSTROPHE.sub("", name))
    kept = "".join(c if c in _SIGNS or unicodedata.category(c)[0] in "LMN" else " " for c in folded)
    words = filter(None, (word.lstrip(_SIGNS) for word in kept.split()))
    return _BETWEEN_CJK.sub("", " ".join(words)) or folded


def terms_of(text: str) -> dict[str, str]:
    """Return a text's telling words, each as a phrase for the full-text index, by how that index stems them.

    Characters of CJK, which has no spaces, count in pairs of neighbours. An identifier is one word.
    """
    words = lexical.whole_words(text)
    pairs = {a + b: f"{a} {b}" for a, b in pairwise(words) if _IS_CJK.match(a) and _IS_CJK.match(b)}
    others = [word.lower() if word.isalnum() else lexical.index_text(word) for word in words]
    return {stem(word): word for word in others if word not in STOPWORDS and not _IS_CJK.match(word)} | pairs


MOST_OTHERS = 16
"""How many other names of what a question names are searched for."""

_LONGEST_NAMED = 6  # words of a name that is part of a question
_MOST_WORDS = 64  # of a question, that may be names

OtherNames = Mapping[str, Collection[str]]
"""The names of each thing, by each of its names in the form of `words_of_name`."""


def equivalents(classes: Iterable[Collection[str]]) -> dict[str, list[str]]:
    """Return the names in classes of equal meaning, by each of them; a name in several classes has those of all."""
    found: dict[str, list[str]] = {}
    for names in classes:
        for name in names:
            found.setdefault(words_of_name(name), []).extend(names)
    return found


def phrases_of(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the runs of a text's words that may be a name, longest first, as (first word, word after it, words)."""
    words = words_of_name(text).split()[:_MOST_WORDS]
    for length in range(min(_LONGEST_NAMED, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if not STOPWORDS.issuperset(run):
                yield start, start + length, " ".join(run)


def is_in_keywords(question: str) -> bool:
    """Say whether a question has at most six words (of CJK: twelve characters): longer ones rarely name notes."""
    return sum(0.5 if _IS_CJK.match(word) else 1 for word in lexical.whole_words(question)) <= _MOST_KEYWORDS


def share_of_words(name: Collection[str], telling: Mapping[str, float]) -> float:
    """Return how nearly a name, by its words, is what a question asks for, from 0 to 1.

    `telling`: the question's words with their idf. This is the share of the name's words that the question has,
    squared because a name that is only partly in a question says little, times how telling they are in the question.
    """
    both = [telling[word] for word in name if word in telling]
    return (len(both) / len(name)) ** 2 * sum(both) / sum(telling.values()) if both else 0.0


class NoteNames:
    """The names of one cache's notes, read once and then only for changed notes. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest = 0
        self._worth: dict[str, dict[str, float]] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._terms: dict[str, tuple[Terms, ...]] = {}

    def called(self, cache: Cache, question: Question, without: Collection[str] = ()) -> dict[str, float]:
        """Return the notes (`without` these paths) that a question names, each with the worth of its name.

        Notes that share a name share its worth: each note's worth is divided by the number of notes with an equal or
        better claim. A name shared by more than ten notes names none. Call this within a snapshot of the cache.
        Raises CacheError.
        """
        asked = question.text if self.is_name(cache, question.text, without) else question.asked
        with self._lock:
            worth = dict(self._worth.get(words_of_name(asked), {}))
        there = cache.notes.first_chunks(worth) if worth else {}  # a deleted note is still in memory
        worth = {path: own for path, own in worth.items() if path in there and path not in without}
        if len(worth) > _MOST_NAMESAKES:
            return {}
        return {path: own / sum(other >= own for other in worth.values()) for path, own in worth.items()}

    def others(self, cache: Cache, text: str, tags: OtherNames, without: Collection[str] = ()) -> list[str]:
        """Return the other names of the tags and notes (`without` these paths) that parts of a text name, at most 16.

        A longer part comes first, and no part of it is looked up again. Call this within a snapshot of the cache.
        Raises CacheError.
        """
        self.follow(cache)
        found: dict[str, None] = {}
        taken: set[int] = set()
        for start, end, phrase in phrases_of(text):
            if not taken.isdisjoint(range(start, end)):
                continue
            names = [*tags.get(phrase, ()), *self._names_of_those_called(cache, phrase, without)]
            if names:
                taken.update(range(start, end))
                found |= {name: None for name in names if words_of_name(name) != phrase}
        return list(islice(found, MOST_OTHERS))

    def _names_of_those_called(self, cache: Cache, phrase: str, without: Collection[str]) -> list[str]:
        """Return titles and aliases of the notes that are called so; a name of more than ten names none."""
        with self._lock:
            paths = [path for path in self._worth.get(phrase, {}) if path not in without]
        known = cache.notes.names(paths) if 0 < len(paths) <= _MOST_NAMESAKES else {}
        return [name for path in sorted(known) for name in (known[path][0], *json.loads(known[path][1]))]

    def is_name(self, cache: Cache, text: str, without: Collection[str] = ()) -> bool:
        """Say whether a text is a note's title or alias, character by character, `without` the notes at these paths.

        Raises CacheError.
        """
        self.follow(cache)
        with self._lock:
            named = [path for path in self._worth.get(words_of_name(text), {}) if path not in without]
        paths = named[: _MOST_NAMESAKES + 1]
        known = cache.notes.names(paths) if paths else {}
        names = (name for title, aliases in known.values() for name in (title, *json.loads(aliases)))
        return _typed(text) in map(_typed, names)

    def follow(self, cache: Cache) -> None:
        """Take in the names of notes that were added or changed, which have new chunks. Raises CacheError.

        Where another thread has taken in a later state than this connection sees, that one stays.
        """
        newest = cache.search.newest_chunk()
        with self._lock:
            if newest <= self._newest:
                return
            for path, (title, aliases) in cache.notes.names_since(self._newest).items():
                named = _names(path, title, json.loads(aliases))
                self._hold(path, {words_of_name(name): worth for name, worth in named})
                terms = {tuple(terms_of(name)) for name in (PurePosixPath(path).stem, title)}
                self._terms[path] = tuple(terms - {()})
            self._newest = newest

    def _hold(self, path: str, worth: Mapping[str, float]) -> None:
        for key in self._keys.get(path, ()):
            self._worth[key].pop(path)
        for key, own in worth.items():
            self._worth.setdefault(key, {})[path] = own
        self._keys[path] = tuple(worth)

    def sharing(self, cache: Cache, words: Collection[str], paths: Collection[str]) -> dict[str, list[Terms]]:
        """Return the names, as their words, that have any of these words (`terms_of`), for those of these notes.

        Raises CacheError.
        """
        self.follow(cache)
        has_none, found = frozenset(words).isdisjoint, {}
        with self._lock:
            for path in paths:
                if several := [name for name in self._terms.get(path, ()) if not has_none(name)]:
                    found[path] = several
        return found


def _typed(name: str) -> str:
    return " ".join(normal_form("NFKC", name).casefold().split())


def _names(path: str, title: str, aliases: Sequence[str]) -> list[tuple[str, float]]:
    """Return each name of a note with its worth; where two are the same, the last one counts."""
    file = PurePosixPath(path)
    return [(file.stem, FILE), (file.name, FILE), *((alias, ALIAS) for alias in aliases), (title, TITLE)]


def lift_by_words(hits: Sequence[NoteHit], shares: Mapping[str, float]) -> list[NoteHit]:
    """Add to each note what the words of its name are worth (`shares`), the signal `name_words`; best first."""
    most = SAME_WORDS * max((hit.score for hit in hits), default=0.0)
    lifted = []
    for hit in hits:
        share = shares.get(hit.path, 0.0)
        signals = {"name_words": most * share} if share else {}
        lifted.append(hit.after(signals, name_share=share or None, called=hit.score + most * share))
    return sorted(lifted, key=lambda hit: -hit.score)


def with_titles(hits: Sequence[NoteHit]) -> list[NoteHit]:
    """Return the hits; those that the question names get the signals `title` and `definition`.

    Their worth is in the scores: `named` for a note, `defined` for a file that defines a symbol.
    """
    untitled = [sum(added for name, added in hit.signals.items() if name not in _CLAIMS) for hit in hits]
    best = max(untitled, default=0.0) or 1.0
    titled = []
    for hit, score in zip(hits, untitled, strict=True):
        claims = {name: hit.scores[by] * best for name, by in _CLAIMS.items() if hit.scores.get(by)}
        titled.append(hit.after(claims, titled=sum(claims.values(), start=score)))
    return titled
