"""Find the notes that a question names, wholly (a title, alias or file name asks for that note) or by its words."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from pipelines import lexical
from pipelines.chunk import CJK
from pipelines.parsing.normal_forms import normal_form
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.titles import fold_name
from pipelines.stopwords import STOPWORDS
from pipelines.store import notes as store
from pipelines.store.cache import Cache
from pipelines.store.fts_functions import stem
from pipelines.store.postings import newest_chunk

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


def is_in_keywords(question: str) -> bool:
    """Say whether a question has at most six words (of CJK: twelve characters): a longer one rarely names a note."""
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
        self._begin()

    def _begin(self) -> None:
        self._newest = 0
        self._worth: dict[str, dict[str, float]] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._terms: dict[str, tuple[Terms, ...]] = {}

    def called(self, cache: Cache, question: str, without: Collection[str] = ()) -> dict[str, float]:
        """Return the notes (`without` these paths) that a question names, each with the worth of its name.

        Notes that share a name share its worth: each note's worth is divided by the number of notes with an equal or
        better claim. A name shared by more than ten notes names none. Call this within a snapshot of the cache.
        Raises CacheError.
        """
        asked = question if self.is_name(cache, question, without) else lexical.without_unwanted(question)
        with self._lock:
            worth = dict(self._worth.get(words_of_name(asked), {}))
        there = store.first_chunks(cache, worth) if worth else {}  # a deleted note is still in memory
        worth = {path: own for path, own in worth.items() if path in there and path not in without}
        if len(worth) > _MOST_NAMESAKES:
            return {}
        return {path: own / sum(other >= own for other in worth.values()) for path, own in worth.items()}

    def is_name(self, cache: Cache, text: str, without: Collection[str] = ()) -> bool:
        """Say whether a text is a note's title or alias, character by character, `without` the notes at these paths.

        Raises CacheError.
        """
        self.follow(cache)
        with self._lock:
            named = [path for path in self._worth.get(words_of_name(text), {}) if path not in without]
        paths = named[: _MOST_NAMESAKES + 1]
        known = store.note_names(cache, paths) if paths else {}
        names = (name for title, aliases in known.values() for name in (title, *json.loads(aliases)))
        return _typed(text) in map(_typed, names)

    def follow(self, cache: Cache) -> None:
        """Take in the names of notes that were added or changed, which have new chunks. Raises CacheError."""
        newest = newest_chunk(cache)
        if newest == self._newest:
            return
        with self._lock:
            if newest < self._newest:  # the cache file was replaced
                self._begin()
            for path, (title, aliases) in store.names_since(cache, self._newest).items():
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


def lift_by_words(hits: Sequence[Hit], shares: Mapping[str, float]) -> list[Hit]:
    """Add to each note what the words of its name are worth (`shares`), the signal `name_words`; best first."""
    most = SAME_WORDS * max((hit.score for hit in hits), default=0.0)
    lifted = []
    for hit in hits:
        share = shares.get(hit.path, 0.0)
        signals = {"name_words": most * share} if share else {}
        lifted.append(hit.after(signals, name_share=share or None, called=hit.score + most * share))
    return sorted(lifted, key=lambda hit: -hit.score)


def with_titles(hits: Sequence[Hit]) -> list[Hit]:
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
