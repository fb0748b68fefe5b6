"""Connect to PostgreSQL, which understands the statements on the tables that a cache has there as in SQLite."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import Any, cast

import psycopg
from psycopg import sql as names
from psycopg.types.numeric import NumericLoader

from pipelines.errors import CacheCorruptError, CacheMissingError, StateError, StorageUnavailableError
from pipelines.model import LONGEST_SCHEMA

# A literal, a cast, a numbered or unnumbered parameter, a named one, a percent sign, which psycopg wants doubled, or
# what only SQLite says: which index it is to use, and LIKE for letters of either case.
_PART = re.compile(r"'(?:[^']|'')*'|::|\?(\d*)|:([a-z_]+)|%|INDEXED BY \w+|NOT INDEXED|\bLIKE\b")
_SECONDS = 10
_DAMAGE = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.DataCorrupted)
_UNAVAILABLE = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)
# Classes of its errors: no resources, stopped by an operator, a fault of the system, read only, rolled back.
_PASSING = ("53", "57", "58", "25", "40")
_FUNCTIONS = """
-- The functions of SQLite that our statements call and PostgreSQL lacks.
CREATE FUNCTION json_each(list text) RETURNS TABLE (value text) IMMUTABLE STRICT LANGUAGE sql
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


class PostgresConnection:
    """A connection to one schema of a PostgreSQL database, with the methods of apsw that a cache uses.

    Writers of a schema take turns, as those of an SQLite file do: a transaction that writes holds the schema's lock.
    """

    def __init__(self, address: str, schema: str) -> None:
        """Connect. Raises StateError if the server cannot be reached or refuses."""
        if len(schema.encode()) > LONGEST_SCHEMA:
            raise ValueError(f"{schema} is longer than PostgreSQL keeps, which would be another schema")
        self._address = address
        self.schema = schema
        self._changes = self._total = 0
        self._seen: tuple[str, int] = ("", 0)
        self._con = self._connect()

    @property
    def filename(self) -> str:
        """The name that messages use: the address without its password, and the schema."""
        return f"{_without_password(self._address)}#{self.schema}"

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            con = psycopg.connect(
                self._address,
                autocommit=True,
                connect_timeout=_SECONDS,
                cursor_factory=psycopg.ClientCursor,  # it knows the type of NULL where the server cannot
                keepalives_idle=5,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=20_000,  # in milliseconds
                application_name="everindex",
            )
            con.adapters.register_loader("numeric", _Numbers)
            con.execute(names.SQL("SET search_path = {}").format(names.Identifier(self.schema)))
        except psycopg.Error as error:
            raise StateError(
                f"{self.filename} cannot be reached ({_said(error)}); check the server and the address"
            ) from error
        return con

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    # What `pipelines.sqlite` calls

    @property
    def in_transaction(self) -> bool:
        """Say whether a transaction is in progress."""
        return self._con.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def execute(
        self, statement: str, bindings: Sequence[Any] | Mapping[str, Any] = ()
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement; the cursor yields its rows. Raises psycopg.Error."""
        cursor = self._con.execute(translated(statement), _named(bindings))
        self._count(cursor.rowcount)
        return cursor

    def executemany(self, statement: str, rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> None:
        """Run a statement for each of several rows of values. Raises psycopg.Error."""
        wanted = translated(statement)
        found = [_named(row) for row in rows]
        if found:
            # By the server's own binding, so that all travel together.
            with psycopg.Cursor(self._con) as cursor:
                cursor.executemany(cast("Any", wanted), found)
                self._count(cursor.rowcount)

    def _count(self, rows: int) -> None:
        self._changes = max(rows, 0)
        self._total += self._changes

    def changes(self) -> int:
        """Return how many rows the last statement changed."""
        return self._changes

    def total_changes(self) -> int:
        """Return how many rows this connection changed."""
        return self._total

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise StorageUnavailableError for a server that fails, CacheCorruptError for a schema that is damaged.

        StateError, if the role may not do this.
        """
        self._reconnect()
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
            self._reconnect()
            raise StorageUnavailableError(
                f"{self.filename} cannot be used ({_said(error)}); work resumes by itself when the server is back"
            ) from error

    def _reconnect(self) -> None:
        """Replace a broken connection, so that the next statement may succeed."""
        if self._con.closed or self._con.broken:
            with suppress(StateError):
                new = self._connect()
                self._con.close()
                self._con = new

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction that writes, one at a time per schema."""
        with self._con.transaction():
            self._con.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [self.schema])
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Run several reads that see the same state."""
        with self._con.transaction():
            self._con.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def data_version(self) -> int:
        """Return a number that changes with each commit of another connection, and perhaps more often."""
        (state,) = self._con.execute("SELECT pg_current_snapshot()::text").fetchone() or ("",)
        if state != self._seen[0]:
            self._seen = (state, self._seen[1] + 1)
        return self._seen[1]

    def clock(self) -> Callable[[], float]:
        """Return the server's clock, read once, in seconds: the same on every host, whatever its own says."""
        before = time.monotonic()
        (now,) = self._con.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (
            0.0,
        )
        offset = now - (before + time.monotonic()) / 2
        return lambda: time.monotonic() + offset

    def has_schema(self) -> bool:
        """Say whether the schema exists."""
        found = self._con.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self.schema]).fetchone()
        return found is not None

    def make_schema(self, tables: str) -> None:
        """Create the schema with its functions and these tables (inside the caller's transaction)."""
        self._con.execute(names.SQL("CREATE SCHEMA {}").format(names.Identifier(self.schema)))
        psycopg.Cursor(self._con).execute(cast("Any", _FUNCTIONS + tables))

    def run(self, script: str, schemas: Mapping[str, str], texts: Mapping[str, str]) -> None:
        """Run statements in which `{name}` is a schema's quoted name or a quoted text.

        Raises StateError if the server refuses one.
        """
        quoted = {
            **{name: names.Identifier(schema) for name, schema in schemas.items()},
            **{name: names.Literal(text) for name, text in texts.items()},
        }
        try:
            psycopg.Cursor(self._con).execute(names.SQL(cast("Any", script)).format(**quoted))
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


def _without_password(address: str) -> str:
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", re.sub(r"password=\S+", "password=***", address))


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
