"""Bound a table of `state.db` that grows with time: delete what is old, and what is beyond a number of rows."""

from __future__ import annotations

import apsw

from pipelines.store.connection import transaction
from pipelines.store.job_rows import LAST_ID

_DELETED_AT_ONCE = 2_000


def prune(
    con: apsw.Connection, table: str, time: str, *, oldest: str, most: int, condition: str = "TRUE"
) -> int:
    """Delete the rows whose column `time` is before `oldest`, and all but the newest `most`; return how many.

    Rows that do not meet the condition stay. Ids have to ascend with time. Uses short transactions, so that no worker
    waits. Raises StorageUnavailableError.
    """
    deleted = 0
    while True:
        with transaction(con):
            con.execute(
                # Ids ascend with time, so the first recent row ends the search.
                f"DELETE FROM {table} WHERE {condition} AND id IN (SELECT id FROM {table}"
                f" WHERE id < max((SELECT max(id) FROM {table}) - :most + 1, coalesce("
                f"  (SELECT id FROM {table} WHERE {time} >= :oldest ORDER BY id LIMIT 1), :last))"
                " ORDER BY id LIMIT :count)",
                {"most": most, "oldest": oldest, "count": _DELETED_AT_ONCE, "last": LAST_ID},
            )
            changes = con.changes()
        deleted += changes
        if changes == 0:
            return deleted
