"""The layers in order: two retrievers, fusion, source files, decay, attention, graph, words of names, names.

Each leaves its number on the hit.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from pipelines.cache import passages
from pipelines.cache import search as store
from pipelines.cache.cache import Cache, Vector
from pipelines.cache.notes import first_chunks
from pipelines.cache.passages import Quantized, chunks_of_names, later_chunks_with_links, quantized_of_chunks
from pipelines.model import Decay, Domain, NoteFacts, moment_of
from pipelines.notes import lexical
from pipelines.search.bm25 import WordPostings, WordsFound, read_words
from pipelines.search.code import NO_CODE, AskedSymbols, CodeSignals, lift_source_files
from pipelines.search.fusion import (
    Hit,
    Signals,
    best_first,
    convex_combination,
    reciprocal_rank_fusion,
    stage,
)
from pipelines.search.names import (
    DEFINED,
    NoteNames,
    is_in_keywords,
    lift_by_words,
    share_of_words,
    terms_of,
    with_titles,
)
from pipelines.search.operators import restricted
from pipelines.search.vectors import QuantizedVectors
from pipelines.sqlite import snapshot

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

    In a list, a label before a link belongs to it, and items that are names count up to as much as the links do.
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


def lessen_thin(cache: Cache, query: str, fused: Sequence[tuple[int, Signals]]) -> list[tuple[int, Signals]]:
    """Lower the score of passages that say little. Raises CacheError.

    The signal `link_list` is for a list of links. A note that begins with such a list is an index and keeps its
    score, as does a list whose note or section the question names. The signal `no_text` is for a chunk that holds
    only names.
    """
    ids = [chunk_id for chunk_id, _ in fused]
    asked = set(lexical.telling_words(query))
    lesser = dict.fromkeys(chunks_of_names(cache, ids), "no_text")
    lesser |= {
        one.chunk_id: "link_list"
        for one in later_chunks_with_links(cache, ids)
        if share_of_links(one.text) >= MOSTLY_LINKS > share_of_links(one.first)
        and not any(_is_asked(name, asked) for name in (one.title, one.section))
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


def _is_asked(name: str, asked: set[str]) -> bool:
    words = set(lexical.telling_words(name))
    return bool(words) and (words <= asked or asked <= words)


# Find how near the nearest piece of a passage is to a question: the whole passage, or one of its sentences.


Id = TypeVar("Id")


def nearest_pieces(
    passages: Mapping[Id, float], quantized: Mapping[Id, Quantized], question: Vector
) -> dict[Id, float]:
    """Return for each passage, given by its cosine, the best of that cosine and its sentences' cosines.

    The vector of a whole passage averages all that it says; the sentence that answers is one of many, or lies beyond
    what the model reads of a passage. Callan, "Passage-Level Evidence in Document Retrieval", SIGIR 1994, with
    sentences as passages. Return nothing while no passage's sentences are prepared.
    """
    prepared = {item: own for item, own in quantized.items() if len(own) and item in passages}
    if not prepared:
        return {}
    vectors = np.concatenate(list(prepared.values())).astype(np.float32)
    # `einsum` stays in this thread; OpenBLAS would wait for other threads on a busy machine.
    cosines = np.einsum("ij,j->i", vectors, question) / np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    starts = np.cumsum([0, *map(len, prepared.values())])[:-1]
    best = dict(zip(prepared, np.maximum.reduceat(cosines, starts).tolist(), strict=True))
    return {item: max(cosine, best.get(item, cosine)) for item, cosine in passages.items()}


# Notes that were chosen lately count more, in domains that say so.


Attended = Callable[[Collection[str]], Mapping[str, float]]
"""Return the attention of those of the notes that were chosen (`workers.attention`)."""


def unattended(_paths: Collection[str]) -> Mapping[str, float]:
    """Return an empty result: no note was chosen."""
    return {}


def lift_attended(hits: Sequence[Hit], attention: Mapping[str, float], amount: float) -> list[Hit]:
    """Add `amount` of the best score, times its attention, to each note that was chosen; return the best hit first.

    Attention counts up to 1, that of one choice just now: else notes that lead because they were chosen would be
    chosen because they lead, and so on.
    """
    most = amount * max((hit.score for hit in hits), default=0.0)
    lifted = []
    for hit in hits:
        share = min(1.0, attention.get(hit.path, 0.0))
        signals = {"attention": most * share} if share else {}
        lifted.append(hit.after(signals, attention=share or None, attended=hit.score + most * share))
    return sorted(lifted, key=lambda hit: -hit.score)


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
    hits: Sequence[Hit], notes: Mapping[str, NoteFacts], decay: Decay, root: str = ""
) -> list[Hit]:
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

    `quantized` and `words` are the cache's vectors and words in memory; without them the cache itself is read.
    `names` are the names of its notes, read when first needed; None: names do not count. With `name_words` false,
    they count only as a whole. With `by_words` false, words are left out. `hidden`: notes that the asker must not
    see, whose names, words and links do not count; `only` is without their chunks. `attended` tells how much
    attention notes have. `code`: which signals of source files count in a domain that indexes such files.
    """

    domain: Domain
    cache: Cache
    vector: Vector | None
    only: Sequence[int] | None = None
    quantized: QuantizedVectors | None = None
    words: WordPostings | None = None
    by_words: bool = True
    names: NoteNames | None = field(default_factory=NoteNames)
    name_words: bool = True
    hidden: Collection[str] = frozenset()
    attended: Attended = unattended
    code: CodeSignals = field(default_factory=CodeSignals)

    def is_name(self, query: str) -> bool:
        """Say whether a question is a note's title or alias, character by character. Raises CacheError."""
        return self.names is not None and self.names.is_name(self.cache, query, self.hidden)

    @stage("words")
    def matches(self, query: str) -> Matches:
        """Return f(depth, only): the `depth` best chunk ids and their BM25, optionally restricted to `only`."""
        wanted = lexical.wanted(query) if self.by_words else None
        if wanted is None:
            return lambda _depth, _only: []
        if self.words is not None:
            found = self.words.look_up(self.cache, wanted, self._hidden_chunks())
            return stage("words")(found.scores().best)
        if self.hidden:
            return stage("words")(partial(self._read_matches, wanted))
        return stage("words")(partial(store.matching, self.cache, wanted.expression()))

    def _read_matches(
        self, wanted: lexical.Wanted, depth: int, only: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """Return what `matches` promises, from the file, where FTS5's own BM25 would count hidden chunks."""
        if only is None:
            only = store.chunks_of_notes(self.cache, None, self.hidden, None)
        return read_words(self.cache, wanted, only, self._hidden_chunks()).scores().best(depth)

    def _hidden_chunks(self) -> list[int]:
        return store.chunks_of_notes(self.cache, self.hidden, (), None) if self.hidden else []

    def look_up(self, wanted: lexical.Wanted, ids: Sequence[int]) -> WordsFound:
        """Return where the question's words occur, at least in these chunks, which are not hidden.

        Raises CacheError.
        """
        with snapshot(self.cache.con):
            if self.words is not None:
                return self.words.look_up(self.cache, wanted, self._hidden_chunks())
            return read_words(self.cache, wanted, ids, self._hidden_chunks())


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates, best first, and the paths in the order of each layer (`meaning`, `words`, `fused`, ...)."""

    hits: list[Hit]
    layers: Mapping[str, list[str]]

    def ranks_of(self, path: str) -> dict[str, int]:
        """Return a note's place (from 1) in each layer that contains it."""
        return {name: paths.index(path) + 1 for name, paths in self.layers.items() if path in paths}


def depth_for(k: int) -> int:
    """Return how many chunks each retriever returns for `k` results."""
    return max(SHALLOWEST, 4 * k)


def rank_notes(source: Source, query: str, depth: int, now: datetime) -> Ranking:
    """Rank the notes of a domain for a question. Raises CacheError."""
    domain, cache = source.domain, source.cache
    named = source.names.called(cache, query, source.hidden) if source.names else {}
    source = replace(source, only=_allowed(source, query))
    code = source.code if "code" in (domain.formats or ()) else NO_CODE
    symbols = code.asked(cache, query, hidden=source.hidden, only=source.only, is_name=bool(named))
    hidden = store.chunks_of_notes(cache, set(domain.configuration) - named.keys(), (), None)
    fused, near, match = _candidates(source, query, depth, hidden, symbols)
    paths = passages.chunk_paths(cache, [chunk for chunk, _ in fused])
    best = partial(_best_of_notes, near=near, match=match, paths=paths)
    hits = best(fused)
    layers = {"meaning": _notes_of(near, paths), "words": _notes_of(match, paths), "fused": _paths(hits)}
    if lifted := symbols.lift(cache, fused, paths, best):
        layers["symbols"], hits = _paths(lifted), lifted
    for layer, lifted in lift_source_files(code, cache, query, hits, source.only):
        layers[layer], hits = _paths(lifted), lifted
    notes = passages.note_facts(cache, _paths(hits))
    if domain.decay.mode != "off":
        with stage("decay"):
            hits = decay_hits(hits, notes, domain.decay, domain.path)
        layers["decayed"] = _paths(hits)
    if domain.attention:
        with stage("decay"):
            hits = lift_attended(hits, source.attended(_paths(hits)), domain.attention)
        layers["attended"] = _paths(hits)
    if domain.graph_mode != "off" and _has_links(source, hits):
        hits = _rerank(source, hits, notes, now)
        layers["reranked"] = _paths(hits)
    if shares := _shares_of_names(source, query, _paths(hits)):
        hits = lift_by_words(hits, shares)
        layers["called"] = _paths(hits)
    if named or symbols.definitions:
        hits = _lift(source, hits, named, symbols.definitions)
        layers["named"] = _paths(hits)
    return Ranking(hits, layers)


@stage("words")
def _allowed(source: Source, query: str) -> Sequence[int] | None:
    """Return the chunks of `only` that the question's operators leave; signs in a note's name are no operators."""
    if lexical.operators(query) and source.is_name(query):
        return source.only
    return restricted(source.cache, query, source.only)


def _candidates(
    source: Source, query: str, depth: int, hidden: Collection[int], symbols: AskedSymbols
) -> tuple[list[tuple[int, Signals]], dict[int, float], dict[int, float]]:
    """Find passages and fuse them, best first; also return their known cosines and BM25."""
    matches = source.matches(query)
    near = _visible(partial(_nearest, source), depth, hidden)
    match = _visible(lambda count: matches(count, source.only), depth, hidden)
    if missing := list(symbols.definitions.keys() - near.keys() - match.keys()):
        match |= dict(matches(len(missing), missing))
    fused, near, match = _fuse(source, query, near, match, matches)
    return lessen_thin(source.cache, query, fused), near, match


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
    nearest = source.quantized.nearest if source.quantized is not None else store.nearest
    return nearest(source.cache, source.vector, depth, source.only)


@stage("fusion")
def _fuse(
    source: Source, query: str, near: dict[int, float], match: dict[int, float], matches: Matches
) -> tuple[list[tuple[int, Signals]], dict[int, float], dict[int, float]]:
    """Fuse chunks by their scores, best first; also return their known cosines and BM25."""
    if source.domain.fusion == "rrf":
        rankings = {"meaning": list(near), "words": list(match)}
        weights = {"meaning": 1.0, "words": source.domain.lexical_weight}
        return reciprocal_rank_fusion(rankings, weights), near, match
    # Complete both scores for everything that either retriever found.
    only_near, only_match = list(near.keys() - match.keys()), list(match.keys() - near.keys())
    match = match | dict(matches(len(only_near), only_near))
    if source.vector is not None:
        near = near | store.cosines(source.cache, source.vector, only_match)
    parts: dict[str, Mapping[int, float]] = {"meaning": near, "words": match}
    fused = convex_combination(parts)
    if pieces := _nearest_pieces(source, query, near, [chunk for chunk, _ in fused[:_COMPARED]]):
        fused = convex_combination(parts | {"sentences": pieces})
    return fused, near, match


def _nearest_pieces(
    source: Source, query: str, near: Mapping[int, float], best: Sequence[int]
) -> dict[int, float]:
    """Return the cosine of each chunk's nearest piece: for the best chunks possibly a sentence, else the whole chunk.

    Return nothing if sentences do not count or are not prepared.
    """
    if source.vector is None or not source.domain.sentences or len(query.split()) < _FEWEST_WORDS:
        return {}
    return nearest_pieces(near, quantized_of_chunks(source.cache, best), source.vector)


def _best_of_notes(
    fused: Iterable[tuple[int, Signals]],
    near: Mapping[int, float],
    match: Mapping[int, float],
    paths: Mapping[int, str],
) -> list[Hit]:
    """Keep each note's best chunk; `paths` maps chunks to notes."""
    hits: dict[str, Hit] = {}
    for chunk_id, signals in fused:
        path = paths.get(chunk_id)
        if path is not None and path not in hits:
            cosine, bm25 = near.get(chunk_id), match.get(chunk_id)
            hits[path] = Hit(path, chunk_id, signals).after(
                {}, cosine=cosine, bm25=bm25, fused=sum(signals.values()) - signals.get("symbol", 0.0)
            )
    return list(hits.values())


def _notes_of(chunks: Iterable[int], paths: Mapping[int, str]) -> list[str]:
    return list(dict.fromkeys(paths[chunk] for chunk in chunks if chunk in paths))


def _paths(hits: Sequence[Hit]) -> list[str]:
    return [hit.path for hit in hits]


def _ordered(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: -hit.score)


@stage("fusion")
def _shares_of_names(source: Source, query: str, paths: Collection[str]) -> Mapping[str, float]:
    """Return how nearly each of these notes is what the question asks for, by the words of its best name."""
    asked = lexical.without_unwanted(query)
    if source.names is None or not source.name_words or not is_in_keywords(asked):
        return {}
    words = terms_of(asked)
    names = source.names.sharing(source.cache, words, paths)
    if not names:
        return {}
    rarity = source.look_up(lexical.Wanted(dict.fromkeys(words.values(), 1)), []).statistics.rarity()
    telling = dict(zip(words, rarity, strict=True))
    return {path: max(share_of_words(name, telling) for name in several) for path, several in names.items()}


@stage("fusion")
def _lift(
    source: Source, hits: Sequence[Hit], named: Mapping[str, float], definitions: Mapping[int, str]
) -> list[Hit]:
    """Put first the notes that the question names, or whose symbols, including those that no retriever found."""
    first = first_chunks(source.cache, named.keys() - set(_paths(hits)))
    first |= {path: chunk for chunk, path in definitions.items() if path not in set(_paths(hits))}
    added = [
        Hit(path, chunk, {}) for path, chunk in first.items() if source.only is None or chunk in source.only
    ]
    defined = dict.fromkeys(definitions.values(), DEFINED)
    claims = [
        hit.after({}, named=named.get(hit.path), defined=defined.get(hit.path)) for hit in (*hits, *added)
    ]
    return _ordered(with_titles(claims))


@stage("graph")
def _has_links(source: Source, hits: Sequence[Hit]) -> bool:
    """Say whether the candidates have enough links for the graph to be informative."""
    over = source.domain.pagerank_over
    found = store.citations_touching(source.cache, _paths(hits), over, FEWEST_CITATIONS, source.hidden)
    return found >= FEWEST_CITATIONS


@stage("graph")
def _rerank(source: Source, hits: Sequence[Hit], notes: Mapping[str, NoteFacts], now: datetime) -> list[Hit]:
    domain, scores = source.domain, {hit.path: hit.score for hit in hits}
    if domain.graph_mode == "linear":
        unit, ranked = 1.0, by_linear_scores(scores, notes)
    else:
        unit = max(scores.values()) - min(scores.values())
        ranked = by_votes(scores, store.linked_from(source.cache, list(scores), source.hidden))
    days, amount = domain.decay.recency_boost_days, domain.decay.recency_boost_amount * unit
    recency = {path: amount if is_recent(note, now, days) else 0.0 for path, note in notes.items()}
    reranked = []
    for hit in hits:
        young, (signals, left) = recency[hit.path], ranked[hit.path]
        signals = {**signals, "recency": young}
        score = sum(signals.values(), start=hit.score)
        reranked.append(hit.after(signals, **left, recency=young, reranked=score))
    return _ordered(reranked)
