"""The graph as the tables hold it, whether its ranks are behind, and new ranks written in one transaction."""

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


def read_edges(cache: Cache) -> list[GraphEdge]:
    """Return the edges from a domain's notes to any file but the note itself."""
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
    """Return PageRank, centrality and community of each note in the graph; 0 is none, as `write_ranks` has it."""
    found = rows(cache.con, "SELECT path, pagerank, centrality, community FROM vault_rank")
    return {path: (pagerank, centrality, community) for path, pagerank, centrality, community in found}


def read_labels(cache: Cache) -> dict[int, str]:
    """Return the label of each community."""
    return dict(rows(cache.con, "SELECT id, label FROM vault_community"))


def ranked_by(cache: Cache) -> str | None:
    """Return the settings by which the ranks were computed; "" of an earlier version, None: there are none yet."""
    (found,) = one(
        cache.con,
        "SELECT CASE WHEN ranked_generation > 0"
        " THEN coalesce((SELECT value FROM vault_meta WHERE key = ?), '') END FROM vault_graph",
        (_RANKED_BY,),
    )
    return None if found is None else str(found)


def forget_ranks(cache: Cache) -> None:
    """Delete all ranks and communities, and make them due: what they say is not trusted."""
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

    0 says that a note has no PageRank or no community (their own begin above it), and without one no centrality.
    Edges that changed since `generation` leave the graph behind. `by` names the settings that they are computed by.
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
