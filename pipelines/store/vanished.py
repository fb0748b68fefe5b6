"""Notes whose files vanished, in `state.db`: which still wait, and how many were forgotten recently."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from pipelines.store.clocks import AGE, SYSTEM_CLOCKS, Clocks
from pipelines.store.connection import one, rows, transaction
from pipelines.store.state_file import open_state


class Vanished:
    """A connection to the vanished notes in a vault's `state.db`."""

    def __init__(self, folder: Path, clocks: Clocks = SYSTEM_CLOCKS) -> None:
        self._con = open_state(folder)
        self._clocks = clocks

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def waiting(self, domain: str) -> dict[str, float]:
        """Return the vanished notes of a domain that wait, each with the seconds since it was first missed."""
        found = rows(
            self._con,
            f"SELECT path, {AGE} FROM vanished WHERE domain = :domain AND forgotten = 0",
            {"domain": domain, **self._clocks.now()},
        )
        return dict(found)

    def count_waiting(self, domain: str) -> int:
        """Return how many vanished notes of a domain wait."""
        (count,) = one(
            self._con, "SELECT count(*) FROM vanished WHERE domain = ? AND forgotten = 0", (domain,)
        )
        return int(count)

    def any_of(self, domain: str, paths: Collection[str]) -> bool:
        """Say whether any of the paths waits or was recently forgotten."""
        (found,) = one(
            self._con,
            "SELECT EXISTS (SELECT 1 FROM json_each(?) given"
            " JOIN vanished v ON v.domain = ? AND v.path = given.value)",
            (json.dumps(list(paths)), domain),
        )
        return bool(found)

    def forgotten_among(self, domain: str, paths: Collection[str]) -> set[str]:
        """Return those of the paths that were recently forgotten."""
        found = rows(
            self._con,
            "SELECT path FROM vanished WHERE domain = ? AND forgotten = 1"
            " AND path IN (SELECT value FROM json_each(?))",
            (domain, json.dumps(list(paths))),
        )
        return {path for (path,) in found}

    def forgotten(self, domain: str, seconds: float) -> int:
        """Return how many notes of a domain were forgotten within the last `seconds`."""
        (count,) = one(
            self._con,
            f"SELECT count(*) FROM vanished WHERE domain = :domain AND forgotten = 1 AND {AGE} < :seconds",
            {"domain": domain, "seconds": seconds, **self._clocks.now()},
        )
        return int(count)

    def add(self, domain: str, paths: Collection[str]) -> None:
        """Record that notes vanished just now; notes that already wait keep their time."""
        self._write(
            "INSERT INTO vanished VALUES (:domain, :path, :at, :uptime, 0) ON CONFLICT DO UPDATE"
            " SET at = excluded.at, uptime = excluded.uptime, forgotten = 0 WHERE forgotten = 1",
            domain,
            paths,
        )

    def forget(self, domain: str, paths: Collection[str]) -> None:
        """Record that notes were forgotten just now."""
        self._write("INSERT OR REPLACE INTO vanished VALUES (:domain, :path, :at, :uptime, 1)", domain, paths)

    def drop(self, domain: str, paths: Collection[str]) -> None:
        """Remove notes that came back, or that the operator decided on."""
        self._write("DELETE FROM vanished WHERE domain = :domain AND path = :path", domain, paths)

    def prune(self, seconds: float) -> None:
        """Remove the notes that were forgotten more than `seconds` ago."""
        with transaction(self._con):
            self._con.execute(
                f"DELETE FROM vanished WHERE forgotten = 1 AND {AGE} >= :seconds",
                {"seconds": seconds, **self._clocks.now()},
            )

    def _write(self, sql: str, domain: str, paths: Collection[str]) -> None:
        if paths:
            with transaction(self._con):
                self._con.executemany(
                    sql, ({"domain": domain, "path": path, **self._clocks.now()} for path in paths)
                )
