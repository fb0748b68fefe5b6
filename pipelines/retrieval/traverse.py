"""Walk along links and keep what resembles a question: a beam search that reads every neighbour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from pipelines.retrieval.thresholds import Thresholds
from pipelines.store.surroundings import Linked

RetainReason = Literal["seed", "above_prune_floor", "kept_despite_decay_zero"]
DropReason = Literal["below_prune_threshold", "beam_overflow", "decay_zero", "no_vector"]
Stop = Literal["good_enough", "no_more_links", "budget_spent", "depth"]

MOST_HOPS = 4
MOST_PER_HOP = 10_000
"""Upper bound on the embeddings that a hop reads, for hubs of thousands of notes: docs/traversal.md, "Measured"."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of a walk.

    `seeds`: how many notes to start from. `beam`: how many notes each hop continues with. `prune`: the lowest
    similarity that is kept. `target` and `floor`: stop at `target` notes whose mean similarity reaches `floor` (None:
    never). `decay_filters`: a decay weight of 0 drops a note. Each hop reads at most `budget` embeddings, including
    the seeds'.
    """

    seeds: int
    beam: int
    target: int
    prune: float
    floor: float | None
    decay_filters: bool
    budget: int


def fast(bars: Thresholds, *, by_note: bool = False) -> Effort:
    """Return the limits for ordinary questions; `by_note`: the question is a note's mean vector.

    Source document, "Iterative-deepening graph traversal".
    """
    return Effort(
        seeds=3,
        beam=5,
        target=10,
        prune=bars.note_prune if by_note else bars.prune,
        floor=bars.note_floor if by_note else bars.floor,
        decay_filters=True,
        budget=MOST_PER_HOP,
    )


def deep(bars: Thresholds) -> Effort:
    """Return the limits for questions that are worth more time. Source document, "Deep retrieval mode"."""
    return Effort(
        seeds=8,
        beam=12,
        target=50,
        prune=bars.noise,
        floor=None,
        decay_filters=False,
        budget=MOST_PER_HOP,
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """A note that was found: its hop, the edge to it (None: a seed), and its similarity (None: no vector)."""

    path: str
    hop: int
    similarity: float | None
    decay_weight: float
    edge: Linked | None
    reason: RetainReason


@dataclass(frozen=True, slots=True)
class Dropped:
    """A note that was read and left out."""

    path: str
    hop: int
    similarity: float | None
    decay_weight: float
    edge: Linked
    reason: DropReason


@dataclass(frozen=True, slots=True)
class Found:
    """What a walk found and left out, nearest first; `unread` counts linked notes beyond a hop's budget.

    `stopped` is `no_more_links` only if every note linked with a kept one was read.
    """

    kept: tuple[Kept, ...]
    dropped: tuple[Dropped, ...]
    embeddings: int
    unread: int
    stopped: Stop


@dataclass(frozen=True, slots=True)
class Measured:
    """The similarity of each note that was read (None: it has no vector), and the number of embeddings read."""

    similarity: Mapping[str, float | None]
    embeddings: int


Neighbours = Callable[[Sequence[str]], Iterable[Linked]]
"""The edges at notes, in any order."""

Measure = Callable[[Sequence[str], int], Measured]
"""Read notes in the given order, at most that many embeddings; notes left unread are missing in the result."""

Weigh = Callable[[Sequence[str]], Mapping[str, float]]
"""Return the decay weight of each note, relative to the others."""


def beam_search(
    seeds: Sequence[str],
    neighbours: Neighbours,
    measure: Measure,
    weigh: Weigh,
    effort: Effort,
    depth: int = MOST_HOPS,
) -> Found:
    """Walk from seeds along edges in both directions, at most `depth` hops.

    Each hop reads all neighbours of the notes that the last hop kept; if they exceed its budget, those with the best
    PageRank first. A note is judged once, at the hop that reads it; an unread note may be read at a later hop. A
    deeper walk finds everything that a shallower one finds. Source document, "Iterative-deepening graph traversal".
    """
    walk = _Walk(effort, weigh)
    walk.start(seeds, measure(seeds, effort.budget))
    stopped: Stop = "depth"
    for hop in range(1, depth + 1):
        ways = _ways(neighbours(walk.frontier), walk)
        if not ways:
            stopped = "budget_spent" if walk.unread else "no_more_links"
            break
        order = sorted(ways, key=lambda path: (-ways[path].rank, path))
        walk.judge(hop, ways, measure(order, effort.budget))
        if walk.is_good_enough():
            stopped = "good_enough"
            break
    return walk.found(stopped)


def _ways(edges: Iterable[Linked], walk: _Walk) -> dict[str, Linked]:
    """Return the edge that reaches each new note: from the frontier's best note, citations before other edges."""
    places = {path: place for place, path in enumerate(walk.frontier)}

    def key(edge: Linked) -> tuple[int, str, str]:
        return places[edge.target if edge.path == edge.source else edge.source], edge.kind, edge.source

    ways: dict[str, Linked] = {}
    for edge in edges:
        if edge.path not in walk.judged and (edge.path not in ways or key(edge) < key(ways[edge.path])):
            ways[edge.path] = edge
    return ways


@dataclass(slots=True)
class _Walk:
    """A walk in progress."""

    effort: Effort
    weigh: Weigh
    kept: list[Kept] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    frontier: list[str] = field(default_factory=list)
    judged: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    embeddings: int = 0

    def start(self, seeds: Sequence[str], measured: Measured) -> None:
        similarity = {path: measured.similarity.get(path) for path in seeds}
        self.frontier = sorted(similarity, key=lambda path: (-(similarity[path] or 0.0), path))
        weights = self.weigh(self.frontier)
        self.kept = [Kept(path, 0, similarity[path], weights[path], None, "seed") for path in self.frontier]
        self.judged = set(self.frontier)
        self.embeddings = measured.embeddings

    def judge(self, hop: int, ways: Mapping[str, Linked], measured: Measured) -> None:
        """Keep or drop every note that was read, and continue with the kept ones."""
        self.embeddings += measured.embeddings
        self.judged |= measured.similarity.keys()
        self.unread = (self.unread | ways.keys()) - self.judged
        weights = self.weigh([*(note.path for note in self.kept), *measured.similarity])
        best_first = sorted(measured.similarity.items(), key=lambda item: (-(item[1] or 0.0), item[0]))
        self.frontier = []
        for path, similarity in best_first:
            weight = weights[path]
            why = self._why_not(similarity, weight)
            if why:
                self.dropped.append(Dropped(path, hop, similarity, weight, ways[path], why))
                continue
            reason: RetainReason = "above_prune_floor" if weight > 0 else "kept_despite_decay_zero"
            self.kept.append(Kept(path, hop, similarity, weight, ways[path], reason))
            self.frontier.append(path)

    def _why_not(self, similarity: float | None, weight: float) -> DropReason | None:
        if similarity is None:
            return "no_vector"
        if similarity < self.effort.prune:
            return "below_prune_threshold"
        if weight <= 0 and self.effort.decay_filters:
            return "decay_zero"
        return "beam_overflow" if len(self.frontier) == self.effort.beam else None

    def is_good_enough(self) -> bool:
        known = [note.similarity for note in self.kept if note.similarity is not None]
        floor = self.effort.floor
        return (
            floor is not None
            and len(self.kept) >= self.effort.target
            and bool(known)
            and fmean(known) >= floor
        )

    def found(self, stopped: Stop) -> Found:
        return Found(tuple(self.kept), tuple(self.dropped), self.embeddings, len(self.unread), stopped)
