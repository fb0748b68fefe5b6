"""`state.db`: the current cache of each domain, and the facts that processes tell each other."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import apsw
import structlog
from pydantic import ValidationError

from pipelines.documents.formats import NAMES, FormatName
from pipelines.store.clocks import AGE, SYSTEM_CLOCKS, Clocks
from pipelines.store.connection import BUSY_MS, rows, transaction
from pipelines.store.connection import row as first
from pipelines.store.decisions import Decisions
from pipelines.store.facts import SUBJECTS, Fact, Subject
from pipelines.store.state_file import cache_name, open_state

T = TypeVar("T")
log = structlog.get_logger()


class State:
    """A connection to a vault's `state.db`."""

    def __init__(self, folder: Path, clocks: Clocks = SYSTEM_CLOCKS) -> None:
        self._folder = folder
        self._clocks = clocks
        self._con = open_state(folder)
        self.decisions = Decisions(self._con)

    @property
    def con(self) -> apsw.Connection:
        """The connection, for reads that have no method here."""
        return self._con

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def is_locked(self) -> bool:
        """Say whether another connection is writing at this moment."""
        self._con.set_busy_timeout(0)
        try:
            self._con.execute("BEGIN IMMEDIATE")
            self._con.execute("ROLLBACK")
        except apsw.BusyError:
            return True
        except apsw.Error:
            return False  # another fault, which writers will report
        finally:
            self._con.set_busy_timeout(BUSY_MS)
        return False

    def cache_path(self, domain: str) -> Path:
        """Return the file of a domain's current cache; the first cache has number 1."""
        return self.numbered(domain, self.cache_number(domain))

    def numbered(self, domain: str, number: int) -> Path:
        """Return the file of a domain's cache with a given number."""
        return self._folder / cache_name(domain, number)

    def cache_number(self, domain: str) -> int:
        """Return the number of a domain's current cache."""
        row = first(self._con, "SELECT number FROM domain_cache WHERE domain = ?", (domain,))
        return int(row[0]) if row else 1

    def switch_cache(self, domain: str, number: int) -> None:
        """Make another cache the current one; every process reopens when it next checks."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO domain_cache VALUES (?, ?) ON CONFLICT DO UPDATE SET number = excluded.number",
                (domain, number),
            )

    def formats(self) -> tuple[FormatName, ...]:
        """Return the names of the formats of a domain that does not state its own."""
        stored = {name for (name,) in rows(self._con, "SELECT name FROM vault_format")}
        return tuple(name for name in NAMES if name in stored)

    # Facts

    def put(self, subject: Subject[T], value: T, about: str = "") -> None:
        """Tell the other processes a fact, replacing the last one with its key. Raises StorageUnavailableError."""
        written = subject.adapter().dump_json(value).decode()
        now = self._clocks.now()
        with transaction(self._con):
            self._con.execute(
                "INSERT OR REPLACE INTO fact VALUES (:key, :value, :at, :uptime)",
                {"key": subject.key(about), "value": written, **now},
            )
            if subject.kept_s is not None:
                self._con.execute(
                    "DELETE FROM fact WHERE key GLOB ? AND at < ?",
                    (f"{subject.name}:*", now["at"] - subject.kept_s),
                )

    def get(self, subject: Subject[T], about: str = "") -> Fact[T] | None:
        """Return the last fact of a key, or None; a value that does not fit its subject counts as none."""
        key = subject.key(about)
        found = first(
            self._con, f"SELECT value, {AGE} FROM fact WHERE key = :key", {"key": key, **self._clocks.now()}
        )
        if found is None:
            return None
        written, age = found
        try:
            value = subject.adapter().validate_json(written)
        except ValidationError as error:
            log.warning(
                "a fact in state.db is unreadable and was ignored", key=key, errors=error.error_count()
            )
            return None
        return Fact(value, age)

    def delete(self, subject: Subject[T], about: str = "") -> None:
        """Delete a fact. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM fact WHERE key = ?", (subject.key(about),))

    def delete_momentary(self) -> None:
        """Delete what is true only while processes run: processes, problems, vanished notes, momentary facts."""
        with transaction(self._con):
            self._con.execute("DELETE FROM process; DELETE FROM problem; DELETE FROM vanished")
            for subject in SUBJECTS:
                if subject.is_momentary:
                    self._con.execute(
                        "DELETE FROM fact WHERE key = ? OR key GLOB ?", (subject.name, f"{subject.name}:*")
                    )

    def is_first(self, name: str, kept_s: float) -> bool:
        """Record that something of this name began; say whether it is the first time within `kept_s` seconds."""
        now = self._clocks.now()
        with transaction(self._con):
            self._con.execute("DELETE FROM fact WHERE key GLOB 'began:*' AND at < ?", (now["at"] - kept_s,))
            self._con.execute(
                "INSERT OR IGNORE INTO fact VALUES (:key, 'true', :at, :uptime)",
                {"key": f"began:{name}", **now},
            )
            return bool(self._con.changes())
