"""Layer 1: fuse the results of two retrievers into one ranked list."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Signals = dict[str, float]
"""What each retriever adds to an item's score, by the retriever's name."""

RRF_K = 60
"""The constant of Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion", SIGIR 2009."""

Id = TypeVar("Id", bound=Hashable)


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[Id]], weights: Mapping[str, float], k: int = RRF_K
) -> list[tuple[Id, Signals]]:
    """Fuse rankings by `sum of weight(r) / (k + rank_r)`, best first.

    Ranks count from 1; an item gets nothing from a ranking that lacks it. Ties keep the order in which the rankings
    were given. Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    signals: dict[Id, Signals] = {}
    for name, ranking in rankings.items():
        for rank, item in enumerate(ranking, start=1):
            signals.setdefault(item, {})[name] = weights[name] / (k + rank)
    return best_first(signals)


def convex_combination(scores: Mapping[str, Mapping[Id, float]]) -> list[tuple[Id, Signals]]:
    """Fuse several kinds of scores by the mean of `score / max score`, best first.

    An item gets nothing from a kind that lacks it or scores it below zero. Ties keep the order in which the items
    were given. Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023, with zero as
    the theoretical minimum of all scores, and equal weights.
    """
    signals: dict[Id, Signals] = {item: {} for values in scores.values() for item in values}
    for name, values in scores.items():
        best = max(values.values(), default=0.0)
        if best > 0.0:
            for item, value in values.items():
                signals[item][name] = max(0.0, value) / best / len(scores)
    return best_first(signals)


def best_first(signals: Mapping[Id, Signals]) -> list[tuple[Id, Signals]]:
    """Order items by the sum of their signals; ties keep the given order."""
    return sorted(signals.items(), key=lambda pair: -sum(pair[1].values()))
