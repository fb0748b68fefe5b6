"""Connect to PostgreSQL, which understands the statements on the tables that a cache has there as in SQLite."""

from __future__ import annotations

import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import Any, cast

import psycopg
from psycopg import sql as names
from psycopg.types.numeric import NumericLoader

from pipelines.errors import (
    CacheCorruptError,
    CacheMissingError,
    ConfigurationError,
    StateError,
    StorageUnavailableError,
)
from pipelines.model import LONGEST_SCHEMA

# A literal, a cast, a numbered or unnumbered parameter, a named one, a percent sign, which psycopg wants doubled, or
# what only SQLite says: which index it is to use, and LIKE for letters of either case.
_PART = re.compile(r"'(?:[^']|'')*'|::|\?(\d*)|:([a-z_]+)|%|INDEXED BY \w+|NOT INDEXED|\bLIKE\b")
# A statement that says nothing but how many rows it changed.
_SILENT = re.compile(r"(INSERT|UPDATE|DELETE)\b(?!.*\bRETURNING\b)", re.DOTALL)
_SECONDS = 5
_FEW = 20  # rows that are sent with other statements; more are sent by themselves
_DAMAGE = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.DataCorrupted)
_UNAVAILABLE = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)
# Classes of its errors: no resources, stopped by an operator, a fault of the system, read only, rolled back.
_PASSING = ("53", "57", "58", "25", "40")
_FUNCTIONS = """
-- The functions of SQLite that our statements call and PostgreSQL lacks. Most lists are short: by default PostgreSQL
-- expects 1000 rows of a function, and would read whole tables. STRICT, because an inlined function has no ROWS.
CREATE FUNCTION json_each(list text) RETURNS TABLE (value text) IMMUTABLE STRICT ROWS 3 LANGUAGE sql
    AS 'SELECT jsonb_array_elements_text(list::jsonb)';
CREATE FUNCTION max(a anycompatible, b anycompatible) RETURNS anycompatible IMMUTABLE LANGUAGE sql
    AS 'SELECT greatest(a, b)';
CREATE FUNCTION unixepoch(moment text) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql
    AS $$SELECT floor(extract(epoch FROM moment::timestamptz))::bigint$$;
CREATE FUNCTION middle(found float8[]) RETURNS float8 IMMUTABLE LANGUAGE sql
    AS 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY one) FROM unnest(found) one';
CREATE AGGREGATE median(float8) (SFUNC = array_append, STYPE = float8[], FINALFUNC = middle, INITCOND = '{}');
CREATE FUNCTION joined(so_far text, next text) RETURNS text IMMUTABLE LANGUAGE sql
    AS $$SELECT concat_ws(',', so_far, next)$$;
CREATE AGGREGATE group_concat(text) (SFUNC = joined, STYPE = text);
"""


@lru_cache(maxsize=1024)
def translated(statement: str) -> str:
    """Return a statement with SQLite's parameters (`?`, `?1`, `:name`) in psycopg's form."""
    numbers = count(1)

    def part(found: re.Match[str]) -> str:
        if found[0] == "?":
            return f"%(p{next(numbers)})s"
        if found[0].startswith("?"):
            return f"%(p{found[1]})s"
        if found[2]:
            return f"%({found[2]})s"
        return "ILIKE" if found[0] == "LIKE" else "" if "INDEXED" in found[0] else found[0].replace("%", "%%")

    return _PART.sub(part, statement)


def _storable(value: object) -> object:
    # PostgreSQL's texts hold every character but one.
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _named(bindings: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(bindings, Mapping):
        return {name: _storable(value) for name, value in bindings.items()}
    return {f"p{number}": _storable(value) for number, value in enumerate(bindings, 1)}


_CHANNEL = "everindex"
_Raw = psycopg.Connection[tuple[Any, ...]]
_MOST_IDLE = 8


def _connected(address: str) -> _Raw:
    """Return a new connection, which notices within half a minute that the server is gone. Raises psycopg.Error."""
    return psycopg.connect(
        address,
        autocommit=True,
        connect_timeout=_SECONDS,
        cursor_factory=psycopg.ClientCursor,  # it knows the type of NULL where the server cannot
        keepalives_idle=5,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=10_000,  # in milliseconds
        application_name="everindex",
    )


class _Pool:
    """The connections to one schema that no thread uses at this moment. Threads share it."""

    def __init__(self, address: str, schema: str) -> None:
        self._address = address
        self._schema = schema
        self._idle: list[_Raw] = []
        self._failed: tuple[str, float] | None = None
        weakref.finalize(self, _close_all, self._idle)

    def take(self) -> _Raw:
        """Return a connection that no other thread has. Raises psycopg.Error."""
        while True:
            try:
                con = self._idle.pop()
            except IndexError:
                return self._connect_again()
            if not (con.closed or con.broken):
                return con

    def give_back(self, con: _Raw) -> None:
        """Keep a connection for the next user, unless there are enough, or it is broken: then no other is trusted."""
        if con.closed or con.broken:
            _close_all(self._idle)
        elif len(self._idle) < _MOST_IDLE:
            self._idle.append(con)
            return
        con.close()

    def _connect_again(self) -> _Raw:
        """Connect, unless an attempt has just timed out: otherwise every question would wait for a silent server."""
        if self._failed and time.monotonic() < self._failed[1]:
            raise psycopg.OperationalError(self._failed[0])
        began = time.monotonic()
        try:
            con = self._connect()
        except psycopg.Error as error:
            now = time.monotonic()
            self._failed = str(error), now + (now - began)  # a refusal takes no time, and silence seconds
            raise
        self._failed = None
        return con

    def _connect(self) -> _Raw:
        con = _connected(self._address)
        con.adapters.register_loader("numeric", _Numbers)
        # Until PostgreSQL has statistics of a table that grows, it prefers a scan of all rows to an index.
        settings = names.SQL("SET search_path = {}; SET random_page_cost = 1.1")
        con.execute(settings.format(names.Identifier(self._schema)))
        return con


def _close_all(idle: list[_Raw]) -> None:
    while idle:
        with suppress(IndexError):  # another thread may take the last one
            idle.pop().close()


class Commits:
    """Listens for commits in a database. It is only a hint, so callers also poll. Do not share it between threads."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._con: _Raw | None = None

    def wait(self, seconds: float) -> None:
        """Return after a commit or after `seconds`; at once if it has just connected, or cannot."""
        try:
            if self._con is None:
                self._con = _connected(self._address)
                self._con.execute(f"LISTEN {_CHANNEL}")
                return  # what was committed before was not heard
            for _ in self._con.notifies(timeout=seconds, stop_after=1):
                pass
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection; the next call of `wait` opens another."""
        if self._con is not None:
            self._con.close()
            self._con = None


_pools: weakref.WeakValueDictionary[tuple[str, str], _Pool] = weakref.WeakValueDictionary()
_making = threading.Lock()


def _pool(address: str, schema: str) -> _Pool:
    with _making:
        found = _pools.get((address, schema))
        if found is None:
            found = _pools[address, schema] = _Pool(address, schema)
        return found


class PostgresConnection:
    """Access to one schema of a PostgreSQL database, with the methods of apsw's connections that a cache uses.

    It takes a connection for each statement or transaction, so that a process with many threads needs few. Writers of
    a schema take turns, as those of an SQLite file do: a transaction that writes holds the schema's lock. Do not
    share it between threads.
    """

    def __init__(self, address: str, schema: str) -> None:
        """Connect at the first statement."""
        if len(schema.encode()) > LONGEST_SCHEMA:
            raise ValueError(f"{schema} is longer than PostgreSQL keeps, which would be another schema")
        self._address = address
        self.schema = schema
        self._changes = self._total = 0
        self._seen: tuple[str, int] = ("", 0)
        self._pool = _pool(address, schema)
        self._own: _Raw | None = None
        self._held: list[str] = []

    @property
    def filename(self) -> str:
        """The name that messages use: the address without its password, and the schema."""
        return f"{without_password(self._address)}#{self.schema}"

    def close(self) -> None:
        """Do nothing: what it used is free for others."""

    @contextmanager
    def _taken(self) -> Iterator[_Raw]:
        """Yield the connection of the transaction in progress, or one for a statement. Raises psycopg.Error."""
        if self._own is not None:
            yield self._own
            return
        con = self._pool.take()
        try:
            yield con
        finally:
            self._pool.give_back(con)

    @contextmanager
    def _kept(self) -> Iterator[_Raw]:
        """Yield a connection that all statements use until the end of the context."""
        with self._taken() as con:
            self._own = con
            try:
                yield con
            finally:
                self._own = None
                self._held.clear()  # of a transaction that failed

    # What `pipelines.sqlite` calls

    @property
    def in_transaction(self) -> bool:
        """Say whether a transaction is in progress."""
        return self._own is not None

    def execute(
        self, statement: str, bindings: Sequence[Any] | Mapping[str, Any] = ()
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement; the cursor yields its rows. Raises psycopg.Error, also for one before it in a transaction.

        In a transaction, what is only written is sent together with what is next read, or with its end: each time
        that the server is asked takes longer than most statements.
        """
        with self._taken() as con:
            cursor = psycopg.ClientCursor(con)
            self._held.append(cursor.mogrify(translated(statement), _named(bindings)))
            if self._own is None or not _SILENT.match(statement):
                self._send(cursor)
        return cursor

    def _send(self, cursor: psycopg.Cursor[tuple[Any, ...]]) -> None:
        """Send what is held; the cursor has the rows of the last statement."""
        if self._held:
            statements = "; ".join(self._held)
            self._held.clear()
            cursor.execute(cast("Any", statements))
            self._count(cursor.rowcount)
            while cursor.nextset():
                self._count(cursor.rowcount)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> None:
        """Run a statement for each of several rows of values. Raises psycopg.Error."""
        found = list(rows)
        if self._own is not None and len(found) <= _FEW:
            for row in found:
                self.execute(statement, row)
        elif found:
            # By the server's own binding, so that all travel together.
            with self._taken() as con, psycopg.Cursor(con) as cursor:
                self._send(cursor)
                cursor.executemany(cast("Any", translated(statement)), [_named(row) for row in found])
                self._count(cursor.rowcount)

    def _count(self, rows: int) -> None:
        self._changes = max(rows, 0)
        self._total += self._changes

    def changes(self) -> int:
        """Return how many rows the last statement changed."""
        self._send_rest()
        return self._changes

    def total_changes(self) -> int:
        """Return how many rows this connection changed."""
        self._send_rest()
        return self._total

    def _send_rest(self) -> None:
        if self._own is not None:
            self._send(self._own.cursor())

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise StorageUnavailableError for a server that fails, CacheCorruptError for a schema that is damaged.

        StateError, if the role may not do this.
        """
        try:
            yield
        except _DAMAGE as error:
            raise CacheCorruptError(
                f"{self.filename} is damaged ({_said(error)}); `everindex index --rebuild` builds a new cache beside"
                " it"
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise StateError(
                f"{self.filename}: {_said(error)}; grant its role that right, or use another role"
            ) from error
        except psycopg.Error as error:
            if not isinstance(error, _UNAVAILABLE) and (error.sqlstate or "")[:2] not in _PASSING:
                raise
            raise StorageUnavailableError(
                f"{self.filename} cannot be used ({_said(error)}); work resumes by itself when the server is back"
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction that writes, one at a time per schema."""
        with self._kept() as con, con.transaction():
            con.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0)), pg_notify(%s, '')",
                [self.schema, _CHANNEL],
            )
            yield
            self._send_rest()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Run several reads that see the same state."""
        with self._kept() as con, con.transaction():
            con.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    @contextmanager
    def alone(self, work: str) -> Iterator[bool]:
        """Say whether no other connection does this work on the schema; then none begins it within the context."""
        key = f"{self.schema} {work}"
        with self.errors(), self._taken() as con:
            found = con.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key]).fetchone()
            is_mine = bool(found and found[0])
            try:
                yield is_mine
            finally:
                if is_mine and not con.closed:
                    con.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])

    def last_rows(self, statements: str, bindings: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of the last of several statements, which are sent together as one transaction."""
        with self.errors():
            return self.execute(statements, bindings).fetchall()

    def copy_in(self, statement: str, data: bytes) -> None:
        """Run a COPY that reads data of the client (inside the caller's transaction)."""
        with self._taken() as con, con.cursor() as cursor:
            self._send(cursor)
            with cursor.copy(cast("Any", statement)) as copy:
                copy.write(data)

    def make_extension(self, name: str) -> None:
        """Install an extension into the database. Raises ConfigurationError where this role cannot."""
        try:
            self.execute(f"CREATE EXTENSION IF NOT EXISTS {name} SCHEMA public")
        except _UNAVAILABLE:
            raise
        except psycopg.Error as error:
            raise ConfigurationError(
                f"the database has no extension {name} ({_said(error)}): have its administrator run"
                f" `CREATE EXTENSION {name}` in it"
            ) from error

    def data_version(self) -> int:
        """Return a number that changes with each commit of another connection, and perhaps more often."""
        (state,) = self._row("SELECT CAST(pg_current_snapshot() AS TEXT)") or ("",)
        if state != self._seen[0]:
            self._seen = (state, self._seen[1] + 1)
        return self._seen[1]

    def clock(self) -> Callable[[], float]:
        """Return the server's clock, read once, in seconds: the same on every host, whatever its own says."""
        before = time.monotonic()
        (now,) = self._row("SELECT extract(epoch FROM clock_timestamp())::float8") or (0.0,)
        offset = now - (before + time.monotonic()) / 2
        return lambda: time.monotonic() + offset

    def has_schema(self) -> bool:
        """Say whether the schema exists."""
        return self._row("SELECT 1 FROM pg_namespace WHERE nspname = ?", self.schema) is not None

    def _row(self, statement: str, *bindings: str) -> tuple[Any, ...] | None:
        with self.errors():
            return self.execute(statement, bindings).fetchone()

    def make_schema(self, steps: Iterable[str]) -> None:
        """Create the schema with its functions, and run these steps (inside the caller's transaction)."""
        with self._taken() as con:
            con.execute(names.SQL("CREATE SCHEMA {}").format(names.Identifier(self.schema)))
        self.script("".join([_FUNCTIONS, *steps]))

    def script(self, statements: str) -> None:
        """Run statements in PostgreSQL's own words."""
        with self._taken() as con:
            self._send(con.cursor())
            psycopg.Cursor(con).execute(cast("Any", statements))

    def run(self, script: str, schemas: Mapping[str, str], texts: Mapping[str, str]) -> None:
        """Run statements in which `{name}` is a schema's quoted name or a quoted text.

        Raises StateError if the server refuses one.
        """
        quoted = {
            **{name: names.Identifier(schema) for name, schema in schemas.items()},
            **{name: names.Literal(text) for name, text in texts.items()},
        }
        try:
            with self._taken() as con:
                self._send(con.cursor())
                psycopg.Cursor(con).execute(names.SQL(cast("Any", script)).format(**quoted))
        except psycopg.ProgrammingError as error:
            raise StateError(f"{self.filename} refuses a statement: {_said(error)}") from error


class _Numbers(NumericLoader):
    """Loads sums as the whole numbers that they are."""

    def load(self, data: Any) -> Any:
        """Return an int, or a float where there is a fraction."""
        found = super().load(data)
        return int(found) if found == int(found) else float(found)


def missing(schema: str) -> CacheMissingError:
    """Return the error for a cache that is not there yet."""
    return CacheMissingError(f"{schema} does not exist yet; `everindex up` or `everindex index` creates it")


def without_password(address: str) -> str:
    """Return an address with asterisks for its password."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", re.sub(r"password=\S+", "password=***", address))


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
