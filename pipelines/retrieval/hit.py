"""A note among the candidates, as each layer passes it to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Hit:
    """A note among the candidates, with its best chunk.

    `signals` says what each signal adds to the score: `meaning`, `words` and `sentences` from fusion,
    and what a later layer adds or takes away. `scores` holds what each layer left: `cosine`, `bm25` (where the chunk
    has one), `fused`, `decay` (a factor), `decayed`, where the graph took part `votes` or `value`, `pagerank` and
    `centrality` (from 0 to 1), `recency` and `reranked`, where the question names a note `titled`, and for that note
    `named`: the share of the best score that its name is worth.
    """

    path: str
    chunk_id: int
    signals: Mapping[str, float]
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """Return the sum of all signals."""
        return sum(self.signals.values())

    def after(self, signals: Mapping[str, float], **left: float | None) -> Hit:
        """Return the hit as the next layer has it, with the signals it adds and what it `left`, but for None."""
        known = {name: value for name, value in left.items() if value is not None}
        return Hit(self.path, self.chunk_id, {**self.signals, **signals}, {**self.scores, **known})
