"""Merge several domains into one answer: rank the notes of all domains by comparable evidence.

Each domain ranks its own notes as if it were asked alone, and keeps that order. The evidence decides where its notes
go among those of other domains. Cosines of one model are comparable as they are, BM25 is by the statistics of all
domains asked. Between different models' cosines only ranks are comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import reduce
from operator import add
from typing import TypeVar

from pipelines import lexical
from pipelines.errors import CacheError
from pipelines.retrieval.bm25 import WordsFound
from pipelines.retrieval.by_rank import Placed, merge_by_rank
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.layers import Ranking, Source, rank_notes
from pipelines.retrieval.named import with_titles
from pipelines.retrieval.stages import stage
from pipelines.store import search as store
from pipelines.store.connection import snapshot

_ALPHA = 0.5
"""The cosine's share of the evidence."""

_LEAST_SHARE = 0.4
"""Minimum share of the reachable BM25 for the best BM25 to count in full: few common words say little."""

Step = TypeVar("Step")
_Evidence = tuple[float, float]
"""The cosine and the BM25 of a hit's passage."""


class Asked:
    """Domains that are asked together. A domain that fails is left out from then on, with its error in `failed`."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = list(sources)
        self.failed: dict[str, CacheError] = {}

    @contextmanager
    def snapshots(self) -> Iterator[None]:
        """Let all reads of a domain see the same state of its cache."""
        with ExitStack() as opened:
            self.each(lambda source: opened.enter_context(snapshot(source.cache.con)))
            yield

    def each(self, step: Callable[[Source], Step], only: Sequence[Source] | None = None) -> dict[str, Step]:
        """Run `step` for each domain (of `only` these) that has not failed; return the results by slug."""
        done = {}
        for source in self.sources if only is None else only:
            slug = source.domain.slug
            try:
                if slug not in self.failed:
                    done[slug] = step(source)
            except CacheError as error:
                self.failed[slug] = error
        return done

    def rank(self, query: str, depth: int, now: datetime) -> list[Placed]:
        """Rank the notes of all domains, best first. Call this within `snapshots`."""
        rankings = self.each(lambda source: rank_notes(source, query, depth, now))
        if len(self.sources) == 1:
            return [
                Placed(source, rankings[source.domain.slug], hit)
                for source in self.sources
                if source.domain.slug in rankings
                for hit in rankings[source.domain.slug].hits
            ]
        with stage("fusion"):
            groups = [self._merge(group, rankings, query) for group in _comparable(self.sources)]
            merged = _named_first(merge_by_rank([group for group in groups if group], query))
            return [
                Placed(one.source, one.ranking, one.hit.after({}, merged=one.hit.score), place)
                for place, one in enumerate(merged, start=1)
            ]

    def _merge(self, sources: Sequence[Source], rankings: Mapping[str, Ranking], query: str) -> list[Placed]:
        """Merge the rankings of domains whose evidence is comparable."""
        words = self._look_up(sources, rankings, query)
        over = reduce(add, (found.statistics for found in words.values())) if words else None

        def evidence(source: Source) -> list[_Evidence]:
            slug = source.domain.slug
            hits = rankings[slug].hits
            cosines = cosines_of(source, hits)
            ids = [hit.chunk_id for hit in hits]
            bm25s = words[slug].scores_of(ids, over) if over and slug in words else {}
            return [(cosines.get(chunk, 0.0), bm25s.get(chunk, 0.0)) for chunk in ids]

        found = self.each(evidence, [source for source in sources if source.domain.slug in rankings])
        every = [one for several in found.values() for one in several]
        nearest = max((cosine for cosine, _ in every), default=0.0)
        best = max((bm25 for _, bm25 in every), default=0.0)
        if over:
            best = max(best, _LEAST_SHARE * next(iter(words.values())).reach(over))
        placed = [
            Placed(source, rankings[slug], hit)
            for source in sources
            if (slug := source.domain.slug) in found
            for hit in _in_order(rankings[slug].hits, found[slug], nearest, best)
        ]
        return sorted(placed, key=lambda one: -one.hit.score)

    def _look_up(
        self, sources: Sequence[Source], rankings: Mapping[str, Ranking], query: str
    ) -> dict[str, WordsFound]:
        """Return where the question's words occur in the hits of each domain that is asked by words."""
        wanted = lexical.wanted(query)
        if wanted is None:
            return {}

        def look_up(source: Source) -> WordsFound:
            return source.look_up(wanted, [hit.chunk_id for hit in rankings[source.domain.slug].hits])

        return self.each(look_up, [source for source in sources if source.by_words])


def _named_first(merged: Sequence[Placed]) -> list[Placed]:
    """Put notes that the question names before all others, as each domain did for itself."""
    hits = with_titles([one.hit for one in merged])
    titled = [replace(one, hit=hit) for one, hit in zip(merged, hits, strict=True)]
    return sorted(titled, key=lambda one: -one.hit.score)


def _comparable(sources: Sequence[Source]) -> list[list[Source]]:
    """Group domains with comparable evidence: by model, and those asked only by words in a group of their own."""
    groups: dict[str | None, list[Source]] = {}
    for source in sources:
        groups.setdefault(source.cache.meta.model if source.vector is not None else None, []).append(source)
    return list(groups.values())


def cosines_of(source: Source, hits: Sequence[Hit]) -> dict[int, float]:
    """Return the cosines of hits' passages; a domain that fuses by rank may not have computed all of them."""
    known = {hit.chunk_id: hit.scores["cosine"] for hit in hits if "cosine" in hit.scores}
    others = [hit.chunk_id for hit in hits if hit.chunk_id not in known]
    return (
        known | store.cosines(source.cache, source.vector, others)
        if others and source.vector is not None
        else known
    )


def _in_order(hits: Sequence[Hit], evidence: Sequence[_Evidence], nearest: float, best: float) -> list[Hit]:
    """Return a domain's hits in its order, with the scores of their evidence sorted in descending order.

    The signal `order` is what a hit gains or loses by its place in its domain.
    """
    own = [
        _weighed(cosine, bm25, nearest, best, hit.scores.get("decay", 1.0))
        for hit, (cosine, bm25) in zip(hits, evidence, strict=True)
    ]
    totals = [sum(signals.values()) for signals in own]
    scores = sorted(totals, reverse=True)
    return [
        Hit(
            hit.path,
            hit.chunk_id,
            {**signals, "order": score - total} if score != total else signals,
            hit.scores,
        )
        for hit, signals, total, score in zip(hits, own, totals, scores, strict=True)
    ]


def _weighed(cosine: float, bm25: float, nearest: float, best: float, decay: float) -> dict[str, float]:
    """Return the signals of a hit's evidence, relative to the nearest cosine and the best BM25 of all domains."""
    meaning = _ALPHA * cosine / nearest if cosine > 0.0 else 0.0
    words = (1 - _ALPHA) * bm25 / best if bm25 > 0.0 else 0.0
    if decay == 1.0:
        return {"meaning": meaning, "words": words}
    return {"meaning": meaning, "words": words, "decay": (decay - 1.0) * (meaning + words)}
