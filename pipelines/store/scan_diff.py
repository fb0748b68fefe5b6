"""Compare a scan of the disk with the ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pipelines.model import FoundFile
from pipelines.store.cache import Cache
from pipelines.store.connection import one, rows, transaction
from pipelines.store.ledger import below


@dataclass(frozen=True, slots=True)
class Difference:
    """Disk compared with ledger: files whose `stat` differs, paths that are gone, the number of unchanged files."""

    changed: list[FoundFile]
    gone: list[str]
    unchanged: int


def compare_scan(
    cache: Cache, found: Iterable[FoundFile], folder: str = "", suspects: AbstractSet[str] = frozenset()
) -> Difference:
    """Compare a scan of a folder with the ledger, by `stat` alone; `suspects` always count as changed."""
    con = cache.con
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
        changed = rows(
            con,
            "SELECT s.path, s.raw, s.size, s.mtime_ns, s.inode FROM seen s LEFT JOIN vault_file f USING (path)"
            " WHERE f.wanted_hash IS NULL OR f.size <> s.size OR f.mtime_ns <> s.mtime_ns"
            " OR f.inode <> s.inode OR f.raw <> s.raw"
            # These columns do not show a change of permissions, of another file's name, or of the size limit.
            " OR (f.parked = 1 AND f.error_kind IN ('unreadable', 'changing', 'name-collision', 'too-large'))"
            " OR s.path IN (SELECT value FROM json_each(?))",
            (json.dumps(list(suspects)),),
        )
        low, high = below(folder)
        gone = rows(
            con,
            "SELECT path FROM vault_file WHERE wanted_hash IS NOT NULL AND path >= ? AND path < ?"
            " AND path NOT IN (SELECT path FROM seen)",
            (low, high),
        )
        (total,) = one(con, "SELECT count(*) FROM seen")
    files = [FoundFile(path, os.fsdecode(raw), *rest) for path, raw, *rest in changed]
    return Difference(files, [path for (path,) in gone], total - len(files))
