"""Merge domains that have different models into one answer, where only ranks are comparable.

Every domain has a first note, however far it is from the question. If another domain has a strong answer, such a note
must not rank above it unless it is a match, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pipelines.errors import CacheError
from pipelines.retrieval.fusion import reciprocal_rank_fusion
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.judgement import Judged, judge
from pipelines.retrieval.layers import Ranking, Source
from pipelines.retrieval.thresholds import Match
from pipelines.store import passages

_JUDGED = 60  # notes that may be shown


@dataclass(frozen=True, slots=True)
class Placed:
    """A note among the candidates of all domains, with the ranking of its own domain.

    `place` is its position among all candidates (from 1); None if only one domain was asked.
    """

    source: Source
    ranking: Ranking
    hit: Hit
    place: int | None = None

    @property
    def ranks(self) -> dict[str, int]:
        """Return the note's place (from 1) in each layer that contains it."""
        ranks = self.ranking.ranks_of(self.hit.path)
        return ranks if self.place is None else {**ranks, "merged": self.place}


def merge_by_rank(groups: Sequence[Sequence[Placed]], query: str) -> list[Placed]:
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
        matches = _matches(ranked[:_JUDGED], query, sources)
    ranked.sort(key=lambda one: (-one.hit.score, matches.get(_key(one)) != "strong"))
    return _guarded(ranked, matches)


def _scored(one: Placed, place: float) -> Placed:
    return replace(one, hit=replace(one.hit, signals={"place": place}))


def _matches(
    ranked: Sequence[Placed], query: str, sources: Mapping[str, Source]
) -> dict[tuple[str, int], Match]:
    """Return the rating of each note, by domain and passage. Raises CacheError."""
    ids: dict[str, list[int]] = {}
    for one in ranked:
        ids.setdefault(one.source.domain.slug, []).append(one.hit.chunk_id)
    chunks = {
        (slug, chunk): row
        for slug, own in ids.items()
        for chunk, row in passages.chunk_rows(sources[slug].cache, own).items()
    }
    there = [one for one in ranked if _key(one) in chunks]
    hits = [Judged(one.source, one.hit, chunks[_key(one)]) for one in there]
    ratings = judge(hits, query, sources.values())
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
