"""The graph of a domain: who links to whom, which notes have no links, and the ranks and communities of notes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.cache.links import SqlEdges
from pipelines.cache.schema import SET_META
from pipelines.formats import FORMATS
from pipelines.model import CentralityBy, Communities, EdgeKind
from pipelines.sqlite import Connection, one, records, select, snapshot, transaction

_RANKED_BY = "ranked_by"
# The first fields of `WrittenLink`, in its order.
_WRITTEN = "l.path, l.line, l.kind, l.target, l.fragment, l.text, l.section, l.property, l.type"
_CODE_SUFFIXES = tuple(suffix for form in FORMATS if form.name == "code" for suffix in form.suffixes)
OF_CODE = "(" + " OR ".join(f"l.path LIKE '%{suffix}'" for suffix in _CODE_SUFFIXES) + ")"
"""The SQL condition for a link `l` of a source file."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A note or file at the other end of links: how many, of what kind and type, and how the first is written."""

    path: str
    kind: str
    type: str | None
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
    type: str | None
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
    """All links of one kind, and of one type where types are told apart, from one note to another."""

    source: str
    target: str
    kind: EdgeKind
    count: int
    type: str | None = None


def may_be_broken(path: str) -> bool:
    """Say whether a link of this file is broken if it means no file.

    What a source file imports is often a package that is installed elsewhere, and a compiler reports what is missing.
    """
    return not path.lower().endswith(_CODE_SUFFIXES)


def _written(found: tuple[Any, ...]) -> WrittenLink:
    *written, ambiguous = found
    values = (*written, bool(ambiguous))
    return WrittenLink(*values)


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


@dataclass(frozen=True, slots=True)
class Linked:
    """An edge seen from one of its ends: `path` is the note at the other end, `rank` its PageRank (0: none yet)."""

    path: str
    source: str
    target: str
    kind: EdgeKind
    rank: float
    type: str | None = None


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """A domain's notes with titles and tags, the edges among them, and the generation that they belong to."""

    generation: int
    titles: Mapping[str, str]
    tags: Mapping[str, Sequence[str]]
    edges: Sequence[GraphEdge]


@dataclass(frozen=True, slots=True)
class RankedBy:
    """How a domain was ranked: the settings, and the methods that were used.

    `slow_pairs`: the number of pairs of linked notes for which Louvain's method last took too long, at the time
    `slow_at` (in seconds since 1970).
    """

    settings: str
    centrality: CentralityBy
    communities: Communities
    slow_pairs: int = 0
    slow_at: float = 0.0


class SqlGraph:
    """The edges, ranks and communities of a domain, on a cache's connection.

    Of a copy, ranks are written to its `source`, and `edges` are those of the source.
    """

    def __init__(self, con: Connection, edges: SqlEdges, source: Connection | None = None) -> None:
        self._con = con
        self._source = source or con
        self._edges = edges

    def outlinks(self, path: str) -> list[Neighbour]:
        """Return the notes and files that a note links to, in the order of its text."""
        return self._neighbours("e.target", "e.path", path)

    def backlinks(self, path: str) -> list[Neighbour]:
        """Return the notes of this domain that link to a file."""
        return self._neighbours("e.path", "e.target", path)

    def _neighbours(self, other: str, own: str, path: str) -> list[Neighbour]:
        return records(
            self._con,
            Neighbour,
            # SQLite takes a bare column beside min() from the row with the minimum: here, how the first link is
            # written.
            f"SELECT {other} AS path, e.kind AS kind, e.type AS type, count(*) AS count,"
            " l.text AS text, l.fragment AS fragment, min(l.line) AS line FROM vault_edge e"
            f" JOIN vault_link l USING (path, position) WHERE {own} = ?1 AND {other} <> ?1"
            f" GROUP BY {other}, e.kind, e.type ORDER BY min(l.position), {other}",
            (path,),
        )

    def links_in_state(
        self, state: str, limit: int, gone: Collection[str] = (), types: Collection[str] = ()
    ) -> list[WrittenLink]:
        """Return links that are `broken` (no file is meant), `ambiguous` or `any`, by note and line.

        Those of source files are never broken, as `may_be_broken` says; a link to a note that is `gone` means no
        file. `types`: only those of one of these types.
        """
        chosen = {
            "broken": f"(e.path IS NULL OR e.target IN (SELECT value FROM gone)) AND NOT {OF_CODE}",
            "ambiguous": "e.ambiguous = 1",
            "any": "1",
        }[state]
        return [
            _written(found)
            for found in select(
                self._con,
                f"WITH gone AS MATERIALIZED (SELECT value FROM json_each(?1)) SELECT {_WRITTEN},"
                " iif(e.target IN (SELECT value FROM gone), NULL, e.target), coalesce(e.ambiguous, 0)"
                f" FROM vault_link l LEFT JOIN vault_edge e USING (path, position) WHERE {chosen}"
                " AND (?2 = '[]' OR l.type IN (SELECT value FROM json_each(?2)))"
                " ORDER BY l.path, l.position LIMIT ?3",
                (json.dumps(list(gone)), json.dumps(list(types)), limit),
            )
        ]

    def links_of(self, path: str) -> list[WrittenLink]:
        """Return the links of a note, in the order of its text."""
        return [
            _written(found)
            for found in select(
                self._con,
                f"SELECT {_WRITTEN}, e.target, coalesce(e.ambiguous, 0) FROM vault_link l"
                " LEFT JOIN vault_edge e USING (path, position) WHERE l.path = ? ORDER BY l.position",
                (path,),
            )
        ]

    def orphans(self) -> list[str]:
        """Return the notes that link to no other file and that no other note links to."""
        return [
            path
            for (path,) in select(
                self._con,
                "SELECT path FROM vault_node n WHERE NOT EXISTS"
                " (SELECT 1 FROM vault_edge e WHERE e.path = n.path AND e.target <> n.path) AND NOT EXISTS"
                " (SELECT 1 FROM vault_edge e WHERE e.target = n.path AND e.path <> n.path) ORDER BY path",
            )
        ]

    def targets_elsewhere(self) -> list[str]:
        """Return the files that links of this domain mean and that are not notes of it."""
        return [
            path
            for (path,) in select(
                self._con,
                "SELECT DISTINCT target FROM vault_edge WHERE target NOT IN (SELECT path FROM vault_node)",
            )
        ]

    def nodes(self, paths: Collection[str]) -> list[GraphNode]:
        """Return notes as nodes of a drawn graph."""
        return records(
            self._con,
            GraphNode,
            "SELECT n.path AS path, n.title AS title, nullif(r.pagerank, 0) AS pagerank,"
            " nullif(r.community, 0) AS community FROM vault_node n LEFT JOIN vault_rank r USING (path)"
            " WHERE n.path IN (SELECT value FROM json_each(?)) ORDER BY n.path",
            (json.dumps(list(paths)),),
        )

    def best_ranked(self, community: int | None, limit: int) -> list[str]:
        """Return the best-ranked notes of a domain or a community; linked notes without a rank come last."""
        return [
            path
            for (path,) in select(
                self._con,
                "SELECT n.path FROM vault_node n LEFT JOIN vault_rank r USING (path) WHERE CASE"
                " WHEN ?1 IS NOT NULL THEN r.community = ?1 WHEN r.path IS NOT NULL THEN 1 ELSE"
                " EXISTS (SELECT 1 FROM vault_edge e JOIN vault_node t ON t.path = e.target"
                " WHERE e.path = n.path AND e.target <> n.path)"
                " OR EXISTS (SELECT 1 FROM vault_edge e WHERE e.target = n.path AND e.path <> n.path) END"
                " ORDER BY r.pagerank DESC, n.path LIMIT ?2",
                (community, limit),
            )
        ]

    def most_linked(self, limit: int, hidden: Collection[str] = frozenset()) -> list[tuple[str, str, int]]:
        """Return path and title of the notes that most notes of the domain link to, and how many do, most first.

        Only the notes with the highest PageRank are counted, so that the cost does not grow with the links. `hidden`
        notes are missing.
        """
        found = select(
            self._con,
            "WITH hidden AS MATERIALIZED (SELECT value FROM json_each(?2)), best AS MATERIALIZED (SELECT path FROM"
            " vault_rank WHERE path NOT IN hidden ORDER BY pagerank DESC LIMIT 10 * ?1)"
            " SELECT n.path, n.title, (SELECT count(DISTINCT e.path) FROM vault_edge e"
            " WHERE e.target = n.path AND e.path <> n.path AND e.path NOT IN hidden) AS links"
            " FROM best JOIN vault_node n USING (path) WHERE links > 0 ORDER BY links DESC, n.path LIMIT ?1",
            (limit, json.dumps(list(hidden))),
        )
        return list(found)

    def linking(self, paths: Collection[str], hidden: Collection[str] = frozenset()) -> dict[str, int]:
        """Return how many notes of this domain link to each of these files; a file without such a link is missing.

        The files may belong to other domains. `hidden` notes are not counted.
        """
        found = select(
            self._con,
            "WITH hidden AS MATERIALIZED (SELECT value FROM json_each(?2)) SELECT target, count(DISTINCT path)"
            " FROM vault_edge WHERE target IN (SELECT value FROM json_each(?1)) AND path <> target"
            " AND path NOT IN hidden GROUP BY target",
            (json.dumps(list(paths)), json.dumps(list(hidden))),
        )
        return dict(found)

    def edges_among(self, paths: Sequence[str]) -> list[GraphEdge]:
        """Return the edges between these notes, one per pair, kind and type."""
        return records(
            self._con,
            GraphEdge,
            # The plus keeps SQLite from using the target's index, which would look up every pair of notes.
            "WITH chosen AS (SELECT value AS path FROM json_each(?))"
            " SELECT path AS source, target, kind, type, count(*) AS count"
            " FROM vault_edge WHERE path IN chosen AND +target IN chosen AND path <> target"
            " GROUP BY path, target, kind, type ORDER BY path, target, kind, type",
            (json.dumps(list(paths)),),
        )

    def unranked(self, besides: Collection[str] = ()) -> int:
        """Count the notes without a place in the graph; files `besides` the notes are none of these."""
        sql = (
            "SELECT count(*) FROM vault_node WHERE path NOT IN (SELECT path FROM vault_rank WHERE community > 0)"
            " AND path NOT IN (SELECT value FROM json_each(?))"
        )
        return int(one(self._con, sql, (json.dumps(list(besides)),))[0])

    def rank_of(self, path: str) -> Rank | None:
        """Return a note's place in the graph, or None if it has no edge or is not ranked yet."""
        found = records(
            self._con,
            Rank,
            "SELECT nullif(r.pagerank, 0) AS pagerank, iif(r.community > 0, r.centrality, NULL) AS centrality,"
            " nullif(r.community, 0) AS community, c.label AS label"
            " FROM vault_rank r LEFT JOIN vault_community c ON c.id = r.community WHERE path = ?",
            (path,),
        )
        return found[0] if found else None

    def communities(self, examples: int, gone: Collection[str] = ()) -> list[Community]:
        """Return the communities, largest first, each with its best-ranked notes.

        Notes that are `gone`, or that were removed since the last ranking, belong to none.
        """
        there = "path IN (SELECT path FROM vault_node) AND path NOT IN (SELECT value FROM gone)"
        return [
            Community(number, label, size, tuple(json.loads(best)))
            for number, label, size, best in select(
                self._con,
                "WITH gone AS MATERIALIZED (SELECT value FROM json_each(?)) SELECT c.id, c.label,"
                " count(*) AS size, (SELECT json_group_array(path) FROM (SELECT path FROM vault_rank"
                f" WHERE community = c.id AND {there} ORDER BY pagerank DESC, path LIMIT ?)) FROM vault_community c"
                f" JOIN vault_rank r ON r.community = c.id WHERE {there} GROUP BY c.id ORDER BY size DESC, c.id",
                (json.dumps(list(gone)), examples),
            )
        ]

    def edges_at(self, paths: Sequence[str]) -> list[Linked]:
        """Return the edges from and to notes of a domain, per pair, kind and type, for each end that was asked."""
        return records(
            self._con,
            Linked,
            "WITH chosen AS (SELECT value AS path FROM json_each(?)), found AS ("
            " SELECT target AS other, path AS source, target, kind, type FROM vault_edge WHERE path IN chosen"
            " UNION SELECT path, path, target, kind, type FROM vault_edge WHERE target IN chosen)"
            " SELECT n.path AS path, found.source AS source, found.target AS target, found.kind AS kind,"
            " found.type AS type,"
            " coalesce(r.pagerank, 0.0) AS rank FROM found"
            " JOIN vault_node n ON n.path = other LEFT JOIN vault_rank r ON r.path = other",
            (json.dumps(list(paths)),),
        )

    def edges_and_communities(self) -> tuple[int, int]:
        """Count the links that mean a file, and the communities. Raises CacheError."""
        edges, communities = one(
            self._con, "SELECT (SELECT count(*) FROM vault_edge), (SELECT count(*) FROM vault_community)"
        )
        return int(edges), int(communities)

    def read(self) -> StoredGraph:
        """Return the graph of a domain's own notes, without edges that leave the domain; types are not told apart."""
        with snapshot(self._con):
            (generation,) = one(self._con, "SELECT generation FROM vault_graph")
            nodes = select(self._con, "SELECT path, title, tags FROM vault_node ORDER BY path")
            edges = select(
                self._con,
                "SELECT e.path, e.target, e.kind, count(*) FROM vault_edge e JOIN vault_node n ON n.path = e.target"
                " WHERE e.path <> e.target GROUP BY e.path, e.target, e.kind ORDER BY e.path, e.target, e.kind",
            )
        return StoredGraph(
            generation,
            {path: title for path, title, _ in nodes},
            {path: json.loads(tags) for path, _, tags in nodes},
            [GraphEdge(*edge) for edge in edges],
        )

    def read_edges(self) -> list[GraphEdge]:
        """Return the edges from a domain's notes to any other file, one per pair, kind and type."""
        found = select(
            self._con,
            "SELECT path, target, kind, count(*), type FROM vault_edge WHERE path <> target"
            " GROUP BY path, target, kind, type ORDER BY path, target, kind, type",
        )
        return [GraphEdge(*edge) for edge in found]

    def read_ranks(self) -> dict[str, tuple[float, float, int]]:
        """Return PageRank, centrality and community of each note in the graph; 0 means none, as in `write_ranks`."""
        found = select(self._con, "SELECT path, pagerank, centrality, community FROM vault_rank")
        return {path: (pagerank, centrality, community) for path, pagerank, centrality, community in found}

    def read_labels(self) -> dict[int, str]:
        """Return the label of each community."""
        return dict(select(self._con, "SELECT id, label FROM vault_community"))

    def ranked_by(self) -> RankedBy | None:
        """Return how the ranks were computed, with settings that no domain has if an earlier version did; or None."""
        sql = (
            "SELECT centrality_by, (SELECT value FROM vault_meta WHERE key = ?) FROM vault_graph"
            " WHERE ranked_generation > 0"
        )
        for centrality, found in select(self._con, sql, (_RANKED_BY,)):
            return (
                RankedBy(**json.loads(found)) if "{" in (found or "") else RankedBy("", centrality, "leiden")
            )
        return None

    def forget_ranks(self) -> None:
        """Delete all ranks and communities as untrusted, and make them due."""
        with transaction(self._source):
            self._source.execute("DELETE FROM vault_rank")
            self._source.execute("DELETE FROM vault_community")
            self._edges.graph_changed()

    def write_ranks(
        self,
        generation: int,
        ranks: Iterable[tuple[str, float, float, int]],
        labels: Mapping[int, str],
        by: RankedBy,
    ) -> None:
        """Replace all ranks (path, PageRank, centrality, community) and communities at once."""
        with transaction(self._source):
            self._source.execute("DELETE FROM vault_rank")
            self._source.executemany("INSERT INTO vault_rank VALUES (?, ?, ?, ?)", ranks)
            self._source.execute("DELETE FROM vault_community")
            self._source.executemany("INSERT INTO vault_community VALUES (?, ?)", labels.items())
            self._source.execute(
                "UPDATE vault_graph SET ranked_generation = ?1, centrality_by = ?2,"
                " first_change = CASE WHEN generation = ?1 THEN NULL ELSE last_change END",
                (generation, by.centrality),
            )
            self._source.execute(SET_META, (_RANKED_BY, json.dumps(asdict(by))))
