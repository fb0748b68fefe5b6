"""The layers in order: two retrievers, fusion, decay, the graph. Each leaves its number on the hit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pipelines import lexical
from pipelines.model import Domain, Hit, NoteFacts
from pipelines.retrieval.codes import VectorCodes
from pipelines.retrieval.decay import decay_weights
from pipelines.retrieval.fusion import convex_combination, reciprocal_rank_fusion
from pipelines.retrieval.postings import WordPostings
from pipelines.retrieval.rerank import FEWEST_CITATIONS, graph_scores
from pipelines.store import search as store
from pipelines.store.cache import Cache, Vector

_SHALLOWEST = 60
Matches = Callable[[int, Sequence[int] | None], list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class Source:
    """A domain to ask: its cache, the question's vector by its model (None while it loads), `only` these chunks.

    `codes` and `words` are the cache's vectors and words in memory; without them the cache itself is read.
    """

    domain: Domain
    cache: Cache
    vector: Vector | None
    only: Sequence[int] | None = None
    codes: VectorCodes | None = None
    words: WordPostings | None = None

    def matches(self, query: str) -> Matches:
        """Return the function that gives the best so many chunk ids (of only these) with their BM25."""
        wanted = lexical.wanted(query)
        if wanted is None:
            return lambda _depth, _only: []
        if self.words is not None:
            return self.words.scores(self.cache, wanted).best
        return partial(store.matching, self.cache, wanted.expression())


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates, best first, and the paths as each layer ordered them (`vector`, `lexical`, `fused`, ...)."""

    hits: list[Hit]
    layers: Mapping[str, list[str]]

    def ranks_of(self, path: str) -> dict[str, int]:
        """Return a note's place (from 1) in each layer that has it."""
        return {name: paths.index(path) + 1 for name, paths in self.layers.items() if path in paths}


def depth_for(k: int) -> int:
    """Return how many chunks each retriever gives for `k` results."""
    return max(_SHALLOWEST, 4 * k)


def rank_notes(source: Source, query: str, depth: int, now: datetime) -> Ranking:
    """Rank the notes of a domain for a question. Raises CacheError."""
    domain, cache = source.domain, source.cache
    matches = source.matches(query)
    near, match = _nearest(source, depth), dict(matches(depth, source.only))
    paths = store.chunk_paths(cache, list(near.keys() | match.keys()))
    hits = _fuse(source, near, match, matches, paths)
    notes = store.note_facts(cache, _paths(hits))
    layers = {"vector": _notes_of(near, paths), "lexical": _notes_of(match, paths), "fused": _paths(hits)}
    if domain.decay.mode != "off":
        hits = _decay(hits, notes, domain)
        layers["decayed"] = _paths(hits)
    if domain.graph_mode != "off" and _has_links(source, hits):
        hits = _rerank(hits, notes, domain, now)
        layers["reranked"] = _paths(hits)
    return Ranking(hits, layers)


def _nearest(source: Source, depth: int) -> dict[int, float]:
    if source.vector is None:
        return {}
    nearest = source.codes.nearest if source.codes is not None else store.nearest
    return dict(nearest(source.cache, source.vector, depth, source.only))


def _fuse(
    source: Source,
    near: dict[int, float],
    match: dict[int, float],
    matches: Matches,
    paths: Mapping[int, str],
) -> list[Hit]:
    """Fuse chunks by their cosine and BM25, and keep each note's best one; `paths` are the chunks' notes."""
    if source.domain.fusion == "rrf":
        rankings = {"vector": list(near), "lexical": list(match)}
        fused = reciprocal_rank_fusion(rankings, {"vector": 1.0, "lexical": source.domain.lexical_weight})
    else:
        # Both scores of what either retriever found.
        only_near, only_match = list(near.keys() - match.keys()), list(match.keys() - near.keys())
        match = match | dict(matches(len(only_near), only_near))
        if source.vector is not None:
            near = near | store.cosines(source.cache, source.vector, only_match)
        fused = convex_combination(near, match)
    hits: dict[str, Hit] = {}
    for chunk_id, score in fused:
        path = paths.get(chunk_id)
        if path is not None and path not in hits:
            hit = Hit(path, chunk_id, score)
            hits[path] = hit.after(score, cosine=near.get(chunk_id), bm25=match.get(chunk_id), fused=score)
    return list(hits.values())


def _notes_of(chunks: Iterable[int], paths: Mapping[int, str]) -> list[str]:
    return list(dict.fromkeys(paths[chunk] for chunk in chunks if chunk in paths))


def _paths(hits: Sequence[Hit]) -> list[str]:
    return [hit.path for hit in hits]


def _ordered(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: -hit.score)


def _decay(hits: Sequence[Hit], notes: Mapping[str, NoteFacts], domain: Domain) -> list[Hit]:
    factors = decay_weights(notes.values(), domain.decay, domain.path)
    decayed = []
    for hit in hits:
        factor = factors[hit.path]
        score = hit.score * factor
        decayed.append(hit.after(score, decay=factor, decayed=score))
    return _ordered(decayed)


def _has_links(source: Source, hits: Sequence[Hit]) -> bool:
    """Say whether the candidates are linked enough for the graph to say something."""
    over = source.domain.pagerank_over
    found = store.citations_touching(source.cache, _paths(hits), over, FEWEST_CITATIONS)
    return found >= FEWEST_CITATIONS


def _rerank(hits: Sequence[Hit], notes: Mapping[str, NoteFacts], domain: Domain, now: datetime) -> list[Hit]:
    found = graph_scores(
        {hit.path: hit.score for hit in hits},
        notes,
        domain.graph_mode,
        now=now,
        recency_days=domain.decay.recency_boost_days,
        recency_amount=domain.decay.recency_boost_amount,
    )
    reranked = []
    for hit in hits:
        terms = found[hit.path]
        reranked.append(
            hit.after(
                terms.score,
                value=terms.value,
                pagerank=terms.pagerank,
                centrality=terms.centrality,
                recency=terms.recency,
                reranked=terms.score,
            )
        )
    return _ordered(reranked)
