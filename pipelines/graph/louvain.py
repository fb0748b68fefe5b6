"""Communities by networkx's Louvain: pure Python, which in a large graph would block other threads for seconds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from pipelines.child import Child

if TYPE_CHECKING:
    from pipelines.graph.centrality import LinkGraph

SEED = 1
# Up to this many pairs of linked notes, Louvain's method runs in this process: it takes at most about 15 ms, and
# starting a process takes 0.3 s.
_FEW_PAIRS = 1_000


class TookTooLongError(Exception):
    """The division took longer than it was given."""


def louvain(graph: LinkGraph, child: Child, seconds: float = inf) -> list[tuple[str, ...]]:
    """Divide the notes into communities of high modularity, largest first, with the same result at each run.

    Blondel et al., "Fast unfolding of communities in large networks", 2008. More than 1,000 linked pairs are divided
    in a separate process. Raises TookTooLongError after about `seconds`, ChildDiedError, ApartStoppedError.
    """

    def beat(spent: float) -> None:
        if spent >= seconds:
            raise TookTooLongError

    rows, columns = graph.adjacency
    once = rows < columns
    pairs = list(zip(rows[once].tolist(), columns[once].tolist(), strict=True))
    groups: list[list[int]] = []
    if pairs:
        few = len(pairs) <= _FEW_PAIRS
        groups = divide_pairs(pairs) if few else child.call(divide_pairs, pairs, beat=beat)
    named = [tuple(graph.paths[at] for at in sorted(group)) for group in groups]
    return sorted(named, key=lambda group: (-len(group), group))


def divide_pairs(pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the communities of a graph given by its edges, each of which appears once."""
    import networkx as nx  # noqa: PLC0415 - takes 0.15 s, and most processes never need it

    return [list(group) for group in nx.community.louvain_communities(nx.Graph(pairs), seed=SEED)]
