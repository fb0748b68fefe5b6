"""The problems of a vault in `state.db`: each part of Everindex reports here what stops or starves its work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.moments import now_iso
from pipelines.store.connection import row, rows, transaction
from pipelines.store.state_file import open_state


@dataclass(frozen=True, slots=True)
class Problem:
    """A current problem.

    `kind` is a constant name, `subject` a domain, a path or empty. `message` says what happened, to what, and what to
    do. `since` is UTC, ISO 8601.
    """

    kind: str
    subject: str
    message: str
    since: str


class Problems:
    """A connection to the problems in a vault's `state.db`."""

    def __init__(self, folder: Path) -> None:
        self._con = open_state(folder)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def report(self, kind: str, subject: str, message: str) -> None:
        """Report a problem; one that is already reported keeps its `since`. Raises StorageUnavailableError."""
        known = row(self._con, "SELECT message FROM problem WHERE kind = ? AND subject = ?", (kind, subject))
        if known == (message,):
            return  # write only what is new: on a full disk, a needless write would raise
        since = now_iso("seconds")
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO problem VALUES (?, ?, ?, ?)"
                " ON CONFLICT (kind, subject) DO UPDATE SET message = excluded.message",
                (kind, subject, message, since),
            )

    def clear(self, kind: str, subject: str = "") -> None:
        """Withdraw a report, if there is one. Raises StorageUnavailableError."""
        if row(self._con, "SELECT 1 FROM problem WHERE kind = ? AND subject = ?", (kind, subject)):
            with transaction(self._con):
                self._con.execute("DELETE FROM problem WHERE kind = ? AND subject = ?", (kind, subject))

    def reported(self) -> list[Problem]:
        """Return the problems that are currently reported, oldest first. Raises CacheError."""
        found = rows(
            self._con, "SELECT kind, subject, message, since FROM problem ORDER BY since, kind, subject"
        )
        return [
            Problem(kind=kind, subject=subject, message=message, since=since)
            for kind, subject, message, since in found
        ]
