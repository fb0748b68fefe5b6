"""The audit log of tags: what Everindex changed in notes, so that it can be listed and undone."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import apsw

from pipelines.store.connection import one, rows, transaction
from pipelines.store.connection import row as first
from pipelines.store.rename_log import RENAMED, RENAMING

PROMOTED, UNDONE = "promoted", "undone"
"""The actions of a promotion, and of undoing one or a run of renames; `RENAMED` and `RENAMING` are those of a run."""

# A run that died before its first file changed nothing. The undoing of a run has the files that it restored; one that
# an earlier version recorded has none, and is counted by its run, which counts as undone at the time of that record.
_CHANGE = (
    "SELECT id, at, domain, path, tags, action, head_before, head_after, undone_at,"
    " (SELECT count(*) FROM tag_renamed r WHERE r.path <> tag_audit.path AND r.change = CASE"
    " WHEN action = 'undone' AND NOT EXISTS (SELECT 1 FROM tag_renamed own WHERE own.change = tag_audit.id)"
    " THEN (SELECT run.id FROM tag_audit run WHERE run.undone_at = tag_audit.at AND run.path = tag_audit.path)"
    " ELSE id END) AS notes"
    f" FROM tag_audit WHERE (action <> '{RENAMING}' OR EXISTS (SELECT 1 FROM tag_renamed r WHERE r.change = id))"
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that Everindex made to a note: its bytes up to the last line that differs, before and after.

    For renames (listed in `tags`) it is everything that one run did: in `notes` notes, and in the taxonomy at `path`;
    for their undoing, in how many notes they were taken back.
    """

    id: int
    at: str
    domain: str
    path: str
    tags: tuple[str, ...]
    action: str
    head_before: bytes
    head_after: bytes
    undone_at: str | None
    notes: int = 0


class ChangeLog:
    """The changes made to notes, on the connection of `Proposals`."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con

    def record(self, change: Change, settled: Collection[int] = (), files: Collection[str] = ()) -> int:
        """Record a change, mark the proposals that it applied, and return its id.

        `files` are those in which it took renames back.
        """
        with transaction(self._con):
            self._con.execute(
                "UPDATE tag_proposal SET state = 'applied', reason = NULL, decided_at = ?"
                " WHERE id IN (SELECT value FROM json_each(?))",
                (change.at, json.dumps(list(settled))),
            )
            (number,) = one(
                self._con,
                "INSERT INTO tag_audit (at, domain, path, tags, action, head_before, head_after)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (
                    *(change.at, change.domain, change.path, json.dumps(change.tags), change.action),
                    *(change.head_before, change.head_after),
                ),
            )
            self._con.executemany(
                "INSERT INTO tag_renamed VALUES (?, ?, x'', x'')", [(number, path) for path in files]
            )
        return int(number)

    def latest(self, limit: int, path: str | None = None) -> list[Change]:
        """Return the latest changes, newest first, of one note or all."""
        found = rows(
            self._con,
            f"{_CHANGE} AND (?1 IS NULL OR path = ?1 OR id IN (SELECT change FROM tag_renamed WHERE path = ?1))"
            " ORDER BY id DESC LIMIT ?2",
            (path, limit),
        )
        return [_change(row) for row in found]

    def find(self, number: int | None) -> Change | None:
        """Return a change by its id, or the last one that can be undone; None if there is none."""
        found = first(
            self._con,
            f"{_CHANGE} AND (id = ?1 OR"
            f" (?1 IS NULL AND action IN ('promoted', '{RENAMED}', '{RENAMING}') AND undone_at IS NULL))"
            " ORDER BY id DESC LIMIT 1",
            (number,),
        )
        return _change(found) if found else None

    def run_of(self, change: Change) -> list[Change]:
        """Return the changes of the run of renames that a change belongs to and that are not undone, one per domain.

        They have the same time. Any other change is returned alone.
        """
        found = rows(
            self._con,
            f"{_CHANGE} AND at = ? AND action IN ('{RENAMED}', '{RENAMING}') AND undone_at IS NULL ORDER BY id",
            (change.at,),
        )
        of_run = [_change(row) for row in found] if change.action in (RENAMED, RENAMING) else []
        return of_run or [change]

    def undo(self, number: int, at: str) -> None:
        """Mark a change as undone; the tags of a promotion wait again."""
        change = self.find(number)
        if change is None:
            return
        with transaction(self._con):
            self._con.execute("UPDATE tag_audit SET undone_at = ? WHERE id = ?", (at, number))
            self._con.execute(
                "UPDATE tag_proposal SET state = 'waiting', decided_at = NULL WHERE domain = ? AND path = ?"
                " AND state = 'applied' AND key IN (SELECT value FROM json_each(?))",
                (change.domain, change.path, json.dumps([tag.casefold() for tag in change.tags])),
            )


def _change(row: tuple[Any, ...]) -> Change:
    number, at, domain, path, tags, *rest = row
    return Change(number, at, domain, path, tuple(json.loads(tags)), *rest)
