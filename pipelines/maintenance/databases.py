"""Copy databases that are in use, and prepare a copy for being used again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from pipelines import state as state_package
from pipelines.cache.cache import SqliteCache
from pipelines.cache.notes import SqliteNotes
from pipelines.cache.schema import CacheMeta, read_meta, steps_for, version_of
from pipelines.errors import CacheCorruptError, CacheError, ConfigurationError, StorageUnavailableError
from pipelines.sqlite import (
    check_sqlite_version,
    connect,
    corrupt,
    select,
    steps_of,
    transaction,
    with_vectors,
)
from pipelines.state.state import STATE_FILE, State, cache_name, numbered_caches

# Find what a database from elsewhere contains besides our own schema, because none of it may ever run here.


_SAFE = ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0")
# A cache without an index gives the same answers, only slower; what `state.db` lacks is created when it is opened.
_MAY_LACK = frozenset({"index"})
_UNNUMBERED = 4  # version 0.3.0 and earlier wrote this number, whatever they had added

Object = tuple[str, str, str, str]
"""Type, name, table and SQL of a table, view, index or trigger."""


def foreign_in_state(path: Path) -> str | None:
    """Describe an object in a `state.db` that one of its version never has; return None if there is none.

    Raises CacheCorruptError.
    """
    found, version = _objects(path)
    steps = steps_of(state_package.__name__).items()
    return _foreign(found, _made_by(sql for number, sql in steps if number <= max(version, 1)))


def foreign_in_cache(path: Path, dimension: int, version: int) -> str | None:
    """Describe how a cache differs from ours of that dimension and version (a foreign or missing object), if it does.

    Raises CacheCorruptError.
    """
    steps = steps_for(dimension)
    if version not in steps:
        return f"a schema of version {version}"
    try:
        wanted = ours = _made_by(sql for number, sql in steps.items() if number <= version)
        if version == _UNNUMBERED:  # it may have some of the step after it
            ours = _made_by(sql for number, sql in steps.items() if number <= version + 1)
    except apsw.Error:
        return f"vectors of {dimension} dimensions"
    found, _ = _objects(path)
    if foreign := _foreign(found, ours):
        return foreign
    missing = (one for one in wanted - found if one[0] not in _MAY_LACK)
    lacking = sorted(name for _, name, *_ in missing)
    return f"no {lacking[0]!r}" if lacking else None


def _foreign(found: set[Object], ours: set[Object]) -> str | None:
    other = sorted(found - ours)
    if not other:
        return None
    kind, name, *_ = other[0]
    known = any((kind, name) == one[:2] for one in ours)
    return f"the {kind} {name!r}" + (", which differs from what Everindex creates" if known else "")


def _objects(path: Path) -> tuple[set[Object], int]:
    """Read a database's schema without running any of it: no extension, trigger or view, and without writing.

    Also return its `user_version`, which is 0 in a `state.db` from before versions were numbered.
    """
    try:
        con = apsw.Connection(
            f"{path.absolute().as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        try:
            for option in (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_VIEW):
                con.config(option, 0)
            for pragma in _SAFE:
                con.execute(f"PRAGMA {pragma}").fetchall()
            ((version,),) = con.execute("PRAGMA user_version")
            return _schema(con), int(version)
        finally:
            con.close()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise corrupt(path, error) from error


def _made_by(steps: Iterable[str]) -> set[Object]:
    con = apsw.Connection(":memory:")
    try:
        with_vectors(con)
        for sql in steps:
            con.execute(sql).fetchall()
        return _schema(con)
    finally:
        con.close()


def _schema(con: apsw.Connection) -> set[Object]:
    found = list(con.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
    objects = {(str(kind), str(name), str(table), _folded(sql)) for kind, name, table, sql in found}
    if len(objects) < len(found):
        raise CacheCorruptError(f"{con.filename} names a table twice")
    return objects


def _folded(sql: object) -> str:
    """Return SQL without the whitespace in which two versions of the same schema may differ."""
    return " ".join(str(sql or "").split())


# Whether SQLite and its extension work, and whether a database file is intact, without writing anything.


_READING = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


class LibraryVersions(NamedTuple):
    """The versions of SQLite and of sqlite-vec."""

    sqlite: str
    vectors: str


def try_library() -> LibraryVersions:
    """Return the versions in use, after both full-text search and vectors have worked.

    Raises SqliteTooOldError, and ConfigurationError where one of the two is missing.
    """
    check_sqlite_version()
    try:
        with closing(apsw.Connection(":memory:")) as con:
            con.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
            with_vectors(con)
            ((vectors,),) = con.execute("SELECT vec_version()")
    except apsw.Error as error:
        raise ConfigurationError(
            f"SQLite cannot do what an index needs ({error}); install apsw and sqlite-vec again"
        ) from error
    return LibraryVersions(apsw.sqlite_lib_version(), vectors)


def damage(file: Path) -> str | None:
    """Return what SQLite finds wrong with a database file, or None where it is intact or does not exist."""
    if not file.exists():
        return None
    try:
        with closing(_read_only(file)) as con:
            ((said,),) = con.execute("PRAGMA quick_check(1)")
    except apsw.Error as error:
        return str(error)
    return None if said == "ok" else " ".join(str(said).split())


def current_caches(folder: Path, domains: Iterable[str]) -> list[Path]:
    """Return the file of each domain's current cache, as the `state.db` in the folder names them.

    A damaged `state.db` names none, and `damage` finds it; the first cache has number 1.
    """
    numbers: dict[str, int] = {}
    with suppress(apsw.Error), closing(_read_only(folder / STATE_FILE)) as con:
        numbers = dict(con.execute("SELECT domain, number FROM domain_cache"))
    return [folder / cache_name(domain, numbers.get(domain, 1)) for domain in domains]


def meta_of(file: Path) -> CacheMeta | None:
    """Return what a cache was built with, or None where it does not exist or cannot be read."""
    if not file.exists():
        return None
    try:
        with closing(_read_only(file)) as con:
            return read_meta(con, file)
    except (CacheError, apsw.Error):
        return None


def record_ids_of(file: Path) -> list[tuple[str, str]]:
    """Return the id and the path of each record of a cache; none where it does not exist or cannot be read."""
    if not file.exists():
        return []
    try:
        with closing(_read_only(file)) as con:
            return SqliteNotes(con).record_ids()
    except (CacheError, apsw.Error):
        return []


def _read_only(file: Path) -> apsw.Connection:
    # A file without a journal is opened as one that nothing changes, as SQLite would make a journal to read it.
    at_rest = "" if file.with_name(f"{file.name}-wal").exists() else "&immutable=1"
    return apsw.Connection(f"{file.as_uri()}?mode=ro{at_rest}", flags=_READING)


# Salvage a damaged `state.db`: keep its readable rows in a new file, and set the damaged one aside.


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
        return select(con, "PRAGMA integrity_check(1)") != [("ok",)]
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
    for domain, number, file in numbered_caches(state):
        if domain not in found:
            with suppress(CacheError):
                SqliteCache.open(file).close()
                found[domain] = number
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
            (kept[table],) = select(target, f"SELECT count(*) FROM {table}")[0]
    except CacheCorruptError:
        cut.append("all of it")
    finally:
        _close(source)
        _close(target)
    return {table: number for table, number in kept.items() if number}, tuple(cut)


def _tables(con: apsw.Connection) -> dict[str, list[str]]:
    """Return the columns of each table."""
    names = select(con, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {
        name: [column for (column,) in select(con, "SELECT name FROM pragma_table_info(?)", (name,))]
        for (name,) in names
    }


def _copy_table(source: apsw.Connection, target: apsw.Connection, table: str, columns: Sequence[str]) -> bool:
    """Copy the readable rows of a table; say whether they are all of its rows."""
    names = ", ".join(columns)
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
    key = [
        name
        for (name,) in select(target, "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (table,))
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
        yield from select(con, sql)
    finally:
        con.close()


def _close(con: apsw.Connection) -> None:
    with suppress(apsw.Error):  # SQLite may fail to merge a damaged file's log
        con.close()


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
    with closing(connect(path, readonly=True)) as con:
        return read_meta(con, path), version_of(con)


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
