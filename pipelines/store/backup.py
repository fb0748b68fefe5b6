"""Copies of databases that are in use, and how a copy is made fit to be used again."""

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
    """Copy a database, as it is at one moment, over another or into a new file.

    Raises CacheCorruptError, StorageUnavailableError.

    In one step, so a writer does not start it anew. By pages, and not by VACUUM INTO: vec0 finds its vectors by
    the row ids of tables without an INTEGER PRIMARY KEY, which a vacuum is free to change.
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


def check(path: Path) -> None:
    """Raise CacheCorruptError where SQLite finds a database damaged."""
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
    """Return what a cache was built with, and its schema's version. Raises CacheError."""
    cache = Cache.open(path)
    cache.close()
    return cache.meta, SCHEMA_VERSION


def free_all_rows(path: Path) -> None:
    """Take every lease and pause out of a cache's ledger: their owners and their clock are another time's."""
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
    """Name the current caches in a copy of `state.db`: these, and the live one's where the copy knows none.

    The copy also forgets what was true only of the moment when it was made.
    """
    kept = newest_caches(live) if is_damaged(live / STATE_FILE) else _numbers(live / STATE_FILE)
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
    """Give `state.db` the contents of another one in one transaction, or its place where it is damaged."""
    if is_damaged(state / STATE_FILE):
        put_in_place(new, state)
    else:
        copy(new, state / STATE_FILE)
