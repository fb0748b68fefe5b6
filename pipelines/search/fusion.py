"""Layer 1: fuse the results of two retrievers into one ranked list."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from pipelines.cache.passages import ChunkRow, Quantized
from pipelines.model import Absent
from pipelines.search.thresholds import Match

Signals = dict[str, float]
"""What each retriever adds to an item's score, by the retriever's name."""

RRF_K = 60
"""The constant of Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion", SIGIR 2009."""

Id = TypeVar("Id", bound=Hashable)


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[Id]],
    weights: Mapping[str, float],
    k: int = RRF_K,
    absent: Absent = "nothing",
) -> list[tuple[Id, Signals]]:
    """Fuse rankings by `sum of weight(r) / (k + rank_r)`, best first.

    Ranks count from 1; an item gets nothing from a ranking that lacks it, or with `absent="penalty"` the rank after
    its last (the source document's; an empty ranking says nothing of any item). Ties keep the order in which the
    rankings were given. Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    signals: dict[Id, Signals] = {}
    for name, ranking in rankings.items():
        for rank, item in enumerate(ranking, start=1):
            signals.setdefault(item, {})[name] = weights[name] / (k + rank)
    if absent == "penalty":
        last = {name: weights[name] / (k + len(rank) + 1) for name, rank in rankings.items() if rank}
        signals = {item: last | own for item, own in signals.items()}
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


# A note among the candidates, as each layer passes it to the next, and among the answers, with its best passage.


@dataclass(frozen=True, slots=True)
class NoteHit:
    """A note among the candidates, with its best chunk.

    `signals` says what each signal adds to the score: `meaning`, `words`, `sentences`, `usage` and `name_list` from
    fusion, and what later layers add or subtract. `scores` holds each layer's results: `cosine`, `bm25` (if the chunk
    has one), `fused`; of source files `symbol` (0.5 to 1: how well the question names the chunk's), `symbols`,
    `filenames`, `references`, `imported`; `decay` (a factor), `decayed`; `attention` (0 to 1), `attended`; with the
    graph `votes`, `walk` or `value`, `pagerank` and `centrality` (from 0 to 1), `recency` and `reranked`; `called`,
    and if the note's name has words of the question `name_share` (0 to 1); by a second model `second` (its score) and
    `rescored`; if the question names a note or a symbol `titled`, and for that note `named`, for the symbol's file
    `defined`: its share of the best.
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

    def after(self, signals: Mapping[str, float], **left: float | None) -> NoteHit:
        """Return the hit after the next layer, with the signals it adds and the scores it `left`, without None."""
        known = {name: value for name, value in left.items() if value is not None}
        return NoteHit(self.path, self.chunk_id, {**self.signals, **signals}, {**self.scores, **known})


@dataclass(frozen=True, slots=True)
class Found:
    """A note among the answers: its best chunk, its place in each layer, whether the file changed since indexing.

    `stale` is None if that is unknown, because the vault is unavailable. `sentences` are the quantized vectors of the
    chunk's sentences if they are prepared. `match`: its rating, None before it is judged. `around`: the text before
    and after the chunk.
    """

    domain: str
    hit: NoteHit
    chunk: ChunkRow
    ranks: Mapping[str, int] = field(default_factory=dict)
    stale: bool | None = None
    sentences: Quantized | None = None
    match: Match | None = None
    around: tuple[str, str] = ("", "")


# Notes that were chosen lately, and those that a second model rates higher, move up.


def lift_attended(hits: Sequence[NoteHit], attention: Mapping[str, float], amount: float) -> list[NoteHit]:
    """Add `amount` of the best score, times its attention, to each note that was chosen; return the best hit first.

    Attention counts up to 1, that of one choice just now: else notes that lead because they were chosen would be
    chosen because they lead, and so on.
    """
    most = amount * max((hit.score for hit in hits), default=0.0)
    lifted = []
    for hit in hits:
        share = min(1.0, attention.get(hit.path, 0.0))
        signals = {"attention": most * share} if share else {}
        lifted.append(hit.after(signals, attention=share or None, attended=hit.score + most * share))
    return sorted(lifted, key=lambda hit: -hit.score)


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """What a second model says of chunks: `scores` by id, as far as it can say; None: not now, which `why` explains.

    `depth` is the number of hits that it can rank in time.
    """

    scores: Callable[[Sequence[int]], Mapping[int, float] | None]
    depth: int
    why: str


def rescored(
    hits: Sequence[NoteHit], opinion: SecondOpinion, depth: int, weight: float
) -> list[NoteHit] | None:
    """Order the best `depth` hits by `weight * score + (1 - weight) * second`; None where the model says nothing.

    Both are scaled to lie between 0 and 1 among these hits, and what comes of them to the range of their scores, so
    that the hits stay before all others. A hit that the model says nothing of has its own score twice.
    """
    first, others = hits[:depth], hits[depth:]
    found = opinion.scores([hit.chunk_id for hit in first])
    if not found:
        return None
    own = _scaled({hit.chunk_id: hit.score for hit in first})
    second = own | _scaled(found)
    lowest, highest = min(hit.score for hit in first), max(hit.score for hit in first)
    again = []
    for hit in first:
        share = weight * own[hit.chunk_id] + (1.0 - weight) * second[hit.chunk_id]
        score = lowest + share * (highest - lowest)
        again.append(hit.after({"rerank": score - hit.score}, second=found.get(hit.chunk_id), rescored=score))
    again.sort(key=lambda hit: -hit.scores["rescored"])
    return [*again, *(hit.after({}, rescored=hit.score) for hit in others)]


def _scaled(scores: Mapping[int, float]) -> dict[int, float]:
    """Return scores as shares of their range; all equal: 1."""
    lowest, highest = min(scores.values()), max(scores.values())
    return {
        item: (score - lowest) / (highest - lowest) if highest > lowest else 1.0
        for item, score in scores.items()
    }


# Measure how long the stages of an answer take: timed where the work is done, collected by the caller.


STAGES = ("encode", "knn", "words", "fusion", "decay", "graph", "rerank", "excerpts")
"""In the order in which an answer passes through them."""


class _Stopwatch:
    """Seconds per stage. A nested stage stops the outer one's time, so that no time is counted twice."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside: list[str] = []
        self._since = 0.0

    def enter(self, name: str) -> None:
        self._charge()
        self._inside.append(name)

    def leave(self) -> None:
        self._charge()
        self._inside.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._inside:
            self.seconds[self._inside[-1]] += now - self._since
        self._since = now


_watch: ContextVar[_Stopwatch | None] = ContextVar("watch", default=None)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time the `with` block, or the decorated function, as a stage of the answer that is being timed."""
    watch = _watch.get()
    if watch is None:
        yield
        return
    watch.enter(name)
    try:
        yield
    finally:
        watch.leave()


@contextmanager
def timing() -> Iterator[Mapping[str, float]]:
    """Time the stages within the `with` block; yield the seconds by stage, complete at its end."""
    watch = _Stopwatch()
    token = _watch.set(watch)
    try:
        yield watch.seconds
    finally:
        _watch.reset(token)
