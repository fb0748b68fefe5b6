"""The layers in order: two retrievers, fusion, source files, decay, attention, graph, words of names, names.

Each leaves its number on the hit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice

from pipelines import lexical
from pipelines.model import Domain, NoteFacts
from pipelines.retrieval.attention import Attended, lift_attended, unattended
from pipelines.retrieval.bm25 import WordsFound
from pipelines.retrieval.decay import decay_hits
from pipelines.retrieval.fusion import Signals, convex_combination, reciprocal_rank_fusion
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.named import (
    DEFINED,
    NoteNames,
    is_in_keywords,
    lift_by_words,
    share_of_words,
    terms_of,
    with_titles,
)
from pipelines.retrieval.pieces import nearest_pieces
from pipelines.retrieval.postings import WordPostings, read_words
from pipelines.retrieval.quantized import QuantizedVectors
from pipelines.retrieval.rerank import (
    FEWEST_CITATIONS,
    by_linear_scores,
    by_votes,
    is_recent,
)
from pipelines.retrieval.restrict import restricted
from pipelines.retrieval.source_files import NO_CODE, AskedSymbols, CodeSignals, lift_source_files
from pipelines.retrieval.stages import stage
from pipelines.retrieval.thin import lessen_thin
from pipelines.store import passages
from pipelines.store import search as store
from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import snapshot
from pipelines.store.notes import first_chunks
from pipelines.store.sentences import quantized_of_chunks

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
