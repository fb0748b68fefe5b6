"""Layer 3: rerank the candidates by the vault's own links."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pipelines.model import NoteFacts
from pipelines.moments import moment_of

VECTOR_WEIGHT, PAGERANK_WEIGHT, CENTRALITY_WEIGHT = 0.6, 0.25, 0.15
LIFT, LEAD_OVER = 0.15, 5
"""Links add at most `LIFT` times the best score, and at most its lead over the candidate at place `LEAD_OVER`."""
FEWEST_CITATIONS = 10
"""With fewer edges among the candidates' links, the graph says too little to be used."""


@dataclass(frozen=True, slots=True)
class LinearScore:
    """A candidate's score without recency, and each unweighted term, from 0 to 1; None: it has no rank."""

    score: float
    value: float
    pagerank: float | None
    centrality: float | None


def linear_scores(scores: Mapping[str, float], notes: Mapping[str, NoteFacts]) -> dict[str, LinearScore]:
    """Score candidates by `0.6 v + 0.25 pagerank + 0.15 centrality`, by path: the source document's layer 3.

    `v` is the score so far, min-max scaled over the candidates (all equal: 1). PageRank and centrality are divided by
    the largest value among the candidates. Where a note has no rank, `v` is used instead ("folds back").
    """
    lowest, highest = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    most_linked = _largest(note.pagerank for note in notes.values())
    most_central = _largest(note.centrality for note in notes.values())
    found = {}
    for path, score in scores.items():
        value = (score - lowest) / (highest - lowest) if highest > lowest else 1.0
        pagerank = _share(notes[path].pagerank, most_linked)
        centrality = _share(notes[path].centrality, most_central)
        total = (
            VECTOR_WEIGHT * value
            + PAGERANK_WEIGHT * (value if pagerank is None else pagerank)
            + CENTRALITY_WEIGHT * (value if centrality is None else centrality)
        )
        found[path] = LinearScore(total, value, pagerank, centrality)
    return found


def link_votes(scores: Mapping[str, float], links: Mapping[str, Collection[str]]) -> dict[str, float]:
    """Return how much the other candidates' links support each candidate, from 0 to 1, by path.

    `links` are the notes that each candidate links to. A candidate votes for each of them with `v^2 / sqrt(number of
    links)`, with `v` as in `linear_scores`: a good match counts much, a list of links hardly. Votes for the same note
    combine like independent probabilities: `1 - product of (1 - vote)`.
    """
    lowest, highest = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    against: dict[str, float] = defaultdict(lambda: 1.0)
    for path, score in scores.items() if highest > lowest else ():
        targets = set(links.get(path, ())) - {path}
        value = (score - lowest) / (highest - lowest)
        for target in targets & scores.keys():
            against[target] *= 1.0 - value**2 / math.sqrt(len(targets))
    return {path: 1.0 - against[path] for path in scores}


def most_lifted(scores: Collection[float]) -> float:
    """Return the most that links can add to a score; a larger gap is never overturned.

    It is 0.15 of the best score, and at most its lead over the fifth candidate (with fewer than ten candidates, over
    the middle one): scores by rank lie close together and say little about how much better a match is.
    """
    ordered = sorted(scores, reverse=True)
    if not ordered:
        return 0.0
    fifth = ordered[min(LEAD_OVER, (len(ordered) + 1) // 2) - 1]
    return min(LIFT * max(0.0, ordered[0]), ordered[0] - fifth)


class Added(NamedTuple):
    """What the graph adds to a note's score, by signal, and the numbers that it leaves on the hit."""

    signals: Mapping[str, float]
    left: Mapping[str, float | None]


def by_linear_scores(scores: Mapping[str, float], notes: Mapping[str, NoteFacts]) -> dict[str, Added]:
    """Return what `linear_scores` adds to each candidate, by path: the signal `graph`."""
    return {
        path: Added(
            {"graph": terms.score - scores[path]},
            {"value": terms.value, "pagerank": terms.pagerank, "centrality": terms.centrality},
        )
        for path, terms in linear_scores(scores, notes).items()
    }


def by_votes(scores: Mapping[str, float], links: Mapping[str, Collection[str]]) -> dict[str, Added]:
    """Return what `link_votes` add to each candidate, by path: the signal `links`."""
    most = most_lifted(scores.values())
    votes = link_votes(scores, links)
    return {path: Added({"links": most * vote}, {"votes": vote}) for path, vote in votes.items()}


def is_recent(note: NoteFacts, now: datetime, days: int) -> bool:
    """Say whether a note changed in the last `days`; a date in the future is none, and the file's time counts."""
    for moment in (moment_of(note.changed), moment_of(note.modified_at)):
        if moment is not None and moment <= now:
            return (now - moment).total_seconds() <= days * 24 * 3600
    return True


def _largest(ranks: Iterable[float | None]) -> float:
    return max((rank for rank in ranks if rank is not None), default=0.0)


def _share(rank: float | None, largest: float) -> float | None:
    if rank is None:
        return None
    return rank / largest if largest > 0.0 else 0.0
