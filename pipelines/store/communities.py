"""A note's place in the ranked graph, and the communities that its notes form."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from pipelines.store.cache import Cache
from pipelines.store.connection import one, records, rows


@dataclass(frozen=True, slots=True)
class Rank:
    """A note's place in the graph: PageRank, centrality, community and its label. None: the note has none."""

    pagerank: float | None
    centrality: float | None
    community: int | None
    label: str | None


@dataclass(frozen=True, slots=True)
class Community:
    """A community: its label, its size and its best-ranked notes."""

    id: int
    label: str
    notes: int
    examples: tuple[str, ...]


def unranked(cache: Cache, besides: Collection[str] = ()) -> int:
    """Count the notes without a place in the graph; files `besides` the notes are none of these."""
    sql = (
        "SELECT count(*) FROM vault_node WHERE path NOT IN (SELECT path FROM vault_rank WHERE community > 0)"
        " AND path NOT IN (SELECT value FROM json_each(?))"
    )
    return int(one(cache.con, sql, (json.dumps(list(besides)),))[0])


def rank_of(cache: Cache, path: str) -> Rank | None:
    """Return a note's place in the graph, or None if it has no edge or is not ranked yet."""
    found = records(
        cache.con,
        Rank,
        "SELECT nullif(r.pagerank, 0) AS pagerank, iif(r.community > 0, r.centrality, NULL) AS centrality,"
        " nullif(r.community, 0) AS community, c.label AS label"
        " FROM vault_rank r LEFT JOIN vault_community c ON c.id = r.community WHERE path = ?",
        (path,),
    )
    return found[0] if found else None


def communities(cache: Cache, examples: int, gone: Collection[str] = ()) -> list[Community]:
    """Return the communities, largest first, each with its best-ranked notes.

    Notes that are `gone`, or that were removed since the last ranking, belong to none.
    """
    there = "path IN (SELECT path FROM vault_node) AND path NOT IN (SELECT value FROM gone)"
    return [
        Community(number, label, size, tuple(json.loads(best)))
        for number, label, size, best in rows(
            cache.con,
            "WITH gone AS MATERIALIZED (SELECT value FROM json_each(?)) SELECT c.id, c.label,"
            " count(*) AS size, (SELECT json_group_array(path) FROM (SELECT path FROM vault_rank"
            f" WHERE community = c.id AND {there} ORDER BY pagerank DESC, path LIMIT ?)) FROM vault_community c"
            f" JOIN vault_rank r ON r.community = c.id WHERE {there} GROUP BY c.id ORDER BY size DESC, c.id",
            (json.dumps(list(gone)), examples),
        )
    ]
