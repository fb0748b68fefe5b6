"""`state.db`: the current cache of each domain, and what processes tell each other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipelines.store.connection import connect, transaction
from pipelines.store.connection import row as first

STATE_FILE = "state.db"


@dataclass(frozen=True, slots=True)
class Fact:
    """What a process said: any JSON value, and how many seconds ago."""

    value: Any
    age_s: float


class State:
    """One connection to a vault's `state.db`."""

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._wall_clock = wall_clock
        self._con = connect(folder / STATE_FILE)
        schema = files("pipelines.store").joinpath("state.sql").read_text(encoding="utf-8")
        with transaction(self._con):
            self._con.execute(schema)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def cache_path(self, domain: str) -> Path:
        """Return the file of a domain's current cache; the first one is number 1."""
        return self.numbered(domain, self.cache_number(domain))

    def numbered(self, domain: str, number: int) -> Path:
        """Return the file of a domain's cache of a given number."""
        return self._folder / f"cache-{domain}.{number}.db"

    def cache_number(self, domain: str) -> int:
        """Return the number of a domain's current cache."""
        row = first(self._con, "SELECT number FROM domain_cache WHERE domain = ?", (domain,))
        return int(row[0]) if row else 1

    def switch_cache(self, domain: str, number: int) -> None:
        """Make another cache the current one; every process reopens when it next looks."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO domain_cache VALUES (?, ?) ON CONFLICT DO UPDATE SET number = excluded.number",
                (domain, number),
            )

    def say(self, key: str, value: Any) -> None:
        """Tell the other processes a fact (a JSON value), replacing the last one of that key."""
        with transaction(self._con):
            self._con.execute(
                "INSERT OR REPLACE INTO fact VALUES (?, ?, ?, ?)",
                (key, json.dumps(value), self._wall_clock(), self._clock()),
            )

    def heard(self, key: str) -> Fact | None:
        """Return the last fact of a key, or None."""
        row = first(self._con, "SELECT value, at, uptime FROM fact WHERE key = ?", (key,))
        if row is None:
            return None
        age = self._clock() - row[2]
        if age < 0:  # said before the last reboot: only the wall clock goes on
            age = max(0.0, self._wall_clock() - row[1])
        return Fact(json.loads(row[0]), age)

    def forget(self, key: str) -> None:
        """Delete a fact."""
        with transaction(self._con):
            self._con.execute("DELETE FROM fact WHERE key = ?", (key,))
