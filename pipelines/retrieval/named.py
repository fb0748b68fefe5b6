"""Find the notes that a question names: a question that is a title, alias or file name asks for that note."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath

from pipelines import lexical
from pipelines.chunk import CJK
from pipelines.parsing.normal_forms import normal_form
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.titles import fold_name
from pipelines.store import notes as store
from pipelines.store.cache import Cache
from pipelines.store.postings import newest_chunk

TITLE, ALIAS, FILE = 1.2, 1.15, 1.1
"""The worth of a name as a share of the best score: above 1, so that its note comes first by its name alone."""
DEFINED = 1.25
"""The worth of the definition of a symbol that the question names exactly."""

_CLAIMS = {"title": "named", "definition": "defined"}
_MOST_NAMESAKES = 10
_SIGNS = "+#"  # C, C++ and C# are different names
_APOSTROPHE = re.compile("['\u2019\u02bc]")
_BETWEEN_CJK = re.compile(rf"(?<=[{CJK}]) (?=[{CJK}])")


def words_of_name(name: str) -> str:
    """Return a name's words without case, diacritics and punctuation, as a question is compared with names.

    If a name has no words (an emoji, `???`), all of its characters count. `links.name_key`, by which links find
    files, is stricter: there diacritics and punctuation count.
    """
    folded = fold_name(_APOSTROPHE.sub("", name))
    kept = "".join(c if c in _SIGNS or unicodedata.category(c)[0] in "LMN" else " " for c in folded)
    words = filter(None, (word.lstrip(_SIGNS) for word in kept.split()))
    return _BETWEEN_CJK.sub("", " ".join(words)) or folded


class NoteNames:
    """The names of one cache's notes, read once and then only for changed notes. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._newest = 0
        self._worth: dict[str, dict[str, float]] = {}
        self._keys: dict[str, tuple[str, ...]] = {}

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
                self._hold(path, _worth(path, title, json.loads(aliases)))
            self._newest = newest

    def _hold(self, path: str, worth: Mapping[str, float]) -> None:
        for key in self._keys.get(path, ()):
            self._worth[key].pop(path)
        for key, own in worth.items():
            self._worth.setdefault(key, {})[path] = own
        self._keys[path] = tuple(worth)


def _typed(name: str) -> str:
    return " ".join(normal_form("NFKC", name).casefold().split())


def _worth(path: str, title: str, aliases: Sequence[str]) -> dict[str, float]:
    """Return the worth of each name of a note, by its key."""
    stem = PurePosixPath(path).stem
    named = [
        (stem, FILE),
        (PurePosixPath(path).name, FILE),
        *((alias, ALIAS) for alias in aliases),
        (title, TITLE),
    ]
    return {words_of_name(name): worth for name, worth in named}


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
