"""Resolved links: the file that each link of a domain means, kept right while files are added, removed and moved.

`vault_edge` depends only on `vault_link` and `vault_path`. Every change of one of these also resolves, in the same
transaction, exactly the links that it can affect.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pipelines.cache.ledger import below
from pipelines.model import EdgeKind, Link
from pipelines.notes.links import (
    NOTE_SUFFIXES,
    OF_FOLDERS,
    folders_for,
    link_names_of,
    lookup_key,
    name_key,
    names_for,
    resolve,
    target_name,
)
from pipelines.sqlite import Connection, one, select, transaction

# Ranks wait until the edges are quiet, but no longer than _LONGEST_WAIT_SECONDS.
_QUIET_SECONDS = 2.0
_LONGEST_WAIT_SECONDS = 30.0

_Edge = tuple[str, EdgeKind, bool, str | None]
_RESOLVED = "path, position, kind, target, cites, type, name"
_LINK = f"SELECT {_RESOLVED} FROM vault_link"
# By rowid: for an update that may affect several rows, FTS5 flushes its pending writes each time.
_GRAPH_CHANGED = (
    "UPDATE vault_graph SET generation = generation + 1, last_change = ?1, first_change ="
    " CASE WHEN ranked_generation = generation THEN ?1 ELSE first_change END WHERE rowid = 1"
)


class SqlEdges:
    """`vault_link`, `vault_path` and `vault_edge` on a cache's connection. `clock` is monotonic, in seconds."""

    def __init__(self, con: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._con = con
        self._clock = clock

    def change_paths(self, new: Collection[str], gone: Collection[str]) -> None:
        """Record added and removed files in one transaction, and resolve the links that this affects."""
        known = self._known((*new, *gone))
        new, gone = set(new) - known, known.intersection(gone)
        if not new and not gone:
            return
        with transaction(self._con):
            self._con.executemany("DELETE FROM vault_path WHERE path = ?", ((path,) for path in gone))
            self._con.executemany(
                "INSERT INTO vault_path VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET name = excluded.name",
                ((path, name_key(path)) for path in new),
            )
            names = {name for path in (*new, *gone) for name in link_names_of(path)}
            affected = f"{_LINK} WHERE name IN (SELECT value FROM json_each(?))"
            self._resolve(select(self._con, affected, (json.dumps(list(names)),)))

    def _known(self, paths: Collection[str]) -> set[str]:
        sql = "SELECT path FROM vault_path WHERE path IN (SELECT value FROM json_each(?))"
        return {path for (path,) in select(self._con, sql, (json.dumps(list(paths)),))}

    def paths_below(self, folder: str) -> list[str]:
        """Return the known files below a folder."""
        return [
            path
            for (path,) in select(
                self._con, "SELECT path FROM vault_path WHERE path >= ? AND path < ?", below(folder)
            )
        ]

    def replace_links(self, path: str, links: Sequence[Link]) -> None:
        """Replace a note's links and resolve the new ones (inside the caller's transaction)."""
        # Tuples: a dict per link takes twice as long, and a note may have thousands.
        rows = [(path, position, *_columns(link)) for position, link in enumerate(links)]
        self._con.execute("DELETE FROM vault_link WHERE path = ?", (path,))
        self._con.executemany(
            f"INSERT INTO vault_link ({_RESOLVED}, fragment, text, line, section, property)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        width = len(_RESOLVED.split())
        self._resolve([row[:width] for row in rows], of_note=path)

    def drift(self) -> list[str]:
        """Return the notes whose edges differ from what their links and the files give."""
        found = select(self._con, _LINK)
        wanted, present = self._meant(found), self._edges_of({path for path, *_ in found})
        with_edges = {path for (path,) in select(self._con, "SELECT DISTINCT path FROM vault_edge")}
        return sorted(
            {path for (path, _), _ in wanted.items() ^ present.items()}
            | (with_edges - {path for path, *_ in found})
        )

    def _resolve(self, links: Sequence[tuple[Any, ...]], of_note: str | None = None) -> None:
        """Resolve links (rows of `_LINK`), all those of a note or some of any, and write the edges that differ."""
        asked = {(path, position) for path, position, *_ in links}
        present = self._edges_of({path for path, _ in asked} | ({of_note} if of_note else set()))
        if of_note is None:
            present = {key: edge for key, edge in present.items() if key in asked}
        self._write(present, self._meant(links))

    def _meant(self, links: Sequence[tuple[Any, ...]]) -> dict[tuple[str, int], _Edge]:
        """Return the edge of each link that means a file."""
        candidates = self._candidates({name for *_, name in links})
        edges: dict[tuple[str, int], _Edge] = {}
        for path, position, kind, target, cites, relation, _ in links:
            meant = resolve(target, path, lambda name: candidates.get(name, ()))
            if meant:
                edges[path, position] = (meant.path, _edge_kind(kind, cites=cites), meant.ambiguous, relation)
        return edges

    def _candidates(self, names: Collection[str]) -> dict[str, list[str]]:
        """Return, by `lookup_key` and by name, the files that links with these names may mean."""
        asked = {name + suffix for name in names if name for suffix in ("", *NOTE_SUFFIXES)}
        asked.update(*map(names_for, names))
        folders = folders_for(names)
        found: dict[str, list[str]] = defaultdict(list)
        if not asked:
            return found
        for name, path in select(
            self._con,
            "SELECT name, path FROM vault_path WHERE name IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(asked | OF_FOLDERS if folders else asked)),),
        ):
            if name in asked:
                found[name].append(path)
            if name in OF_FOLDERS and (name in asked or name_key(path.rpartition("/")[0]) in folders):
                found[lookup_key(path)].append(path)
        return found

    def _edges_of(self, paths: Collection[str]) -> dict[tuple[str, int], _Edge]:
        return {
            (path, position): (target, kind, bool(ambiguous), relation)
            for path, position, target, kind, ambiguous, relation in select(
                self._con,
                "SELECT path, position, target, kind, ambiguous, type FROM vault_edge"
                " WHERE path IN (SELECT value FROM json_each(?))",
                (json.dumps(list(paths)),),
            )
        }

    def _write(
        self,
        present: dict[tuple[str, int], _Edge],
        wanted: dict[tuple[str, int], _Edge],
    ) -> None:
        changed = {key: edge for key, edge in wanted.items() if present.get(key) != edge}
        gone = present.keys() - wanted.keys()
        if not changed and not gone:
            return
        self._con.executemany("DELETE FROM vault_edge WHERE path = ? AND position = ?", gone)
        self._con.executemany(
            "INSERT INTO vault_edge (path, position, target, kind, ambiguous, type) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (path, position) DO UPDATE SET target = excluded.target, kind = excluded.kind,"
            " ambiguous = excluded.ambiguous, type = excluded.type",
            ((*key, *edge) for key, edge in changed.items()),
        )
        self.graph_changed()

    def ranks_behind(self) -> bool:
        """Say whether edges changed since the ranks were computed."""
        return bool(one(self._con, "SELECT generation <> ranked_generation FROM vault_graph")[0])

    def ranks_due(self) -> bool:
        """Say whether the ranks are behind, and the edges either quiet for a while or behind for long."""
        first, last = one(self._con, "SELECT first_change, last_change FROM vault_graph")
        if not self.ranks_behind():
            return False
        now = self._clock()
        # A time in the future was recorded before a reboot reset the clock.
        return bool(now - last >= _QUIET_SECONDS or now - first >= _LONGEST_WAIT_SECONDS or last > now)

    def came_or_went(self, path: str) -> None:
        """Record that the ranks are behind if links lead to a note that is indexed from now on, or no longer.

        Its file may have been there all the time, so no link has changed: its format was not wanted.
        """
        self._con.execute(
            f"{_GRAPH_CHANGED} AND EXISTS (SELECT 1 FROM vault_edge WHERE target = ?2)", (self._clock(), path)
        )

    def graph_changed(self) -> None:
        """Record that the ranks are behind (inside the caller's transaction)."""
        self._con.execute(_GRAPH_CHANGED, (self._clock(),))


def _edge_kind(kind: str, *, cites: bool) -> EdgeKind:
    if kind == "embed":
        return "embed"
    return "citation" if cites else "wikilink"


def _columns(link: Link) -> tuple[object, ...]:
    """Return a link's own columns of `vault_link`: from `kind` to `property`, as `replace_links` lists them."""
    return (
        link.kind,
        link.target,
        link.cites,
        link.type,
        target_name(link.target),
        link.fragment,
        link.text,
        link.line,
        link.section,
        link.property,
    )
