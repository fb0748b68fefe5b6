"""Walk along links and keep what resembles a question: a beam search that reads every neighbour."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Literal

from pipelines.cache.graph import Linked
from pipelines.cache.vectors import Vector, mean_vector
from pipelines.errors import NotComparableError
from pipelines.model import Domain
from pipelines.question import Question
from pipelines.search.find import find
from pipelines.search.rank import Source, decay_weights
from pipelines.search.thresholds import Thresholds
from pipelines.store import Cache
from pipelines.vault import files as vault

RetainReason = Literal["seed", "above_prune_floor", "kept_despite_decay_zero", "of_type"]
DropReason = Literal["below_prune_threshold", "beam_overflow", "decay_zero", "no_vector"]
Stop = Literal["good_enough", "no_more_links", "budget_spent", "depth"]

MOST_HOPS = 4
MOST_PER_HOP = 10_000
"""Upper bound on the embeddings that a hop reads, for hubs of thousands of notes: docs/notes/walks.md, "Measured"."""


MOST_OF_TYPES = 1_000
"""The most notes of a walk that compares nothing."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of a walk.

    `seeds`: how many notes to start from. `beam`: how many notes each hop continues with. `prune`: the lowest
    similarity that is kept. `target` and `floor`: stop at `target` notes whose mean similarity reaches `floor` (None:
    never). `decay_filters`: notes with a decay weight of 0 are dropped. Each hop reads at most `budget`
    embeddings, including the seeds'.
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
class WalkResult:
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
) -> WalkResult:
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

    def key(edge: Linked) -> tuple[int, str, str, bool, str]:
        place = places[edge.target if edge.path == edge.source else edge.source]
        return place, edge.kind, edge.source, edge.type is None, edge.type or ""

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

    def found(self, stopped: Stop) -> WalkResult:
        return WalkResult(tuple(self.kept), tuple(self.dropped), self.embeddings, len(self.unread), stopped)


# Find the notes nearest to a note, by the mean of its passages' vectors.


def nearest_notes(
    cache: Cache, vector: Vector, most: int, without: Collection[str], only: Sequence[int] | None = None
) -> list[tuple[str, int, float]]:
    """Return at most `most` notes except `without`, nearest first: path, the nearest chunk's id and its cosine.

    `only`: the chunks that are compared; None: all.
    Searches deeper until there are enough notes, because the chunks of a long note may take all the first places.
    """
    depth = 2 * most
    while True:
        near = cache.search.nearest(vector, depth, only)
        paths = cache.passages.chunk_paths([chunk_id for chunk_id, _ in near])
        best: dict[str, tuple[str, int, float]] = {}
        for chunk_id, cosine in near:
            path = paths.get(chunk_id)
            if path is not None and path not in without:
                best.setdefault(path, (path, chunk_id, cosine))
        if len(best) >= most or len(near) < depth:
            return list(best.values())[:most]
        depth *= 4


# Run a beam search over a domain's cache, reading everything it needs in one snapshot.


_AT_ONCE = 1_000  # vectors in memory


def explore(
    domain: Domain,
    cache: Cache,
    seeds: Sequence[str],
    vector: Vector,
    effort: Effort,
    *,
    depth: int = MOST_HOPS,
    root: Path | None,
    hidden: Collection[str] = frozenset(),
    types: Collection[str] = (),
) -> WalkResult:
    """Walk from notes of a domain towards notes that resemble a unit vector. Raises CacheError.

    A note whose file below `root` is gone is left out; with None (the vault is unavailable) files are not checked.
    The walk does not come to `hidden` notes, and with `types` follows only edges of these, as `explore_types` does.
    """
    with cache.snapshot():
        return _walk(domain, _Passages(cache), seeds, vector, effort, depth, root, hidden, types)


def explore_from(
    domain: Domain,
    cache: Cache,
    path: str,
    effort: Effort,
    *,
    depth: int,
    root: Path | None,
    hidden: Collection[str] = frozenset(),
) -> WalkResult | None:
    """Walk from a note towards notes that resemble it: the question is its mean vector. Raises CacheError.

    Return None if the note has no vector. Notes are left out as in `explore`.
    """
    with cache.snapshot():
        passages = _Passages(cache)
        mean = passages.mean(path, effort.budget)
        return None if mean is None else _walk(domain, passages, [path], mean, effort, depth, root, hidden)


def _walk(
    domain: Domain,
    passages: _Passages,
    seeds: Sequence[str],
    vector: Vector,
    effort: Effort,
    depth: int,
    root: Path | None,
    hidden: Collection[str],
    types: Collection[str] = (),
) -> WalkResult:
    cache = passages.cache

    def weigh(paths: Sequence[str]) -> dict[str, float]:
        if domain.decay.mode == "off":
            return dict.fromkeys(paths, 1.0)
        return decay_weights(cache.passages.note_facts(paths).values(), domain.decay, domain.path)

    known = cache.passages.note_facts(seeds)  # a seed may have been deleted since it was found
    found = beam_search(
        [path for path in seeds if path in known and path not in hidden],
        lambda paths: _edges(domain, cache, paths, hidden, types),
        partial(passages.measure, vector),
        weigh,
        effort,
        depth,
    )
    return found if root is None else _without_gone(found, cache, root)


def _edges(
    domain: Domain, cache: Cache, paths: Sequence[str], hidden: Collection[str], types: Collection[str]
) -> list[Linked]:
    """Return the edges at notes, without hidden ends; with `types`, those of these types as seen from the notes."""
    unseen, back = {*domain.configuration, *hidden}, domain.relations.back
    return [
        edge
        for edge in cache.graph.edges_at(paths)
        if edge.path not in unseen
        and (not types or (edge.type if edge.path == edge.target else back(edge.type)) in types)
    ]


def explore_types(
    domain: Domain,
    cache: Cache,
    path: str,
    types: Collection[str],
    *,
    depth: int,
    root: Path | None,
    hidden: Collection[str] = frozenset(),
) -> WalkResult:
    """Walk from a note along the edges of some types, and keep every note, best PageRank of a hop first.

    An edge is walked backwards by the inverse of its type, or by the type itself where the domain names no inverse.
    Nothing is compared, and no embedding read. The walk ends at 1,000 notes. Notes are left out as in `explore`.
    Raises CacheError.
    """
    kept = {path: Kept(path, 0, None, 1.0, None, "seed")}
    frontier, unread = [path], 0
    stopped: Stop = "depth"
    with cache.snapshot():
        for hop in range(1, depth + 1):
            ways: dict[str, Linked] = {}
            edges = _edges(domain, cache, frontier, hidden, types)
            for edge in sorted(
                edges, key=lambda one: (-one.rank, one.path, one.kind, one.source, one.type or "")
            ):
                if edge.path not in kept:
                    ways.setdefault(edge.path, edge)
            frontier = list(ways)[: MOST_OF_TYPES - len(kept)]
            unread = len(ways) - len(frontier)
            kept |= {one: Kept(one, hop, None, 1.0, ways[one], "of_type") for one in frontier}
            if unread or not frontier:
                stopped = "budget_spent" if unread else "no_more_links"
                break
        found = WalkResult(tuple(kept.values()), (), 0, unread, stopped)
        return found if root is None else _without_gone(found, cache, root)


class _Passages:
    """Notes' passages, each read once; the question is one vector, so only a passage's cosine is kept."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._cosines: dict[str, float] = {}
        self._told = 0

    def mean(self, path: str, most: int) -> Vector | None:
        """Return the mean of a note's (first `most`) vectors at unit length, or None if it has none."""
        hashes = self.cache.passages.text_hashes([path]).get(path, [])[:most]
        vectors = self.cache.vectors.of(set(hashes))
        mean = mean_vector([vectors[text_hash] for text_hash in hashes if text_hash in vectors])
        if mean is not None:
            self._compare(vectors, mean)
        return mean

    def measure(self, wanted: Vector, paths: Sequence[str], most: int) -> Measured:
        """Return the similarity of each note's best passage to a unit vector, reading at most `most` embeddings.

        Reads one passage of each note first, in their order, then the other passages of the notes that look best so
        far.
        """
        hashes = self.cache.passages.text_hashes(paths[:most])
        first = {path: hashes.get(path, [])[:1] for path in paths[:most]}
        self._read(wanted, [text_hash for some in first.values() for text_hash in some])
        best = {path: self._best(some) for path, some in first.items()}
        left = most - sum(map(len, first.values()))
        more: dict[str, list[str]] = {}
        for path in sorted(best, key=lambda path: (-(best[path] or 0.0), path)):
            more[path] = hashes.get(path, [])[1 : 1 + left]
            left -= len(more[path])
        self._read(wanted, [text_hash for some in more.values() for text_hash in some])
        fresh, self._told = len(self._cosines) - self._told, len(self._cosines)
        return Measured({path: self._best(first[path] + more[path]) for path in first}, fresh)

    def _best(self, hashes: Sequence[str]) -> float | None:
        known = (self._cosines.get(text_hash) for text_hash in hashes)
        return max((cosine for cosine in known if cosine is not None), default=None)

    def _read(self, wanted: Vector, hashes: Sequence[str]) -> None:
        new = list(dict.fromkeys(text_hash for text_hash in hashes if text_hash not in self._cosines))
        for start in range(0, len(new), _AT_ONCE):
            self._compare(self.cache.vectors.of(new[start : start + _AT_ONCE]), wanted)

    def _compare(self, vectors: Mapping[str, Vector], wanted: Vector) -> None:
        self._cosines |= {text_hash: float(vector @ wanted) for text_hash, vector in vectors.items()}


def _without_gone(found: WalkResult, cache: Cache, root: Path) -> WalkResult:
    """Leave out the notes whose files are gone."""
    paths = [note.path for note in found.kept] + [note.path for note in found.dropped]
    files = cache.ledger.stat_of(paths)
    there = {path for path, (raw, *_) in files.items() if vault.look(root, raw)}
    return replace(
        found,
        kept=tuple(note for note in found.kept if note.path in there),
        dropped=tuple(note for note in found.dropped if note.path in there),
    )


# Deep retrieval: start a walk along links at the search's best notes, and compare it with the fast walk.


@dataclass(frozen=True, slots=True)
class WalkDifference:
    """The notes that only the deep walk kept, most similar first, and those that only the fast walk kept."""

    added: tuple[str, ...]
    lost: tuple[str, ...]


def retrieve(
    source: Source,
    question: Question,
    effort: Effort,
    *,
    root: Path,
    present: bool,
    now: datetime,
    left_out: Collection[str] = frozenset(),
) -> WalkResult:
    """Search a domain for a question, and walk on from its best notes; the walk does not come to those `left_out`.

    While the vault is unavailable (`present` false), no note is left out for a missing file. Raises CacheError, and
    NotComparableError if the source has no vector of the question.
    """
    best, failed = find([source], question, effort.seeds, root=root, present=present, now=now)
    for error in failed.values():
        raise error
    seeds = [one.hit.path for one in best]
    unseen = {*source.hidden, *left_out}
    if source.vector is None:
        raise NotComparableError(
            f"{source.domain.slug}: the question has no vector to walk by; load the model"
        )
    return explore(
        source.domain,
        source.cache,
        seeds,
        source.vector,
        effort,
        root=root if present else None,
        hidden=unseen,
    )


def compare(fast: WalkResult, deep: WalkResult) -> WalkDifference:
    """Return what deep mode adds, and what it leaves out because better notes filled the beam."""
    known, wide = {note.path for note in fast.kept}, {note.path for note in deep.kept}
    by_similarity = sorted(deep.kept, key=lambda note: (-(note.similarity or 0.0), note.path))
    return WalkDifference(
        added=tuple(note.path for note in by_similarity if note.path not in known),
        lost=tuple(note.path for note in fast.kept if note.path not in wide),
    )
