"""The operator's decisions about indexing, kept in `state.db`: paused domains and dismissed notes."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from pipelines.store.connection import row, rows, transaction


class Decisions:
    """The operator's decisions over a connection to `state.db`."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con

    def pause(self, domain: str, since: str) -> None:
        """Pause a domain; a domain that is already paused keeps its time. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("INSERT OR IGNORE INTO paused_domain VALUES (?, ?)", (domain, since))

    def resume(self, domain: str) -> None:
        """Resume a paused domain. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM paused_domain WHERE domain = ?", (domain,))

    def paused_since(self, domain: str) -> str | None:
        """Return when a domain was paused (UTC, ISO 8601), or None if it is not paused."""
        found = row(self._con, "SELECT since FROM paused_domain WHERE domain = ?", (domain,))
        return str(found[0]) if found else None

    def replace_dismissed(self, domain: str, notes: Mapping[str, int]) -> None:
        """Replace a domain's dismissed notes, each with the generation that failed.

        Raises StorageUnavailableError.
        """
        with transaction(self._con):
            self._con.execute("DELETE FROM dismissed_note WHERE domain = ?", (domain,))
            self._con.executemany(
                "INSERT INTO dismissed_note VALUES (?, ?, ?)",
                [(domain, path, generation) for path, generation in notes.items()],
            )

    def dismissed(self, domain: str) -> dict[str, int]:
        """Return a domain's dismissed notes, each with the generation that failed."""
        found = rows(self._con, "SELECT path, generation FROM dismissed_note WHERE domain = ?", (domain,))
        return dict(found)
