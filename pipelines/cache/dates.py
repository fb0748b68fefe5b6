"""The dates of notes: what each note states, what git knows of its file, and the date that counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from pipelines.cache.schema import SET_META
from pipelines.model import BY_GIT, DateOrder, StatedDates
from pipelines.sqlite import Connection, first, select, transaction

NODES = "vault_node n LEFT JOIN vault_git g ON g.path = n.path"
"""The tables that the expressions below refer to."""

_GIT_CHANGED = "CASE WHEN g.written = unixepoch(n.modified_at) THEN g.changed END"


def _date(stated: str, git: str, after: str) -> str:
    return f"CASE WHEN {after} THEN coalesce({git}, {stated}) ELSE coalesce({stated}, {git}) END"


def _source(stated: str, by: str, git: str, after: str) -> str:
    """Return SQL for the source of a date; notes that an earlier version indexed have only dates of properties."""
    return (
        f"CASE WHEN {git} IS NOT NULL AND ({stated} IS NULL OR {after}) THEN '{BY_GIT}'"
        f" WHEN {stated} IS NOT NULL THEN coalesce({by}, 'property') ELSE 'file' END"
    )


STATED = _date("n.published_at", "g.created", "n.created_after")
"""The date of creation by the note or git; NULL if only the file's time is known."""
CREATED = f"coalesce({STATED}, n.modified_at)"
CREATED_BY = _source("n.published_at", "n.created_by", "g.created", "n.created_after")
CHANGED = f"coalesce({_date('n.changed', _GIT_CHANGED, 'n.changed_after')}, n.modified_at)"
STATED_COLUMNS = ("published_at", "created_by", "created_after", "changed", "changed_by", "changed_after")
"""The columns of a note's row that `Dates.as_row` fills."""
CHANGED_BY = _source("n.changed", "n.changed_by", _GIT_CHANGED, "n.changed_after")


class SqlDating:
    """The dates of notes on a cache's connection."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def of(self, path: str) -> list[object]:
        """Return which dates a note states and where it does, as `Dates.as_row`. Raises CacheError."""
        found = first(
            self._con, f"SELECT {', '.join(STATED_COLUMNS)} FROM vault_node WHERE path = ?", (path,)
        )
        return list(found or ())

    def order(self) -> DateOrder:
        """Return the order of sources by which all notes were dated last. Raises CacheError."""
        found = first(self._con, "SELECT value FROM vault_meta WHERE key = 'dates'")
        if found is None:
            return DateOrder()
        said = json.loads(found[0])
        return DateOrder(tuple(said["created"]), tuple(said["changed"]), said["daily"])

    def stated(self) -> list[tuple[str, str, str]]:
        """Return path, properties and warnings (JSON) of all notes. Raises CacheError."""
        return select(self._con, "SELECT path, frontmatter, warnings FROM vault_node")

    def restate(self, order: DateOrder, notes: Iterable[tuple[str, StatedDates, Sequence[str]]]) -> None:
        """Replace the dates that notes (by path) state and their warnings, and the order by which all are dated."""
        columns = ", ".join(STATED_COLUMNS)
        with transaction(self._con):
            self._con.executemany(
                f"UPDATE vault_node SET ({columns}, warnings) = (?, ?, ?, ?, ?, ?, ?) WHERE path = ?",
                (
                    (*dates.as_row(), json.dumps(said, ensure_ascii=False), path)
                    for path, dates, said in notes
                ),
            )
            self._set_meta("dates", json.dumps(asdict(order)))

    def commit(self) -> str:
        """Return the commit, with the dates wanted from it, as of which git's dates are stored; `""`: none."""
        found = first(self._con, "SELECT value FROM vault_meta WHERE key = 'git'")
        return str(found[0]) if found else ""

    def forget_commit(self) -> None:
        """Have git asked again, because what is stored of its dates is in doubt (inside the caller's transaction)."""
        self._con.execute("DELETE FROM vault_meta WHERE key = 'git'")

    def keep_commits(
        self, commit: str, files: Iterable[tuple[str, str | None, str | None, int | None]]
    ) -> None:
        """Replace what git knows of files: path, first and last commit, and the time for which the last is valid."""
        wanted = {path: tuple(facts) for path, *facts in files}
        with transaction(self._con):
            kept = {path: tuple(facts) for path, *facts in select(self._con, "SELECT * FROM vault_git")}
            self._con.executemany(
                "DELETE FROM vault_git WHERE path = ?", [(path,) for path in kept.keys() - wanted.keys()]
            )
            self._con.executemany(
                "INSERT INTO vault_git VALUES (?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET"
                " created = excluded.created, changed = excluded.changed, written = excluded.written",
                [(path, *facts) for path, facts in wanted.items() if kept.get(path) != facts],
            )
            self._set_meta("git", commit)

    def _set_meta(self, key: str, value: str) -> None:
        self._con.execute(SET_META, (key, value))
