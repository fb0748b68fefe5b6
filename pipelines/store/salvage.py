"""Salvage a damaged `state.db`: keep its readable rows in a new file, and set the damaged one aside."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from pipelines.errors import CacheCorruptError, CacheError
from pipelines.store.cache import Cache
from pipelines.store.connection import connect, rows, transaction
from pipelines.store.state import State
from pipelines.store.state_file import STATE_FILE

_CACHE = re.compile(r"cache-(?P<domain>[\w-]+)\.(?P<number>\d+)\.db")


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The result for a damaged `state.db`: where it is now, rows kept per table, tables that lost rows."""

    aside: Path
    kept: dict[str, int]
    cut: tuple[str, ...]


def is_damaged(file: Path) -> bool:
    """Say whether SQLite finds a database damaged. Raises StateError, StorageUnavailableError."""
    try:
        con = connect(file)
    except CacheCorruptError:
        return True
    try:
        return rows(con, "PRAGMA integrity_check(1)") != [("ok",)]
    except (CacheCorruptError, apsw.Error):
        return True
    finally:
        _close(con)


def salvage(state: Path, folder: Path) -> Salvaged:
    """Copy the readable rows of a damaged `state.db` into a new one, built in `folder`, that replaces it.

    Where a domain's current cache is no longer known, its newest cache that can be opened becomes current.
    """
    new = State(folder)
    new.close()
    kept, cut = _copy_rows(state / STATE_FILE, folder / STATE_FILE)
    new = State(folder)
    known = {domain for (domain,) in _read(folder / STATE_FILE, "SELECT domain FROM domain_cache")}
    for domain, number in newest_caches(state).items():
        if domain not in known:
            new.switch_cache(domain, number)
    new.delete_momentary()
    new.close()
    return Salvaged(put_in_place(folder / STATE_FILE, state), kept, cut)


def newest_caches(state: Path) -> dict[str, int]:
    """Return, by domain, the highest number of a cache that can be opened."""
    found: dict[str, int] = {}
    for file in state.glob("cache-*.db"):
        match = _CACHE.fullmatch(file.name)
        if match is None or int(match["number"]) <= found.get(match["domain"], 0):
            continue
        with suppress(CacheError):
            Cache.open(file).close()
            found[match["domain"]] = int(match["number"])
    return found


def put_in_place(new: Path, state: Path) -> Path:
    """Replace `state.db` by another database; keep the old file, if any, under a new name and return that path."""
    old = state / STATE_FILE
    aside = next(
        path for number in count(1) if not (path := state / f"{STATE_FILE}.damaged-{number}").exists()
    )
    with suppress(FileNotFoundError):
        os.link(old, aside)
    for end in ("-wal", "-shm"):  # they belong to the old file, but would be read as the new one's
        with suppress(FileNotFoundError):
            old.with_name(old.name + end).rename(aside.with_name(aside.name + end))
    new.replace(old)
    return aside


def _copy_rows(old: Path, new: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    """Copy each table as far as it is readable, from its beginning and from its end."""
    try:
        source = connect(old)
    except CacheError:
        return {}, ("all of it",)
    target = connect(new)
    kept: dict[str, int] = {}
    cut = []
    try:
        there = _tables(source)
        for table, columns in _tables(target).items():
            if table not in there:
                continue
            common = [name for name in columns if name in there[table]]
            with transaction(target):
                if not _copy_table(source, target, table, common):
                    cut.append(table)
            (kept[table],) = rows(target, f"SELECT count(*) FROM {table}")[0]
    except CacheCorruptError:
        cut.append("all of it")
    finally:
        _close(source)
        _close(target)
    return {table: number for table, number in kept.items() if number}, tuple(cut)


def _tables(con: apsw.Connection) -> dict[str, list[str]]:
    """Return the columns of each table."""
    names = rows(con, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {
        name: [column for (column,) in rows(con, "SELECT name FROM pragma_table_info(?)", (name,))]
        for (name,) in names
    }


def _copy_table(source: apsw.Connection, target: apsw.Connection, table: str, columns: Sequence[str]) -> bool:
    """Copy the readable rows of a table; say whether they are all of its rows."""
    names = ", ".join(columns)
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
    key = [
        name
        for (name,) in rows(target, "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (table,))
    ]
    backwards = ", ".join(f"{name} DESC" for name in key)
    for order in ("", f" ORDER BY {backwards}"):
        whole = True
        for row in _readable(source, f"SELECT {names} FROM {table}{order}"):
            if row is None:
                whole = False
                continue
            with suppress(apsw.ConstraintError, apsw.MismatchError):  # readable, but damaged
                target.execute(insert, row)
        if whole:
            return not order
    return False


def _readable(con: apsw.Connection, sql: str) -> Iterator[tuple[Any, ...] | None]:
    """Yield the rows of a query; yield None and stop where the damage begins."""
    try:
        yield from con.execute(sql)
    except apsw.Error:
        yield None


def _read(file: Path, sql: str) -> Iterator[tuple[Any, ...]]:
    con = connect(file)
    try:
        yield from rows(con, sql)
    finally:
        con.close()


def _close(con: apsw.Connection) -> None:
    with suppress(apsw.Error):  # SQLite may fail to merge a damaged file's log
        con.close()
