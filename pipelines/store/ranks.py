"""The graph as the tables hold it, whether its ranks are behind, and new ranks written in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.store.cache import Cache
from pipelines.store.connection import one, rows, snapshot, transaction
from pipelines.store.neighbours import GraphEdge


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """A domain's notes with their titles and tags, the edges among them, and of which generation they are."""

    generation: int
    titles: Mapping[str, str]
    tags: Mapping[str, Sequence[str]]
    edges: Sequence[GraphEdge]


def read_graph(cache: Cache) -> StoredGraph:
    """Return the graph of a domain's own notes; edges that leave it are no part of it."""
    with snapshot(cache.con):
        (generation,) = one(cache.con, "SELECT generation FROM vault_graph")
        nodes = rows(cache.con, "SELECT path, title, tags FROM vault_node ORDER BY path")
        edges = rows(
            cache.con,
            "SELECT e.path, e.target, e.kind, count(*) FROM vault_edge e JOIN vault_node n ON n.path = e.target"
            " WHERE e.path <> e.target GROUP BY e.path, e.target, e.kind ORDER BY e.path, e.target, e.kind",
        )
    return StoredGraph(
        generation,
        {path: title for path, title, _ in nodes},
        {path: json.loads(tags) for path, _, tags in nodes},
        [GraphEdge(*edge) for edge in edges],
    )


def read_communities(cache: Cache) -> dict[str, int]:
    """Return the community of each note that has one."""
    return dict(rows(cache.con, "SELECT path, community FROM vault_rank"))


def write_ranks(
    cache: Cache,
    generation: int,
    ranks: Iterable[tuple[str, float, float, int]],
    labels: Mapping[int, str],
    centrality_by: str,
) -> None:
    """Replace all ranks (path, PageRank, centrality, community) and communities at once.

    Edges that changed since `generation` leave the graph behind.
    """
    with transaction(cache.con):
        cache.con.execute("DELETE FROM vault_rank")
        cache.con.executemany("INSERT INTO vault_rank VALUES (?, ?, ?, ?)", ranks)
        cache.con.execute("DELETE FROM vault_community")
        cache.con.executemany("INSERT INTO vault_community VALUES (?, ?)", labels.items())
        cache.con.execute(
            "UPDATE vault_graph SET ranked_generation = ?1, centrality_by = ?2,"
            " first_change = CASE WHEN generation = ?1 THEN NULL ELSE last_change END",
            (generation, centrality_by),
        )
