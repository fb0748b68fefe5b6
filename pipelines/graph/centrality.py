"""Rank notes and name those that belong together: PageRank, eigenvector centrality, communities and their labels.

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

import numpy as np
import numpy.typing as npt

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
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

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
# LAPACK uses no threads for so small a basis.
_BASIS = 24
_KEPT = 8
_STEPS = 3_072


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The notes that have an edge to another note, ordered by path, and the links among them.

    `links` has the positions of source and target of each edge that PageRank uses, `adjacency` those of the edges
    that centrality and communities use, in both directions. Both are in order, and have each pair once.
    """

    paths: tuple[str, ...]
    links: Pairs
    adjacency: Pairs


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
"""Divide a graph into connected communities, largest first, given each note's previous community."""


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
    divide: Divide,
) -> Ranks:
    """Rank the notes of a domain, and divide them into communities by `divide`.

    `over` are the edges that PageRank uses, `central_over` those that centrality and communities use. `previous` has
    each note's last community, a positive id, and is empty at first.
    """
    paths = tuple(paths)
    graph = link_graph(paths, edges, over=over, central_over=central_over)
    ranks, is_ranked = pagerank(graph), _ends(graph, graph.links)
    central, by = centrality(graph)
    alone = set(compress(graph.paths, ~_ends(graph, graph.adjacency)))
    groups = [group for group in divide(graph, previous) if group[0] not in alone]
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


def _ends(graph: LinkGraph, edges: Pairs) -> npt.NDArray[np.bool_]:
    """Say for each note whether one of the edges begins or ends at it."""
    found = np.zeros(len(graph.paths), dtype=np.bool_)
    for ends in edges:
        found[ends] = True
    return found


def link_graph(
    paths: Iterable[str], edges: Iterable[Edge], *, over: PagerankOver, central_over: CentralOver = "all"
) -> LinkGraph:
    """Drop the edges that do not count, and number the remaining notes; the order of the input does not matter."""
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
        divmod(both, max(size, 1)),
    )


def pagerank(graph: LinkGraph) -> Floats:
    """Return each note's PageRank (d = 0.85, unweighted; a note without links spreads its rank evenly), sum 1.

    The sum of all differences from the exact vector is below 1e-9. Solves (I - dP)x = 1 by its Neumann series and
    scales x, which gives the same vector (Del Corso, Gulli and Romani, "Fast PageRank computation via a sparse linear
    system", 2005); the rest of the series is known at each step.
    """
    count = len(graph.paths)
    share = DAMPING / np.maximum(np.bincount(graph.links[0], minlength=count), 1)
    term: Floats = np.ones(count)
    total = term.copy()
    while term.sum() * DAMPING / (1 - DAMPING) > _RANK_ERROR * total.sum():
        term = _carry(graph.links, share * term)
        total += term
    return np.asarray(total / total.sum())


def _carry(edges: Pairs, values: Floats) -> Floats:
    """Return the sum that comes to each note if each edge carries the value of its source to its target."""
    source, target = edges
    return np.asarray(np.bincount(target, values.take(source), len(values)), dtype=np.float64)


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
    vector = _dominant(graph.adjacency, count)
    if vector is None:
        return np.bincount(graph.adjacency[0], minlength=count) / (count - 1), "degree"
    vector = np.abs(vector)
    vector[vector < _ROUNDING] = 0.0
    return vector / np.linalg.norm(vector), "eigenvector"


def _dominant(adjacency: Pairs, count: int) -> Floats | None:
    """Return the projection of all ones on the dominant eigenspace, scaled; None if it is not found.

    When the basis is full, its best approximations of eigenvectors begin the next one (Wu and Simon, "Thick-restart
    Lanczos method for large symmetric eigenvalue problems", 2000).
    """
    size = min(_BASIS, count)
    kept = min(_KEPT, size - 1)
    basis = np.empty((size, count))
    basis[0] = 1 / sqrt(count)
    small = np.zeros((size, size))
    step = 0
    # Sums of products instead of `@`, for which BLAS would start threads that wait for the busy cores of a small
    # machine.
    for _ in range(_STEPS):
        rest = _carry(adjacency, basis[step])
        small[step, step] = (basis[step] * rest).sum()
        for at in np.flatnonzero(small[step]):
            rest -= small[step, at] * basis[at]
        left = sqrt((rest * rest).sum())
        # Checked at each step, because past convergence rounding would lead out of the projection.
        values, vectors = np.linalg.eigh(small[: step + 1, : step + 1])
        if left < _ROUNDING or left * abs(vectors[-1, -1]) < _RESIDUAL * values[-1]:
            return np.asarray(np.einsum("i,ij", vectors[:, -1], basis[: step + 1]))
        step += 1
        if step < size:
            small[step, step - 1] = left
        else:
            step = kept
            basis[:kept] = np.einsum("ik,ij->kj", vectors[:, -kept:], basis)
            small[:] = 0
            small[range(kept), range(kept)] = values[-kept:]
            small[kept, :kept] = left * vectors[-1, -kept:]
        basis[step] = rest / left
    return None
