"""Communities by Leiden's method, compiled and thus fast in a large graph. Only everindex[leiden] has its library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from graspologic_native import leiden, leiden_csr

if TYPE_CHECKING:
    from pipelines.graph.centrality import LinkGraph, Pairs

_SEED = 1
_ITERATIONS = 4
# A small graph's result varies most and costs least, so take the best of up to 12 runs.
_RUNS = 12
_RUNS_FOR_NOTES = 6_000
# How much better (in modularity) a division from scratch must be to replace the one that users know.
_BETTER = 0.003


def divide(graph: LinkGraph, previous: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Divide the notes into connected communities of high modularity, largest first, the same at each run.

    Louvain's method with Leiden's refinement (Traag, Waltman and van Eck, "From Louvain to Leiden", 2019). From
    scratch, a few new edges would move many notes. So if notes had a community in `previous`, that division is the
    start, and is replaced only by a division from scratch that is better by 0.003 of modularity.
    """
    if not graph.adjacency[0].size:
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
    (rows, columns), count = graph.adjacency, len(graph.paths)
    arrays = (np.searchsorted(rows, np.arange(count + 1)), columns.astype(np.int32), np.ones(len(columns)))
    runs = min(_RUNS, max(1, _RUNS_FOR_NOTES // count))
    quality, found = leiden_csr(*arrays, count, iterations=_ITERATIONS, seed=_SEED, trials=runs)
    return quality, [found[at] for at in range(count)]


def _from_previous(graph: LinkGraph, previous: Mapping[str, int]) -> tuple[float, list[int]]:
    """Return the same for the division that develops from `previous`; a note that is not in it starts alone."""
    (rows, columns), count = graph.adjacency, len(graph.paths)
    group = np.array([previous.get(path, -at) for at, path in enumerate(graph.paths, 1)])
    within = group[rows] == group[columns]
    # Split groups that fell apart here, because leiden would do it in random order; it takes numbers for positions,
    # so they must have no gaps.
    parts = _components((rows[within], columns[within]), count)
    start = np.unique(parts, return_inverse=True)[1]
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


def _components(pairs: Pairs, count: int) -> npt.NDArray[np.int64]:
    """Return the lowest number in each number's component; the pairs are in both directions.

    Two rounds at least halve the pieces of a component: who does not join a lower one is joined by another.
    """
    rows, columns = pairs
    lowest = np.arange(count)
    while (lowest[rows] != lowest[columns]).any():
        np.minimum.at(lowest, lowest[rows], lowest[columns])
        while (lowest != lowest[lowest]).any():
            lowest = lowest[lowest]
    return lowest
