"""Remove from a cache what `everindex verify --repair` found to differ, and make it pending again."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from pipelines.priorities import LOW_PRIORITY
from pipelines.store.cache import Cache
from pipelines.store.check import NO_NODE, STRAY_CONTEXTS, STRAY_PLACES, STRAY_VECTORS, STRAY_WORDS
from pipelines.store.connection import rows as select
from pipelines.store.connection import transaction


def make_owed(cache: Cache, paths: Sequence[str], distrusted: Sequence[str]) -> None:
    """Delete the data derived from these notes and make them dirty; delete distrusted vectors and all orphans.

    The notes' other vectors stay, so indexing these notes again embeds nothing that is known. One transaction.
    """
    con = cache.con
    chosen = json.dumps(list(paths))
    with transaction(con):
        con.execute(
            "DELETE FROM vault_vector WHERE text_hash IN (SELECT value FROM json_each(?))",
            (json.dumps(list(distrusted)),),
        )
        con.execute(
            "DELETE FROM vault_node WHERE path IN (SELECT value FROM json_each(?))"
            " OR path NOT IN (SELECT path FROM vault_file)",
            (chosen,),
        )
        for table in ("vault_chunk", "vault_link", "vault_edge", "vault_privacy", "vault_date"):
            con.execute(f"DELETE FROM {table} WHERE {NO_NODE}")
        strays = select(con, STRAY_WORDS)
        con.executemany("DELETE FROM vault_chunk_fts WHERE rowid = ?", strays)
        con.executemany("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", select(con, STRAY_VECTORS))
        con.executemany("DELETE FROM vault_place WHERE chunk_id = ?", select(con, STRAY_PLACES))
        con.executemany("DELETE FROM vault_context WHERE chunk_id = ?", select(con, STRAY_CONTEXTS))
        con.execute(
            "UPDATE vault_vector SET unused_since = ? WHERE unused_since IS NULL"
            " AND text_hash NOT IN (SELECT text_hash FROM vault_chunk)",
            (time.time(),),
        )
        # The counters restart, whatever they were; a lease stays with its holder.
        con.execute(
            "UPDATE vault_file SET generation = generation + 1,"
            " applied_generation = 0, embedded_generation = 0, indexed_hash = NULL, priority = ?,"
            " dirty_since = ?, attempts = 0, next_attempt_at = NULL, error_kind = NULL, error = NULL, parked = 0"
            " WHERE path IN (SELECT value FROM json_each(?))",
            (LOW_PRIORITY, time.monotonic(), chosen),
        )
