"""The ledger: what is on disk compared with what is indexed.

All pending work is recorded here and nowhere else, because the queue may be lost at any moment. Every method runs its
own transaction, except those that say that they run inside the caller's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime

from pipelines.cache.leases import PENDING
from pipelines.cache.schema import SET_META
from pipelines.model import HIGH_PRIORITY, LOW_PRIORITY, DiffEvent, EventKind, FoundFile, LeasedRow
from pipelines.sqlite import Connection, first, one, select, transaction


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The state of one path, for `why` and `GET /node`."""

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


@dataclass(frozen=True, slots=True)
class ParkedRow:
    """A parked note; `generation` names the content that fails, `since_s` is how long the failure has been known."""

    path: str
    kind: str
    reason: str
    attempts: int
    generation: int
    since_s: float


@dataclass(frozen=True, slots=True)
class ScanDifference:
    """Disk compared with ledger: files whose `stat` differs, paths that are gone, the number of unchanged files."""

    changed: list[FoundFile]
    gone: list[str]
    unchanged: int


def unread_hash(found: FoundFile, reason: str) -> str:
    """Return a stand-in for the hash of content that could not be read; it changes only with `stat` or the reason."""
    return f"unread:{reason}:{found.size}:{found.mtime_ns}:{found.inode}"


def below(folder: str) -> tuple[str, str]:
    """Return the range of keys below a folder (`""`: all keys): `path >= low AND path < high`."""
    return (folder + "/", folder + "0") if folder else ("", "\U0010ffff")  # "0" follows "/"


# The recorded time of a file that was gone when its note was about to be read; the note stays as it is indexed.
_AWAY = -1


_INDEXED = "SELECT path FROM vault_file WHERE indexed_hash IS NOT NULL AND applied_generation"


def modified_at(mtime_ns: int) -> str:
    """Return a file's time in the format of a note's row."""
    return datetime.fromtimestamp(mtime_ns / 1e9, UTC).isoformat(timespec="seconds")


class SqlLedger:
    """The rows of `vault_file` on a cache's connection. `clock` is monotonic, in seconds."""

    def __init__(self, con: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._con = con
        self._clock = clock

    def paths_below(self, folder: str) -> list[str]:
        """Return the paths below a folder that the ledger believes to exist."""
        low, high = below(folder)
        sql = "SELECT path FROM vault_file WHERE wanted_hash IS NOT NULL AND path >= ? AND path < ?"
        return [path for (path,) in select(self._con, sql, (low, high))]

    def hashes_of(self, paths: Collection[str]) -> dict[str, str]:
        """Return the hash on disk of each of the paths that the ledger believes to exist."""
        found = select(
            self._con,
            "SELECT path, wanted_hash FROM vault_file WHERE wanted_hash IS NOT NULL"
            " AND path IN (SELECT value FROM json_each(?))",
            (json.dumps(list(paths)),),
        )
        return dict(found)

    def paths_of(self, hashes: Collection[str]) -> dict[str, str]:
        """Return the paths whose file on disk has one of the hashes, with the hash; this reads every row."""
        found = select(
            self._con,
            "SELECT path, wanted_hash FROM vault_file WHERE wanted_hash IN (SELECT value FROM json_each(?))",
            (json.dumps(list(hashes)),),
        )
        return dict(found)

    def raws_after(self, path: str, count: int) -> list[tuple[str, str]]:
        """Return up to `count` existing paths that sort after a path, with the names that open them."""
        found = select(
            self._con,
            "SELECT path, raw FROM vault_file WHERE path > ? AND wanted_hash IS NOT NULL ORDER BY path LIMIT ?",
            (path, count),
        )
        return [(found_path, os.fsdecode(raw)) for found_path, raw in found]

    def settled(self) -> dict[str, str]:
        """Return the hash of each note that is completely indexed, including vectors, and has nothing pending."""
        found = select(
            self._con,
            "SELECT path, indexed_hash FROM vault_file WHERE applied_generation = generation"
            " AND embedded_generation = generation AND parked = 0 AND indexed_hash IS NOT NULL",
        )
        return dict(found)

    def known(self) -> int:
        """Count the files that the ledger believes to exist."""
        (count,) = one(self._con, "SELECT count(*) FROM vault_file WHERE wanted_hash IS NOT NULL")
        return int(count)

    def without_files(self, gone: Sequence[str], on_disk: AbstractSet[tuple[int, int]]) -> list[str]:
        """Return the paths whose file (inode, size) is not on disk under another name either."""
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
        """Record the files seen (file, hash) and the paths gone; return an event for each real difference."""
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
        row = first(
            self._con,
            "SELECT wanted_hash, generation, mtime_ns FROM vault_file WHERE path = ?",
            (found.path,),
        )
        old, generation, time_ns = row or (None, 0, 0)
        stat = (os.fsencode(found.raw), found.size, found.mtime_ns, found.inode)
        if row and old == sha and time_ns != _AWAY:
            self._con.execute(
                "UPDATE vault_file SET raw = ?, size = ?, mtime_ns = ?, inode = ? WHERE path = ?",
                (*stat, found.path),
            )
            # Only the time changed; if content is pending, the node gets its time together with the content.
            self._con.execute(
                "UPDATE vault_node SET modified_at = ? WHERE path = ?",
                (modified_at(found.mtime_ns), found.path),
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

    def keep_indexed(self, row: LeasedRow) -> bool:
        """Accept the indexed content as wanted and release the lease; say whether there is any."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE vault_file SET wanted_hash = indexed_hash, mtime_ns = ?,"
                " embedded_generation = CASE WHEN EXISTS (SELECT 1 FROM vault_chunk c WHERE c.path = vault_file.path"
                " AND c.has_vector = 0) THEN embedded_generation ELSE generation END,"
                " applied_generation = generation, attempts = 0,"
                " next_attempt_at = NULL, error_kind = NULL, error = NULL,"
                " lease_token = NULL, lease_until = NULL, lease_owner = NULL"
                " WHERE path = ? AND lease_token = ? AND indexed_hash IS NOT NULL",
                (_AWAY, row.path, row.token),
            )
            return self._con.changes() > 0

    def want_again(self, paths: Collection[str] | None = None) -> None:
        """Mark rows (None: all) as never applied by this pipeline (inside the caller's transaction)."""
        self._con.execute(
            "UPDATE vault_file SET generation = generation + 1, applied_generation = 0, embedded_generation = 0,"
            " dirty_since = CASE WHEN applied_generation < generation THEN dirty_since ELSE :now END,"
            " priority = CASE WHEN applied_generation < generation THEN priority ELSE :low END, attempts = 0,"
            " next_attempt_at = NULL, error_kind = NULL, error = NULL, parked = 0"
            " WHERE :paths IS NULL OR path IN (SELECT value FROM json_each(:paths))",
            {
                "now": self._clock(),
                "low": LOW_PRIORITY,
                "paths": None if paths is None else json.dumps(list(paths)),
            },
        )

    def retry(self, path: str | None = None) -> int:
        """Make a parked note (None: all of them) pending again; return how many there were."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE vault_file SET generation = generation + 1, dirty_since = ?, attempts = 0,"
                " next_attempt_at = NULL, error_kind = NULL, error = NULL, parked = 0"
                " WHERE parked = 1 AND (?2 IS NULL OR path = ?2)",
                (self._clock(), path),
            )
            return self._con.changes()

    def hasten(self, path: str) -> bool:
        """Let a pending note take its turn with the saves; say whether it is pending."""
        with transaction(self._con):
            self._con.execute(
                f"UPDATE vault_file SET priority = max(priority, ?) WHERE path = ? AND {PENDING['words']}",
                (HIGH_PRIORITY, path),
            )
            return self._con.changes() > 0

    def pending(self, besides: Collection[str] = ()) -> tuple[int, float]:
        """Return how many rows `besides` some paths are dirty, and for how many seconds the oldest one has been."""
        count, oldest = one(
            self._con,
            f"SELECT count(*), min(dirty_since) FROM vault_file WHERE {PENDING['words']}"
            " AND path NOT IN (SELECT value FROM json_each(?))",
            (json.dumps(list(besides)),),
        )
        return count, max(0.0, self._clock() - oldest) if count else 0.0

    def row(self, path: str) -> LedgerRow | None:
        """Return the state of one path, or None if the ledger has never seen it."""
        found = first(
            self._con,
            f"SELECT path, wanted_hash, indexed_hash, {PENDING['words']}, {PENDING['vectors']}, parked, attempts,"
            " error_kind, error, indexed_at FROM vault_file WHERE path = ?",
            (path,),
        )
        if found is None:
            return None
        path, wanted, indexed, pending, vectors_pending, parked, attempts, kind, error, at = found
        return LedgerRow(
            path,
            wanted,
            indexed,
            bool(pending),
            bool(vectors_pending),
            bool(parked),
            attempts,
            kind,
            error,
            at,
        )

    def stat_of(self, paths: Sequence[str]) -> dict[str, tuple[str, int, int, bool]]:
        """Return for each path that is to stay: the name that opens it, size, mtime in ns, whether it is dirty."""
        return {
            path: (os.fsdecode(raw), size, mtime, bool(dirty))
            for path, raw, size, mtime, dirty in select(
                self._con,
                "SELECT path, raw, size, mtime_ns, applied_generation < generation FROM vault_file"
                " WHERE wanted_hash IS NOT NULL AND path IN (SELECT value FROM json_each(?))",
                (json.dumps(paths),),
            )
        }

    def compare_scan(
        self, found: Iterable[FoundFile], folder: str = "", suspects: AbstractSet[str] = frozenset()
    ) -> ScanDifference:
        """Compare a scan of a folder with the ledger, by `stat` alone; `suspects` always count as changed."""
        with transaction(self._con):
            self._con.execute(
                "CREATE TEMP TABLE seen"
                " (path TEXT PRIMARY KEY, raw BLOB, size BIGINT, mtime_ns BIGINT, inode BIGINT)"
            )
            self._con.executemany(
                "INSERT INTO seen VALUES (?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET raw = excluded.raw,"
                " size = excluded.size, mtime_ns = excluded.mtime_ns, inode = excluded.inode",
                ((f.path, os.fsencode(f.raw), f.size, f.mtime_ns, f.inode) for f in found),
            )
            changed = select(
                self._con,
                "SELECT s.path, s.raw, s.size, s.mtime_ns, s.inode FROM seen s LEFT JOIN vault_file f USING (path)"
                " WHERE f.wanted_hash IS NULL OR f.size <> s.size OR f.mtime_ns <> s.mtime_ns"
                " OR f.inode <> s.inode OR f.raw <> s.raw"
                # These columns do not show a change of permissions, of another file's name, or of the size limit.
                " OR (f.parked = 1 AND f.error_kind IN ('unreadable', 'changing', 'name-collision', 'too-large'))"
                " OR s.path IN (SELECT value FROM json_each(?))",
                (json.dumps(list(suspects)),),
            )
            low, high = below(folder)
            gone = select(
                self._con,
                "SELECT path FROM vault_file WHERE wanted_hash IS NOT NULL AND path >= ? AND path < ?"
                # By NOT IN, PostgreSQL would compare each with each as soon as they are too many for its memory.
                " AND NOT EXISTS (SELECT 1 FROM seen WHERE seen.path = vault_file.path)",
                (low, high),
            )
            (total,) = one(self._con, "SELECT count(*) FROM seen")
            self._con.execute("DROP TABLE seen")
        files = [FoundFile(path, os.fsdecode(raw), *rest) for path, raw, *rest in changed]
        return ScanDifference(files, [path for (path,) in gone], total - len(files))

    def parked_notes(self) -> list[ParkedRow]:
        """Return the parked notes, by path. Raises CacheError."""
        now = self._clock()
        return [
            ParkedRow(path, kind, reason, attempts, generation, max(0.0, now - since))
            for path, kind, reason, attempts, generation, since in select(
                self._con,
                "SELECT path, error_kind, error, attempts, generation, dirty_since FROM vault_file"
                " WHERE parked = 1 ORDER BY path",
            )
        ]

    def saved_ms(self, paths: Sequence[str]) -> list[float]:
        """Return, for each of these saves that is findable, the milliseconds from its discovery to being findable.

        Raises CacheError.
        """
        # The ledger records the discovery by the monotonic clock, and the commit by the wall clock.
        offset = time.time() - self._clock()
        return [
            round(max(0.0, datetime.fromisoformat(at).timestamp() - offset - since) * 1000, 1)
            for since, at in select(
                self._con,
                "SELECT dirty_since, indexed_at FROM vault_file WHERE applied_generation = generation"
                " AND indexed_at IS NOT NULL AND priority >= ? AND path IN (SELECT value FROM json_each(?))",
                (HIGH_PRIORITY, json.dumps(list(paths))),
            )
        ]

    def replace_pipeline(self, name: str) -> None:
        """Name another pipeline as the current one, before its notes are wanted (inside the caller's transaction).

        The names before it are kept while notes remain that this pipeline has not indexed.
        """
        before = self._earlier() if first(self._con, f"{_INDEXED} = 0 LIMIT 1") else []
        self._con.executemany(
            SET_META,
            [("pipeline", name), ("earlier_pipelines", " ".join({*before, self._current()}))],
        )

    def want_version(self, version: str | None) -> list[str]:
        """Make the notes pending that a pipeline (None: an earlier one) indexed, and return their paths."""
        with transaction(self._con):
            paths = [path for (path,) in select(self._con, f"{_INDEXED} = 0 ORDER BY path")]
            if version is not None and not any(_is_of(name, version) for name in self._earlier()):
                paths = []
            if version is not None and _is_of(self._current(), version):
                paths += [path for (path,) in select(self._con, f"{_INDEXED} > 0 ORDER BY path")]
            self.want_again(paths)
        return paths

    def _current(self) -> str:
        (name,) = one(self._con, "SELECT value FROM vault_meta WHERE key = 'pipeline'")
        return str(name)

    def _earlier(self) -> Sequence[str]:
        found = first(self._con, "SELECT value FROM vault_meta WHERE key = 'earlier_pipelines'")
        return found[0].split() if found else []


def _is_of(name: str, version: str) -> bool:
    return version in (name, name.partition(":")[0])
