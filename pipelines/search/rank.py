"""The signals in order: retrievers and sentences, fused; source files, decay, attention, graph, second model, names.

`SIGNALS` is the table of them. Each leaves its number on the hit.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from pipelines.cache.vectors import Vector
from pipelines.model import Decay, Domain, NoteFacts, moment_of
from pipelines.notes.lexical import LexicalQuery, telling_words
from pipelines.question import Question
from pipelines.search.bm25 import WordPostings, WordsFound, read_words
from pipelines.search.code import FEWEST, AskedSymbols, SymbolNames, add_imported, ask_symbols, lift_filenames
from pipelines.search.fusion import (
    NoteHit,
    SecondOpinion,
    Signals,
    best_first,
    convex_combination,
    lift_attended,
    reciprocal_rank_fusion,
    rescored,
    stage,
)
from pipelines.search.names import (
    DEFINED,
    NoteNames,
    OtherNames,
    is_in_keywords,
    lift_by_words,
    share_of_words,
    terms_of,
    with_titles,
)
from pipelines.search.operators import restricted
from pipelines.search.vectors import Nearest, comparable, nearest_pieces
from pipelines.store import Cache

# Lower the score of passages that say little: lists of links after a note's text, names of notes without text.


MOSTLY_LINKS = 0.7
"""The minimum share of a passage's characters within links for it to be a list of links."""

_LOSES = 0.3
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_LONGEST_LABEL, _LONGEST_NAME, _PARTICLE = 4, 5, 3  # the last one in letters: van, of, and
_LINK = re.compile(
    r"(?<!!)\[\[[^\[\]\n]*\]\]|(?<!!)\[[^\[\]\n]*\]\((?:[^()\n]|\([^()\n]*\))*\)|https?://[^\s<>()\[\]]+"
)


def share_of_links(text: str) -> float:
    """Return the share of a Markdown text that is links or addresses, ignoring white space and its first heading.

    In a list, a label belongs to the link after it, and items that are names count up to as much as the links do.
    """
    body = text.partition("\n")[2] if text.startswith("#") else text
    links = names = 0
    for line in body.splitlines():
        found, item = list(_LINK.finditer(line)), _ITEM.match(line)
        links += sum(_length(link[0]) for link in found)
        if item and found:
            label = line[item.end() : found[0].start()]
            links += _length(label) if _is_label(label) else 0
        elif item and _is_name(line[item.end() :]):
            names += _length(line)
    whole = _length(body)
    return (links + min(names, links)) / whole if whole else 0.0


def _is_label(text: str) -> bool:
    """Say whether what is before a link only says what it is, as in `Source: [[A note]]`."""
    return text.rstrip(" *_").endswith((":", "\u2013", "\u2014")) and len(text.split()) <= _LONGEST_LABEL


def _is_name(text: str) -> bool:
    words = text.split()
    is_capital = [word.strip("*_(")[:1].isupper() for word in words]
    short = (len(word) <= _PARTICLE for word in words)
    return (
        len(words) <= _LONGEST_NAME and any(is_capital) and all(map(any, zip(is_capital, short, strict=True)))
    )


def _length(text: str) -> int:
    """Return the number of a text's characters without white space."""
    return len("".join(text.split()))


def lessen_thin(
    cache: Cache, question: Question, fused: Sequence[tuple[int, Signals]]
) -> list[tuple[int, Signals]]:
    """Lower the score of passages that say little. Raises CacheError.

    The signal `link_list` is for a list of links. A note that begins with such a list is an index and keeps its
    score, as does a list whose note or section the question names. The signal `no_text` is for a chunk that holds
    only names.
    """
    ids = [chunk_id for chunk_id, _ in fused]
    lesser = dict.fromkeys(cache.passages.chunks_of_names(ids), "no_text")
    lesser |= {
        one.chunk_id: "link_list"
        for one in cache.passages.later_chunks_with_links(ids)
        if share_of_links(one.text) >= MOSTLY_LINKS > share_of_links(one.first)
        and not any(_is_asked(name, question.telling) for name in (one.title, one.section))
    }
    if not lesser:
        return list(fused)
    return best_first(
        {
            chunk_id: signals
            | ({lesser[chunk_id]: -_LOSES * sum(signals.values())} if chunk_id in lesser else {})
            for chunk_id, signals in fused
        }
    )


def _is_asked(name: str, asked: frozenset[str]) -> bool:
    words = telling_words(name)
    return bool(words) and (words <= asked or asked <= words)


# Notes that were chosen lately count more, in domains that say so.


Attended = Callable[[Collection[str], Domain], Mapping[str, float]]
"""Return the attention of those of a domain's notes that were chosen (`workers.attention`)."""


def unattended(_paths: Collection[str], _domain: Domain) -> Mapping[str, float]:
    """Return an empty result: no note was chosen."""
    return {}


# Layer 2: an author's older notes count less, by their position among the candidates.


_Group = tuple[str, str]


def decay_weights(notes: Iterable[NoteFacts], decay: Decay, root: str = "") -> dict[str, float]:
    """Return the factor of each note's score, by path.

    Notes are grouped by author and ordered by their dates, newest first. The factor is `ladder[position]`, or the
    ladder's last value past its end. A note whose kind is in `kind_overrides` (its `kind`, else its top folder below
    `root`, the domain's own) is grouped by its folder and uses that kind's ladder. A note without an author is its
    own group; an evergreen note has 1.0 and takes no position. Equal dates are ordered by path, and notes without a
    date come last. With `mode: off` every factor is 1.0. The source document's layer 2, "ranked_grouped".
    """
    factors: dict[str, float] = {}
    groups: dict[_Group, list[NoteFacts]] = defaultdict(list)
    ladders: dict[_Group, tuple[float, ...]] = {}
    for note in notes:
        if decay.mode == "off" or note.evergreen:
            factors[note.path] = 1.0
            continue
        group, ladder = _group(note, decay, root)
        groups[group].append(note)
        ladders[group] = ladder
    for group, members in groups.items():
        ladder = ladders[group]
        if len(members) > 1:  # most groups have one note, and parsing dates is slow
            members.sort(key=lambda note: (-_created(note), note.path))
        factors |= {note.path: ladder[min(i, len(ladder) - 1)] for i, note in enumerate(members)}
    return factors


def decay_hits(
    hits: Sequence[NoteHit], notes: Mapping[str, NoteFacts], decay: Decay, root: str = ""
) -> list[NoteHit]:
    """Multiply the score of each hit by its note's factor, and return the hits, best first."""
    factors = decay_weights(notes.values(), decay, root)
    decayed = []
    for hit in hits:
        factor = factors[hit.path]
        score = hit.score * factor
        decayed.append(hit.after({"decay": score - hit.score}, decay=factor, decayed=score))
    return sorted(decayed, key=lambda hit: -hit.score)


def _group(note: NoteFacts, decay: Decay, root: str) -> tuple[_Group, tuple[float, ...]]:
    folder, _, _ = note.path.rpartition("/")
    kind = note.kind or note.path.removeprefix(f"{root}/").partition("/")[0]
    override = decay.kind_overrides.get(kind)
    if override:
        return (f"folder of {kind}", folder), override.group_by_path_prefix
    if note.author:
        return ("author", note.author.casefold()), decay.ladder
    return ("note", note.path), decay.ladder


def _created(note: NoteFacts) -> float:
    moment = moment_of(note.created)
    return float("-inf") if moment is None else moment.timestamp()


# Layer 3: rerank the candidates by the vault's own links.


VECTOR_WEIGHT, PAGERANK_WEIGHT, CENTRALITY_WEIGHT = 0.6, 0.25, 0.15
LIFT, LEAD_OVER = 0.15, 5
"""Links add at most `LIFT` times the best score, and at most its lead over the candidate at place `LEAD_OVER`."""
FEWEST_CITATIONS = 10
"""With fewer edges among the candidates' links, the graph says too little to be used."""


@dataclass(frozen=True, slots=True)
class LinearScore:
    """A candidate's score without recency, and each unweighted term, from 0 to 1; None: it has no rank."""

    score: float
    value: float
    pagerank: float | None
    centrality: float | None


def linear_scores(scores: Mapping[str, float], notes: Mapping[str, NoteFacts]) -> dict[str, LinearScore]:
    """Score candidates by `0.6 v + 0.25 pagerank + 0.15 centrality`, by path: the source document's layer 3.

    `v` is the score so far, min-max scaled over the candidates (all equal: 1). PageRank and centrality are divided by
    the largest value among the candidates. Where a note has no rank, `v` is used instead ("folds back").
    """
    lowest, highest = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    most_linked = _largest(note.pagerank for note in notes.values())
    most_central = _largest(note.centrality for note in notes.values())
    found = {}
    for path, score in scores.items():
        value = (score - lowest) / (highest - lowest) if highest > lowest else 1.0
        pagerank = _share(notes[path].pagerank, most_linked)
        centrality = _share(notes[path].centrality, most_central)
        total = (
            VECTOR_WEIGHT * value
            + PAGERANK_WEIGHT * (value if pagerank is None else pagerank)
            + CENTRALITY_WEIGHT * (value if centrality is None else centrality)
        )
        found[path] = LinearScore(total, value, pagerank, centrality)
    return found


def link_votes(scores: Mapping[str, float], links: Mapping[str, Collection[str]]) -> dict[str, float]:
    """Return how much the other candidates' links support each candidate, from 0 to 1, by path.

    `links` are the notes that each candidate links to. A candidate votes for each of them with `v^2 / sqrt(number of
    links)`, with `v` as in `linear_scores`: a good match counts much, a list of links hardly. Votes for the same note
    combine like independent probabilities: `1 - product of (1 - vote)`.
    """
    lowest, highest = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    against: dict[str, float] = defaultdict(lambda: 1.0)
    for path, score in scores.items() if highest > lowest else ():
        targets = set(links.get(path, ())) - {path}
        value = (score - lowest) / (highest - lowest)
        for target in targets & scores.keys():
            against[target] *= 1.0 - value**2 / math.sqrt(len(targets))
    return {path: 1.0 - against[path] for path in scores}


def walked(
    start: Mapping[str, float], links: Mapping[str, Collection[str]], restart: float
) -> dict[str, float]:
    """Return the share of the steps of a random walk that come to each note of `links` along a link.

    It starts at notes by their shares, and goes back there with the chance `restart` at each step, or where a link
    leads to no note of `links`. Tong, Faloutsos and Pan, "Fast Random Walk with Restart", ICDM 2006.
    """
    numbers = {path: number for number, path in enumerate(links)}
    steps = [
        (numbers[path], numbers[target], (1.0 - restart) / len(targets))
        for path, targets in links.items()
        for target in sorted(targets)
        if target in numbers
    ]
    sources, ends = np.array([step[:2] for step in steps], np.int64).reshape(-1, 2).T
    shares = np.array([step[2] for step in steps])
    begin = np.array([start.get(path, 0.0) for path in links]) / (sum(start.values()) or 1.0)
    there, came = begin, np.zeros(len(links))
    for _ in range(_MOST_STEPS):
        came = np.bincount(ends, there[sources] * shares, len(links)).astype(np.float64)
        before, there = there, came + (1.0 - came.sum()) * begin
        if np.abs(there - before).sum() < _SETTLED:
            break
    return dict(zip(links, came.tolist(), strict=True))


def most_lifted(scores: Collection[float]) -> float:
    """Return the most that links can add to a score; a larger gap is never overturned.

    It is 0.15 of the best score, and at most its lead over the fifth candidate (with fewer than ten candidates, over
    the middle one): scores by rank lie close together and say little about how much better a match is.
    """
    ordered = sorted(scores, reverse=True)
    if not ordered:
        return 0.0
    fifth = ordered[min(LEAD_OVER, (len(ordered) + 1) // 2) - 1]
    return min(LIFT * max(0.0, ordered[0]), ordered[0] - fifth)


_STARTS, _MOST_BEYOND, _MOST_STEPS, _SETTLED = 10, 1_000, 100, 1e-6  # the first two count notes
_Links = Callable[[Sequence[str]], dict[str, set[str]]]


class Added(NamedTuple):
    """What the graph adds to a note's score, by signal, and the numbers that it leaves on the hit."""

    signals: Mapping[str, float]
    left: Mapping[str, float | None]


def by_linear_scores(scores: Mapping[str, float], notes: Mapping[str, NoteFacts]) -> dict[str, Added]:
    """Return what `linear_scores` adds to each candidate, by path: the signal `graph`."""
    return {
        path: Added(
            {"graph": terms.score - scores[path]},
            {"value": terms.value, "pagerank": terms.pagerank, "centrality": terms.centrality},
        )
        for path, terms in linear_scores(scores, notes).items()
    }


def by_votes(scores: Mapping[str, float], links: Mapping[str, Collection[str]]) -> dict[str, Added]:
    """Return what `link_votes` add to each candidate, by path: the signal `links`."""
    most = most_lifted(scores.values())
    votes = link_votes(scores, links)
    return {path: Added({"links": most * vote}, {"votes": vote}) for path, vote in votes.items()}


def by_walk(scores: Mapping[str, float], links: _Links, restart: float) -> dict[str, Added]:
    """Return what a walk from the ten best adds to each candidate, by path: the signal `walk`.

    It starts at each by the square of its score, scaled as in `linear_scores`, and follows the links of the
    candidates and those of the thousand notes that most of them link to. Where it comes to most often gains most.
    """
    lowest, best = min(scores.values()), sorted(scores, key=lambda path: -scores[path])[:_STARTS]
    known = {path: set[str]() for path in scores} | links(list(scores))
    beyond = Counter(target for targets in known.values() for target in targets - scores.keys())
    known |= links(sorted(beyond, key=lambda path: (-beyond[path], path))[:_MOST_BEYOND])
    shares = walked({path: (scores[path] - lowest) ** 2 for path in best}, known, restart)
    largest = max(shares[path] for path in scores) or 1.0
    most = most_lifted(scores.values()) / largest
    return {path: Added({"walk": most * shares[path]}, {"walk": shares[path] / largest}) for path in scores}


def is_recent(note: NoteFacts, now: datetime, days: int) -> bool:
    """Say whether a note changed in the last `days`; a date in the future is none, and the file's time counts."""
    for moment in (moment_of(note.changed), moment_of(note.modified_at)):
        if moment is not None and moment <= now:
            return (now - moment).total_seconds() <= days * 24 * 3600
    return True


def _largest(ranks: Iterable[float | None]) -> float:
    return max((rank for rank in ranks if rank is not None), default=0.0)


def _share(rank: float | None, largest: float) -> float | None:
    if rank is None:
        return None
    return rank / largest if largest > 0.0 else 0.0


SHALLOWEST = 60
"""Passages that each retriever returns at least."""
_COMPARED = 40  # candidates that are compared sentence by sentence
_FEWEST_WORDS = 4  # shorter questions are names or keywords, which no sentence answers
Matches = Callable[[int, Sequence[int] | None], list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class Source:
    """A domain to ask: its cache, the question's vector by its model (None while it loads), `only` these chunks.

    `quantized` and `words` are the cache's vectors and words in memory, or its vectors in PostgreSQL; without them
    the cache itself is read.
    `names` are the names of its notes, and `symbols` those of its source files, read when first needed. `hidden`:
    notes that the asker must not see, whose names, words and links do not count; `only` is without their chunks.
    `attended` tells how much attention notes have, `tags` returns the vocabulary's names (`names.equivalents`), and
    `second` what a second model says of chunks. The signals `without` which it is asked do not count.
    """

    domain: Domain
    cache: Cache
    vector: Vector | None
    only: Sequence[int] | None = None
    quantized: Nearest | None = None
    words: WordPostings | None = None
    names: NoteNames = field(default_factory=NoteNames)
    hidden: Collection[str] = frozenset()
    attended: Attended = unattended
    tags: Callable[[], OtherNames] = dict
    symbols: SymbolNames = field(default_factory=SymbolNames)
    second: SecondOpinion | None = None
    without: frozenset[str] = frozenset()

    def weight(self, signal: str) -> float:
        """Return how much a signal counts here; 0: not at all."""
        return 0.0 if signal in self.without else SIGNALS[signal].weight(self.domain)

    def is_name(self, question: Question) -> bool:
        """Say whether a question is a note's title or alias, character by character. Raises CacheError."""
        return "names" not in self.without and self.names.is_name(self.cache, question.text, self.hidden)

    @stage("words")
    def matches(self, question: Question) -> Matches:
        """Return f(depth, only): the `depth` best chunk ids and their BM25, optionally restricted to `only`."""
        wanted, weight = None if "words" in self.without else question.wanted, self.weight("vocabulary")
        if wanted is None:
            return lambda _depth, _only: []
        others = self.names.others(self.cache, question.asked, self.tags(), self.hidden) if weight else []
        wanted = question.wanted_with(others, weight) if others else wanted
        if self.words is not None:
            found = self.words.look_up(self.cache, wanted, self._hidden_chunks())
            return stage("words")(found.scores().best)
        if self.hidden or others:  # FTS5 counts hidden chunks, and a word whole
            return stage("words")(partial(self._read_matches, wanted))
        return stage("words")(partial(self.cache.search.matching, wanted))

    def _read_matches(
        self, wanted: LexicalQuery, depth: int, only: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """Return what `matches` promises, from the file, where FTS5's own BM25 would count hidden chunks."""
        if only is None:
            only = self.cache.search.chunks_of_notes(None, self.hidden, None)
        return read_words(self.cache, wanted, only, self._hidden_chunks()).scores().best(depth)

    def _hidden_chunks(self) -> list[int]:
        return self.cache.search.chunks_of_notes(self.hidden, (), None) if self.hidden else []

    def look_up(self, wanted: LexicalQuery, ids: Sequence[int]) -> WordsFound:
        """Return where the question's words occur, at least in these chunks, which are not hidden.

        Raises CacheError.
        """
        with self.cache.snapshot():
            if self.words is not None:
                return self.words.look_up(self.cache, wanted, self._hidden_chunks())
            return read_words(self.cache, wanted, ids, self._hidden_chunks())


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates, best first, and the paths in the order of each layer (`meaning`, `words`, `fused`, ...)."""

    hits: list[NoteHit]
    layers: Mapping[str, list[str]]

    def ranks_of(self, path: str) -> dict[str, int]:
        """Return a note's place (from 1) in each layer that contains it."""
        return {name: paths.index(path) + 1 for name, paths in self.layers.items() if path in paths}


def depth_for(k: int) -> int:
    """Return how many chunks each retriever returns for `k` results."""
    return max(SHALLOWEST, 4 * k)


@dataclass
class Candidates:
    """The candidates of a domain for a question: passages, `fused` best first, and the notes of which they are.

    `near` and `match` are the cosines and BM25 that are known of them, and `paths` their notes. `named` are the notes
    that the question names, with the worth of their names, and `symbols` the symbols that it may name.
    """

    source: Source
    question: Question
    now: datetime
    named: Mapping[str, float]
    symbols: AskedSymbols | None
    fused: Sequence[tuple[int, Signals]]
    near: Mapping[int, float]
    match: Mapping[int, float]
    paths: Mapping[int, str]
    _facts: dict[str, NoteFacts] = field(default_factory=dict)

    @property
    def definitions(self) -> Mapping[int, str]:
        """Return the passages that define what the question names exactly, with their paths."""
        return self.symbols.definitions if self.symbols else {}

    def best_of_notes(self, fused: Iterable[tuple[int, Signals]]) -> list[NoteHit]:
        """Return each note by its best chunk."""
        hits: dict[str, NoteHit] = {}
        for chunk_id, signals in fused:
            path = self.paths.get(chunk_id)
            if path is not None and path not in hits:
                cosine, bm25 = self.near.get(chunk_id), self.match.get(chunk_id)
                hits[path] = NoteHit(path, chunk_id, signals).after(
                    {}, cosine=cosine, bm25=bm25, fused=sum(signals.values()) - signals.get("symbol", 0.0)
                )
        return list(hits.values())

    def notes(self, hits: Sequence[NoteHit]) -> Mapping[str, NoteFacts]:
        """Return the facts about notes, which are read once. Raises CacheError."""
        if missing := [path for path in _paths(hits) if path not in self._facts]:
            self._facts |= self.source.cache.passages.note_facts(missing)
        return self._facts


@dataclass(frozen=True, slots=True)
class Signal:
    """What lifts or lowers notes, by the name under which it can be left out.

    `weight`: how much it counts by a domain's settings; 0: not at all. `lift` returns the notes with the signal, best
    first, or None if it changes none of them; it is None itself for what fusion, the graph or names take in. The
    notes in its order are a `layer` of the answer, in which they have the score of this name, or of `score`, with
    its `parts`.
    """

    name: str
    weight: Callable[[Domain], float]
    lift: Callable[[Candidates, list[NoteHit], float], list[NoteHit] | None] | None = None
    layer: str | None = None
    parts: tuple[str, ...] = ()
    score: str | None = None


def rank_notes(source: Source, question: Question, depth: int, now: datetime) -> Ranking:
    """Rank the notes of a domain for a question. Raises CacheError."""
    candidates = _candidates(source, question, depth, now)
    hits = candidates.best_of_notes(candidates.fused)
    paths = candidates.paths
    layers = {
        "meaning": _notes_of(candidates.near, paths),
        "words": _notes_of(candidates.match, paths),
        "fused": _paths(hits),
    }
    for signal in SIGNALS.values():
        weight = candidates.source.weight(signal.name)
        lifted = signal.lift(candidates, hits, weight) if signal.lift and weight else None
        if signal.layer and lifted is not None:
            layers[signal.layer], hits = _paths(lifted), lifted
    if candidates.named or candidates.definitions:
        hits = _put_first(candidates, hits)
        layers["named"] = _paths(hits)
    return Ranking(hits, layers)


@stage("words")
def _allowed(source: Source, question: Question) -> Sequence[int] | None:
    """Return the chunks of `only` that the question's signs leave; those in a note's name are none."""
    if question.signs and source.is_name(question):
        return source.only
    return restricted(source.cache, question, source.only)


def _candidates(source: Source, question: Question, depth: int, now: datetime) -> Candidates:
    """Find passages and fuse them."""
    cache = source.cache
    named = source.names.called(cache, question, source.hidden) if source.weight("names") else {}
    source = replace(source, only=_allowed(source, question))
    symbols = None
    if source.weight("symbol"):
        names = source.symbols
        symbols = ask_symbols(names, cache, question, source.hidden, source.only, is_name=bool(named))
    hidden = cache.search.chunks_of_notes(set(source.domain.configuration) - named.keys(), (), None)
    matches = source.matches(question)
    near = _visible(partial(_nearest, source), depth, hidden)
    match = _visible(lambda count: matches(count, source.only), depth, hidden)
    definitions = symbols.definitions if symbols else {}
    if missing := list(definitions.keys() - near.keys() - match.keys()):
        match |= dict(matches(len(missing), missing))
    fused, near, match = _fuse(source, question, near, match, matches)
    fused = lessen_thin(cache, question, fused)
    paths = cache.passages.chunk_paths([chunk for chunk, _ in fused])
    return Candidates(source, question, now, named, symbols, fused, near, match, paths)


def _visible(
    best: Callable[[int], Iterable[tuple[int, float]]], depth: int, hidden: Collection[int]
) -> dict[int, float]:
    """Return the best `depth` chunks that are not hidden, with their scores."""
    found = ((chunk, score) for chunk, score in best(depth + len(hidden)) if chunk not in hidden)
    return dict(islice(found, depth))


@stage("knn")
def _nearest(source: Source, depth: int) -> list[tuple[int, float]]:
    if source.vector is None:
        return []
    if source.quantized is not None:
        return source.quantized.nearest(source.cache, source.vector, depth, source.only)
    return source.cache.search.nearest(source.vector, depth, source.only)


@stage("fusion")
def _fuse(
    source: Source, question: Question, near: dict[int, float], match: dict[int, float], matches: Matches
) -> tuple[list[tuple[int, Signals]], dict[int, float], dict[int, float]]:
    """Fuse chunks by their scores, best first; also return their known cosines and BM25."""
    if source.domain.fusion == "rrf":
        of_notes = _by_notes(source, question, [*near, *match])
        rankings = {"meaning": list(near), "words": list(match)} | of_notes
        weights = {name: source.weight(name) for name in rankings}
        return reciprocal_rank_fusion(rankings, weights, absent=source.domain.rrf.absent), near, match
    # Complete both scores for everything that either retriever found.
    only_near, only_match = list(near.keys() - match.keys()), list(match.keys() - near.keys())
    match = match | dict(matches(len(only_near), only_near))
    if source.vector is not None:
        near = near | source.cache.search.cosines(source.vector, only_match)
    parts = {"meaning": comparable(source.cache, near, question.language), "words": match}
    fused = convex_combination(parts)
    if pieces := _nearest_pieces(source, question, near, [chunk for chunk, _ in fused[:_COMPARED]]):
        fused = convex_combination(parts | {"sentences": comparable(source.cache, pieces, question.language)})
    return fused, near, match


def _by_notes(source: Source, question: Question, chunks: Sequence[int]) -> dict[str, list[int]]:
    """Return the best candidates of notes with attention, and of those with words of the question in their names."""
    ways: Mapping[str, Callable[[Collection[str]], Mapping[str, float]]] = {
        "usage": lambda paths: source.attended(paths, source.domain),
        "name_list": partial(_name_shares, source, question),
    }
    wanted = [name for name in ways if source.weight(name)]
    paths = source.cache.passages.chunk_paths(chunks) if wanted else {}
    best = {
        paths[chunk]: chunk for chunk in reversed(chunks) if chunk in paths
    }  # the first of each note stays
    worths = {name: ways[name](list(best)) for name in wanted}
    return {name: [best[p] for p in sorted(of, key=lambda p: (-of[p], p))] for name, of in worths.items()}


def _nearest_pieces(
    source: Source, question: Question, near: Mapping[int, float], best: Sequence[int]
) -> dict[int, float]:
    """Return the cosine of each chunk's nearest piece: for the best chunks possibly a sentence, else the whole chunk.

    Return nothing if sentences do not count or are not prepared.
    """
    if source.vector is None or not source.weight("sentences") or len(question.text.split()) < _FEWEST_WORDS:
        return {}
    return nearest_pieces(near, source.cache.passages.quantized_of_chunks(best), source.vector)


def _notes_of(chunks: Iterable[int], paths: Mapping[int, str]) -> list[str]:
    return list(dict.fromkeys(paths[chunk] for chunk in chunks if chunk in paths))


def _paths(hits: Sequence[NoteHit]) -> list[str]:
    return [hit.path for hit in hits]


def _ordered(hits: Sequence[NoteHit]) -> list[NoteHit]:
    return sorted(hits, key=lambda hit: -hit.score)


def _by_symbols(candidates: Candidates, _hits: list[NoteHit], _weight: float) -> list[NoteHit] | None:
    of = candidates
    return of.symbols.lift(of.source.cache, of.fused, of.paths, of.best_of_notes) if of.symbols else None


def _by_filename(candidates: Candidates, hits: list[NoteHit], _weight: float) -> list[NoteHit] | None:
    lifted = lift_filenames(hits, candidates.question.text)
    return lifted if any("filename" in hit.signals for hit in lifted) else None


def _by_imports(candidates: Candidates, hits: list[NoteHit], _weight: float) -> list[NoteHit] | None:
    source = candidates.source
    lifted = add_imported(source.cache, hits, source.only, source.domain.import_inject_threshold or FEWEST)
    return lifted if any("imports" in hit.signals for hit in lifted) else None


@stage("decay")
def _by_decay(candidates: Candidates, hits: list[NoteHit], _weight: float) -> list[NoteHit]:
    domain = candidates.source.domain
    return decay_hits(hits, candidates.notes(hits), domain.decay, domain.path)


@stage("decay")
def _by_attention(candidates: Candidates, hits: list[NoteHit], weight: float) -> list[NoteHit]:
    source = candidates.source
    return lift_attended(hits, source.attended(_paths(hits), source.domain), weight)


@stage("graph")
def _by_graph(candidates: Candidates, hits: list[NoteHit], _weight: float) -> list[NoteHit] | None:
    """Lift notes by their links, and recent ones; None with too few links for the graph to be informative."""
    source, domain = candidates.source, candidates.source.domain
    search, over = source.cache.search, domain.pagerank_over
    if search.citations_touching(_paths(hits), over, FEWEST_CITATIONS, source.hidden) < FEWEST_CITATIONS:
        return None
    notes, scores = candidates.notes(hits), {hit.path: hit.score for hit in hits}
    if domain.graph_mode == "linear":
        unit, ranked = 1.0, by_linear_scores(scores, notes)
    else:
        unit = max(scores.values()) - min(scores.values())
        links, walks = partial(search.linked_from, hidden=source.hidden), domain.graph_mode == "walk"
        restart = domain.walk_restart
        ranked = by_walk(scores, links, restart) if walks else by_votes(scores, links(list(scores)))
    days, amount = domain.decay.recency_boost_days, source.weight("recency") * unit
    recency = {path: amount if is_recent(note, candidates.now, days) else 0.0 for path, note in notes.items()}
    reranked = []
    for hit in hits:
        young, (signals, left) = recency[hit.path], ranked[hit.path]
        signals = {**signals, "recency": young}
        score = sum(signals.values(), start=hit.score)
        reranked.append(hit.after(signals, **left, recency=young, reranked=score))
    return _ordered(reranked)


@stage("fusion")
def _by_words_of_names(candidates: Candidates, hits: list[NoteHit], _weight: float) -> list[NoteHit] | None:
    """Lift notes by how nearly each is what the question asks for, by the words of its best name."""
    source = candidates.source
    if not source.weight("names") or not is_in_keywords(candidates.question.asked):
        return None
    shares = _name_shares(source, candidates.question, _paths(hits))
    return lift_by_words(hits, shares) if shares else None


@stage("rerank")
def _by_second_model(candidates: Candidates, hits: list[NoteHit], _weight: float) -> list[NoteHit] | None:
    second, domain = candidates.source.second, candidates.source.domain
    if second is None or not hits:
        return None
    return rescored(hits, second, domain.rerank_depth or second.depth, domain.rerank_weight)


def _name_shares(source: Source, question: Question, paths: Collection[str]) -> dict[str, float]:
    """Return how nearly each of these notes is what the question asks for, by the words of its best name."""
    words = terms_of(question.asked)
    names = source.names.sharing(source.cache, words, paths)
    if not names:
        return {}
    rarity = source.look_up(LexicalQuery(dict.fromkeys(words.values(), 1)), []).statistics.rarity()
    telling = dict(zip(words, rarity, strict=True))
    return {path: max(share_of_words(name, telling) for name in several) for path, several in names.items()}


@stage("fusion")
def _put_first(candidates: Candidates, hits: Sequence[NoteHit]) -> list[NoteHit]:
    """Put first the notes that the question names, or whose symbols, including those that no retriever found."""
    source, named, definitions = candidates.source, candidates.named, candidates.definitions
    first = source.cache.notes.first_chunks(named.keys() - set(_paths(hits)))
    first |= {path: chunk for chunk, path in definitions.items() if path not in set(_paths(hits))}
    added = [
        NoteHit(path, chunk, {})
        for path, chunk in first.items()
        if source.only is None or chunk in source.only
    ]
    defined = dict.fromkeys(definitions.values(), DEFINED)
    claims = [
        hit.after({}, named=named.get(hit.path), defined=defined.get(hit.path)) for hit in (*hits, *added)
    ]
    return _ordered(with_titles(claims))


def _always(_domain: Domain) -> float:
    return 1.0


def _with_code(domain: Domain) -> float:
    return float("code" in (domain.formats or ()))


_TABLE = (
    Signal("meaning", _always, layer="meaning", score="cosine"),
    Signal("words", lambda domain: domain.lexical_weight, layer="words", score="bm25"),
    Signal("vocabulary", lambda domain: domain.vocabulary),
    Signal("usage", lambda domain: domain.rrf.usage if domain.fusion == "rrf" else 0.0),
    Signal("name_list", lambda domain: domain.rrf.names if domain.fusion == "rrf" else 0.0),
    Signal("sentences", lambda domain: float(domain.sentences)),
    Signal("symbol", _with_code, _by_symbols, "symbols", ("symbol",)),
    Signal("filename", _with_code, _by_filename, "filenames"),
    Signal("imports", _with_code, _by_imports, "imported", ("references",)),
    Signal("decay", lambda domain: float(domain.decay.mode != "off"), _by_decay, "decayed", ("decay",)),
    Signal("attention", lambda domain: domain.attention, _by_attention, "attended", ("attention",)),
    Signal(
        "graph",
        lambda domain: float(domain.graph_mode != "off"),
        _by_graph,
        "reranked",
        ("value", "pagerank", "centrality", "votes", "walk", "recency"),
    ),
    Signal("recency", lambda domain: domain.decay.recency_boost_amount),
    Signal("name_words", _always, _by_words_of_names, "called", ("name_share",)),
    Signal(
        "rerank", lambda domain: float(bool(domain.rerank_model)), _by_second_model, "rescored", ("second",)
    ),
    Signal("names", _always, layer="named", parts=("named", "defined"), score="titled"),
)
SIGNALS: Mapping[str, Signal] = {one.name: one for one in _TABLE}
"""The signals by name, in the order in which they take part; ranking, explanations and measurements all read it."""
