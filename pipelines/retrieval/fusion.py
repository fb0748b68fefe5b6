"""Layer 1: two ranked lists become one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

RRF_K = 60
"""The constant of Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion", SIGIR 2009."""

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
