"""A note among the candidates, as each layer passes it to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Hit:
    """A note among the candidates, with its best chunk.

    `signals` says what each signal adds to the score: `meaning`, `words` and `sentences` from fusion, and what later
    layers add or subtract. `scores` holds each layer's results: `cosine`, `bm25` (if the chunk has one), `fused`; of
    source files `symbol` (0.5 to 1: how well the question names the chunk's), `symbols`, `filenames`, `references`,
    `imported`; `decay` (a factor), `decayed`; `attention` (0 to 1), `attended`; with the graph `votes` or `value`,
    `pagerank` and `centrality` (from 0 to 1), `recency` and `reranked`; `called`, and if the note's name has words of
    the question `name_share` (from 0 to 1); if the question names a note or a symbol `titled`, and for that note
    `named`, for the symbol's file `defined`: its share of the best.
    """

    path: str
    chunk_id: int
    signals: Mapping[str, float]
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """Return the sum of all signals."""
        return sum(self.signals.values())

    @property
    def is_named(self) -> bool:
        """Say whether the question names the note, or a symbol that it defines."""
        return "named" in self.scores or "defined" in self.scores

    def after(self, signals: Mapping[str, float], **left: float | None) -> Hit:
        """Return the hit after the next layer, with the signals it adds and the scores it `left`, without None."""
        known = {name: value for name, value in left.items() if value is not None}
        return Hit(self.path, self.chunk_id, {**self.signals, **signals}, {**self.scores, **known})
