"""`state.db`: the current cache of each domain, and the facts that processes tell each other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import apsw
import structlog
from pydantic import TypeAdapter, ValidationError

from pipelines.errors import StateError
from pipelines.formats import MARKDOWN, NAMES, OF_A_NEW_VAULT, FormatName
from pipelines.model import Place, PostgresPlace, VectorIndex, folder_of
from pipelines.sqlite import (
    BUSY_MS,
    POSTGRES_STEPS,
    Connection,
    Steps,
    connect,
    first,
    migrate,
    one,
    select,
    steps_of,
    transaction,
)

# The file `state.db`: every connection to it is opened here, with all of its tables created.


STATE_FILE = "state.db"
_FORMATS = "vault_format"
_CACHE = re.compile(r"cache-(?P<domain>[\w-]+)\.(?P<number>\d+)\.db")


def cache_name(domain: str, number: int) -> str:
    """Return the name of the file, beside `state.db`, of a domain's cache with a number (from 1)."""
    return f"cache-{domain}.{number}.db"


def numbered_caches(folder: Path) -> list[tuple[str, int, Path]]:
    """Return the caches in a state folder, newest first: domain, number, file."""
    matches = ((path, _CACHE.fullmatch(path.name)) for path in folder.glob("cache-*.db"))
    found = [(match["domain"], int(match["number"]), path) for path, match in matches if match]
    return sorted(found, key=lambda one: (-one[1], one[0]))


MIGRATION = "migration"
"""The key among the facts of a state into which another store's is being migrated, until all of it is there."""


def open_state(place: Place) -> Connection:
    """Open a vault's state, and bring it to this version.

    Raises StateError, also for one that an unfinished migration left, CacheCorruptError, StorageUnavailableError.
    """
    con = open_incomplete(place)
    if first(con, "SELECT 1 FROM fact WHERE key = ?", (MIGRATION,)):
        name = con.filename
        con.close()
        raise StateError(
            f"{name} is an unfinished copy of another store, and cannot be used yet; set `store` as it was before,"
            " and run `everindex migrate` again to finish the copy"
        )
    return con


def open_incomplete(place: Place, record: str | None = None) -> Connection:
    """Open a vault's state as `open_state` does, also one into which another is being migrated.

    With a `record` of the migration, a new state has it from its first moment.
    """
    return _open_file(place, record) if isinstance(place, Path) else _open_schema(place, record)


def write_record(con: Connection, record: str) -> None:
    """Record in a state that another is being migrated into it (inside the caller's transaction)."""
    con.execute(
        "INSERT INTO fact (key, value, at, uptime) VALUES (?, ?, 0, 0)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (MIGRATION, record),
    )


def state_exists(place: PostgresPlace) -> bool:
    """Say whether PostgreSQL has the state of a vault. Raises StorageUnavailableError."""
    from pipelines.postgres import PostgresConnection  # noqa: PLC0415 - as below

    return PostgresConnection(place.address, place.schema("state")).has_schema()


def _open_schema(place: PostgresPlace, record: str | None) -> Connection:
    from pipelines.postgres import PostgresConnection  # noqa: PLC0415 - its library is not always installed

    con = PostgresConnection(place.address, place.schema("state"))
    steps = steps_of(__package__, POSTGRES_STEPS)
    if not con.has_schema():
        with con.errors(), con.transaction():
            if not con.has_schema():  # another host may have made it meanwhile
                con.make_schema(steps.values())
                con.executemany(f"INSERT INTO {_FORMATS} VALUES (?)", ((name,) for name in OF_A_NEW_VAULT))
                if record is not None:
                    write_record(con, record)
    if _known_version(con, steps, "run that version on this host, too") < max(steps):
        migrate(con, steps, version_of)
    return con


def _open_file(folder: Path, record: str | None) -> apsw.Connection:
    con = connect(folder / STATE_FILE)
    steps = steps_of(__package__)
    version = _known_version(con, steps, "run that version, or give this one another folder with `--state`")
    # A file that has it all is only read: a process that holds its lock delays no reader.
    if version < max(steps):
        with transaction(con):
            present = {name for (name,) in select(con, "SELECT name FROM sqlite_schema")}
            migrate(con, steps, version_of)
            if _FORMATS not in present:
                # A vault that an earlier version indexed stays as its owner knows it.
                formats = (MARKDOWN,) if present else OF_A_NEW_VAULT
                con.executemany(f"INSERT OR IGNORE INTO {_FORMATS} VALUES (?)", ((name,) for name in formats))
            if record is not None and not present:
                write_record(con, record)
    return con


def version_of(con: Connection) -> int:
    """Return the number of the last step that made a state. Raises CacheError."""
    if isinstance(con, apsw.Connection):
        return int(one(con, "PRAGMA user_version")[0])
    return int(one(con, "SELECT value FROM state_meta WHERE key = 'schema_version'")[0])


def _known_version(con: Connection, steps: Steps, todo: str) -> int:
    """Return the number of the last step that made a state. Raises StateError if a later version made it."""
    if (version := version_of(con)) > max(steps):
        name = con.filename
        con.close()
        raise StateError(
            f"{name} was made by a later version of Everindex (schema {version}; this one knows {max(steps)}); {todo}"
        )
    return version


# The facts that processes tell each other through `state.db`: each subject and the type of its value.


T = TypeVar("T")
_REPLY_KEPT_SECONDS = 3600.0
_BEGINS = "substr(key, 1, length(:start)) = :start"


@dataclass(frozen=True, slots=True)
class Subject(Generic[T]):
    """The subject of a fact: the name in its key, and the type of its value.

    `is_momentary`: it is true only while the vault's processes run, so backups leave it out.
    `kept_s`: such facts are deleted after this many seconds; None: never.
    """

    name: str
    shape: Any
    is_momentary: bool = False
    kept_s: float | None = None

    def key(self, about: str) -> str:
        """Return the key of the fact about a domain, model or request; `about` is empty if there is only one fact."""
        return f"{self.name}:{about}" if about else self.name

    def adapter(self) -> TypeAdapter[T]:
        """Return the adapter that serialises and validates the values."""
        return _adapter(self.shape)


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """The last value of a fact, and how many seconds ago it was recorded."""

    value: T
    age_s: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Deletions that wait for confirmation: how many, and the first few paths."""

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparisonFacts:
    """What the last comparison of the disk with the ledgers found, by domain, and how long it took.

    `others`, by domain and format: files that could be indexed, but are not asked for.
    """

    found: dict[str, dict[str, int]]
    took_ms: int
    others: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbeddingSpeed:
    """How fast a domain's texts were embedded last."""

    texts_per_s: float


@dataclass(frozen=True, slots=True)
class EmbedderFacts:
    """The device that a loaded model runs on, and its precision."""

    device: str
    precision: str


@dataclass(frozen=True, slots=True)
class RefusedMessages:
    """How many queue messages were refused: not signed by us, for an unknown task, or replayed."""

    foreign: int = 0
    unknown: int = 0
    replayed: int = 0


@dataclass(frozen=True, slots=True)
class WatcherFacts:
    """The watcher's state; `last_event_s` and `last_probe_s` are seconds before the fact was recorded."""

    mode: Literal["events", "polling"]
    polling_because: str | None
    last_event_s: float | None
    last_probe_s: float | None
    overflows: int
    process: int


class ReviewState(NamedTuple):
    """A review queue as last read: size, time and inode of its file and of the vocabulary; the proposals' version.

    `notes` is a hash of what is indexed of the notes whose tags wait, because the queue shows how they begin.
    """

    file: tuple[int, int, int] | None
    proposals: list[list[str | int]]
    vocabulary: tuple[int, int, int] | None = None
    notes: str | None = None


class VaultFacts(NamedTuple):
    """What hosts without the vault know of it: its id, the text of its `_domains.yaml`, the format of daily notes."""

    vault_id: str
    domains: str | None
    daily: str | None


class WrittenFacts(NamedTuple):
    """The note that a program wrote with an id: its path, and the SHA-256 of its bytes as they were written last.

    While the note is being replaced, both what it had and what it gets.
    """

    path: str
    hashes: tuple[str, ...]


HELD: Subject[Hold] = Subject("held", Hold, is_momentary=True)
COMPARISON: Subject[ComparisonFacts] = Subject("comparison", ComparisonFacts, is_momentary=True)
EMBEDDING_SPEED: Subject[EmbeddingSpeed] = Subject("embed", EmbeddingSpeed, is_momentary=True)
EMBEDDER: Subject[EmbedderFacts] = Subject("embedder", EmbedderFacts, is_momentary=True)
REFUSED: Subject[RefusedMessages] = Subject("refused", RefusedMessages, is_momentary=True)
WATCHER: Subject[WatcherFacts] = Subject("watcher", WatcherFacts, is_momentary=True)
RELOADED: Subject[dict[str, dict[str, int]]] = Subject(
    "reload", dict[str, dict[str, int]], is_momentary=True, kept_s=_REPLY_KEPT_SECONDS
)
"""A worker's reply to a request to compare the vault, by the request's id."""

LOOKED_AT: Subject[bool] = Subject("looked-at", bool, is_momentary=True, kept_s=_REPLY_KEPT_SECONDS)
"""A worker's reply to a request to index a note, by the request's id: whether its file was quiet."""

TAGGED: Subject[dict[str, Any]] = Subject(
    "tags", dict[str, Any], is_momentary=True, kept_s=_REPLY_KEPT_SECONDS
)
"""A worker's reply to a request about tags, by the request's id."""

REVIEWED: Subject[ReviewState] = Subject("review", ReviewState)
TAGGING_BEGAN: Subject[str] = Subject("tags-began", str)
"""When a domain's notes were first examined for tags (UTC, ISO 8601)."""

REHASHED: Subject[str] = Subject("rehash", str)
"""The path up to which a domain's notes have been rehashed."""

MEMORY: Subject[dict[str, tuple[int, int]]] = Subject("memory", dict[str, tuple[int, int]])
"""By domain: how many in-memory lists were compared with the cache, and how many differed."""

WRITTEN: Subject[WrittenFacts] = Subject("written", WrittenFacts)
"""The note that a program wrote with an id, by the id's SHA-256."""

VAULT: Subject[VaultFacts] = Subject("vault", VaultFacts)
"""What a host that has the vault tells those that do not."""

VECTORS: Subject[VectorIndex] = Subject("vectors", VectorIndex, is_momentary=True)
"""How PostgreSQL finds the nearest passages of a cache, by the cache's name."""

SUBJECTS: tuple[Subject[Any], ...] = (
    HELD,
    COMPARISON,
    EMBEDDING_SPEED,
    EMBEDDER,
    REFUSED,
    WATCHER,
    RELOADED,
    LOOKED_AT,
    TAGGED,
    REVIEWED,
    TAGGING_BEGAN,
    REHASHED,
    MEMORY,
    WRITTEN,
    VAULT,
    VECTORS,
)


MOMENTARY_TABLES = ("process", "problem", "vanished")
"""The tables that hold only while the vault's processes run."""


# The operator's decisions about indexing, kept in `state.db`: paused domains and dismissed notes.


class OperatorDecisions:
    """The operator's decisions over a connection to `state.db`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def pause(self, domain: str, since: str) -> None:
        """Pause a domain; a domain that is already paused keeps its time. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO paused_domain VALUES (?, ?) ON CONFLICT DO NOTHING", (domain, since)
            )

    def resume(self, domain: str) -> None:
        """Resume a paused domain. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM paused_domain WHERE domain = ?", (domain,))

    def paused_since(self, domain: str) -> str | None:
        """Return when a domain was paused (UTC, ISO 8601), or None if it is not paused."""
        found = first(self._con, "SELECT since FROM paused_domain WHERE domain = ?", (domain,))
        return str(found[0]) if found else None

    def replace_dismissed(self, domain: str, notes: Mapping[str, int]) -> None:
        """Replace a domain's dismissed notes, each with the generation that failed.

        Raises StorageUnavailableError.
        """
        with transaction(self._con):
            self._con.execute("DELETE FROM dismissed_note WHERE domain = ?", (domain,))
            self._con.executemany(
                "INSERT INTO dismissed_note VALUES (?, ?, ?)",
                [(domain, path, generation) for path, generation in notes.items()],
            )

    def dismissed(self, domain: str) -> dict[str, int]:
        """Return a domain's dismissed notes, each with the generation that failed."""
        found = select(self._con, "SELECT path, generation FROM dismissed_note WHERE domain = ?", (domain,))
        return dict(found)


# The age of what processes record in `state.db`, by two clocks.


AGE = "CASE WHEN uptime <= :uptime THEN :uptime - uptime ELSE max(0.0, :at - at) END"
"""The SQL for the seconds since a row was recorded, from its columns `at` and `uptime` and from `Clocks.now`.

The wall clock may be set to another time, so it counts only for rows from before the last reboot, which resets the
monotonic clock.
"""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks that give `at` (seconds since 1970) and `uptime` (monotonic, in seconds)."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def now(self) -> dict[str, float]:
        """Return the current time as the SQL bindings `at` and `uptime`."""
        return {"at": self.wall(), "uptime": self.monotonic()}


SYSTEM_CLOCKS = Clocks()


def clocks_of(con: Connection) -> Clocks:
    """Return the clocks by which a state's times are read: this machine's, or those of the server of all hosts."""
    if isinstance(con, apsw.Connection):
        return SYSTEM_CLOCKS
    clock = con.clock()
    return Clocks(clock, clock)


log = structlog.get_logger()


class State:
    """A connection to a vault's `state.db`."""

    def __init__(self, place: Place, clocks: Clocks | None = None) -> None:
        self._folder = folder_of(place)
        self._con = open_state(place)
        self._clocks = clocks or clocks_of(self._con)
        self.decisions = OperatorDecisions(self._con)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def is_locked(self) -> bool:
        """Say whether another connection is writing at this moment."""
        if not isinstance(self._con, apsw.Connection):
            return False  # writers take short turns
        self._con.set_busy_timeout(0)
        try:
            self._con.execute("BEGIN IMMEDIATE")
            self._con.execute("ROLLBACK")
        except apsw.BusyError:
            return True
        except apsw.Error:
            return False  # another fault, which writers will report
        finally:
            self._con.set_busy_timeout(BUSY_MS)
        return False

    def cache_path(self, domain: str) -> Path:
        """Return the file of a domain's current cache; the first cache has number 1."""
        return self.numbered(domain, self.cache_number(domain))

    def numbered(self, domain: str, number: int) -> Path:
        """Return the file of a domain's cache with a given number."""
        return self._folder / cache_name(domain, number)

    def cache_number(self, domain: str) -> int:
        """Return the number of a domain's current cache."""
        row = first(self._con, "SELECT number FROM domain_cache WHERE domain = ?", (domain,))
        return int(row[0]) if row else 1

    def switch_cache(self, domain: str, number: int) -> None:
        """Make another cache the current one; every process reopens when it next checks."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO domain_cache VALUES (?, ?)"
                " ON CONFLICT (domain) DO UPDATE SET number = excluded.number",
                (domain, number),
            )

    def formats(self) -> tuple[FormatName, ...]:
        """Return the names of the formats of a domain that does not state its own."""
        stored = {name for (name,) in select(self._con, "SELECT name FROM vault_format")}
        return tuple(name for name in NAMES if name in stored)

    # Facts

    def put(self, subject: Subject[T], value: T, about: str = "") -> None:
        """Tell the other processes a fact, replacing the last one with its key. Raises StorageUnavailableError."""
        written = subject.adapter().dump_json(value).decode()
        now = self._clocks.now()
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO fact VALUES (:key, :value, :at, :uptime) ON CONFLICT (key) DO UPDATE"
                " SET value = :value, at = :at, uptime = :uptime",
                {"key": subject.key(about), "value": written, **now},
            )
            if subject.kept_s is not None:
                self._con.execute(
                    f"DELETE FROM fact WHERE {_BEGINS} AND at < :until",
                    {"start": f"{subject.name}:", "until": now["at"] - subject.kept_s},
                )

    def get(self, subject: Subject[T], about: str = "") -> Fact[T] | None:
        """Return the last fact of a key, or None; a value that does not fit its subject counts as none."""
        key = subject.key(about)
        found = first(
            self._con, f"SELECT value, {AGE} FROM fact WHERE key = :key", {"key": key, **self._clocks.now()}
        )
        if found is None:
            return None
        written, age = found
        try:
            value = subject.adapter().validate_json(written)
        except ValidationError as error:
            log.warning(
                "a fact in state.db is unreadable and was ignored", key=key, errors=error.error_count()
            )
            return None
        return Fact(value, age)

    def delete(self, subject: Subject[T], about: str = "") -> None:
        """Delete a fact. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM fact WHERE key = ?", (subject.key(about),))

    def delete_momentary(self) -> None:
        """Delete what is true only while processes run: processes, problems, vanished notes, momentary facts."""
        with transaction(self._con):
            for table in MOMENTARY_TABLES:
                self._con.execute(f"DELETE FROM {table}")
            for subject in SUBJECTS:
                if subject.is_momentary:
                    self._con.execute(
                        f"DELETE FROM fact WHERE key = :name OR {_BEGINS}",
                        {"name": subject.name, "start": f"{subject.name}:"},
                    )

    def is_first(self, name: str, kept_s: float) -> bool:
        """Record that something of this name began; say whether it is the first time within `kept_s` seconds."""
        now = self._clocks.now()
        with transaction(self._con):
            self._con.execute(
                f"DELETE FROM fact WHERE {_BEGINS} AND at < :until",
                {"start": "began:", "until": now["at"] - kept_s},
            )
            self._con.execute(
                "INSERT INTO fact VALUES (:key, 'true', :at, :uptime) ON CONFLICT DO NOTHING",
                {"key": f"began:{name}", **now},
            )
            return bool(self._con.changes())
