"""Find the symbols of source files that a question names: functions, classes and the like."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from pipelines.cache.passages import FileSymbols, source_files
from pipelines.notes.lexical import STOPWORDS, normal_form, parts_of
from pipelines.question import MOST_TERMS, Question
from pipelines.search.fusion import NoteHit, Signals, best_first
from pipelines.store import Cache

SYMBOL_FACTOR = 3.0
"""What the score of a passage is multiplied by if the question names its symbol: the source document's figure."""
LEAST = 0.5
"""The lowest match of a symbol that counts."""

_OF_PARTS = 0.8
_MOST_DEFINITIONS = 10
_SHORTEST, _LONGEST = 3, 200  # characters of a name; a passage's label has at most 200
_MOST_QUALIFIERS = 4
_FILES_AT_ONCE = 500
_MOST_BY_PARTS = 5_000
"""Upper bound on a file's symbols that questions can name by parts; the others are named exactly."""
_WRITTEN = re.compile(r"(?P<tick>`)?(?P<name>[^\W\d]\w*(?:(?:\.|::|->|#)[^\W\d]\w*)*)(?P<call>\()?")
_BETWEEN = re.compile(r"\.|::|->|#")
_NO_WORD = re.compile(r"[\W_]+")
# What people write beside a name, as in "class Account".
_KINDS = frozenset(("class", "def", "enum", "func", "function", "interface", "method", "struct", "type"))


@dataclass(frozen=True, slots=True)
class AskedNames:
    """The names in a question.

    `exact` are those that are surely names of code, without case, with their qualifiers. `alone` is the name, maybe a
    plain word, that is the whole question. `parts` are the words in all names.
    """

    exact: tuple[str, ...]
    alone: str
    parts: frozenset[str]


class _Symbol(NamedTuple):
    """A symbol's qualified name, the same without case, and the words in the last part of it."""

    name: str
    folded: str
    parts: frozenset[str]


def asked_names(query: str) -> AskedNames:
    """Return the names in a question, of the first 64 words: `[a-zA-Z_][a-zA-Z0-9_]{2,}`, in any alphabet.

    A name with an underscore, a digit, a hump, a qualifier, a call or a backtick is surely one of code; any other may
    be a word of the language.
    """
    exact: dict[str, None] = {}
    plain: dict[str, None] = {}
    parts: set[str] = set()
    found = list(islice(_WRITTEN.finditer(normal_form("NFC", query)), MOST_TERMS))
    for match in found:
        qualified = _BETWEEN.split(match["name"])
        names = [name for name in qualified if len(name) >= _SHORTEST]
        parts = parts.union(*map(_parts_of, names))
        if len(qualified[-1]) < _SHORTEST or len(match["name"]) > _LONGEST:
            continue
        is_code = len(qualified) > 1 or match["tick"] or match["call"] or not _is_plain(qualified[0])
        (exact if is_code else plain)[".".join(qualified).lower()] = None
    others = plain.keys() - _KINDS
    is_alone = not exact and len(others) == 1 and len(found) == len(plain)
    return AskedNames(tuple(exact), next(iter(others)) if is_alone else "", frozenset(parts))


def _is_plain(name: str) -> bool:
    return name.isalpha() and (name.islower() or name.istitle() or name.isupper())


def _parts_of(name: str) -> frozenset[str]:
    """Return the words in a name of code: `roundHalf_up` has `round`, `half` and `up`."""
    if len(name) > _LONGEST:
        return frozenset()
    runs = filter(None, _NO_WORD.split(name))
    return frozenset(part.lower() for run in runs for part in parts_of(run))


def overlap(symbol: Collection[str], asked: Collection[str]) -> float:
    """Return how well the words in the names of a question match those in a symbol's name, from 0 to 0.8.

    It is `0.8 * common / max(words of the symbol, words of the question)`: the source document's figure.
    """
    most = max(len(symbol), len(asked))
    return _OF_PARTS * len(set(symbol).intersection(asked)) / most if most else 0.0


class _Held(NamedTuple):
    """What is held of a source file: its symbols, and the first passage of each that has its own."""

    symbols: tuple[_Symbol, ...]
    chunks: tuple[int, ...]


class SymbolNames:
    """The symbols of one cache's source files, read once and then only for changed files. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._change: int | None = None
        self._newest = 0
        self._files: dict[str, _Held] = {}
        self._file_of: dict[int, str] = {}
        # By the last part of a name without case, and by file.
        self._named: dict[str, dict[str, list[_Symbol]]] = {}

    def follow(self, cache: Cache) -> None:
        """Take in the symbols of source files that came, changed or went. Raises CacheError.

        Call this within a snapshot of the cache; where another thread has taken in a later state, that one stays.
        """
        with self._lock:
            last, changed = cache.search.chunk_changes(self._change)
            if self._change is not None and last < self._change:
                return
            if changed is None:
                self._begin()
            newest = cache.search.newest_chunk()
            new = cache.passages.source_files_since(self._newest) if newest > self._newest else []
            paths = list(dict.fromkeys((*self._without_passage(cache, changed or ()), *new)))
            for start in range(0, len(paths), _FILES_AT_ONCE):
                some = paths[start : start + _FILES_AT_ONCE]
                found = cache.passages.symbols_of(some)
                for path in some:
                    self._hold(path, found.get(path))
            self._change, self._newest = last, max(newest, self._newest)

    def _without_passage(self, cache: Cache, changed: Collection[int]) -> list[str]:
        """Return the files of which a held passage is gone; the others of these passages only got their vectors."""
        held = self._file_of.keys() & changed
        return [self._file_of[chunk] for chunk in held - cache.passages.chunk_paths(list(held)).keys()]

    def _hold(self, path: str, symbols: FileSymbols | None) -> None:
        """Replace what is held of a file; None: it is no longer indexed."""
        old = self._files.pop(path, _Held((), ()))
        for chunk in old.chunks:
            del self._file_of[chunk]
        for symbol in old.symbols:
            self._named[_last(symbol.folded)].pop(path, None)
        if symbols is None:
            return
        names = sorted(name for name in symbols.names if len(name) <= _LONGEST)
        own = tuple(_Symbol(name, name.lower(), _parts_of(_last(name))) for name in names)
        self._files[path] = _Held(own, tuple(symbols.chunks.values()))
        self._file_of |= dict.fromkeys(symbols.chunks.values(), path)
        for symbol in own:
            self._named.setdefault(_last(symbol.folded), {}).setdefault(path, []).append(symbol)

    def definitions(self, cache: Cache, exact: Iterable[str], hidden: Collection[str]) -> dict[int, str]:
        """Return the passages that define what is named exactly, with their paths, without `hidden` files.

        A name that more than ten passages define names none of them. Call this within a snapshot of the cache.
        Raises CacheError.
        """
        self.follow(cache)
        found: dict[int, str] = {}
        for written in exact:
            with self._lock:
                meant = self._meant(written, hidden)
            if 0 < len(meant) <= _MOST_DEFINITIONS:
                chunks = _chunks_of(cache, meant)
                if len(chunks) <= _MOST_DEFINITIONS:
                    found |= {chunk: path for chunk, (path, _) in chunks.items()}
        return found

    def _meant(self, written: str, hidden: Collection[str]) -> dict[str, dict[str, float]]:
        """Return the symbols, by file, whose names end with as many qualifiers of a written name as any has."""
        qualified = written.split(".")[-_MOST_QUALIFIERS:]
        named = self._named.get(qualified[-1], {})
        files = {path: own for path, own in named.items() if path not in hidden}
        for first in range(len(qualified)):
            end = "." + ".".join(qualified[first:])
            found = {path: [s for s in own if f".{s.folded}".endswith(end)] for path, own in files.items()}
            if any(found.values()):
                return {path: {s.name: 1.0 for s in own} for path, own in found.items() if own}
        return {}

    def strengths(
        self, cache: Cache, asked: AskedNames, paths: Iterable[str], hidden: Collection[str]
    ) -> dict[int, float]:
        """Return how well the question names the symbols of these files, by passage, where it counts (0.5 to 1).

        An exact name counts 1, and parts of names as `overlap` says. What a name means does not depend on `hidden`
        files. Call this within a snapshot. Raises CacheError.
        """
        self.follow(cache)
        files = set(source_files(paths))
        matches: dict[str, dict[str, float]] = {}
        with self._lock:
            for path in files & self._files.keys():
                some = self._files[path].symbols[:_MOST_BY_PARTS]
                scores = {s.name: overlap(s.parts, asked.parts) for s in some}
                matches[path] = {name: score for name, score in scores.items() if score >= LEAST}
            for written in (*asked.exact, asked.alone):
                for path, names in self._meant(written, hidden).items():
                    if path in files:
                        matches.setdefault(path, {}).update(names)
        named = {path: names for path, names in matches.items() if names}
        return {chunk: score for chunk, (_, score) in _chunks_of(cache, named).items()} if named else {}


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _chunks_of(cache: Cache, named: Mapping[str, Mapping[str, float]]) -> dict[int, tuple[str, float]]:
    """Return the passages in which these symbols (by path) are, with their paths and best scores.

    A method of a short class is in the passage of its class. What is in memory may be newer than what is read.
    """
    found: dict[int, tuple[str, float]] = {}
    for path, symbols in cache.passages.symbols_of(named).items():
        for name, score in named[path].items():
            chunk = next(
                (symbols.chunks[label] for label in _enclosing(name) if label in symbols.chunks), None
            )
            if name in symbols.names and chunk is not None:
                found[chunk] = (path, max(score, found.get(chunk, ("", 0.0))[1]))
    return found


def _enclosing(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


def lift_symbols(
    fused: Sequence[tuple[int, Signals]], strengths: Mapping[int, float]
) -> list[tuple[int, Signals]]:
    """Multiply the scores of passages whose symbols the question names by three, and return all, best first."""
    return best_first(
        {
            chunk: signals
            | ({"symbol": (SYMBOL_FACTOR - 1.0) * sum(signals.values())} if chunk in strengths else {})
            for chunk, signals in fused
        }
    )


# Source files whose names begin with words of the question count more.


FILENAME_FACTOR = 1.5
"""What the score of a file is multiplied by if a word of the question begins like a part of its name.

This and the next figures are the source document's.
"""

_SHORTEST_PART = 5  # characters of a word, of a part, and of what both begin with
_SHARE = 0.6  # of the shorter one, that both begin with
_WORD = re.compile(r"[^\W_]+")
_BETWEEN_PARTS = re.compile(r"[-_.]")


def asked_words(query: str) -> frozenset[str]:
    """Return those of a question's first 64 words that may name a file: five letters or more, and no stop word."""
    words = _WORD.findall(query.lower())[:MOST_TERMS]
    return frozenset(word for word in words if len(word) >= _SHORTEST_PART and word not in STOPWORDS)


def is_named_like(path: str, asked: Collection[str]) -> bool:
    """Say whether a word of the question and a part of a file's name begin alike.

    The name is split at `-`, `_` and `.`, without its suffix. Both must begin with the same five letters or more, and
    these must be at least 60 % of the shorter of the two.
    """
    parts = _BETWEEN_PARTS.split(PurePosixPath(path).stem.lower())
    return any(
        _common(part, word) >= max(_SHORTEST_PART, _SHARE * min(len(part), len(word)))
        for part in parts
        if len(part) >= _SHORTEST_PART
        for word in asked
    )


def _common(one: str, other: str) -> int:
    """Count the characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def lift_filenames(hits: Sequence[NoteHit], query: str) -> list[NoteHit]:
    """Multiply the scores of source files that the question names by 1.5, and return the hits, best first."""
    asked = asked_words(query)
    files = {path for path in source_files(hit.path for hit in hits) if is_named_like(path, asked)}
    lifted = []
    for hit in hits:
        added = (FILENAME_FACTOR - 1.0) * hit.score if hit.path in files else 0.0
        lifted.append(hit.after({"filename": added} if added else {}, filenames=hit.score + added))
    return sorted(lifted, key=lambda hit: -hit.score)


# Source files that several of the found ones refer to are found, too.


FEWEST, MANY = 2, 3
"""How many files must refer to a file for it to be found, and to rank high: the source document's, as all figures."""
OF_TOP, OF_UPPER_QUARTILE = 0.9, 0.7
"""The score of such a file: that much of the best one's if many refer to it, else of the upper quartile's."""

_MOST, _FILES = 2, 10
_FEWEST_FILES, _MOST_FILES = 3, 8
_IS_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|[._](?:test|spec)\.[^/.]*$|Tests?\.java$"
)


def best_files(hits: Sequence[NoteHit]) -> list[NoteHit]:
    """Return the source files among the hits whose references count: the best third, but three to eight."""
    wanted = set(source_files(hit.path for hit in hits))
    found = [hit for hit in hits if hit.path in wanted]
    return found[: min(max(_FEWEST_FILES, len(found) // 3), _MOST_FILES)]


def imported_scores(
    scores: Sequence[float], references: Mapping[str, int], fewest: int = FEWEST
) -> dict[str, float]:
    """Return the scores of the files that are found by references, by path.

    `scores` are those of the files that refer to them, best first; `references` counts these by file. A file with the
    `fewest` references or more is found, at most two files, and fewer if that makes more than ten. Source files come
    before tests, then those with more references, then the order of paths decides.
    """
    most = min(_MOST, max(0, _FILES - len(scores)))
    enough = sorted(
        (path for path, count in references.items() if count >= fewest),
        key=lambda path: (_IS_TEST.search(path) is not None, -references[path], path),
    )
    if not scores:
        return {}
    high, usual = OF_TOP * scores[0], OF_UPPER_QUARTILE * scores[len(scores) // 4]
    return {path: high if references[path] >= MANY else usual for path in enough[:most]}


def add_imported(
    cache: Cache, hits: Sequence[NoteHit], only: Sequence[int] | None, fewest: int = FEWEST
) -> list[NoteHit]:
    """Return the hits, best first, with the files that several of the best source files refer to.

    One that was found already gets the signal `imports` if its score is lower. `only` these chunks may be added.
    Raises CacheError.
    """
    files = best_files(hits)
    found = {path: len(by) for path, by in cache.passages.referring([hit.path for hit in files]).items()}
    enough = {path: count for path, count in found.items() if count >= fewest}
    known = {hit.path for hit in hits}
    others = cache.notes.first_chunks(enough.keys() - known)
    if only is not None and others:
        allowed = set(only)
        others = {path: chunk for path, chunk in others.items() if chunk in allowed}
    references = {path: count for path, count in enough.items() if path in known or path in others}
    wanted = imported_scores([hit.score for hit in files], references, fewest)
    added = [NoteHit(path, others[path], {}) for path in wanted if path in others]
    lifted = []
    for hit in (*hits, *added):
        more = max(0.0, wanted.get(hit.path, 0.0) - hit.score)
        count = float(references[hit.path]) if hit.path in wanted else None
        lifted.append(
            hit.after({"imports": more} if more else {}, references=count, imported=hit.score + more)
        )
    return sorted(lifted, key=lambda hit: -hit.score)


# The symbols of source files that a question may name, and what they make of its candidates.


_Fused = Sequence[tuple[int, Signals]]
_BestOfNotes = Callable[[_Fused], list[NoteHit]]


@dataclass(frozen=True, slots=True)
class AskedSymbols:
    """The symbols that a question may name, without those of `hidden` files.

    `definitions`: the passages of those named exactly, with their paths.
    """

    symbols: SymbolNames
    names: AskedNames
    definitions: Mapping[int, str]
    hidden: Collection[str] = frozenset()

    def lift(
        self, cache: Cache, fused: _Fused, paths: Mapping[int, str], best: _BestOfNotes
    ) -> list[NoteHit] | None:
        """Return the notes (`best` of passages) with the signal `symbol`; None if no passage has it.

        A note whose passage defines what is named exactly is represented by it. Raises CacheError.
        """
        strengths = self.symbols.strengths(cache, self.names, set(paths.values()), self.hidden)
        lifted = lift_symbols(fused, strengths)
        if not any("symbol" in signals for _, signals in lifted):
            return None
        hits = best(sorted(lifted, key=lambda one: one[0] not in self.definitions))
        known = [hit.after({}, symbol=strengths.get(hit.chunk_id), symbols=hit.score) for hit in hits]
        return sorted(known, key=lambda hit: -hit.score)


def ask_symbols(
    symbols: SymbolNames,
    cache: Cache,
    question: Question,
    hidden: Collection[str],
    only: Sequence[int] | None,
    *,
    is_name: bool,
) -> AskedSymbols:
    """Return the symbols that a question may name, without `hidden` files; `only` these passages count.

    `is_name`: the question names a note, so a plain word is that name. Raises CacheError.
    """
    names = asked_names(question.text)
    exact = (*names.exact, *([names.alone] if names.alone and not is_name else ()))
    defining = symbols.definitions(cache, exact, hidden)
    allowed = defining if only is None else set(only).intersection(defining)
    return AskedSymbols(symbols, names, {chunk: defining[chunk] for chunk in allowed}, hidden)
