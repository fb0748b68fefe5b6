"""A cache in PostgreSQL: what is durable is there, and what a question reads is in each host's copy in SQLite.

A copy has indexes of words and vectors of its own. `vault_change` says what is newer in PostgreSQL than in it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from pipelines.cache.cache import CacheTables, SqliteCache, add_vectors, add_words
from pipelines.cache.filters import SqliteFiltering
from pipelines.cache.graph import SqlGraph
from pipelines.cache.leases import TAKABLE
from pipelines.cache.notes import SqliteNotes
from pipelines.cache.passages import SqlPassages
from pipelines.cache.schema import SET_META, CacheMeta, build, check_model, mend_schema, read_meta, version_of
from pipelines.cache.search import SqliteSearch
from pipelines.errors import ModelMismatchError, StaleWorkError
from pipelines.model import FileContent, FoundFile, LeasedRow
from pipelines.postgres import PostgresConnection, missing
from pipelines.sqlite import POSTGRES_STEPS, first, migrate, one, select, snapshot, steps_of, transaction

# The keys in a copy's `vault_meta` of what it is a copy of, and of the last number that it has taken in.
_COPY_OF, _COPIED = "copy_of", "copied"
_AT_ONCE = 500
# The columns of what is copied as it is, its key first.
_ROWS = {
    "file": (
        "vault_file",
        """path raw size mtime_ns inode wanted_hash indexed_hash generation applied_generation embedded_generation
        priority dirty_since attempts next_attempt_at error_kind error parked lease_token lease_until lease_owner
        indexed_at""",
    ),
    "path": ("vault_path", "path name"),
    "git": ("vault_git", "path created changed written"),
}
_NODE = (
    "path title frontmatter tags aliases author kind published_at modified_at evergreen warnings private place"
    " tag_lines created_by created_after changed changed_by changed_after"
)
_CHUNK = (
    "id path position section heading_path text text_hash start_offset end_offset first_line last_line has_vector"
    " locator context"
)
_OF_NOTES = {
    "vault_link": "path position kind target fragment text line section property cites name type",
    "vault_edge": "path position target kind ambiguous type",
}
_TABLES = {
    "vault_rank": "path pagerank centrality community",
    "vault_community": "id label",
    "vault_graph": "generation ranked_generation first_change last_change centrality_by",
    "vault_ignored": "path rule",
    "vault_probe": "position embedding",
}
_OTHERS = ("vault_node", "vault_chunk", "vault_chunk_vec", "vault_vector", "vault_sentence", "vault_second")
_THESE = "(SELECT value FROM json_each(?))"
_VALUE = "SELECT value FROM vault_meta WHERE key = ?"
# What a cache is known by. One that was restored from a dump is another: a copy may have later changes of the first.
_IDENTITY = (
    "SELECT concat_ws('.', (SELECT system_identifier FROM pg_control_system()), d.oid, t.oid)"
    " FROM pg_database d, pg_class t WHERE d.datname = current_database()"
    " AND t.relname = 'vault_change' AND t.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = ?)"
)


class Copy:
    """The copy of one cache, which is opened for writing here."""

    def __init__(self, source: PostgresConnection, path: Path, meta: CacheMeta) -> None:
        """Open the copy. A file at its place that is the copy of another cache is replaced. Raises CacheError."""
        self._source = source
        self._path = path
        origin = one(source, _IDENTITY, (source.schema,))
        with self._alone():
            self.cache = self._opened(meta, origin)

    def _opened(self, meta: CacheMeta, origin: tuple[str]) -> SqliteCache:
        with suppress(ModelMismatchError):  # it has vectors of another cache
            cache = SqliteCache.create(self._path, meta)
            known = first(cache.con, _VALUE, (_COPY_OF,))
            if known == origin:
                return cache
            cache.close()
        for end in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)
        cache = SqliteCache.create(self._path, meta)
        with transaction(cache.con):
            cache.con.execute(SET_META, (_COPY_OF, *origin))
        return cache

    def close(self) -> None:
        """Close the copy."""
        self.cache.close()

    def follow(self, *, afresh: bool = False) -> int:
        """Take in all that was committed since, as one state; return how many things changed. Raises CacheError.

        `afresh`: all that was ever committed, in the place of what the copy has.
        """
        with self._alone(), snapshot(self._source):
            con = self.cache.con
            (last,) = (None if afresh else first(con, _VALUE, (_COPIED,))) or ("0",)
            news = select(
                self._source,
                "SELECT kind, key, number FROM vault_change WHERE number > ? ORDER BY number",
                (int(last),),
            )
            if not news:
                return 0
            changed: dict[str, list[str]] = defaultdict(list)
            for kind, key, _ in news:
                changed[kind].append(key)
            with transaction(con):
                if afresh:
                    self._empty()
                self._take(changed)
                con.execute(SET_META, (_COPIED, str(news[-1][2])))
        return len(news)

    def _empty(self) -> None:
        mend_schema(self.cache.con, self.cache.meta)
        for table in (*(name for name, _ in _ROWS.values()), *_OF_NOTES, *_OTHERS):
            self.cache.con.execute(f"DELETE FROM {table}")
        # What no longer knows a row cannot delete it.
        self.cache.con.execute("INSERT INTO vault_chunk_fts (vault_chunk_fts) VALUES ('delete-all')")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let the processes of this host take turns."""
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _take(self, changed: dict[str, list[str]]) -> None:
        for keys in _slices(changed["vector"]):
            self._take_vectors(keys)
        for keys in _slices(changed["note"]):
            self._take_notes(keys)
        for kind, (table, columns) in _ROWS.items():
            for keys in _slices(changed[kind]):
                self._take_rows(table, columns.split(), keys)
        for table in changed["table"]:
            self._take_table(table)

    def _read(
        self, table: str, columns: Sequence[str], key: str, keys: Collection[str]
    ) -> list[tuple[Any, ...]]:
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE {key} IN {_THESE}"
        return select(self._source, sql, (json.dumps(list(keys)),))

    def _take_rows(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> None:
        found = self._read(table, columns, columns[0], keys)
        gone = set(keys).difference(row[0] for row in found)
        self.cache.con.executemany(f"DELETE FROM {table} WHERE {columns[0]} = ?", ((key,) for key in gone))
        self._upsert(table, columns, found)

    def _upsert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        changed = ", ".join(f"{name} = excluded.{name}" for name in columns[1:] if name != "has_vector")
        self._insert(table, columns, rows, f" ON CONFLICT ({columns[0]}) DO UPDATE SET {changed}")

    def _insert(
        self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], present: str = ""
    ) -> None:
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}){present}"
        self.cache.con.executemany(sql, rows)

    def _take_table(self, table: str) -> None:
        con = self.cache.con
        if table == "vault_meta":
            rows = dict(select(self._source, "SELECT key, value FROM vault_meta"))
            kept = {key: value for key, value in rows.items() if key != "schema_version"}
            con.execute(
                f"DELETE FROM vault_meta WHERE key NOT IN {_THESE}",
                (json.dumps([*kept, "schema_version", _COPY_OF, _COPIED]),),
            )
            con.executemany(SET_META, kept.items())
            return
        columns = _TABLES[table].split()
        rows_of = select(self._source, f"SELECT {', '.join(columns)} FROM {table}")
        con.execute(f"DELETE FROM {table}")
        self._insert(table, columns, rows_of)

    def _take_vectors(self, hashes: Sequence[str]) -> None:
        self._take_rows("vault_vector", ("text_hash", "embedding", "unused_since"), hashes)
        self._upsert(
            "vault_sentence",
            ("text_hash", "codes"),
            self._read("vault_sentence", ("text_hash", "codes"), "text_hash", hashes),
        )
        con = self.cache.con
        con.execute(f"DELETE FROM vault_second WHERE text_hash IN {_THESE}", (json.dumps(list(hashes)),))
        second = self._read("vault_second", ("text_hash", "model", "codes"), "text_hash", hashes)
        con.executemany("INSERT INTO vault_second VALUES (?, ?, ?)", second)

    def _take_notes(self, paths: Sequence[str]) -> None:
        con, chosen = self.cache.con, json.dumps(list(paths))
        self._take_rows("vault_node", _NODE.split(), paths)
        self._take_chunks(paths)
        for table, names in _OF_NOTES.items():
            columns = names.split()
            con.execute(f"DELETE FROM {table} WHERE path IN {_THESE}", (chosen,))
            self._insert(table, columns, self._read(table, columns, "path", paths))

    def _take_chunks(self, paths: Sequence[str]) -> None:
        con, chosen, columns = self.cache.con, json.dumps(list(paths)), _CHUNK.split()
        found = self._read("vault_chunk", columns, "path", paths)
        had = dict(select(con, f"SELECT id, has_vector FROM vault_chunk WHERE path IN {_THESE}", (chosen,)))
        at = columns.index("has_vector")
        has = {row[0]: row[at] for row in found}
        gone = [(chunk,) for chunk in had.keys() - has.keys()]
        con.executemany("DELETE FROM vault_chunk WHERE id = ?", gone)
        con.executemany("DELETE FROM vault_chunk_fts WHERE rowid = ?", gone)
        without = [(chunk,) for chunk, stored in had.items() if stored == 1 and has.get(chunk) != 1]
        con.executemany("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", without)
        as_it_was = [(*row[:at], had.get(row[0], 0), *row[at + 1 :]) for row in sorted(found)]
        self._upsert("vault_chunk", columns, as_it_was)
        # By itself, because the copy's journal, which processes follow, has the chunks of which this changes.
        con.executemany(
            "UPDATE vault_chunk SET has_vector = ? WHERE id = ?",
            [(stored, chunk) for chunk, stored in has.items() if stored != had.get(chunk, 0)],
        )
        add_words(con, has.keys() - had.keys())
        add_vectors(con, [chunk for chunk, stored in has.items() if stored == 1 and had.get(chunk) != 1])


LARGEST_HANDED_OUT = 16_000_000
"""Upper bound on the bytes of a file that a host without the vault gets; larger ones are indexed beside the vault."""
_MOST_HANDED_OUT = 64_000_000
# So many notes are indexed beside the vault before another host would have their bytes.
_FEW = 64


class HandedOut:
    """The bytes of notes that wait to be indexed, for workers on hosts without the vault."""

    def __init__(self, con: PostgresConnection, clock: Callable[[], float]) -> None:
        self._con = con
        self._clock = clock

    def wanted(self, most: int) -> list[tuple[str, str]]:
        """Return path and hash of up to `most` notes to hand out, those first that are indexed last beside the vault.

        None if few notes wait, or if as many bytes as may be are handed out already. Raises CacheError.
        """
        free = f"{TAKABLE['words']} AND wanted_hash IS NOT NULL"
        found = select(
            self._con,
            f"SELECT f.raw, f.wanted_hash FROM vault_file f LEFT JOIN vault_content c USING (path) WHERE {free}"
            " AND f.size <= :largest AND c.sha IS DISTINCT FROM f.wanted_hash"
            f" AND (SELECT count(*) FROM (SELECT 1 FROM vault_file WHERE {free} LIMIT {_FEW + 1}) few) > {_FEW}"
            " AND (SELECT coalesce(sum(length(deflated)), 0) FROM vault_content) < :room"
            " ORDER BY f.priority, f.mtime_ns, f.path DESC LIMIT :most",
            {"now": self._clock(), "largest": LARGEST_HANDED_OUT, "room": _MOST_HANDED_OUT, "most": most},
        )
        return [(os.fsdecode(raw), sha) for raw, sha in found]

    def put(self, contents: Iterable[FileContent]) -> None:
        """Store the bytes of notes that still wait with this content. Raises CacheError."""
        rows = (
            {
                "path": one.found.path,
                "sha": one.sha256,
                "size": one.found.size,
                "mtime": one.found.mtime_ns,
                "inode": one.found.inode,
                "deflated": zlib.compress(one.data, 1),
            }
            for one in contents
        )
        with transaction(self._con):
            self._con.executemany(
                "INSERT INTO vault_content SELECT path, :sha, :size, :mtime, :inode, :deflated FROM vault_file"
                " WHERE path = :path AND wanted_hash = :sha AND applied_generation < generation AND parked = 0"
                " ON CONFLICT (path) DO UPDATE SET sha = excluded.sha, size = excluded.size,"
                " mtime_ns = excluded.mtime_ns, inode = excluded.inode, deflated = excluded.deflated",
                rows,
            )

    def read(self, row: LeasedRow) -> FileContent:
        """Return the content that a leased row wants. Raises StaleWorkError if it is not handed out any more."""
        found = first(
            self._con,
            "SELECT size, mtime_ns, inode, deflated FROM vault_content WHERE path = ? AND sha = ?",
            (row.path, row.wanted_hash),
        )
        if found is not None:
            size, mtime_ns, inode, deflated = found
            data = zlib.decompressobj().decompress(deflated, size + 1)
            if hashlib.sha256(data).hexdigest() == row.wanted_hash:
                file = FoundFile(row.path, row.raw, size, mtime_ns, inode)
                return FileContent(data, row.wanted_hash, file)
        raise StaleWorkError(f"{row.path!r} is indexed beside the vault, or has changed")


def _slices(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))


def make_tables(con: PostgresConnection, meta: CacheMeta) -> None:
    """Create the schema of a new cache (inside the caller's transaction)."""
    con.make_schema(steps_of(__package__, POSTGRES_STEPS).values())
    build(con, meta)


def _current(con: PostgresConnection) -> CacheMeta:
    """Return what a cache was built with, and bring its tables to this version. Raises CacheError."""
    meta = read_meta(con, Path(con.schema))
    migrate(con, steps_of(__package__, POSTGRES_STEPS), version_of)
    return meta


class PostgresCache(CacheTables):
    """A cache in a schema of PostgreSQL, for writing; `pipelines.store` says what it promises.

    Everything that is written is written there. What is read for questions and lists is read from the copy, after it
    has taken in what was committed until then. Do not share it between threads.
    """

    con: PostgresConnection

    def __init__(
        self, con: PostgresConnection, copy: Copy, meta: CacheMeta, clock: Callable[[], float]
    ) -> None:
        super().__init__(con, meta, clock)
        self._copy = copy
        self._seen = -1
        self.handed_out = HandedOut(con, clock)
        self.path = copy.cache.path
        self._graph = SqlGraph(copy.cache.con, self.edges, con)
        self._passages = SqlPassages(copy.cache.con, meta.dimension, con)

    @classmethod
    def create(
        cls,
        address: str,
        schema: str,
        path: Path,
        meta: CacheMeta,
        *,
        clock: Callable[[], float] | None = None,
    ) -> PostgresCache:
        """Open a cache for writing with its copy at `path`, and create both if they do not exist.

        A change of `meta.pipeline` makes every note dirty. Raises ModelMismatchError, CacheCorruptError, StateError.
        """
        con = PostgresConnection(address, schema)
        with con.errors(), con.transaction():
            if not con.has_schema():
                make_tables(con, meta)
        found = _current(con)
        check_model(found, meta.model, meta.dimension, Path(schema))
        cache = cls(con, Copy(con, path, found), found, clock or con.clock())
        if found.pipeline != meta.pipeline:
            cache.adopt(meta)
        return cache

    @classmethod
    def open(cls, address: str, schema: str, path: Path) -> PostgresCache:
        """Open an existing cache for writing with its copy at `path`. Raises CacheMissingError, CacheError."""
        con = PostgresConnection(address, schema)
        if not con.has_schema():
            raise missing(schema)
        meta = _current(con)
        return cls(con, Copy(con, path, meta), meta, con.clock())

    def close(self) -> None:
        """Close the connection and the copy."""
        self._copy.close()
        super().close()

    def follow(self) -> None:
        """Have the copy take in what was committed, unless this connection's own transaction is in progress."""
        if not self.con.in_transaction and (version := self.con.data_version()) != self._seen:
            self._copy.follow()
            self._seen = version

    # What is read is read from the copy

    @property
    def filters(self) -> SqliteFiltering:
        """Which notes pass a question's filters."""
        self.follow()
        return self._copy.cache.filters

    @property
    def notes(self) -> SqliteNotes:
        """What is known of notes by their names."""
        self.follow()
        return self._copy.cache.notes

    @property
    def search(self) -> SqliteSearch:
        """What the retrievers read."""
        self.follow()
        return self._copy.cache.search

    @property
    def graph(self) -> SqlGraph:
        """The edges among notes, and their ranks."""
        self.follow()
        return self._graph

    @property
    def passages(self) -> SqlPassages:
        """Chunks and what is known of their notes."""
        self.follow()
        return self._passages

    @property
    def copy(self) -> Copy:
        """This host's copy."""
        return self._copy

    def snapshot(self) -> AbstractContextManager[None]:
        """Return a context whose reads from the copy all see the same state."""
        self.follow()
        return self._copy.cache.snapshot()

    def data_version(self) -> int:
        """Return a number that changes with each commit of another connection; compare it only on this connection."""
        return self.con.data_version()

    def tidy(self) -> None:
        """Take in what was committed, and truncate the copy's journal. Raises CacheError."""
        self.follow()
        self._copy.cache.tidy()
