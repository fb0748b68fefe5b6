"""Layer 1: what two retrievers found becomes one ranked list."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

RRF_K = 60
"""The constant of Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion", SIGIR 2009."""

CONVEX_ALPHA = 0.5
"""How much of a convex score is the cosine's."""

Id = TypeVar("Id", bound=Hashable)


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[Id]], weights: Mapping[str, float], k: int = RRF_K
) -> list[tuple[Id, float]]:
    """Fuse rankings by `sum of weight(r) / (k + rank_r)`, best first.

    Ranks count from 1; an item that a ranking lacks gets nothing from it. Ties keep the order in which the
    rankings were given. Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    scores: dict[Id, float] = {}
    for name, ranking in rankings.items():
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + weights[name] / (k + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])


def convex_combination(
    cosines: Mapping[Id, float], bm25s: Mapping[Id, float], alpha: float = CONVEX_ALPHA
) -> list[tuple[Id, float]]:
    """Fuse scores by `alpha * cos / max cos + (1 - alpha) * bm25 / max bm25`, best first.

    An item that one of them lacks, or has below zero, gets nothing from it. Ties keep the order in which the items
    were given, the cosines' first. Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval",
    TOIS 2023, with the theoretical minima of both scores taken as zero.
    """
    scores: dict[Id, float] = dict.fromkeys((*cosines, *bm25s), 0.0)
    for weight, values in ((alpha, cosines), (1.0 - alpha, bm25s)):
        best = max(values.values(), default=0.0)
        if best > 0.0:
            for item, value in values.items():
                scores[item] += weight * max(0.0, value) / best
    return sorted(scores.items(), key=lambda pair: -pair[1])
