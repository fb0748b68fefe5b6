"""Open SQLite databases (apsw, WAL, sqlite-vec), and run transactions that never upgrade from reading to writing."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import apsw
import sqlite_vec

from pipelines.errors import (
    CacheCorruptError,
    CacheMissingError,
    EverindexError,
    SqliteTooOldError,
    StateError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from pipelines.postgres import PostgresConnection

_OLDEST = 3_051_003
BUSY_MS = 20_000
_CHECKPOINT_MS = 500
_LARGE_JOURNAL = 32_000_000
_READONLY = apsw.SQLITE_OPEN_READONLY
_UNAVAILABLE = (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.BusyError)
# SQLite's messages when a table or column of the schema is missing; our statements refer to no others.
_SCHEMA_DAMAGE = re.compile(
    r"no such (table|column)|has no column|has \d+ columns|vtable constructor failed|malformed|could not|Could not"
    r"|sqlite-vec error|vec0|invalid fts5 file format|constructor"
)
Record = TypeVar("Record")
Bindings = Sequence[Any] | Mapping[str, Any]
_READWRITE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


def check_sqlite_version(number: int = apsw.SQLITE_VERSION_NUMBER) -> None:
    """Raise SqliteTooOldError for an SQLite in which two connections can corrupt a WAL."""
    if number < _OLDEST:
        raise SqliteTooOldError(
            f"SQLite {number} has a bug that can corrupt a database with two writers (fixed in 3.51.3); "
            "install a newer `apsw`"
        )


def connect(path: Path, *, readonly: bool = False) -> apsw.Connection:
    """Open a database file with our pragmas and sqlite-vec.

    Raises StateError (it cannot be opened or written; a cache: StorageUnavailableError), CacheMissingError (when
    reading) or CacheCorruptError.
    """
    check_sqlite_version()
    try:
        if not readonly:
            _leave_old_journal(path)
        con = apsw.Connection(str(path), flags=_READONLY if readonly else _READWRITE)
    except (OSError, apsw.Error) as error:
        raise _unavailable(path, f"opened ({error}); check the state folder's permissions") from error
    con.set_busy_timeout(BUSY_MS)
    with_vectors(con)
    # The views, triggers and indexes of a file may call only SQLite's own harmless functions.
    pragmas = ["trusted_schema = OFF", "mmap_size = 1073741824", "cache_size = -16000", "temp_store = memory"]
    if not readonly:
        # Bound the journal's size, so that a temporarily slow reader does not leave a huge file behind.
        pragmas += ["journal_mode = wal", "synchronous = normal", "journal_size_limit = 67108864"]
    try:
        for pragma in pragmas:
            _patiently(con, f"PRAGMA {pragma}")
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise corrupt(path, error) from error
    except _UNAVAILABLE as error:
        if readonly and isinstance(error, apsw.ReadOnlyError):
            # A rollback journal from before the switch to WAL, left by a process that died; only a writer can apply
            # it.
            raise CacheMissingError(f"{path} was left incomplete; `everindex up` creates it again") from error
        raise _unavailable(path, f"used ({error}); check the disk and its permissions") from error
    return con


def _unavailable(path: Path, what: str) -> EverindexError:
    """Return the error that a file cannot be opened or used; the others of a vault are not affected by a cache's."""
    kind = StorageUnavailableError if _is_cache(path) else StateError
    return kind(f"{path} cannot be {what}")


def _leave_old_journal(path: Path) -> None:
    """Create a database's file without the journal of a file that was deleted, unless another process does.

    Processes that have the deleted file open go on using its journal. A new file that shares it can be read by none.
    """
    if not _has_old_journal(path):
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if _has_old_journal(path):
            for journal in _journal(path):
                journal.unlink(missing_ok=True)
            path.touch()
    finally:
        os.close(folder)


def _has_old_journal(path: Path) -> bool:
    # In this order, because a process that creates the file now creates its journal afterwards.
    return any(journal.exists() for journal in _journal(path)) and not path.exists()


def _journal(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in ("-wal", "-shm")]


def with_vectors(con: apsw.Connection) -> None:
    """Load sqlite-vec into a connection."""
    con.enable_load_extension(True)  # noqa: FBT003 - apsw takes it by position
    con.load_extension(sqlite_vec.loadable_path())
    con.enable_load_extension(False)  # noqa: FBT003


FileId = tuple[int, int]


def file_id(path: Path) -> FileId | None:
    """Return the identity of a file, which changes when another file takes its name; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _patiently(con: apsw.Connection, pragma: str) -> None:
    """Run a pragma and wait for locks: SQLite's own timeout does not cover switching a new file to WAL."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            con.execute(pragma).fetchall()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _is_cache(path: Path) -> bool:
    return path.name.startswith("cache-")


def corrupt(path: Path | str, error: Exception) -> CacheCorruptError:
    """Return the error that names a damaged file and how to recover."""
    if not _is_cache(Path(path)):
        return CacheCorruptError(
            f"{path} is damaged ({error}); stop Everindex, then `everindex restore FILE` puts a backup in place, or"
            " `everindex index --rebuild` sets the file aside and keeps what can still be read of it"
        )
    return CacheCorruptError(
        f"{path} is damaged ({error}); `everindex index --rebuild` builds a new cache beside it and keeps it"
    )


Connection: TypeAlias = "apsw.Connection | PostgresConnection"
"""The functions below run statements on either."""


@contextmanager
def _our_errors(con: Connection) -> Iterator[None]:
    """Raise StorageUnavailableError for a fault of the disk, CacheCorruptError for a damaged file."""
    if not isinstance(con, apsw.Connection):
        with con.errors():
            yield
        return
    try:
        yield
    except _UNAVAILABLE as error:
        raise StorageUnavailableError(
            f"{con.filename} cannot be used ({error}); free some space or check the disk; work then resumes by itself"
        ) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise corrupt(con.filename, error) from error
    except apsw.SQLError as error:
        if not _SCHEMA_DAMAGE.search(str(error)):
            raise
        raise corrupt(con.filename, error) from error
    except apsw.SchemaChangeError as error:
        raise corrupt(con.filename, error) from error


def select(con: Connection, sql: str, bindings: Bindings = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a query; the schema determines each column's type. Raises CacheError."""
    with _our_errors(con):
        return list(con.execute(sql, bindings))


def records(con: Connection, kind: type[Record], sql: str, bindings: Bindings = ()) -> list[Record]:
    """Return all rows of a query as dataclasses with fields named like its columns. Raises CacheError."""
    with _our_errors(con):
        cursor = con.execute(sql, bindings)
        first = next(cursor, None)
        if first is None:
            return []
        names = [column[0] for column in cursor.description or ()]
        return [kind(**dict(zip(names, found, strict=True))) for found in chain([first], cursor)]


def first(con: Connection, sql: str, bindings: Bindings = ()) -> tuple[Any, ...] | None:
    """Return the first row of a query, or None. Raises CacheError."""
    with _our_errors(con):
        return next(iter(con.execute(sql, bindings)), None)


def one(con: Connection, sql: str, bindings: Bindings = ()) -> tuple[Any, ...]:
    """Return the row of a query that always has one (an aggregate, a RETURNING clause). Raises CacheError."""
    found = first(con, sql, bindings)
    if found is None:
        raise corrupt(con.filename, LookupError("a row that every index has is missing"))
    return found


@contextmanager
def transaction(con: Connection) -> Iterator[None]:
    """Run a write transaction, or join the one in progress.

    IMMEDIATE, because upgrading from a read fails at once with SQLITE_BUSY. Raises StorageUnavailableError (nothing
    was written; a retry may succeed), CacheCorruptError.
    """
    with _our_errors(con):
        if con.in_transaction:
            yield  # the caller that began it commits it or rolls it back
            return
        if not isinstance(con, apsw.Connection):
            with con.transaction():
                yield
            return
        con.execute("BEGIN IMMEDIATE")
        try:
            yield
            con.execute("COMMIT")
        except BaseException:
            # SQLite may already have rolled back on its own (a full disk).
            if con.in_transaction:
                con.execute("ROLLBACK")
            raise


@contextmanager
def snapshot(con: Connection) -> Iterator[None]:
    """Run several reads that see the same state of the database, or join the transaction in progress.

    Raises CacheError.
    """
    with _our_errors(con):
        if con.in_transaction:
            yield
            return
        if not isinstance(con, apsw.Connection):
            with con.snapshot():
                yield
            return
        con.execute("BEGIN DEFERRED")
        try:
            yield
        finally:
            if con.in_transaction:
                con.execute("END")


def data_version(con: Connection) -> int:
    """Return a number that changes with each commit of another connection; compare it only on this connection."""
    if not isinstance(con, apsw.Connection):
        return con.data_version()
    return int(one(con, "PRAGMA data_version")[0])


Steps = Mapping[int, str]
"""The SQL that makes a database's schema, by number; each step ends by recording its number in the database."""

POSTGRES_STEPS = "postgres_migrations"
"""The folder of the steps for PostgreSQL: they begin later than SQLite's, and have the same numbers from there on."""


@cache
def steps_of(package: str, folder: str = "migrations") -> Steps:
    """Return the numbered steps in a package's folder (`NNNN_what.sql`), in order."""
    found = {
        file.name: file.read_text(encoding="utf-8") for file in files(package).joinpath(folder).iterdir()
    }
    steps = {int(name.partition("_")[0]): found[name] for name in sorted(found)}
    if len(steps) < len(found):
        raise ValueError(f"two steps in {package}/{folder} have the same number")
    return steps


def migrate(con: Connection, steps: Steps, version_of: Callable[[Connection], int]) -> None:
    """Run the steps that a database lacks, in one transaction. Raises StorageUnavailableError, CacheError."""
    if version_of(con) < max(steps):
        with transaction(con):
            for number, sql in steps.items():
                if version_of(con) < number:  # another process may have run it meanwhile
                    if isinstance(con, apsw.Connection):
                        con.execute(sql)
                    else:
                        con.script(sql)


def bound_journal(con: apsw.Connection) -> None:
    """Truncate a write-ahead log that grew large because readers kept blocking SQLite's checkpoints.

    SQLite's own checkpoints restart the log only when there is no reader at all. This one waits for the current
    readers and for a moment without a writer, and lets new readers read the database itself. What a reader still
    blocks is tried again at the next call. Raises CacheError.
    """
    log = Path(con.filename_wal)
    if log.exists() and log.stat().st_size >= _LARGE_JOURNAL:
        empty_journal(con)


def empty_journal(con: apsw.Connection) -> None:
    """Write the log into the database and truncate it, unless a reader blocks that. Raises CacheError."""
    con.set_busy_timeout(_CHECKPOINT_MS)
    try:
        with _our_errors(con), suppress(apsw.BusyError):
            con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        con.set_busy_timeout(BUSY_MS)


# What FTS5 offers only to C: word counts per chunk and per phrase as SQL functions, and its stems.


# For title, section and text: a word in a title or a heading says more.
COLUMN_WEIGHTS = (2.0, 1.5, 1.0)
TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
"""The tokenizer of the full-text index, as its schema has it."""
_one_at_a_time = threading.Lock()  # a tokenizer belongs to a connection


def register_functions(con: apsw.Connection) -> None:
    """Make FTS5's word counts, which it offers only to C, callable from SQL; call this once per connection."""
    con.register_fts5_function("weighted_count", _weighted_count)
    con.register_fts5_function("word_count", _word_count)
    con.register_fts5_function("all_words", _all_words)


def _weighted_count(row: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> float:
    title, section, text = map(len, row.phrase_locations(0))
    return COLUMN_WEIGHTS[0] * title + COLUMN_WEIGHTS[1] * section + COLUMN_WEIGHTS[2] * text


def _word_count(row: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> int:
    return row.column_size(-1)


def _all_words(row: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> int:
    return row.column_total_size(-1)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return a word without case, diacritics and endings, as the full-text index stems it.

    It is stemmed until nothing changes, because Porter's rules make `alias` of "aliases", but `alia` of "alias".
    """
    with _one_at_a_time:
        stemmed = _token(word)
        while stemmed != word:
            word, stemmed = stemmed, _token(stemmed)
    return stemmed


def _token(word: str) -> str:
    found = _tokenizer()(word.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)
    return "".join(str(token) for tokens in found for token in tokens) or word


@cache
def _tokenizer() -> apsw.FTS5Tokenizer:
    name, *arguments = TOKENIZER
    return apsw.Connection(":memory:").fts5_tokenizer(name, arguments)
