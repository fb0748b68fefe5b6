"""Merge domains that have different models into one answer, where only ranks are comparable.

Every domain has a first note, however far it is from the question. If another domain has a strong answer, such a note
must not rank above it unless it has a title, phrase or rare word of the question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pipelines.errors import CacheError
from pipelines.retrieval.fusion import reciprocal_rank_fusion
from pipelines.retrieval.grounds import with_grounds
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.layers import Ranking, Source
from pipelines.retrieval.thresholds import Match, match_of
from pipelines.store import passages


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

    @property
    def match(self) -> Match | None:
        """Return how near the note is in meaning, or None if that is unknown."""
        return match_of(self.source.cache.meta.model, self.hit.scores.get("cosine"))


def merge_by_rank(groups: Sequence[Sequence[Placed]], query: str, sources: Sequence[Source]) -> list[Placed]:
    """Merge the rankings of several groups of domains by rank (RRF); a single group stays as it is.

    At equal ranks (every group has a first note), a strong match leads. A note that is weak in meaning and has no
    title, phrase or rare word of the question goes below all strong matches.
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
    ranked.sort(key=lambda one: (-one.hit.score, one.match != "strong"))
    return _guarded(ranked, query, sources)


def _scored(one: Placed, place: float) -> Placed:
    return replace(one, hit=replace(one.hit, signals={"place": place}))


def _guarded(ranked: list[Placed], query: str, sources: Sequence[Source]) -> list[Placed]:
    """Move groundless notes below all strong matches, and keep the order otherwise."""
    end = max((place for place, one in enumerate(ranked, start=1) if one.match == "strong"), default=0)
    groundless: set[tuple[str, int]] = set()
    with suppress(CacheError):  # an unreadable domain fails later, when its answers are read
        groundless = _groundless(
            [one for one in ranked[:end] if one.match in ("weak", "none")], query, sources
        )
    if not groundless:
        return ranked
    least = ranked[end - 1].hit.score
    kept = [one for one in ranked[:end] if _key(one) not in groundless]
    gave_way = [
        replace(one, hit=one.hit.after({"groundless": _lowering(one.hit.score, least)}))
        for one in ranked[:end]
        if _key(one) in groundless
    ]
    return [*kept, *gave_way, *ranked[end:]]


def _lowering(score: float, least: float) -> float:
    """Return what lowers a score to `least`, or by rounding to just below it, but never to above it."""
    lowering = min(0.0, least - score)
    while score + lowering > least:
        lowering = math.nextafter(lowering, -math.inf)
    return lowering


def _key(one: Placed) -> tuple[str, int]:
    return one.source.domain.slug, one.hit.chunk_id


def _groundless(weak: Sequence[Placed], query: str, sources: Sequence[Source]) -> set[tuple[str, int]]:
    """Return those of the weak answers that only their rank speaks for. Raises CacheError."""
    if not weak:
        return set()
    asked = {source.domain.slug: source for source in sources}
    ids: dict[str, list[int]] = {}
    for one in weak:
        ids.setdefault(one.source.domain.slug, []).append(one.hit.chunk_id)
    chunks = {
        slug: list(passages.chunk_rows(asked[slug].cache, several).values()) for slug, several in ids.items()
    }
    grounds = with_grounds(chunks, asked, query)
    return {(slug, chunk) for slug, several in ids.items() for chunk in several if chunk not in grounds[slug]}
