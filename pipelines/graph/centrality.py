"""Rank notes and find those that belong together: PageRank, eigenvector centrality, communities and their labels.

Pure: paths and edges in, numbers and names out. An edge counts once, however often it is written. An edge from a note
to itself, or to something that is not among the paths, does not count. A note without an edge to another note is
isolated: it has no rank and no community. PageRank may use other kinds of edges than centrality and communities; a
note without an edge of the kinds that a figure uses does not have that figure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import log, sqrt
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
from graspologic_native import leiden, leiden_csr

from pipelines.model import CentralityBy, CentralOver, EdgeKind, PagerankOver
from pipelines.notes.lexical import STOPWORDS

# Keep the numbers of communities stable, and label them by the tags or title words that set their notes apart.


_SHARED = 2
_LABEL_TERMS = 3
_ANY_TERMS = 2
_WORD = re.compile(r"[^\W\d_][\w'-]*[^\W_]")


def keep_ids(groups: Sequence[Sequence[str]], previous: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
    """Give each community a number: an id goes where most of its members that are still in any community go.

    If two ids go to the same community, the one with more members in it wins. A community without an id gets a new
    one, in order, above all ids in use.
    """
    came = [Counter(previous[path] for path in group if path in previous) for group in groups]
    left: Counter[int] = Counter()
    for ids in came:
        left.update(ids)
    number: dict[int, int] = {}
    new = max(previous.values(), default=0) + 1
    for at, ids in enumerate(came):
        kept = [(-stayed, old) for old, stayed in ids.items() if 2 * stayed > left[old]]
        number[at] = min(kept)[1] if kept else new
        new += not kept
    return {number[at]: tuple(group) for at, group in enumerate(groups)}


def label_communities(
    communities: Mapping[int, Sequence[str]], titles: Mapping[str, str], tags: Mapping[str, Sequence[str]]
) -> dict[int, str]:
    """Label each community by two or three tags or title words that set it apart, joined by commas.

    First come terms that at least two members have, at no less than twice the rate of all other ranked notes; tags
    come before words; then class-based TF-IDF decides, tf * log(1 + A / f) (Grootendorst, "BERTopic", 2022): tf
    members and f of all notes have the term, A is the mean number of terms per community. Without terms, the first
    file names it.
    """
    words = {
        path: [word for word in _WORD.findall(title) if word.casefold() not in STOPWORDS]
        for path, title in titles.items()
    }
    by_tag, by_word = _scored(communities, tags), _scored(communities, words)
    labels = {}
    for number, group in communities.items():
        candidates = [(common, 0, score, term) for common, score, term in by_tag[number]]
        candidates += [(common, 1, score, term) for common, score, term in by_word[number]]
        labels[number] = ", ".join(_chosen(sorted(candidates))) or PurePosixPath(group[0]).stem
    return labels


def _scored(
    communities: Mapping[int, Sequence[str]], terms: Mapping[str, Sequence[str]]
) -> dict[int, list[tuple[bool, float, str]]]:
    """Return each community's terms: whether it is too common, its negated score, its most frequent spelling."""
    here: dict[int, Counter[str]] = {}
    everywhere: Counter[str] = Counter()
    written: dict[str, Counter[str]] = {}
    for number, group in communities.items():
        here[number] = Counter()
        for path in group:
            spelled = {term.casefold(): term for term in terms.get(path, ())}
            here[number].update(spelled.keys())
            for key, term in spelled.items():
                written.setdefault(key, Counter())[term] += 1
        everywhere.update(here[number])
    shown = {
        key: min(spellings, key=lambda term: (-spellings[term], term)) for key, spellings in written.items()
    }
    mean = everywhere.total() / max(1, len(communities))
    everyone = sum(map(len, communities.values()))
    scored = {}
    for number, counts in here.items():
        size = len(communities[number])
        scored[number] = [
            (
                count < _SHARED or count * (everyone - size) < 2 * (everywhere[key] - count) * size,
                -count * log(1 + mean / everywhere[key]),
                shown[key],
            )
            for key, count in counts.items()
        ]
    return scored


def _chosen(candidates: Iterable[tuple[bool, int, float, str]]) -> list[str]:
    """Return the first terms that add something new: three that set the community apart, or two of any kind."""
    chosen: list[str] = []
    said: set[str] = set()
    for common, _, _, term in candidates:
        if len(chosen) >= (_ANY_TERMS if common else _LABEL_TERMS):
            break
        words = set(re.split(r"\W+", term.casefold()))
        if not words <= said:
            chosen.append(term)
            said |= words
    return chosen


Edge = tuple[str, str, EdgeKind, int]
"""A resolved link: source, target, kind, and how often it is written."""
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DAMPING = 0.85
_KINDS: Mapping[CentralOver, frozenset[EdgeKind]] = {
    "citations": frozenset({"citation"}),
    "links": frozenset({"citation", "wikilink"}),
    "all": frozenset({"citation", "wikilink", "embed"}),
}
# Maximum error of PageRank: the sum of all differences from the exact vector.
_RANK_ERROR = 1e-10
# Maximum residual of the eigenvector equation, relative to the eigenvalue; anything smaller is rounding.
_RESIDUAL = 1e-13
_ROUNDING = 1e-11
_BASIS = 64
_ROUNDS = 48
_SEED = 1
_ITERATIONS = 4
# A small graph's result varies most and costs least, so take the best of up to 12 runs.
_RUNS = 12
_RUNS_FOR_NOTES = 6_000
# How much better (in modularity) a division from scratch must be to replace the one that users know.
_BETTER = 0.003


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The notes that have an edge to another note, ordered by path, and the links among them.

    `links` has the positions of source and target of each edge that PageRank uses, `adjacency` is the symmetric 0/1
    matrix (SciPy, CSR) of the edges that centrality and communities use.
    """

    paths: tuple[str, ...]
    links: tuple[Ints, Ints]
    adjacency: Any


@dataclass(frozen=True, slots=True)
class NoteRank:
    """A note's place in the graph. Over all notes of the graph, the squares of centrality sum to 1.

    PageRank sums to 1 over the notes that have any edge, as Brin and Page's formula and networkx do. None: the note
    has no edge of the kinds that this figure uses; what PageRank gives to such a note is left out, so that the others
    may sum to less than 1.
    """

    pagerank: float | None
    centrality: float | None
    community: int | None


Divide = Callable[[LinkGraph, Mapping[str, int]], list[tuple[str, ...]]]
"""Divide a graph into communities, largest first, given each note's previous community."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of every path, None for an isolated note; the members of each community, ordered by path.

    `centrality_by` says how centrality was computed: by degree if the eigenvector was not found.
    """

    notes: Mapping[str, NoteRank | None]
    centrality_by: CentralityBy
    communities: Mapping[int, tuple[str, ...]]


def rank_notes(
    paths: Iterable[str],
    edges: Iterable[Edge],
    *,
    over: PagerankOver,
    central_over: CentralOver = "all",
    previous: Mapping[str, int],
    divided: Divide | None = None,
) -> Ranks:
    """Rank the notes of a domain and divide them into communities, by `divide` unless `divided` is given.

    `over` are the edges that PageRank uses, `central_over` those that centrality and communities use. `previous` has
    each note's last community, a positive id, and is empty at first.
    """
    paths = tuple(paths)
    graph = link_graph(paths, edges, over=over, central_over=central_over)
    ranks, is_ranked = pagerank(graph), _ends(graph)
    central, by = centrality(graph)
    is_central = np.diff(graph.adjacency.indptr) > 0
    alone = {path for path, linked in zip(graph.paths, is_central.tolist(), strict=True) if not linked}
    groups = [group for group in (divided or divide)(graph, previous) if group[0] not in alone]
    members = keep_ids(groups, previous)
    community = {path: number for number, group in members.items() for path in group}
    notes: dict[str, NoteRank | None] = dict.fromkeys(paths)
    for at, path in enumerate(graph.paths):
        notes[path] = NoteRank(
            float(ranks[at]) if is_ranked[at] else None,
            None if path in alone else float(central[at]),
            community.get(path),
        )
    return Ranks(notes, by, members)


def _ends(graph: LinkGraph) -> npt.NDArray[np.bool_]:
    """Say for each note whether an edge that PageRank uses begins or ends at it."""
    found = np.zeros(len(graph.paths), dtype=np.bool_)
    for ends in graph.links:
        found[ends] = True
    return found


def link_graph(
    paths: Iterable[str], edges: Iterable[Edge], *, over: PagerankOver, central_over: CentralOver = "all"
) -> LinkGraph:
    """Drop the edges that do not count, and number the remaining notes; the order of the input does not matter."""
    from scipy.sparse import csr_array  # noqa: PLC0415  (a tenth of a second)

    ordered = sorted(set(paths))
    number = {path: at for at, path in enumerate(ordered)}
    edges = tuple(edges)
    source = np.array([number.get(edge[0], -1) for edge in edges], dtype=np.int64)
    target = np.array([number.get(edge[1], -1) for edge in edges], dtype=np.int64)
    ranked = np.array([edge[2] in _KINDS[over] for edge in edges], dtype=np.bool_)
    central = np.array([edge[2] in _KINDS[central_over] for edge in edges], dtype=np.bool_)
    counts = (source >= 0) & (target >= 0) & (source != target) & (ranked | central)
    linked = np.zeros(len(ordered), dtype=np.bool_)
    linked[source[counts]] = linked[target[counts]] = True
    place = np.cumsum(linked) - 1
    size = int(linked.sum())
    there = np.unique(place[source[counts & ranked]] * size + place[target[counts & ranked]])
    one, other = place[source[counts & central]], place[target[counts & central]]
    both = np.unique(np.concatenate([one * size + other, other * size + one]))
    return LinkGraph(
        tuple(compress(ordered, linked.tolist())),
        divmod(there, max(size, 1)),
        csr_array((np.ones(len(both)), divmod(both, max(size, 1))), shape=(size, size)),
    )


def pagerank(graph: LinkGraph) -> Floats:
    """Return each note's PageRank (d = 0.85, unweighted; a note without links spreads its rank evenly), sum 1.

    The sum of all differences from the exact vector is below 1e-9. Solves (I - dP)x = 1 by its Neumann series and
    scales x, which gives the same vector (Del Corso, Gulli and Romani, "Fast PageRank computation via a sparse linear
    system", 2005); the rest of the series is known at each step.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415

    count = len(graph.paths)
    source, target = graph.links
    share = DAMPING / np.bincount(source, minlength=count)[source]
    step = csr_array((share, (target, source)), shape=(count, count))
    term = np.ones(count)
    total = term.copy()
    while term.sum() * DAMPING / (1 - DAMPING) > _RANK_ERROR * total.sum():
        term = step @ term
        total += term
    return np.asarray(total / total.sum())


def centrality(graph: LinkGraph) -> tuple[Floats, CentralityBy]:
    """Return each note's eigenvector centrality, or its degree centrality if the solver does not converge.

    The vector is the limit of power iteration on A + I from all ones, with length 1: the projection of all ones on
    the eigenspace of the largest eigenvalue. So among several components, those with the largest eigenvalue get
    everything and the others 0; components with the same eigenvalue each get their own vector times its sum. Lanczos'
    method from all ones never leaves this projection (Golub and Van Loan, "Matrix Computations", chapter 10).
    """
    count = len(graph.paths)
    if count == 0:
        return np.zeros(0), "eigenvector"
    vector = _dominant(graph.adjacency, np.ones(count))
    if vector is None:
        return np.diff(graph.adjacency.indptr) / (count - 1), "degree"
    vector = np.abs(vector)
    vector[vector < _ROUNDING] = 0.0
    return vector / np.linalg.norm(vector), "eigenvector"


def _dominant(matrix: Any, start: Floats) -> Floats | None:
    """Return the projection of a vector on a symmetric matrix's dominant eigenspace, scaled; None if not found."""
    for _ in range(_ROUNDS):
        start, converged = _lanczos(matrix, start / np.linalg.norm(start))
        if converged:
            return start
    return None


def _lanczos(matrix: Any, start: Floats) -> tuple[Floats, bool]:
    """Return the best approximation in the Krylov space of a unit vector, and whether it is an eigenvector."""
    from scipy.linalg import eigh_tridiagonal  # noqa: PLC0415

    size = min(_BASIS, len(start))
    basis = np.empty((size, len(start)))
    basis[0] = start
    diagonal, beside = np.zeros(size), np.zeros(size)
    # Sums of products instead of `@`, for which BLAS would start threads that wait for the busy cores of a small
    # machine.
    for step in range(size):
        rest = matrix @ basis[step]
        diagonal[step] = (basis[step] * rest).sum()
        rest -= diagonal[step] * basis[step]
        if step:
            rest -= beside[step - 1] * basis[step - 1]
        beside[step] = left = sqrt((rest * rest).sum())
        # Checked at each step, because past convergence rounding would lead out of the projection.
        value, vector = eigh_tridiagonal(
            diagonal[: step + 1], beside[:step], select="i", select_range=(step, step)
        )
        converged = left < _ROUNDING or left * abs(vector[-1, 0]) < _RESIDUAL * value[0]
        if converged or step + 1 == size:
            break
        basis[step + 1] = rest / left
    return np.einsum("i,ij", vector[:, 0], basis[: step + 1]), bool(converged)


def divide(graph: LinkGraph, previous: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Divide the notes into connected communities of high modularity, largest first, the same at each run.

    Louvain's method with Leiden's refinement (Traag, Waltman and van Eck, "From Louvain to Leiden", 2019). From
    scratch, a few new edges would move many notes. So if notes had a community in `previous`, that division is the
    start, and is replaced only by a division from scratch that is better by 0.003 of modularity.
    """
    if not graph.adjacency.nnz:
        return []
    quality, division = _from_scratch(graph)
    if not previous.keys().isdisjoint(graph.paths):
        known_quality, known = _from_previous(graph, previous)
        if quality < known_quality + _BETTER:
            division = known
    members: dict[int, list[str]] = {}
    for path, community in zip(graph.paths, division, strict=True):
        members.setdefault(community, []).append(path)
    return sorted((tuple(group) for group in members.values()), key=lambda group: (-len(group), group))


def _from_scratch(graph: LinkGraph) -> tuple[float, list[int]]:
    """Return the modularity of a new division, and the community of each note."""
    matrix, count = graph.adjacency, len(graph.paths)
    arrays = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
    runs = min(_RUNS, max(1, _RUNS_FOR_NOTES // count))
    quality, found = leiden_csr(*arrays, count, iterations=_ITERATIONS, seed=_SEED, trials=runs)
    return quality, [found[at] for at in range(count)]


def _from_previous(graph: LinkGraph, previous: Mapping[str, int]) -> tuple[float, list[int]]:
    """Return the same for the division that develops from `previous`; a note that is not in it starts alone."""
    from scipy.sparse import csr_array  # noqa: PLC0415
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    count = len(graph.paths)
    group = np.array([previous.get(path, -at) for at, path in enumerate(graph.paths, 1)])
    rows, columns = np.repeat(np.arange(count), np.diff(graph.adjacency.indptr)), graph.adjacency.indices
    within = group[rows] == group[columns]
    inner = csr_array((np.ones(within.sum()), (rows[within], columns[within])), shape=(count, count))
    # Split groups that fell apart here, because leiden would do it in random order; it takes numbers for positions,
    # so they must have no gaps.
    _, start = connected_components(inner, directed=False)
    # Numbers as names instead of paths, because Rust requires Unicode and a path need not be Unicode.
    names = [str(at) for at in range(count)]
    pairs = zip(rows[rows < columns].tolist(), columns[rows < columns].tolist(), strict=True)
    quality, found = leiden(
        [(names[one], names[other], 1.0) for one, other in pairs],
        starting_communities=dict(zip(names, start.tolist(), strict=True)),
        iterations=_ITERATIONS,
        seed=_SEED,
    )
    # leiden leaves out notes without an edge.
    return quality, [found.get(name, -at) for at, name in enumerate(names, 1)]
