"""Merge several domains into one answer: rank the notes of all domains by comparable evidence.

Each domain ranks its own notes as if it were asked alone, and keeps that order. The evidence decides where its notes
go among those of other domains. Cosines of one model are comparable as they are, BM25 is by the statistics of all
domains asked. Between different models' cosines only ranks are comparable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import add
from typing import TypeVar

from pipelines.errors import CacheError
from pipelines.question import Question
from pipelines.search.bm25 import WordsFound
from pipelines.search.fusion import Found, NoteHit, reciprocal_rank_fusion, stage
from pipelines.search.judgement import judge
from pipelines.search.names import with_titles
from pipelines.search.operators import notes_left_out
from pipelines.search.rank import Ranking, Source, rank_notes
from pipelines.search.thresholds import Match
from pipelines.search.vectors import comparable

# Merge domains that have different models into one answer, where only ranks are comparable.
#
# Every domain has a first note, however far it is from the question. If another domain has a strong answer, such a
# note must not rank above it unless it is a match, too.


_JUDGED = 60  # notes that may be shown


@dataclass(frozen=True, slots=True)
class Placed:
    """A note among the candidates of all domains, with the ranking of its own domain.

    `place` is its position among all candidates (from 1); None if only one domain was asked.
    """

    source: Source
    ranking: Ranking
    hit: NoteHit
    place: int | None = None

    @property
    def ranks(self) -> dict[str, int]:
        """Return the note's place (from 1) in each layer that contains it."""
        ranks = self.ranking.ranks_of(self.hit.path)
        return ranks if self.place is None else {**ranks, "merged": self.place}


def merge_by_rank(groups: Sequence[Sequence[Placed]], question: Question) -> list[Placed]:
    """Merge the rankings of several groups of domains by rank (RRF); a single group stays as it is.

    At equal ranks (every group has a first note), a strong match leads. A note that is no match goes below all strong
    ones.
    """
    if len(groups) <= 1:
        return [one for group in groups for one in group]
    placed = [one for group in groups for one in group]
    numbers, at = {}, 0
    for n, group in enumerate(groups):
        numbers[str(n)] = range(at, at + len(group))
        at += len(group)
    merged = reciprocal_rank_fusion(numbers, dict.fromkeys(numbers, 1.0))
    ranked = [_scored(placed[number], sum(signals.values())) for number, signals in merged]
    matches: dict[tuple[str, int], Match] = {}
    with suppress(CacheError):  # an unreadable domain fails later, when its answers are read
        sources = {one.source.domain.slug: one.source for one in placed}
        matches = _matches(ranked[:_JUDGED], question, sources)
    ranked.sort(key=lambda one: (-one.hit.score, matches.get(_key(one)) != "strong"))
    return _guarded(ranked, matches)


def _scored(one: Placed, place: float) -> Placed:
    return replace(one, hit=replace(one.hit, signals={"place": place}))


def _matches(
    ranked: Sequence[Placed], question: Question, sources: Mapping[str, Source]
) -> dict[tuple[str, int], Match]:
    """Return the rating of each note, by domain and passage. Raises CacheError."""
    ids: dict[str, list[int]] = {}
    for one in ranked:
        ids.setdefault(one.source.domain.slug, []).append(one.hit.chunk_id)
    chunks = {
        (slug, chunk): row
        for slug, own in ids.items()
        for chunk, row in sources[slug].cache.passages.chunk_rows(own).items()
    }
    there = [one for one in ranked if _key(one) in chunks]
    found = [Found(one.source.domain.slug, one.hit, chunks[_key(one)]) for one in there]
    ratings = judge(found, question, sources)
    return {_key(one): rating for one, rating in zip(there, ratings, strict=True)}


def _guarded(ranked: list[Placed], matches: Mapping[tuple[str, int], Match]) -> list[Placed]:
    """Move notes that are no match below all strong ones, and keep the order otherwise."""
    rated = [matches.get(_key(one)) for one in ranked]
    end = max((place for place, match in enumerate(rated, start=1) if match == "strong"), default=0)
    if "none" not in rated[:end]:
        return ranked
    least = ranked[end - 1].hit.score
    before = list(zip(ranked[:end], rated[:end], strict=True))
    gave_way = [
        replace(one, hit=one.hit.after({"groundless": _lowering(one.hit.score, least)}))
        for one, match in before
        if match == "none"
    ]
    return [*(one for one, match in before if match != "none"), *gave_way, *ranked[end:]]


def _lowering(score: float, least: float) -> float:
    """Return what lowers a score to `least`, or by rounding to just below it, but never to above it."""
    lowering = min(0.0, least - score)
    while score + lowering > least:
        lowering = math.nextafter(lowering, -math.inf)
    return lowering


def _key(one: Placed) -> tuple[str, int]:
    return one.source.domain.slug, one.hit.chunk_id


_ALPHA = 0.5
"""The cosine's share of the evidence."""

_LEAST_SHARE = 0.4
"""Minimum share of the reachable BM25 for the best BM25 to count in full: few common words say little."""

Step = TypeVar("Step")
_Evidence = tuple[float, float]
"""The cosine of a hit's passage, as `comparable` returns it, and its BM25."""


class FederatedSearch:
    """Domains that are asked together. A domain that fails is left out from then on, with its error in `failed`."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = list(sources)
        self.failed: dict[str, CacheError] = {}

    @contextmanager
    def snapshots(self) -> Iterator[None]:
        """Let all reads of a domain see the same state of its cache."""
        with ExitStack() as opened:
            self.each(lambda source: opened.enter_context(source.cache.snapshot()))
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

    def rank(self, question: Question, depth: int, now: datetime) -> list[Placed]:
        """Rank the notes of all domains, best first. Call this within `snapshots`."""
        rankings = self.each(lambda source: rank_notes(source, question, depth, now))
        if len(self.sources) == 1:
            return [
                Placed(source, rankings[source.domain.slug], hit)
                for source in self.sources
                if source.domain.slug in rankings
                for hit in rankings[source.domain.slug].hits
            ]
        with stage("fusion"):
            groups = [self._merge(group, rankings, question) for group in _comparable(self.sources)]
            merged = _named_first(merge_by_rank([group for group in groups if group], question))
            return [
                Placed(one.source, one.ranking, one.hit.after({}, merged=one.hit.score), place)
                for place, one in enumerate(merged, start=1)
            ]

    def _merge(
        self, sources: Sequence[Source], rankings: Mapping[str, Ranking], question: Question
    ) -> list[Placed]:
        """Merge the rankings of domains whose evidence is comparable."""
        words = self._look_up(sources, rankings, question)
        over = reduce(add, (found.statistics for found in words.values())) if words else None

        def evidence(source: Source) -> list[_Evidence]:
            slug = source.domain.slug
            hits = rankings[slug].hits
            cosines = comparable(source.cache, cosines_of(source, hits), question.language)
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
        self, sources: Sequence[Source], rankings: Mapping[str, Ranking], question: Question
    ) -> dict[str, WordsFound]:
        """Return where the question's words occur in the hits of each domain that is asked by words."""
        wanted = question.wanted
        if wanted is None:
            return {}

        def look_up(source: Source) -> WordsFound:
            return source.look_up(wanted, [hit.chunk_id for hit in rankings[source.domain.slug].hits])

        return self.each(look_up, [source for source in sources if "words" not in source.without])


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


def cosines_of(source: Source, hits: Sequence[NoteHit]) -> dict[int, float]:
    """Return the cosines of hits' passages; a domain that fuses by rank may not have computed all of them."""
    known = {hit.chunk_id: hit.scores["cosine"] for hit in hits if "cosine" in hit.scores}
    others = [hit.chunk_id for hit in hits if hit.chunk_id not in known]
    return (
        known | source.cache.search.cosines(source.vector, others)
        if others and source.vector is not None
        else known
    )


def _in_order(
    hits: Sequence[NoteHit], evidence: Sequence[_Evidence], nearest: float, best: float
) -> list[NoteHit]:
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
        NoteHit(
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


# The notes that pass a question's filters, the newest first, where it asks for nothing else.


def newest(asked: FederatedSearch, question: Question) -> list[Placed]:
    """Return the notes that pass, without those that the question leaves out. Call this within `snapshots`."""

    def notes(source: Source) -> list[tuple[str, Placed]]:
        left_out = {*source.domain.configuration, *notes_left_out(source.cache, question.signs)}
        passing = sorted(row for row in source.cache.filters.days_of(source.only) if row[0] not in left_out)
        hits = [(day, NoteHit(path, chunk_id, {})) for path, chunk_id, day in passing]
        return [(day, Placed(source, Ranking([hit], {}), hit)) for day, hit in hits]

    found = [one for several in asked.each(notes).values() for one in several]
    found.sort(key=lambda one: one[1].hit.path)
    return [placed for _, placed in sorted(found, key=lambda one: one[0], reverse=True)]
