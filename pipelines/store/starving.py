"""Report whether a cache's pending work makes progress: how long it waits, when a note was last indexed, why not."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta

import apsw

from pipelines.moments import iso_ago, seconds_since
from pipelines.store.connection import one, row
from pipelines.store.leases import LEASE_SECONDS, OWED


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pending work: how many notes need words, how many vectors; the oldest has waited for `oldest_s` seconds.

    `done_s`: seconds since the last note was indexed, None: never. `is_leased`: a process is working on some of it.
    `reason`: the error of one of the waiting notes.
    """

    words: int
    vectors: int
    oldest_s: float
    done_s: float | None
    is_leased: bool
    reason: str | None


def waiting(con: apsw.Connection) -> Waiting | None:
    """Return what is pending in a cache, or None if nothing is."""
    words, vectors, oldest, leased = one(
        con,
        f"SELECT coalesce(sum({OWED['words']}), 0), coalesce(sum({OWED['vectors']}), 0),"
        f" min(CASE WHEN {OWED['words']} THEN dirty_since END),"
        " coalesce(max(lease_token IS NOT NULL AND lease_until > :now AND lease_until <= :now + :lease), 0)"
        f" FROM vault_file WHERE ({OWED['words']}) OR ({OWED['vectors']})",
        {"now": time.monotonic(), "lease": LEASE_SECONDS},
    )
    if not words and not vectors:
        return None
    (done,) = one(con, "SELECT max(indexed_at) FROM vault_file")
    (reason,) = row(
        con,
        f"SELECT error FROM vault_file WHERE error IS NOT NULL AND (({OWED['words']}) OR ({OWED['vectors']}))"
        " ORDER BY dirty_since LIMIT 1",
    ) or (None,)
    return Waiting(
        words=words,
        vectors=vectors,
        oldest_s=max(0.0, time.monotonic() - oldest) if oldest is not None else 0.0,
        done_s=None if done is None else seconds_since(done),
        is_leased=bool(leased),
        reason=reason,
    )


def was_worked_on(con: apsw.Connection, domain: str, seconds: float) -> bool:
    """Say whether the history in `state.db` has a job that indexed notes of a domain within the last `seconds`."""
    found = row(
        con,
        "SELECT 1 FROM job_history WHERE finished_at > ? AND state = 'done' AND notes > 0 AND domain = ? LIMIT 1",
        (iso_ago(timedelta(seconds=seconds)), domain),
    )
    return found is not None


def last_trouble(con: apsw.Connection, domain: str, seconds: float) -> str | None:
    """Return the error of a domain's last job that failed or was postponed within the last `seconds`, or None."""
    found = row(
        con,
        "SELECT error FROM job_history WHERE domain IN (SELECT value FROM json_each(?))"
        " AND state IN ('put off', 'failed') AND finished_at > ? ORDER BY id DESC LIMIT 1",
        (json.dumps([domain, "*"]), iso_ago(timedelta(seconds=seconds))),
    )
    return found[0] if found else None
