"""Carry a vault's state and current indexes from one store to the other: from files to PostgreSQL, or back.

A table is copied in slices, in the order of its key. A slice is one transaction, which also records where it ends, so
that an interrupted migration continues there. The records are in the target: in its state, which nothing else opens
until the last one is deleted (`pipelines.state.state.open_state`), and in each of its indexes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from pipelines.cache.cache import SqliteCache, add_vectors, add_words
from pipelines.cache.schema import SET_META, CacheMeta, read_meta
from pipelines.errors import MigrationError
from pipelines.model import Place
from pipelines.sqlite import Connection, first, one, select, transaction
from pipelines.state.state import (
    MIGRATION,
    MOMENTARY_TABLES,
    SUBJECTS,
    VAULT,
    cache_name,
    open_incomplete,
    open_state,
    write_record,
)

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many rows are done, and how many there are."""

_AT_ONCE = 1_000
_STATE = "state"
# Copied before the others: a vector's sentences refer to it, and a passage's words begin with its note's title.
_FIRST = ("vault_vector", "vault_node")
# Times by a clock that the other store does not have, and what belongs to processes that have ended.
_SINCE = ("dirty_since", "first_change", "last_change")
_HELD = ("lease_token", "lease_until", "lease_owner", "next_attempt_at")
_OWN = {
    "fact": (MIGRATION, VAULT.name, *(subject.name for subject in SUBJECTS if subject.is_momentary)),
    "vault_meta": (MIGRATION, "schema_version"),
}
"""By table, the keys of rows that each store has of its own: what is told anew, and what an index says of itself."""
_COLUMNS = """
SELECT t.relname, c.attname, c.atttypid = 'boolean'::regtype, c.attidentity <> '',
    array_position(i.indkey::int2[], c.attnum)
FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
JOIN pg_attribute c ON c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped
LEFT JOIN pg_index i ON i.indrelid = t.oid AND i.indisprimary
WHERE n.nspname = current_schema() AND t.relkind = 'r' ORDER BY t.relname, c.attnum
"""


def carry(
    source: Place,
    target: Place,
    domains: Iterable[str],
    *,
    vault_id: str,
    progress: Progress,
    require_rest: Callable[[], None],
) -> Mapping[str, int]:
    """Copy a vault's state and the current indexes of these domains, and compare; return how many rows each has.

    `require_rest` raises an error if a process uses the source, which is only read. One of the two is in files.
    Raises MigrationError, StateError, CacheError; until all is compared, nothing else opens the target.
    """
    with ExitStack() as opened:
        parts = _open(opened, source, target, domains, vault_id)
        every = 3 * sum(part.rows for part in parts)  # written, and read again from both
        done = sum(part.rows_done for part in parts)
        for doing, steps in (("copying", _Part.copy), ("comparing", _Part.compare)):
            for part in parts:
                progress(f"{doing} {part.name}", done, every)
                for rows in steps(part):
                    done += rows
                    progress(f"{doing} {part.name}", done, every)
        if differences := [part.difference for part in parts if part.difference]:
            raise MigrationError(
                f"{'; '.join(differences)}. Migrate again, which copies these from the beginning"
            )
        require_rest()
        for part in parts:  # the state first: what its indexes still record is of no use then
            part.finish()
    return {part.name: part.rows for part in parts}


@dataclass
class _Record:
    """From where a database is copied, and how far: how many rows, which tables, and the last key in the next one."""

    source: str
    rows: int = 0
    done: list[str] = field(default_factory=list)
    after: list[Any] | None = None

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def _open(
    opened: ExitStack, source: Place, target: Place, domains: Iterable[str], vault_id: str
) -> list[_Part]:
    """Open the state and the indexes of both stores, and create those that the target lacks."""

    def keep(con: Connection) -> Connection:
        return opened.enter_context(closing(con))

    state = keep(open_state(source))
    new = _Record(f"{vault_id} in {state.filename}")
    numbers = dict(select(state, "SELECT domain, number FROM domain_cache"))
    named = [cache_name(domain, numbers.get(domain, 1)).removesuffix(".db") for domain in domains]
    names = [name for name in named if _exists(source, name)]
    if not names:
        raise MigrationError(f"{state.filename} has no index yet; `everindex index` creates one")
    _require_free(target, names, new.source)
    parts = [(_STATE, state, keep(open_incomplete(target, new.as_json())))]
    for name in names:
        con = keep(_open_index(source, name))
        parts.append((name, con, keep(_open_index(target, name, read_meta(con, Path(name))))))
    return [_Part(name, con, into, _recorded(into, name) or _Record(new.source)) for name, con, into in parts]


def _exists(place: Place, name: str) -> bool:
    if isinstance(place, Path):
        return (place / f"{name}.db").exists()
    from pipelines.postgres import PostgresConnection  # noqa: PLC0415 - its library is not always installed

    return PostgresConnection(place.address, place.schema(name)).has_schema()


def _require_free(target: Place, names: Sequence[str], source: str) -> None:
    """Raise MigrationError if the target has some of a vault, unless it is an unfinished copy of this source."""
    there = [name for name in (_STATE, *names) if _exists(target, name)]
    if not there:
        return
    if _STATE in there:
        with closing(open_incomplete(target)) as con:
            record = _recorded(con, _STATE)
        if record is not None and record.source == source:
            return
        if record is not None:
            raise MigrationError(
                f"{_called(target, _STATE)} is the unfinished copy of another source, {record.source}; finish that"
                " migration, or delete what it left"
            )
    raise MigrationError(
        f"a vault is there already, and was kept: {', '.join(_called(target, name) for name in there)}; if it is no"
        " longer needed, delete it, and migrate again"
    )


def _called(place: Place, name: str) -> str:
    return str(place / f"{name}.db") if isinstance(place, Path) else f"the schema {place.schema(name)}"


def _open_index(place: Place, name: str, new: CacheMeta | None = None) -> Connection:
    """Open an index without its copies; `new`: it may have to be created."""
    if isinstance(place, Path):
        path = place / f"{name}.db"
        return (SqliteCache.open(path) if new is None else SqliteCache.create(path, new)).con
    from pipelines.cache.postgres import make_tables  # noqa: PLC0415 - as above
    from pipelines.postgres import PostgresConnection  # noqa: PLC0415

    con = PostgresConnection(place.address, place.schema(name))
    if new is not None:
        with transaction(con):
            if not con.has_schema():
                make_tables(con, new)
    return con


class _CarriedTable(NamedTuple):
    """A table that both stores have. `key` orders its rows; `counter` is the column that numbers them, if any."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    booleans: frozenset[str]
    counter: str | None

    @property
    def shared(self) -> str:
        """The condition for a row to be in both stores."""
        own = (f"key <> '{name}' AND key NOT LIKE '{name}:%'" for name in _OWN.get(self.name, ()))
        return " AND ".join(own) or "true"

    @property
    def compared(self) -> list[str]:
        """The columns whose values are the same in both stores."""
        return [name for name in self.columns if name not in (*_SINCE, *_HELD, "uptime")]


def _tables(postgres: Connection, file: Connection) -> list[_CarriedTable]:
    """Return the tables that are in both, with the columns that they have in PostgreSQL."""
    there = {name for (name,) in select(file, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
    there.difference_update(MOMENTARY_TABLES)
    tables = []
    for name, found in groupby(select(postgres, _COLUMNS), key=lambda row: row[0]):
        columns = [column for _, *column in found]
        key = sorted((place, column) for column, _, _, place in columns if place is not None)
        table = _CarriedTable(
            name,
            columns=tuple(column for column, *_ in columns),
            key=tuple(column for _, column in key) or ("rowid",),
            booleans=frozenset(column for column, is_boolean, *_ in columns if is_boolean),
            counter=next((column for column, _, is_counter, _ in columns if is_counter), None),
        )
        if name in there:
            tables.append(table)
    return sorted(tables, key=lambda table: (table.name not in _FIRST, table.name))


class _Part:
    """The state of the vault, or the index of one of its domains, in both stores."""

    def __init__(self, name: str, source: Connection, target: Connection, record: _Record) -> None:
        self.name = name
        self._source, self._target, self._record = source, target, record
        is_to_file = isinstance(target, apsw.Connection)
        self._tables = _tables(source, target) if is_to_file else _tables(target, source)
        self._offset = _clock(target) - _clock(source)
        self.rows = sum(_count(source, table) for table in self._tables)
        self.difference: str | None = None

    @property
    def rows_done(self) -> int:
        """How many rows are copied."""
        return self._record.rows

    def copy(self) -> Iterator[int]:
        """Copy the rows that are not copied yet; yield how many each slice has."""
        for table in self._tables:
            while table.name not in self._record.done:
                yield self._copy_slice(table)
        with transaction(self._target):
            for table in self._tables:
                self._continue_numbers(table)

    def _copy_slice(self, table: _CarriedTable) -> int:
        record = self._record
        rows = _slice(self._source, table, map(self._in_target, table.columns), record.after)
        with transaction(self._target):
            if record.after is None:
                self._empty(table)
            self._insert(table, rows)
            record.rows += len(rows)
            if len(rows) == _AT_ONCE:
                record.after = [rows[-1][table.columns.index(name)] for name in table.key]
            else:
                record.done.append(table.name)
                record.after = None
            self._write_record(record)
        return len(rows)

    def _in_target(self, column: str) -> str:
        """Return the SQL for the value that a column of the source gets in the target."""
        if column in _HELD:
            return "NULL"
        if column in _SINCE:
            return f"{column} + {self._offset!r}"
        # By the wall clock, as what was recorded before the machine's last start (`pipelines.state.state.AGE`).
        return "at" if column == "uptime" else column

    def _empty(self, table: _CarriedTable) -> None:
        """Delete what a new target has, what triggers made, and what an earlier attempt left."""
        self._target.execute(f"DELETE FROM {table.name} WHERE {table.shared}")
        if table.name == "vault_chunk" and isinstance(self._target, apsw.Connection):
            self._target.execute("INSERT INTO vault_chunk_fts (vault_chunk_fts) VALUES ('delete-all')")
            self._target.execute("DELETE FROM vault_chunk_vec")

    def _insert(self, table: _CarriedTable, rows: Sequence[Sequence[Any]]) -> None:
        truths = [column in table.booleans for column in table.columns]
        self._target.executemany(
            f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({', '.join('?' * len(truths))})",
            ([_of_type(*one) for one in zip(row, truths, strict=True)] for row in rows),
        )
        if table.name == "vault_chunk" and isinstance(self._target, apsw.Connection):
            chunks = [row[table.columns.index("id")] for row in rows]
            add_words(self._target, chunks)
            add_vectors(self._target, chunks)

    def _continue_numbers(self, table: _CarriedTable) -> None:
        """Have the next row of the target get the number that it would get in the source."""
        if table.counter is None:
            return
        last = _last_number(self._source, table)
        if not isinstance(self._target, apsw.Connection):
            self._target.execute(
                "SELECT setval(pg_get_serial_sequence(?, ?), ?, ?)",
                (table.name, table.counter, max(last, 1), last > 0),
            )
        elif table.counter != "rowid":
            self._target.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
            self._target.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table.name, last))

    def compare(self) -> Iterator[int]:
        """Compare the tables of both stores up to the first difference; yield how many rows are read."""
        for table in self._tables:
            had, has = _Contents(), _Contents()
            for con, contents in ((self._source, had), (self._target, has)):
                for rows in _slices(con, table):
                    contents.add(rows)
                    yield len(rows)
            if had != has:
                with transaction(self._target):
                    self._write_record(_Record(self._record.source))  # all of it is to be copied again
                what = f"has {has.rows:,} rows instead of {had.rows:,}"
                if had.rows == has.rows:
                    what = f"has as many rows as it should, {has.rows:,}, but not the same ones"
                self.difference = f"{self.name}: the copy of the table {table.name} {what}"
                return

    def _write_record(self, record: _Record) -> None:
        if self.name == _STATE:
            write_record(self._target, record.as_json())
        else:
            self._target.execute(SET_META, (MIGRATION, record.as_json()))

    def finish(self) -> None:
        """Delete the record of the migration from the target."""
        with transaction(self._target):
            self._target.execute(f"DELETE FROM {_recorder(self.name)} WHERE key = ?", (MIGRATION,))


def _recorder(name: str) -> str:
    """Return the table that has the record of a migration: of the state, or of an index."""
    return "fact" if name == _STATE else "vault_meta"


def _recorded(con: Connection, name: str) -> _Record | None:
    found = first(con, f"SELECT value FROM {_recorder(name)} WHERE key = ?", (MIGRATION,))
    return _Record(**json.loads(found[0])) if found else None


def _of_type(value: object, is_boolean: bool) -> object:  # noqa: FBT001 - one of the two columns of a zip
    return bool(value) if is_boolean and value is not None else value


def _clock(con: Connection) -> float:
    """Return the time by which a store's rows are dated, in seconds."""
    return time.monotonic() if isinstance(con, apsw.Connection) else con.clock()()


def _count(con: Connection, table: _CarriedTable) -> int:
    return int(one(con, f"SELECT count(*) FROM {table.name} WHERE {table.shared}")[0])


def _slice(
    con: Connection, table: _CarriedTable, columns: Iterable[str], after: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    """Return the next rows of a table after a key."""
    key = ", ".join(table.key)
    later = f" AND ({key}) > ({', '.join('?' * len(table.key))})" if after is not None else ""
    return select(
        con,
        f"SELECT {', '.join(columns)} FROM {table.name} WHERE {table.shared}{later} ORDER BY {key} LIMIT {_AT_ONCE}",
        after or (),
    )


def _slices(con: Connection, table: _CarriedTable) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a table as both stores have them."""
    after: Sequence[Any] | None = None
    while True:
        rows = _slice(con, table, [*table.key, *table.compared], after)
        yield [row[len(table.key) :] for row in rows]
        if len(rows) < _AT_ONCE:
            return
        after = rows[-1][: len(table.key)]


@dataclass
class _Contents:
    """How many rows were added, and the sum of their digests, in which their order does not count."""

    rows: int = 0
    digest: int = 0

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        self.rows += len(rows)
        for row in rows:
            values = repr([_canonical(value) for value in row]).encode()
            self.digest += int.from_bytes(blake2b(values, digest_size=16).digest())


def _canonical(value: object) -> object:
    """Return a value as both stores have it: a file has no booleans and no zero with a sign, PostgreSQL no NUL."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return value + 0.0
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _last_number(con: Connection, table: _CarriedTable) -> int:
    """Return the last number that a row of a table got, even if it is deleted; 0 before the first."""
    if isinstance(con, apsw.Connection):
        numbers = select(con, "SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,))
    else:
        sql = "SELECT pg_sequence_last_value(pg_get_serial_sequence(?, ?)::regclass)"
        numbers = select(con, sql, (table.name, table.counter))
    numbers += select(con, f"SELECT max({table.counter}) FROM {table.name}")
    return max(number or 0 for (number,) in numbers)
