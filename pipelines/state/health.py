"""The problems of a vault in `state.db`: each part of Everindex reports here what stops or starves its work."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Literal

from pipelines.model import Place, now_iso
from pipelines.sqlite import first, one, select, transaction
from pipelines.state.state import AGE, Clocks, clocks_of, open_state


@dataclass(frozen=True, slots=True)
class ReportedProblem:
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

    def __init__(self, place: Place) -> None:
        self._con = open_state(place)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def report(self, kind: str, subject: str, message: str) -> None:
        """Report a problem; one that is already reported keeps its `since`. Raises StorageUnavailableError."""
        known = first(
            self._con, "SELECT message FROM problem WHERE kind = ? AND subject = ?", (kind, subject)
        )
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
        if first(self._con, "SELECT 1 FROM problem WHERE kind = ? AND subject = ?", (kind, subject)):
            with transaction(self._con):
                self._con.execute("DELETE FROM problem WHERE kind = ? AND subject = ?", (kind, subject))

    def reported(self) -> list[ReportedProblem]:
        """Return the problems that are currently reported, oldest first. Raises CacheError."""
        found = select(
            self._con, "SELECT kind, subject, message, since FROM problem ORDER BY since, kind, subject"
        )
        return [
            ReportedProblem(kind=kind, subject=subject, message=message, since=since)
            for kind, subject, message, since in found
        ]


# The processes of a vault in `state.db`: each reports every few seconds that it lives, and its state.


Role = Literal["watcher", "worker", "query", "helper", "embedder"]
"""What a process does. A `helper` is a worker on a host without the vault, an `embedder` makes vectors alone."""

SILENT_SECONDS = 30.0
"""A process that has not reported for this long is gone or hangs."""

_FORGOTTEN_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its name (host:pid/start time), its role, and when it began (UTC, ISO 8601)."""

    name: str
    role: Role
    version: str
    started_at: str
    rss_bytes: int


class Processes:
    """A connection to the processes in a vault's `state.db`."""

    def __init__(self, place: Place, clocks: Clocks | None = None) -> None:
        self._con = open_state(place)
        self._clocks = clocks or clocks_of(self._con)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def put(self, process: Process) -> None:
        """Record that a process lives; delete those silent for an hour. Raises StorageUnavailableError."""
        now = self._clocks.now()
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO process VALUES (:name, :role, :version, :started_at, :rss_bytes, :at, :uptime)"
                " ON CONFLICT (name) DO UPDATE SET role = :role, version = :version, started_at = :started_at,"
                " rss_bytes = :rss_bytes, at = :at, uptime = :uptime",
                asdict(process) | now,
            )
            self._con.execute("DELETE FROM process WHERE at < ?", (now["at"] - _FORGOTTEN_SECONDS,))

    def delete(self, name: str) -> None:
        """Record that a process ended normally. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM process WHERE name = ?", (name,))

    def recent(self) -> list[tuple[Process, float]]:
        """Return the processes that reported within the last hour, each with the seconds since then, oldest first."""
        found = select(
            self._con,
            f"SELECT name, role, version, started_at, rss_bytes, {AGE} FROM process ORDER BY started_at, name",
            self._clocks.now(),
        )
        return [(Process(*process), age) for *process, age in found]


# Notes whose files vanished, in `state.db`: which still wait, and how many were forgotten recently.


class Vanished:
    """A connection to the vanished notes in a vault's `state.db`."""

    def __init__(self, place: Place, clocks: Clocks | None = None) -> None:
        self._con = open_state(place)
        self._clocks = clocks or clocks_of(self._con)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def waiting(self, domain: str) -> dict[str, float]:
        """Return the vanished notes of a domain that wait, each with the seconds since it was first missed."""
        found = select(
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
        found = select(
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
            "INSERT INTO vanished VALUES (:domain, :path, :at, :uptime, 0) ON CONFLICT (domain, path) DO UPDATE"
            " SET at = excluded.at, uptime = excluded.uptime, forgotten = 0 WHERE vanished.forgotten = 1",
            domain,
            paths,
        )

    def forget(self, domain: str, paths: Collection[str]) -> None:
        """Record that notes were forgotten just now."""
        self._write(
            "INSERT INTO vanished VALUES (:domain, :path, :at, :uptime, 1) ON CONFLICT (domain, path) DO UPDATE"
            " SET at = excluded.at, uptime = excluded.uptime, forgotten = 1",
            domain,
            paths,
        )

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
