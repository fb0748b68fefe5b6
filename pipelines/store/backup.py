"""Copy databases that are in use, and prepare a copy for being used again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import apsw

from pipelines.errors import StorageUnavailableError
from pipelines.store.cache import Cache
from pipelines.store.connection import connect, corrupt, transaction
from pipelines.store.connection import rows as select
from pipelines.store.meta import SCHEMA_VERSION, CacheMeta
from pipelines.store.salvage import is_damaged, newest_caches, put_in_place
from pipelines.store.state import State
from pipelines.store.state_file import STATE_FILE


def copy(source: Path, target: Path) -> None:
    """Copy a database, as of one moment, over another database or into a new file.

    Raises CacheCorruptError, StorageUnavailableError.

    Copies in a single step, so that a writer does not make it start over. Copies pages instead of using VACUUM INTO:
    vec0 finds its vectors by the row ids of tables without an INTEGER PRIMARY KEY, and VACUUM may change those.
    """
    reading = connect(source, readonly=True)
    try:
        writing = connect(target)
        try:
            with writing.backup("main", reading, "main") as pages:
                pages.step(-1)
        finally:
            writing.close()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise corrupt(source, error) from error
    except apsw.Error as error:
        raise StorageUnavailableError(
            f"{source.name} cannot be copied to {target.parent} ({error}); check the disk and the space left"
        ) from error
    finally:
        reading.close()


def forget_choices(state: Path) -> None:
    """Remove the notes that were chosen from a copy of `state.db`, and every trace of them from its file.

    Raises CacheError.
    """
    con = connect(state)
    try:
        # The copy of an earlier version has no such table.
        if select(con, "SELECT 1 FROM sqlite_schema WHERE name = 'attention'"):
            select(con, "DELETE FROM attention")
            select(con, "VACUUM")
    finally:
        con.close()


def check(path: Path) -> None:
    """Raise CacheCorruptError if SQLite finds the database damaged."""
    con = connect(path)
    try:
        found = [text for (text,) in select(con, "PRAGMA integrity_check(1)")]
    except apsw.Error as error:
        raise corrupt(path, error) from error
    finally:
        con.close()
    if found != ["ok"]:
        raise corrupt(path, ValueError(found[0]))


def cache_meta(path: Path) -> tuple[CacheMeta, int]:
    """Return what a cache was built with, and the version of its schema. Raises CacheError."""
    cache = Cache.open(path)
    cache.close()
    return cache.meta, SCHEMA_VERSION


def free_all_rows(path: Path) -> None:
    """Clear all leases and pauses of a cache's ledger: the processes that held them, and their clock, are gone."""
    con = connect(path)
    try:
        with transaction(con):
            con.execute(
                "UPDATE vault_file SET lease_token = NULL, lease_until = NULL, lease_owner = NULL,"
                " next_attempt_at = NULL, attempts = 0, dirty_since = ?",
                (time.monotonic(),),
            )
    finally:
        con.close()


def set_numbers(folder: Path, live: Path, numbers: Mapping[str, int]) -> None:
    """Set the current cache numbers in a copy of `state.db`; a domain missing in `numbers` keeps the live number.

    The copy also loses the facts that held only at the moment of copying.
    """
    kept = _numbers(live / STATE_FILE) if _is_usable(live / STATE_FILE) else newest_caches(live)
    copied = State(folder)
    try:
        for domain, number in {**kept, **numbers}.items():
            copied.switch_cache(domain, number)
        copied.delete_momentary()
    finally:
        copied.close()


def _numbers(file: Path) -> dict[str, int]:
    con = connect(file)
    try:
        return dict(select(con, "SELECT domain, number FROM domain_cache"))
    finally:
        con.close()


def replace_state(new: Path, state: Path) -> None:
    """Replace the contents of `state.db` in one transaction; replace the whole file if it is damaged or missing."""
    if _is_usable(state / STATE_FILE):
        copy(new, state / STATE_FILE)
    else:
        put_in_place(new, state)


def _is_usable(file: Path) -> bool:
    # SQLite would make a missing file, without a table.
    return file.exists() and not is_damaged(file)
