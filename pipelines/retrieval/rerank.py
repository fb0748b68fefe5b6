"""Layer 3: what the vault's own links say of the candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.model import GraphMode, NoteFacts

VECTOR_WEIGHT, PAGERANK_WEIGHT, CENTRALITY_WEIGHT = 0.6, 0.25, 0.15
FEWEST_CITATIONS = 10
"""With fewer edges among the candidates' the graph says too little to take part."""


@dataclass(frozen=True, slots=True)
class GraphScore:
    """A candidate's score, and what went into it: each term before its weight, from 0 to 1; None: it has no rank."""

    score: float
    value: float
    pagerank: float | None
    centrality: float | None
    recency: float


def graph_scores(
    scores: Mapping[str, float],
    notes: Mapping[str, NoteFacts],
    mode: GraphMode,
    *,
    now: datetime,
    recency_days: int,
    recency_amount: float,
) -> dict[str, GraphScore]:
    """Score candidates anew, by path: `0.6 v + 0.25 pagerank + 0.15 centrality + recency`.

    `v` is the score so far, min-max scaled over the candidates (all equal: 1); PageRank and centrality are divided
    by the largest among the candidates. Where a note has no rank, `v` stands in for it ("folds back"). `linear` is
    exactly that, the source document's layer 3. With it a note that is cited once falls behind one that never is,
    whose `v` counts in full; in `lift` a rank that is lower than `v` folds back, too: links lift, and never lower.
    `recency` is added to what was modified within so many days before `now`.
    """
    lowest, highest = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    most_linked = _largest(note.pagerank for note in notes.values())
    most_central = _largest(note.centrality for note in notes.values())
    newest = now - timedelta(days=recency_days)
    found = {}
    for path, score in scores.items():
        note = notes[path]
        value = (score - lowest) / (highest - lowest) if highest > lowest else 1.0
        pagerank = _share(note.pagerank, most_linked)
        centrality = _share(note.centrality, most_central)
        recency = recency_amount if datetime.fromisoformat(note.modified_at) >= newest else 0.0
        total = (
            VECTOR_WEIGHT * value
            + PAGERANK_WEIGHT * _term(pagerank, value, mode)
            + CENTRALITY_WEIGHT * _term(centrality, value, mode)
            + recency
        )
        found[path] = GraphScore(total, value, pagerank, centrality, recency)
    return found


def _largest(ranks: Iterable[float | None]) -> float:
    return max((rank for rank in ranks if rank is not None), default=0.0)


def _share(rank: float | None, largest: float) -> float | None:
    if rank is None:
        return None
    return rank / largest if largest > 0.0 else 0.0


def _term(rank: float | None, value: float, mode: GraphMode) -> float:
    if rank is None:
        return value
    return max(rank, value) if mode == "lift" else rank
