"""The processes of a vault in `state.db`: each says every few seconds that it lives, and how it does."""

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
"""A process that has said nothing for so long is gone, or hangs."""

_FORGOTTEN_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its name (host:pid/when it began), role, when it began (UTC, ISO 8601)."""

    name: str
    role: Role
    version: str
    started_at: str
    rss_bytes: int


class Processes:
    """One connection to the processes of a vault's `state.db`."""

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
        """Write down that a process lives; those that were silent for an hour go. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute(
                "INSERT OR REPLACE INTO process VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*astuple(process), self._wall_clock(), self._clock()),
            )
            self._con.execute("DELETE FROM process WHERE at < ?", (self._wall_clock() - _FORGOTTEN_SECONDS,))

    def delete(self, name: str) -> None:
        """Write down that a process has ended, as it should. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM process WHERE name = ?", (name,))

    def recent(self) -> list[tuple[Process, float]]:
        """Return the processes that spoke within the last hour, each with how many seconds ago, oldest first."""
        now, wall = self._clock(), self._wall_clock()
        found = []
        for *process, at, uptime in rows(self._con, "SELECT * FROM process ORDER BY started_at, name"):
            # Said before the last reboot: only the wall clock goes on.
            age = now - uptime if uptime <= now else max(0.0, wall - at)
            found.append((Process(*process), age))
        return found
