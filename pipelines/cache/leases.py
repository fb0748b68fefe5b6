"""Leases on pending ledger rows: rows are leased to a worker, then released, committed or parked.

Every method runs its own transaction, except those that say that they run inside the caller's.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.cache.vectors import KEPT
from pipelines.errors import StaleWorkError
from pipelines.model import HIGH_PRIORITY, FoundFile, LeasedRow, seconds_since
from pipelines.sqlite import Connection, first, one, select, transaction

# `free_those_of_the_dead` notices a worker that dies on this machine; the timeout covers workers on other machines.
LEASE_SECONDS = 300.0
MAX_ATTEMPTS = 3
APART = "apart"
"""The `error_kind` of a row whose note takes so long to parse that it is parsed separately."""

_BACKOFF_SECONDS = 2.0
_LONGEST_BACKOFF = 60.0

Stage = Literal["words", "vectors"]
Among = Literal["all", "together", "saves", "apart"]
"""Which rows: all, those that are not set apart, the saves among these, or those that are set apart."""
PENDING: dict[Stage, str] = {
    "words": "applied_generation < generation AND parked = 0",
    "vectors": "embedded_generation < applied_generation AND applied_generation = generation AND parked = 0",
}
"""The SQL condition for a row of `vault_file` to be pending, per stage."""
# A time further ahead than any lease or backoff was recorded before a reboot reset the clock.
_FREE = f"(lease_token IS NULL OR lease_until <= :now OR lease_until > :now + {LEASE_SECONDS})"
_TOGETHER = f"error_kind IS DISTINCT FROM '{APART}'"
_DUE = f"(next_attempt_at IS NULL OR next_attempt_at <= :now OR next_attempt_at > :now + {_LONGEST_BACKOFF})"

TAKABLE: dict[Stage, str] = {stage: f"{pending} AND {_FREE} AND {_DUE}" for stage, pending in PENDING.items()}
"""The SQL condition for a row to be pending, due at `:now`, and leased to nobody, per stage."""
_AMONG: dict[Among, str] = {
    "all": "",
    "together": f" AND {_TOGETHER}",
    "saves": f" AND {_TOGETHER} AND priority >= {HIGH_PRIORITY}",
    "apart": f" AND error_kind = '{APART}'",
}
_HANDED_OUT = " AND (path, wanted_hash) IN (SELECT path, sha FROM vault_content)"
_LEASED = "SELECT path, raw, wanted_hash, generation, applied_generation, attempts FROM vault_file"
_NEWEST = "ORDER BY priority DESC, mtime_ns DESC, path"
_NOTICED_LAST = "ORDER BY priority DESC, wanted_hash IS NULL, dirty_since DESC"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pending work: how many notes need words, how many vectors; the oldest has waited for `oldest_s` seconds.

    `done_s`: seconds since the last note was indexed, None: never. `is_leased`: a process is working on some of it.
    `reason`: the error of one of the waiting notes. `kept`: how many more notes stay without vectors because they
    must not leave this machine.
    """

    words: int
    vectors: int
    oldest_s: float
    done_s: float | None
    is_leased: bool
    reason: str | None
    kept: int = 0


class SqlLeases:
    """The leases on the rows of `vault_file`, on a cache's connection. `clock` is monotonic, in seconds."""

    def __init__(self, con: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._con = con
        self._clock = clock
        self.only_handed_out = False
        """Whether only notes whose bytes are in the store are leased for their words: there is no vault here."""

    def _takable(self, stage: Stage, among: Among) -> str:
        """Return the condition for a row to be pending, due and free."""
        handed_out = _HANDED_OUT if self.only_handed_out and stage == "words" else ""
        return f"{TAKABLE[stage]}{_AMONG[among]}{handed_out}"

    def has_pending(self, stage: Stage, among: Among = "all") -> bool:
        """Say whether a row is pending, due and free."""
        # In the order of the index of what is pending: PostgreSQL would otherwise read the whole table.
        sql = f"SELECT 1 FROM vault_file WHERE {self._takable(stage, among)} {_NEWEST} LIMIT 1"
        return first(self._con, sql, {"now": self._clock()}) is not None

    def take(self, stage: Stage, limit: int, owner: str, among: Among = "all") -> list[LeasedRow]:
        """Lease up to `limit` rows that are pending, due and free, and count the attempt."""
        condition = self._takable(stage, among)
        if among == "saves":
            pending = f"SELECT path FROM vault_file WHERE {condition}"
            condition = (
                f"path IN (SELECT path FROM ({pending} {_NEWEST} LIMIT :limit / 2) newest"
                f" UNION SELECT path FROM ({pending} {_NOTICED_LAST} LIMIT :limit / 2) noticed)"
            )
        return self._lease(f"{_LEASED} WHERE {condition} {_NEWEST} LIMIT :limit", {"limit": limit}, owner)

    def _lease(self, sql: str, bindings: dict[str, Any], owner: str) -> list[LeasedRow]:
        now, token = self._clock(), secrets.token_hex(8)
        with transaction(self._con):
            rows = select(self._con, sql, bindings | {"now": now})
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

    def set_apart(self, row: LeasedRow, reason: str) -> None:
        """Release a row untried; it is leased only `apart` from others until its content changes."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE vault_file SET lease_token = NULL, lease_until = NULL, lease_owner = NULL,"
                " attempts = max(0, attempts - 1), error_kind = ?, error = ? WHERE path = ? AND lease_token = ?",
                (APART, reason, row.path, row.token),
            )

    def renew(self, row: LeasedRow, sha: str) -> None:
        """Extend the lease of a row while its content `sha` is being indexed.

        Raises StaleWorkError as `claim` does.
        """
        with transaction(self._con):
            self.claim(row, sha)
            self._con.execute(
                "UPDATE vault_file SET lease_until = ? WHERE path = ?",
                (self._clock() + LEASE_SECONDS, row.path),
            )

    def release(self, rows: Sequence[LeasedRow]) -> None:
        """Release rows untried: the attempt does not count."""
        with transaction(self._con):
            self._con.executemany(
                "UPDATE vault_file SET lease_token = NULL, lease_until = NULL, lease_owner = NULL,"
                " attempts = max(0, attempts - 1) WHERE path = ? AND lease_token = ?",
                ((row.path, row.token) for row in rows),
            )

    def release_all_of(self, owners: Collection[str]) -> None:
        """Release everything that these owners hold after the disk failed: the attempt does not count."""
        if owners:
            with transaction(self._con):
                self._con.execute(
                    "UPDATE vault_file SET lease_token = NULL, lease_until = NULL, lease_owner = NULL,"
                    " attempts = max(0, attempts - 1) WHERE lease_owner IN (SELECT value FROM json_each(?))",
                    (json.dumps(list(owners)),),
                )

    def postpone(self, row: LeasedRow, kind: str, reason: str, *, counted: bool = True) -> None:
        """Release a row after a failure that may pass; due again after a growing pause, if kept after a minute."""
        pause = min(_LONGEST_BACKOFF, _BACKOFF_SECONDS * 2 ** (row.attempts - 1))
        if kind == KEPT:
            pause = _LONGEST_BACKOFF
        with transaction(self._con):
            self._con.execute(
                "UPDATE vault_file SET lease_token = NULL, lease_until = NULL, lease_owner = NULL,"
                " attempts = attempts - ?, next_attempt_at = ?, error_kind = ?, error = ?"
                " WHERE path = ? AND lease_token = ?",
                (0 if counted else 1, self._clock() + pause, kind, reason, row.path, row.token),
            )

    def free_those_of_the_dead(self, alive: Callable[[str], bool]) -> None:
        """Release the leases of owners that no longer live; the attempt still counts."""
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
        """Return the generation under which content `sha` may be committed (inside the caller's transaction).

        Raises StaleWorkError if another worker holds the lease by now, or if a newer generation wants other content.
        """
        current = first(
            self._con,
            "SELECT generation, wanted_hash, lease_token FROM vault_file WHERE path = ?",
            (row.path,),
        )
        if current is None or current[2] != row.token:
            raise StaleWorkError(f"another worker has taken over {row.path!r}; nothing was written")
        if current[0] != row.generation and current[1] != sha:
            raise StaleWorkError(
                f"{row.path!r} changed while it was being indexed; the newer content is next"
            )
        return int(current[0])

    def applied(
        self, row: LeasedRow, generation: int, found: FoundFile, sha: str, *, embedded: bool, at: str
    ) -> None:
        """Record that content is indexed (inside the caller's transaction); `at` is an ISO time.

        The ledger's `stat` values stay if this is the content that it wants: who recorded it may have looked later.
        """
        seen = ", ".join(
            f"{name} = CASE WHEN wanted_hash = :sha THEN {name} ELSE :{name} END"
            for name in ("raw", "size", "mtime_ns", "inode")
        )
        self._con.execute(
            f"UPDATE vault_file SET applied_generation = :g, {seen},"
            " embedded_generation = CASE WHEN :embedded THEN :g ELSE embedded_generation END,"
            " indexed_hash = :sha, wanted_hash = :sha, attempts = 0, next_attempt_at = NULL, error_kind = NULL,"
            " error = NULL, lease_token = NULL, lease_until = NULL, lease_owner = NULL, indexed_at = :at"
            " WHERE path = :path",
            {
                "g": generation,
                "embedded": embedded,
                "sha": sha,
                "raw": os.fsencode(found.raw),
                "size": found.size,
                "mtime_ns": found.mtime_ns,
                "inode": found.inode,
                "at": at,
                "path": row.path,
            },
        )

    def embedded(self, row: LeasedRow) -> None:
        """Record that all of a note's vectors are stored (inside the caller's transaction)."""
        self._con.execute(
            "UPDATE vault_file SET embedded_generation = applied_generation, attempts = 0,"
            " next_attempt_at = NULL, error_kind = NULL, error = NULL,"
            " lease_token = NULL, lease_until = NULL, lease_owner = NULL WHERE path = ?",
            (row.path,),
        )

    def removed(self, row: LeasedRow) -> tuple[str | None, int]:
        """Delete the row of a path whose deletion is applied (inside the caller's transaction).

        Returns the hash of the bytes that were indexed, None if none were, and the inode of the file.
        """
        sql = "DELETE FROM vault_file WHERE path = ? RETURNING indexed_hash, inode"
        sha, inode = one(self._con, sql, (row.path,))
        return sha, int(inode)

    def parked(self, row: LeasedRow, kind: str, reason: str, *, indexed: bool) -> None:
        """Park a note until it changes (inside the caller's transaction); `indexed`: its words stay indexed."""
        self._con.execute(
            "UPDATE vault_file SET parked = 1, error_kind = ?, error = ?, lease_token = NULL,"
            " lease_until = NULL, lease_owner = NULL,"
            " indexed_hash = CASE WHEN ? THEN indexed_hash END WHERE path = ?",
            (kind, reason, indexed, row.path),
        )

    def waiting(self) -> Waiting | None:
        """Return what is pending in a cache, or None if nothing is."""
        words, vectors, kept, oldest, leased = one(
            self._con,
            f"SELECT count(*) FILTER (WHERE {PENDING['words']}), count(*) FILTER (WHERE {PENDING['vectors']}),"
            f" count(*) FILTER (WHERE {PENDING['vectors']} AND error_kind = '{KEPT}'),"
            f" min(CASE WHEN {PENDING['words']} THEN dirty_since END), count(*)"
            " FILTER (WHERE lease_token IS NOT NULL AND lease_until > :now AND lease_until <= :now + :lease)"
            f" FROM vault_file WHERE ({PENDING['words']}) OR ({PENDING['vectors']})",
            {"now": self._clock(), "lease": LEASE_SECONDS},
        )
        if not words and not vectors:
            return None
        (done,) = one(self._con, "SELECT max(indexed_at) FROM vault_file")
        (reason,) = first(
            self._con,
            f"SELECT error FROM vault_file WHERE error IS NOT NULL AND error_kind IS DISTINCT FROM '{KEPT}'"
            f" AND (({PENDING['words']}) OR ({PENDING['vectors']})) ORDER BY dirty_since LIMIT 1",
        ) or (None,)
        return Waiting(
            words=words,
            vectors=vectors - kept,
            oldest_s=max(0.0, self._clock() - oldest) if oldest is not None else 0.0,
            done_s=None if done is None else seconds_since(done),
            is_leased=bool(leased),
            reason=reason,
            kept=kept,
        )
