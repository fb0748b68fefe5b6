"""Read the graph and its ranks from the tables, and write new ranks in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.store.cache import Cache
from pipelines.store.connection import one, rows, snapshot, transaction
from pipelines.store.neighbours import GraphEdge

_RANKED_BY = "ranked_by"


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """A domain's notes with titles and tags, the edges among them, and the generation that they belong to."""

    generation: int
    titles: Mapping[str, str]
    tags: Mapping[str, Sequence[str]]
    edges: Sequence[GraphEdge]


def read_graph(cache: Cache) -> StoredGraph:
    """Return the graph of a domain's own notes, without edges that leave the domain."""
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


def read_edges(cache: Cache) -> list[GraphEdge]:
    """Return the edges from a domain's notes to any other file."""
    found = rows(
        cache.con,
        "SELECT path, target, kind, count(*) FROM vault_edge WHERE path <> target"
        " GROUP BY path, target, kind ORDER BY path, target, kind",
    )
    return [GraphEdge(*edge) for edge in found]


def read_communities(cache: Cache) -> dict[str, int]:
    """Return the community of each note that has one."""
    return dict(rows(cache.con, "SELECT path, community FROM vault_rank WHERE community > 0"))


def read_ranks(cache: Cache) -> dict[str, tuple[float, float, int]]:
    """Return PageRank, centrality and community of each note in the graph; 0 means none, as in `write_ranks`."""
    found = rows(cache.con, "SELECT path, pagerank, centrality, community FROM vault_rank")
    return {path: (pagerank, centrality, community) for path, pagerank, centrality, community in found}


def read_labels(cache: Cache) -> dict[int, str]:
    """Return the label of each community."""
    return dict(rows(cache.con, "SELECT id, label FROM vault_community"))


def ranked_by(cache: Cache) -> str | None:
    """Return the settings that the ranks were computed with; "" for an earlier version's, None without ranks."""
    (found,) = one(
        cache.con,
        "SELECT CASE WHEN ranked_generation > 0"
        " THEN coalesce((SELECT value FROM vault_meta WHERE key = ?), '') END FROM vault_graph",
        (_RANKED_BY,),
    )
    return None if found is None else str(found)


def forget_ranks(cache: Cache) -> None:
    """Delete all ranks and communities as untrusted, and make them due."""
    with transaction(cache.con):
        cache.con.execute("DELETE FROM vault_rank")
        cache.con.execute("DELETE FROM vault_community")
        cache.edges.graph_changed()


def write_ranks(
    cache: Cache,
    generation: int,
    ranks: Iterable[tuple[str, float, float, int]],
    labels: Mapping[int, str],
    centrality_by: str,
    *,
    by: str,
) -> None:
    """Replace all ranks (path, PageRank, centrality, community) and communities at once.

    0 means no PageRank or no community (real values are greater); without a community there is no centrality. If
    edges changed since `generation`, the ranks stay behind the graph. `by` names the settings that they were computed
    with.
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
        cache.con.execute("INSERT OR REPLACE INTO vault_meta VALUES (?, ?)", (_RANKED_BY, by))
