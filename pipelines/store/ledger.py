"""The ledger: what is on disk against what is indexed, and who works on the difference.

Whatever is owed stands here and nowhere else: the queue may be lost at any moment. Every method runs one
transaction of its own, except those that say that they run inside the caller's.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from pipelines.errors import StaleWorkError
from pipelines.model import LOW_PRIORITY, DiffEvent, EventKind, FoundFile, LeasedRow
from pipelines.store.connection import one, transaction
from pipelines.store.connection import row as first
from pipelines.store.connection import rows as select

# A worker that dies is noticed by `free_leases_of_the_dead`; this is for one on another machine.
LEASE_SECONDS = 300.0
MAX_ATTEMPTS = 3
_BACKOFF_SECONDS = 2.0
_LONGEST_BACKOFF = 60.0

Stage = Literal["words", "vectors"]
_OWED = {
    "words": "applied_generation < generation AND parked = 0",
    "vectors": "embedded_generation < applied_generation AND applied_generation = generation AND parked = 0",
}
# A time further ahead than any lease or backoff was written before a reboot reset the clock.
_FREE = f"(lease_token IS NULL OR lease_until <= :now OR lease_until > :now + {LEASE_SECONDS})"
_DUE = f"(next_attempt_at IS NULL OR next_attempt_at <= :now OR next_attempt_at > :now + {_LONGEST_BACKOFF})"


@dataclass(frozen=True, slots=True)
class Difference:
    """Disk against ledger: files whose `stat` differs, paths that are gone, how many are as they were."""

    changed: list[FoundFile]
    gone: list[str]
    unchanged: int


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """How one path stands, for `why` and `GET /node`."""

    path: str
    wanted_hash: str | None
    indexed_hash: str | None
    pending: bool
    vectors_pending: bool
    parked: bool
    attempts: int
    error_kind: str | None
    error: str | None
    indexed_at: str | None


def unread_hash(found: FoundFile) -> str:
    """Name a content that could not be hashed: as long as `stat` says the same, it is the same."""
    return f"unread:{found.size}:{found.mtime_ns}:{found.inode}"


def below(folder: str) -> tuple[str, str]:
    """Return the range of keys below a folder (`""`: all): `path >= low AND path < high`."""
    return (folder + "/", folder + "0") if folder else ("", "\U0010ffff")  # "0" follows "/"


class Ledger:
    """The rows of `vault_file`, on a cache's connection. `clock` is monotonic, in seconds."""

    def __init__(self, con: apsw.Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._con = con
        self._clock = clock

    def diff(self, found: Iterable[FoundFile], folder: str = "") -> Difference:
        """Compare what a scan of a folder found with the ledger, by `stat` alone."""
        con = self._con
        con.execute(
            "CREATE TEMP TABLE IF NOT EXISTS seen"
            " (path TEXT PRIMARY KEY, raw BLOB, size INTEGER, mtime_ns INTEGER, inode INTEGER) WITHOUT ROWID"
        )
        with transaction(con):
            con.execute("DELETE FROM seen")
            con.executemany(
                "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)",
                ((f.path, os.fsencode(f.raw), f.size, f.mtime_ns, f.inode) for f in found),
            )
            changed = select(
                con,
                "SELECT s.path, s.raw, s.size, s.mtime_ns, s.inode FROM seen s LEFT JOIN vault_file f USING (path)"
                " WHERE f.wanted_hash IS NULL OR f.size <> s.size OR f.mtime_ns <> s.mtime_ns"
                " OR f.inode <> s.inode OR f.raw <> s.raw"
                # Permissions may have changed, which these columns do not show.
                " OR (f.parked = 1 AND f.error_kind IN ('unreadable', 'changing'))",
            )
            low, high = below(folder)
            gone = select(
                con,
                "SELECT path FROM vault_file WHERE wanted_hash IS NOT NULL AND path >= ? AND path < ?"
                " AND path NOT IN (SELECT path FROM seen)",
                (low, high),
            )
            (total,) = one(con, "SELECT count(*) FROM seen")
        files = [FoundFile(path, os.fsdecode(raw), *rest) for path, raw, *rest in changed]
        return Difference(files, [path for (path,) in gone], total - len(files))

    def paths_below(self, folder: str) -> list[str]:
        """Return the paths below a folder that the ledger believes to exist."""
        low, high = below(folder)
        return [
            path
            for (path,) in select(
                self._con,
                "SELECT path FROM vault_file WHERE wanted_hash IS NOT NULL AND path >= ? AND path < ?",
                (low, high),
            )
        ]

    def raws_after(self, path: str, count: int) -> list[tuple[str, str]]:
        """Return up to `count` existing paths that follow a path in order, with the names that open them."""
        found = select(
            self._con,
            "SELECT path, raw FROM vault_file WHERE path > ? AND wanted_hash IS NOT NULL ORDER BY path LIMIT ?",
            (path, count),
        )
        return [(found_path, os.fsdecode(raw)) for found_path, raw in found]

    def known(self) -> int:
        """Count the files that the ledger believes to exist."""
        (count,) = one(self._con, "SELECT count(*) FROM vault_file WHERE wanted_hash IS NOT NULL")
        return int(count)

    def without_files(self, gone: Sequence[str], on_disk: AbstractSet[tuple[int, int]]) -> list[str]:
        """Return those of the paths whose file (inode, size) is not on disk under another name either."""
        files = select(
            self._con,
            "SELECT path, inode, size FROM vault_file WHERE wanted_hash IS NOT NULL"
            " AND path IN (SELECT value FROM json_each(?))",
            (json.dumps(gone),),
        )
        return [path for path, inode, size in files if (inode, size) not in on_disk]

    def record(
        self,
        domain: str,
        seen: Sequence[tuple[FoundFile, str]],
        gone: Sequence[str],
        *,
        priority: int,
    ) -> list[DiffEvent]:
        """Write what was seen (file, hash) and what is gone; return an event for each real difference."""
        events = []
        with transaction(self._con):
            for found, sha in seen:
                event = self._record_seen(domain, found, sha, priority)
                if event:
                    events.append(event)
            for path in gone:
                event = self._record_gone(domain, path, priority)
                if event:
                    events.append(event)
        return events

    def _record_seen(self, domain: str, found: FoundFile, sha: str, priority: int) -> DiffEvent | None:
        row = first(self._con, "SELECT wanted_hash, generation FROM vault_file WHERE path = ?", (found.path,))
        old, generation = row or (None, 0)
        stat = (os.fsencode(found.raw), found.size, found.mtime_ns, found.inode)
        if row and old == sha:
            self._con.execute(
                "UPDATE vault_file SET raw = ?, size = ?, mtime_ns = ?, inode = ? WHERE path = ?",
                (*stat, found.path),
            )
            return None
        if row is None:
            self._con.execute(
                "INSERT INTO vault_file (path, raw, size, mtime_ns, inode, wanted_hash, generation, priority,"
                " dirty_since) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)",
                (found.path, *stat, sha, priority, self._clock()),
            )
        else:
            self._con.execute(
                "UPDATE vault_file SET raw = ?, size = ?, mtime_ns = ?, inode = ? WHERE path = ?",
                (*stat, found.path),
            )
            self._want(found.path, sha, priority)
        kind: EventKind = "created" if old is None else "modified"
        return DiffEvent(domain, found.path, kind, old, sha, generation + 1)

    def _record_gone(self, domain: str, path: str, priority: int) -> DiffEvent | None:
        row = first(self._con, "SELECT wanted_hash, generation FROM vault_file WHERE path = ?", (path,))
        if row is None or row[0] is None:
            return None
        self._want(path, None, priority)
        return DiffEvent(domain, path, "deleted", row[0], None, row[1] + 1)

    def _want(self, path: str, sha: str | None, priority: int) -> None:
        """Start a new generation of a row (inside the caller's transaction)."""
        self._con.execute(
            "UPDATE vault_file SET wanted_hash = :sha, generation = generation + 1,"
            " dirty_since = CASE WHEN applied_generation < generation THEN dirty_since ELSE :now END,"
            " priority = CASE WHEN applied_generation < generation THEN max(priority, :priority)"
            " ELSE :priority END,"
            " attempts = 0, next_attempt_at = NULL, error_kind = NULL, error = NULL, parked = 0"
            " WHERE path = :path",
            {"path": path, "sha": sha, "priority": priority, "now": self._clock()},
        )

    def want_all_again(self) -> None:
        """Make every row dirty (inside the caller's transaction): the pipeline changed."""
        self._con.execute(
            "UPDATE vault_file SET generation = generation + 1, dirty_since = ?, priority = ?, attempts = 0,"
            " next_attempt_at = NULL, error_kind = NULL, error = NULL, parked = 0",
            (self._clock(), LOW_PRIORITY),
        )

    def retry(self, path: str) -> bool:
        """Take a parked note up again; say whether there was one."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE vault_file SET generation = generation + 1, dirty_since = ?, attempts = 0,"
                " next_attempt_at = NULL, error_kind = NULL, error = NULL, parked = 0"
                " WHERE path = ? AND parked = 1",
                (self._clock(), path),
            )
            return self._con.changes() > 0

    def lease(
        self, stage: Stage, limit: int, owner: str, paths: Sequence[str] | None = None
    ) -> list[LeasedRow]:
        """Take up to `limit` rows that are owed, due and free, and count the attempt.

        The most urgent come first, and of these the newest: a save amid a bulk change does not wait for it.
        A row that failed before is leased alone: whatever broke its batch, it breaks no other note again.
        """
        now, token = self._clock(), secrets.token_hex(8)
        chosen = "AND path IN (SELECT value FROM json_each(:paths))" if paths is not None else ""
        bindings: dict[str, Any] = {"now": now, "limit": limit}
        if paths is not None:
            bindings["paths"] = json.dumps(paths)
        with transaction(self._con):
            rows = select(
                self._con,
                "SELECT path, raw, wanted_hash, generation, applied_generation, attempts FROM vault_file"
                f" WHERE {_OWED[stage]} AND {_FREE} AND {_DUE} {chosen}"
                " ORDER BY priority DESC, mtime_ns DESC, path LIMIT :limit",
                bindings,
            )
            if rows and rows[0][5] > 0:
                rows = rows[:1]
            rows = [row for row in rows if row[5] == 0 or row is rows[0]]
            self._con.executemany(
                "UPDATE vault_file SET lease_token = ?, lease_until = ?, lease_owner = ?,"
                " attempts = attempts + 1 WHERE path = ?",
                ((token, now + LEASE_SECONDS, owner, row[0]) for row in rows),
            )
        return [
            LeasedRow(path, os.fsdecode(raw), wanted, generation, applied, attempts + 1, token)
            for path, raw, wanted, generation, applied, attempts in rows
        ]

    def release(self, rows: Sequence[LeasedRow]) -> None:
        """Give rows back untried: the attempt does not count."""
        with transaction(self._con):
            self._con.executemany(
                "UPDATE vault_file SET lease_token = NULL, lease_until = NULL, lease_owner = NULL,"
                " attempts = max(0, attempts - 1) WHERE path = ? AND lease_token = ?",
                ((row.path, row.token) for row in rows),
            )

    def postpone(self, row: LeasedRow, kind: str, reason: str, *, counted: bool = True) -> None:
        """Give a row back after a failure that time may cure; it is due again after a growing pause.

        A failure that is no fault of the note's is not counted among its attempts.
        """
        pause = min(_LONGEST_BACKOFF, _BACKOFF_SECONDS * 2 ** (row.attempts - 1))
        with transaction(self._con):
            self._con.execute(
                "UPDATE vault_file SET lease_token = NULL, lease_until = NULL, lease_owner = NULL,"
                " attempts = attempts - ?, next_attempt_at = ?, error_kind = ?, error = ?"
                " WHERE path = ? AND lease_token = ?",
                (0 if counted else 1, self._clock() + pause, kind, reason, row.path, row.token),
            )

    def free_leases_of_the_dead(self, alive: Callable[[str], bool]) -> None:
        """Free the leases of owners that are no more; the attempt stays counted."""
        owners = select(
            self._con, "SELECT DISTINCT lease_owner FROM vault_file WHERE lease_token IS NOT NULL"
        )
        dead = [owner for (owner,) in owners if not alive(owner)]
        if dead:
            with transaction(self._con):
                self._con.execute(
                    "UPDATE vault_file SET lease_token = NULL, lease_until = NULL, lease_owner = NULL"
                    " WHERE lease_owner IN (SELECT value FROM json_each(?))",
                    (json.dumps(dead),),
                )

    def claim(self, row: LeasedRow, sha: str | None) -> int:
        """Return the generation that content `sha` may be committed as (inside the caller's transaction).

        Raises StaleWorkError when the lease went to somebody else, or a newer generation wants other content.
        """
        current = first(
            self._con,
            "SELECT generation, wanted_hash, lease_token FROM vault_file WHERE path = ?",
            (row.path,),
        )
        if current is None or current[2] != row.token:
            raise StaleWorkError(f"{row.path!r} is somebody else's work by now; nothing was written")
        if current[0] != row.generation and current[1] != sha:
            raise StaleWorkError(f"{row.path!r} changed while it was indexed; the newer content is next")
        return int(current[0])

    def applied(
        self, row: LeasedRow, generation: int, found: FoundFile, sha: str, *, embedded: bool, at: str
    ) -> None:
        """Note that a content is indexed (inside the caller's transaction); `at` is an ISO time."""
        self._con.execute(
            "UPDATE vault_file SET applied_generation = :g,"
            " embedded_generation = CASE WHEN :embedded THEN :g ELSE embedded_generation END,"
            " indexed_hash = :sha, wanted_hash = :sha, raw = :raw, size = :size, mtime_ns = :mtime,"
            " inode = :inode, attempts = 0, next_attempt_at = NULL, error_kind = NULL, error = NULL,"
            " lease_token = NULL, lease_until = NULL, lease_owner = NULL, indexed_at = :at WHERE path = :path",
            {
                "g": generation,
                "embedded": embedded,
                "sha": sha,
                "raw": os.fsencode(found.raw),
                "size": found.size,
                "mtime": found.mtime_ns,
                "inode": found.inode,
                "at": at,
                "path": row.path,
            },
        )

    def embedded(self, row: LeasedRow) -> None:
        """Note that all of a note's vectors are there (inside the caller's transaction)."""
        self._con.execute(
            "UPDATE vault_file SET embedded_generation = applied_generation, attempts = 0,"
            " next_attempt_at = NULL, error_kind = NULL, error = NULL,"
            " lease_token = NULL, lease_until = NULL, lease_owner = NULL WHERE path = ?",
            (row.path,),
        )

    def removed(self, row: LeasedRow) -> None:
        """Forget a path whose deletion is applied (inside the caller's transaction)."""
        self._con.execute("DELETE FROM vault_file WHERE path = ?", (row.path,))

    def parked(self, row: LeasedRow, kind: str, reason: str, *, indexed: bool) -> None:
        """Set a note aside until it changes (inside the caller's transaction); `indexed`: its words stay."""
        self._con.execute(
            "UPDATE vault_file SET parked = 1, error_kind = ?, error = ?, lease_token = NULL,"
            " lease_until = NULL, lease_owner = NULL,"
            " indexed_hash = CASE WHEN ? THEN indexed_hash END WHERE path = ?",
            (kind, reason, indexed, row.path),
        )

    def owes(self, stage: Stage) -> bool:
        """Say whether a row is owed, due and free."""
        return (
            first(
                self._con,
                f"SELECT 1 FROM vault_file WHERE {_OWED[stage]} AND {_FREE} AND {_DUE} LIMIT 1",
                {"now": self._clock()},
            )
            is not None
        )

    def pending(self) -> tuple[int, float]:
        """Return how many rows are dirty, and for how many seconds the oldest one has been."""
        count, oldest = one(
            self._con, f"SELECT count(*), min(dirty_since) FROM vault_file WHERE {_OWED['words']}"
        )
        return count, max(0.0, self._clock() - oldest) if count else 0.0

    def row(self, path: str) -> LedgerRow | None:
        """Return how one path stands, or None where the ledger has never seen it."""
        found = first(
            self._con,
            f"SELECT path, wanted_hash, indexed_hash, {_OWED['words']}, {_OWED['vectors']}, parked, attempts,"
            " error_kind, error, indexed_at FROM vault_file WHERE path = ?",
            (path,),
        )
        if found is None:
            return None
        path, wanted, indexed, pending, owed, parked, attempts, kind, error, at = found
        return LedgerRow(
            path, wanted, indexed, bool(pending), bool(owed), bool(parked), attempts, kind, error, at
        )

    def parked_rows(self) -> list[tuple[str, str, str]]:
        """Return path, kind of error and reason of every parked note."""
        return [
            (path, kind, reason)
            for path, kind, reason in select(
                self._con, "SELECT path, error_kind, error FROM vault_file WHERE parked = 1 ORDER BY path"
            )
        ]

    def stat_of(self, paths: Sequence[str]) -> dict[str, tuple[str, int, int, bool]]:
        """Return for each path the name that opens it, size, mtime in ns, and whether newer content is owed."""
        return {
            path: (os.fsdecode(raw), size, mtime, bool(dirty))
            for path, raw, size, mtime, dirty in select(
                self._con,
                "SELECT path, raw, size, mtime_ns, applied_generation < generation FROM vault_file"
                " WHERE path IN (SELECT value FROM json_each(?))",
                (json.dumps(paths),),
            )
        }
