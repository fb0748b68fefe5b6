"""The processes of a vault in `state.db`: each reports every few seconds that it lives, and its state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pipelines.store.clocks import AGE, SYSTEM_CLOCKS, Clocks
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

    def __init__(self, folder: Path, clocks: Clocks = SYSTEM_CLOCKS) -> None:
        self._con = open_state(folder)
        self._clocks = clocks

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def put(self, process: Process) -> None:
        """Record that a process lives; delete those silent for an hour. Raises StorageUnavailableError."""
        now = self._clocks.now()
        with transaction(self._con):
            self._con.execute(
                "INSERT OR REPLACE INTO process VALUES"
                " (:name, :role, :version, :started_at, :rss_bytes, :at, :uptime)",
                asdict(process) | now,
            )
            self._con.execute("DELETE FROM process WHERE at < ?", (now["at"] - _FORGOTTEN_SECONDS,))

    def delete(self, name: str) -> None:
        """Record that a process ended normally. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM process WHERE name = ?", (name,))

    def recent(self) -> list[tuple[Process, float]]:
        """Return the processes that reported within the last hour, each with the seconds since then, oldest first."""
        found = rows(
            self._con,
            f"SELECT name, role, version, started_at, rss_bytes, {AGE} FROM process ORDER BY started_at, name",
            self._clocks.now(),
        )
        return [(Process(*process), age) for *process, age in found]
