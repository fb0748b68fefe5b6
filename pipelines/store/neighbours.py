"""Queries over the edges: who links to whom, and which notes have no links."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pipelines.documents.formats import FORMATS
from pipelines.model import EdgeKind
from pipelines.store.cache import Cache
from pipelines.store.connection import records, rows

# The first fields of `WrittenLink`, in its order.
_WRITTEN = "l.path, l.line, l.kind, l.target, l.fragment, l.text, l.section, l.property"
_CODE_SUFFIXES = tuple(suffix for form in FORMATS if form.name == "code" for suffix in form.suffixes)
OF_CODE = "(" + " OR ".join(f"l.path LIKE '%{suffix}'" for suffix in _CODE_SUFFIXES) + ")"
"""The SQL condition for a link `l` of a source file."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A note or file at the other end of links: how many, of what kind, and how the first one is written."""

    path: str
    kind: str
    count: int
    text: str
    fragment: str
    line: int


@dataclass(frozen=True, slots=True)
class WrittenLink:
    """A link as it is written, and the file that it means, if there is one."""

    path: str
    line: int
    kind: str
    target: str
    fragment: str
    text: str
    section: str
    property: str | None
    meant: str | None
    ambiguous: bool


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A note as a node of a drawn graph; a note without a rank has no edge."""

    path: str
    title: str
    pagerank: float | None
    community: int | None


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """All links of one kind from one note to another."""

    source: str
    target: str
    kind: EdgeKind
    count: int


def outlinks(cache: Cache, path: str) -> list[Neighbour]:
    """Return the notes and files that a note links to, in the order of its text."""
    return _neighbours(cache, "e.target", "e.path", path)


def backlinks(cache: Cache, path: str) -> list[Neighbour]:
    """Return the notes of this domain that link to a file."""
    return _neighbours(cache, "e.path", "e.target", path)


def _neighbours(cache: Cache, other: str, own: str, path: str) -> list[Neighbour]:
    return records(
        cache.con,
        Neighbour,
        # SQLite takes a bare column beside min() from the row with the minimum: here, how the first link is
        # written.
        f"SELECT {other} AS path, e.kind AS kind, count(*) AS count, l.text AS text, l.fragment AS fragment,"
        " min(l.line) AS line FROM vault_edge e"
        f" JOIN vault_link l USING (path, position) WHERE {own} = ?1 AND {other} <> ?1"
        f" GROUP BY {other}, e.kind ORDER BY min(l.position), {other}",
        (path,),
    )


def may_be_broken(path: str) -> bool:
    """Say whether a link of this file is broken if it means no file.

    What a source file imports is often a package that is installed elsewhere, and a compiler reports what is missing.
    """
    return not path.lower().endswith(_CODE_SUFFIXES)


def links_in_state(cache: Cache, state: str, limit: int, gone: Collection[str] = ()) -> list[WrittenLink]:
    """Return links that are `broken` (no file is meant), `ambiguous` or `any`, by note and line.

    Those of source files are never broken, as `may_be_broken` says; a link to a note that is `gone` means no file.
    """
    chosen = {
        "broken": f"(e.path IS NULL OR e.target IN (SELECT value FROM gone)) AND NOT {OF_CODE}",
        "ambiguous": "e.ambiguous = 1",
        "any": "1",
    }[state]
    return [
        _written(found)
        for found in rows(
            cache.con,
            f"WITH gone AS MATERIALIZED (SELECT value FROM json_each(?)) SELECT {_WRITTEN},"
            " iif(e.target IN (SELECT value FROM gone), NULL, e.target), coalesce(e.ambiguous, 0) FROM vault_link l"
            f" LEFT JOIN vault_edge e USING (path, position) WHERE {chosen} ORDER BY l.path, l.position LIMIT ?",
            (json.dumps(list(gone)), limit),
        )
    ]


def _written(found: tuple[Any, ...]) -> WrittenLink:
    *written, ambiguous = found
    values = (*written, bool(ambiguous))
    return WrittenLink(*values)


def links_of(cache: Cache, path: str) -> list[WrittenLink]:
    """Return the links of a note, in the order of its text."""
    return [
        _written(found)
        for found in rows(
            cache.con,
            f"SELECT {_WRITTEN}, e.target, coalesce(e.ambiguous, 0) FROM vault_link l"
            " LEFT JOIN vault_edge e USING (path, position) WHERE l.path = ? ORDER BY l.position",
            (path,),
        )
    ]


def meant_by(cache: Cache, path: str) -> dict[str, str | None]:
    """Return the targets of a note's links as they are written, each with the file that it means, or None."""
    sql = "SELECT l.target, e.target FROM vault_link l LEFT JOIN vault_edge e USING (path, position) WHERE l.path = ?"
    return dict(rows(cache.con, sql, (path,)))


def names(cache: Cache) -> list[tuple[str, str]]:
    """Return every file name, title and alias in lower case, with the path of its note."""
    return [
        (name.lower(), path)
        for path, title, aliases in rows(
            cache.con, "SELECT path, title, aliases FROM vault_node ORDER BY path"
        )
        for name in dict.fromkeys((PurePosixPath(path).stem, title, *json.loads(aliases)))
    ]


def orphans(cache: Cache) -> list[str]:
    """Return the notes that link to no other file and that no other note links to."""
    return [
        path
        for (path,) in rows(
            cache.con,
            "SELECT path FROM vault_node n WHERE NOT EXISTS"
            " (SELECT 1 FROM vault_edge e WHERE e.path = n.path AND e.target <> n.path) AND NOT EXISTS"
            " (SELECT 1 FROM vault_edge e WHERE e.target = n.path AND e.path <> n.path) ORDER BY path",
        )
    ]


def targets_elsewhere(cache: Cache) -> list[str]:
    """Return the files that links of this domain mean and that are not notes of it."""
    return [
        path
        for (path,) in rows(
            cache.con,
            "SELECT DISTINCT target FROM vault_edge WHERE target NOT IN (SELECT path FROM vault_node)",
        )
    ]


def nodes(cache: Cache, paths: Collection[str]) -> list[GraphNode]:
    """Return notes as nodes of a drawn graph."""
    return records(
        cache.con,
        GraphNode,
        "SELECT n.path AS path, n.title AS title, nullif(r.pagerank, 0) AS pagerank,"
        " nullif(r.community, 0) AS community FROM vault_node n LEFT JOIN vault_rank r USING (path)"
        " WHERE n.path IN (SELECT value FROM json_each(?)) ORDER BY n.path",
        (json.dumps(list(paths)),),
    )


def best_ranked(cache: Cache, community: int | None, limit: int) -> list[str]:
    """Return the best-ranked notes of a domain or a community; linked notes without a rank come last."""
    return [
        path
        for (path,) in rows(
            cache.con,
            "SELECT n.path FROM vault_node n LEFT JOIN vault_rank r USING (path) WHERE CASE"
            " WHEN ?1 IS NOT NULL THEN r.community = ?1 WHEN r.path IS NOT NULL THEN 1 ELSE"
            " EXISTS (SELECT 1 FROM vault_edge e JOIN vault_node t ON t.path = e.target"
            " WHERE e.path = n.path AND e.target <> n.path)"
            " OR EXISTS (SELECT 1 FROM vault_edge e WHERE e.target = n.path AND e.path <> n.path) END"
            " ORDER BY r.pagerank DESC, n.path LIMIT ?2",
            (community, limit),
        )
    ]


def most_linked(
    cache: Cache, limit: int, hidden: Collection[str] = frozenset()
) -> list[tuple[str, str, int]]:
    """Return path and title of the notes that most notes of the domain link to, and how many do, most first.

    Only the notes with the highest PageRank are counted, so that the cost does not grow with the links. `hidden`
    notes are missing.
    """
    found = rows(
        cache.con,
        "WITH hidden AS MATERIALIZED (SELECT value FROM json_each(?2)), best AS MATERIALIZED (SELECT path FROM"
        " vault_rank WHERE path NOT IN hidden ORDER BY pagerank DESC LIMIT 10 * ?1)"
        " SELECT n.path, n.title, (SELECT count(DISTINCT e.path) FROM vault_edge e"
        " WHERE e.target = n.path AND e.path <> n.path AND e.path NOT IN hidden) AS links"
        " FROM best JOIN vault_node n USING (path) WHERE links > 0 ORDER BY links DESC, n.path LIMIT ?1",
        (limit, json.dumps(list(hidden))),
    )
    return list(found)


def linking(cache: Cache, paths: Collection[str], hidden: Collection[str] = frozenset()) -> dict[str, int]:
    """Return how many notes of this domain link to each of these files; a file without such a link is missing.

    The files may belong to other domains. `hidden` notes are not counted.
    """
    found = rows(
        cache.con,
        "WITH hidden AS MATERIALIZED (SELECT value FROM json_each(?2)) SELECT target, count(DISTINCT path)"
        " FROM vault_edge WHERE target IN (SELECT value FROM json_each(?1)) AND path <> target"
        " AND path NOT IN hidden GROUP BY target",
        (json.dumps(list(paths)), json.dumps(list(hidden))),
    )
    return dict(found)


def edges_among(cache: Cache, paths: Sequence[str]) -> list[GraphEdge]:
    """Return the edges between these notes, one per pair and kind."""
    return records(
        cache.con,
        GraphEdge,
        # The plus keeps SQLite from using the target's index, which would look up every pair of notes.
        "WITH chosen AS (SELECT value AS path FROM json_each(?))"
        " SELECT path AS source, target, kind, count(*) AS count"
        " FROM vault_edge WHERE path IN chosen AND +target IN chosen AND path <> target"
        " GROUP BY path, target, kind ORDER BY path, target, kind",
        (json.dumps(list(paths)),),
    )
