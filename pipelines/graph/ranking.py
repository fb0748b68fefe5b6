"""Compute a domain's ranks and communities from its edges, and store them at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf, isclose
from pathlib import Path

from pipelines.cache.cache import SqliteCache
from pipelines.cache.graph import RankedBy, StoredGraph
from pipelines.child import Child
from pipelines.errors import ChildDiedError
from pipelines.graph.centrality import Divide, LinkGraph, Ranks, label_communities, rank_notes
from pipelines.graph.louvain import TookTooLongError, louvain
from pipelines.model import Domain
from pipelines.store import Cache

# Tolerates another machine's rounding; a damaged rank is off by far more.
_CLOSE = 1e-6


# How long Louvain's method, which is pure Python, may take if Leiden's, which then divides the graph, is installed.
_LOUVAIN_SECONDS = 10.0
_AGAIN_SECONDS = 24 * 3600.0
_MANY_LINKS = 10_000  # computing with them takes longer than the 0.3 s in which a process starts


@dataclass(frozen=True, slots=True)
class RankingResult:
    """How many notes have a rank now; `problem`: the communities were not computed by the domain's method."""

    notes: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Computed:
    """What is written at once, and the problem that a person should know of."""

    generation: int
    ranks: Sequence[tuple[str, float, float, int]]
    labels: Mapping[int, str]
    by: RankedBy
    problem: str | None


def rank_domain(cache: Cache, domain: Domain, child: Child | None = None) -> RankingResult:
    """Recompute a domain's ranks and communities. Raises CacheError, ApartStoppedError.

    Those of many links are computed in a `child`: a save that shares this process would wait for Python's lock.
    """
    child = child or Child()
    found = _computed_apart(cache, domain, child) or _computed(cache, domain, child)
    cache.graph.write_ranks(found.generation, found.ranks, found.labels, found.by)
    return RankingResult(len(found.ranks), found.problem)


def _computed_apart(cache: Cache, domain: Domain, child: Child) -> _Computed | None:
    """Return what a child process computes; None for few links, and if the process died."""
    if cache.graph.edges_and_communities()[0] < _MANY_LINKS:
        return None
    try:
        found: _Computed = child.call(compute, cache.path, domain)
    except ChildDiedError:
        return None
    return found


def compute(path: Path, domain: Domain) -> _Computed:
    """Return the ranks and communities of the domain whose cache is at a path. Raises CacheError."""
    with closing(SqliteCache.open(path)) as cache:
        return _computed(cache, domain, Child())


def _computed(cache: Cache, domain: Domain, child: Child) -> _Computed:
    """Compute a domain's ranks and communities, Louvain's in a `child`.

    If Louvain's method fails or takes longer than ten seconds, Leiden's is used. Louvain's is not tried again on a
    graph that took longer before it has fewer links, or a day has passed: the machine may have been busy. Where
    Leiden's is not installed, Louvain's may take any time, and if it fails, the communities stay as they are.
    """
    stored, before = cache.graph.read(), cache.graph.ranked_by()
    slow_pairs, slow_at = (before.slow_pairs or 0, before.slow_at) if before else (0, 0.0)
    settings, used, problem = _settings(domain), domain.communities, None
    has_leiden = _has_leiden()
    if used == "leiden" and not has_leiden:
        used = "louvain"
        problem = (
            f"{domain.slug}: its communities are by Louvain's method, as Leiden's is not installed;"
            " `pip install 'everindex[leiden]'` brings it"
        )

    def divided(graph: LinkGraph, previous: Mapping[str, int]) -> list[tuple[str, ...]]:
        nonlocal slow_pairs, slow_at, settings, used, problem
        pairs = graph.adjacency[0].size // 2
        may_be_fast = pairs < slow_pairs or time.time() - slow_at > _AGAIN_SECONDS
        if not has_leiden or (used == "louvain" and may_be_fast):
            try:
                groups = louvain(graph, child, _LOUVAIN_SECONDS if has_leiden else inf)
            except TookTooLongError:
                slow_pairs, slow_at = pairs, time.time()
            except ChildDiedError as error:
                settings = ""  # no domain's, so that it is retried
                instead = "by Leiden's method" if has_leiden else "those of before"
                problem = (
                    f"{domain.slug}: its communities are {instead}, as Louvain's failed ({error}); it is"
                    " retried when links change, and after ten minutes"
                )
            else:
                slow_pairs, slow_at = 0, 0.0
                return groups
        if not has_leiden:
            return _as_before(graph, previous)
        used = "leiden"
        return _leiden(graph, previous)

    found = _rank(stored, domain, _communities(cache.graph.read_ranks()), divided)
    labels = label_communities(found.communities, titles=stored.titles, tags=stored.tags)
    ranks = [(path, *row) for path, row in _rows(found).items()]
    by = RankedBy(settings, found.centrality_by, used, slow_pairs, slow_at)
    return _Computed(stored.generation, ranks, labels, by, problem)


def _has_leiden() -> bool:
    return find_spec("graspologic_native") is not None


def _leiden(graph: LinkGraph, previous: Mapping[str, int]) -> list[tuple[str, ...]]:
    from pipelines.graph.leiden import divide  # noqa: PLC0415 - its library need not be installed

    return divide(graph, previous)


def _as_before(graph: LinkGraph, previous: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Return the communities as they are, without the notes that have no link any more."""
    groups: dict[int, list[str]] = {}
    for at in sorted(set(graph.adjacency[0].tolist())):
        if (path := graph.paths[at]) in previous:
            groups.setdefault(previous[path], []).append(path)
    return [tuple(group) for group in groups.values()]


def ranks_are_otherwise(cache: Cache, domain: Domain) -> bool:
    """Say whether a domain has ranks that were computed with other settings than its own. Raises CacheError."""
    by = cache.graph.ranked_by()
    return by is not None and by.settings != _settings(domain)


def _settings(domain: Domain) -> str:
    without = "" if _has_leiden() else " without leiden"
    return f"{domain.pagerank_over} {domain.central_over} {domain.communities}{without}"


def _rank(stored: StoredGraph, domain: Domain, previous: Mapping[str, int], divided: Divide) -> Ranks:
    return rank_notes(
        stored.titles,
        [(e.source, e.target, e.kind, e.count) for e in stored.edges],
        over=domain.pagerank_over,
        central_over=domain.central_over,
        previous=previous,
        divide=divided,
    )


def _rows(found: Ranks) -> dict[str, tuple[float, float, int]]:
    """Return the row to store for each note in the graph; 0 stands for a missing figure."""
    return {
        path: (rank.pagerank or 0.0, rank.centrality or 0.0, rank.community or 0)
        for path, rank in found.notes.items()
        if rank is not None
    }


def rank_drift(cache: Cache, domain: Domain) -> list[str]:
    """Return the notes whose ranks or communities differ from what the edges give; none while the ranks are behind.

    The path is "" if a community's label differs. Raises CacheError, ChildDiedError.
    """
    by = cache.graph.ranked_by()
    if by is None or cache.edges.ranks_behind() or ranks_are_otherwise(cache, domain):
        return []

    def divided(graph: LinkGraph, previous: Mapping[str, int]) -> list[tuple[str, ...]]:
        return louvain(graph, Child()) if by.communities == "louvain" else _leiden(graph, previous)

    stored, kept = cache.graph.read(), cache.graph.read_ranks()
    found = _rank(stored, domain, _communities(kept), divided)
    wanted = _rows(found)
    differing = [
        path
        for path in sorted(kept.keys() | wanted.keys())
        if path not in kept or path not in wanted or not _are_equal(kept[path], wanted[path])
    ]
    labels = label_communities(found.communities, titles=stored.titles, tags=stored.tags)
    return differing or ([] if cache.graph.read_labels() == dict(labels) else [""])


def _communities(ranks: Mapping[str, tuple[float, float, int]]) -> dict[str, int]:
    """Return the community of each note that has one."""
    return {path: community for path, (_, _, community) in ranks.items() if community}


def _are_equal(one: tuple[float, float, int], other: tuple[float, float, int]) -> bool:
    close = all(
        isclose(a, b, rel_tol=_CLOSE, abs_tol=_CLOSE) for a, b in zip(one[:2], other[:2], strict=True)
    )
    return close and one[2] == other[2]
