"""The processes of a vault in `state.db`: each reports every few seconds that it lives, and its state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from pipelines.store.connection import rows, transaction
from pipelines.store.state_file import open_state

Role = Literal["watcher", "worker", "query"]
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

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._con = open_state(folder)
        self._clock = clock
        self._wall_clock = wall_clock

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def put(self, process: Process) -> None:
        """Record that a process lives; delete those silent for an hour. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute(
                "INSERT OR REPLACE INTO process VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*astuple(process), self._wall_clock(), self._clock()),
            )
            self._con.execute("DELETE FROM process WHERE at < ?", (self._wall_clock() - _FORGOTTEN_SECONDS,))

    def delete(self, name: str) -> None:
        """Record that a process ended normally. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM process WHERE name = ?", (name,))

    def recent(self) -> list[tuple[Process, float]]:
        """Return the processes that reported within the last hour, each with the seconds since then, oldest first."""
        now, wall = self._clock(), self._wall_clock()
        found = []
        for *process, at, uptime in rows(self._con, "SELECT * FROM process ORDER BY started_at, name"):
            # It was recorded before the last reboot, which resets the monotonic clock but not the wall clock.
            age = now - uptime if uptime <= now else max(0.0, wall - at)
            found.append((Process(*process), age))
        return found
