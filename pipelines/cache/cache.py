"""The cache file of a domain: created once for one model, written in one transaction per note."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import NamedTuple

import apsw
import numpy as np

from pipelines.cache.dates import STATED_COLUMNS, SqlDating
from pipelines.cache.filters import SqliteFiltering
from pipelines.cache.graph import SqlGraph
from pipelines.cache.leases import SqlLeases
from pipelines.cache.ledger import SqlLedger, modified_at
from pipelines.cache.links import SqlEdges
from pipelines.cache.notes import SqliteNotes
from pipelines.cache.passages import Quantized, SqlPassages
from pipelines.cache.schema import CacheMeta, build, check_model, missing, read_meta, steps_for, version_of
from pipelines.cache.search import SqliteSearch
from pipelines.cache.vectors import SqlSecondVectors, SqlVectors, Vector, is_unit
from pipelines.errors import CacheError, StateError
from pipelines.model import Chunk, Counts, FileContent, LeasedRow, Note, now_iso
from pipelines.notes import lexical
from pipelines.sqlite import (
    Connection,
    bound_journal,
    connect,
    corrupt,
    data_version,
    first,
    migrate,
    one,
    register_functions,
    select,
    snapshot,
    transaction,
)

# Write a note's chunks with their full-text rows and vectors, so that an edit touches only its own chunks.


# What `has_vector` says where there is none: it is to come, or the cache is without a model. 1: it is there.
_PENDING, _NEVER = 0, 2
_as_json = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes one for each call


class _Stored(NamedTuple):
    """The columns of a chunk's row that decide whether it is kept."""

    id: int
    text_hash: str
    section: str
    heading_path: str
    has_vector: bool


class _Unattached(NamedTuple):
    """A chunk whose vector is not attached, but may be stored."""

    id: int
    text_hash: str
    vector: bytes | None


class ChunkRows:
    """The rows of `vault_chunk` and of its dependent tables. All methods run inside the caller's transaction."""

    def __init__(self, con: Connection, *, embeds: bool) -> None:
        self._con = con
        # In PostgreSQL there is no index of words and vectors: each reader makes its own.
        self._indexes = isinstance(con, apsw.Connection)
        self._without_one = _PENDING if embeds else _NEVER

    def replace(
        self,
        note: Note,
        chunks: Sequence[Chunk],
        words: Sequence[lexical.ChunkWords] | None = None,
        *,
        reworded: bool,
    ) -> None:
        """Replace a note's chunks; rows whose words are unchanged stay, unless the note is `reworded`.

        `words` are those of the chunks, if they are already known.
        """
        old = self._stored(note.path)
        matched = _match([] if reworded else old, chunks)
        titles = lexical.index_text(_titles(note.title, note.aliases))
        for chunk, row_id in matched:
            if row_id is not None:
                self._move(row_id, chunk)
                continue
            own = (chunk.section, chunk.heading_path, chunk.text, note.title)
            self._insert(note, chunk, titles, words[chunk.position] if words else lexical.chunk_words(*own))
        kept = {row_id for _, row_id in matched}
        gone = [stored for stored in old if stored.id not in kept]
        # A passage below another heading has a new row, and the vector that its old one had.
        embedded = {stored.text_hash for stored in gone if stored.has_vector}
        if any(row_id is None and chunk.text_hash in embedded for chunk, row_id in matched):
            lacking = self._without_vector(note.path)
            self._attach(row for row in lacking if row.text_hash in embedded and row.vector is not None)
        self._remove([stored.id for stored in gone])

    def remove_all(self, path: str) -> None:
        """Remove all chunks of a note."""
        self._remove([stored.id for stored in self._stored(path)])

    def attach_vectors(self, path: str) -> bool:
        """Attach the vectors of a note's chunks if every chunk has one; say whether they all do."""
        lacking = (
            "SELECT 1 FROM vault_chunk c LEFT JOIN vault_vector v USING (text_hash)"
            " WHERE c.path = ? AND c.has_vector = 0 AND v.text_hash IS NULL LIMIT 1"
        )
        if first(self._con, lacking, (path,)):
            return False  # do not read thousands of vectors of a long note in vain
        if self._indexes:
            self._attach(self._without_vector(path))
            return True
        # Without an index of vectors nothing is to be done with them, so they need not travel from the server.
        self._con.execute("UPDATE vault_chunk SET has_vector = 1 WHERE path = ? AND has_vector = 0", (path,))
        self._con.execute(
            "UPDATE vault_vector SET unused_since = NULL WHERE unused_since IS NOT NULL"
            " AND text_hash IN (SELECT text_hash FROM vault_chunk WHERE path = ?)",
            (path,),
        )
        return True

    def _stored(self, path: str) -> list[_Stored]:
        """Return the rows of a note's chunks, the last chunk first."""
        found = select(
            self._con,
            "SELECT id, text_hash, section, heading_path, has_vector FROM vault_chunk WHERE path = ?"
            " ORDER BY position DESC",
            (path,),
        )
        return [
            _Stored(row_id, text_hash, section, heading_path, has_vector=has_vector == 1)
            for row_id, text_hash, section, heading_path, has_vector in found
        ]

    def _move(self, row_id: int, chunk: Chunk) -> None:
        self._con.execute(
            "UPDATE vault_chunk SET position = :position, heading_path = :heading_path, start_offset = :start,"
            " end_offset = :end, first_line = :first_line, last_line = :last_line, locator = :locator WHERE id = :id",
            _position(chunk) | {"id": row_id},
        )

    def _insert(self, note: Note, chunk: Chunk, titles: str, words: lexical.ChunkWords) -> None:
        self._con.execute(
            "INSERT INTO vault_chunk (position, heading_path, start_offset, end_offset, first_line,"
            " last_line, locator, path, section, text, text_hash, context, has_vector) VALUES"
            " (:position, :heading_path, :start, :end, :first_line, :last_line, :locator, :path, :section, :text,"
            " :hash, :context, :has_vector)",
            _position(chunk)
            | {
                "has_vector": self._without_one,
                "path": note.path,
                "section": chunk.section,
                "text": chunk.text,
                "hash": chunk.text_hash,
                "context": chunk.context or None,
            },
        )
        if self._indexes:
            self._con.execute(
                "INSERT INTO vault_chunk_fts (rowid, title, section, text) VALUES (last_insert_rowid(), ?, ?, ?)",
                (titles, *words),
            )

    def _remove(self, ids: Sequence[int]) -> None:
        if not ids:
            return
        these, numbers = "(SELECT CAST(value AS BIGINT) FROM json_each(?))", json.dumps(ids)
        deleted = f"DELETE FROM vault_chunk WHERE id IN {these} RETURNING id, text_hash, has_vector"
        gone = select(self._con, deleted, (numbers,))
        if self._indexes:
            self._con.execute(f"DELETE FROM vault_chunk_fts WHERE rowid IN {these}", (numbers,))
            with_vector = ((number,) for number, _, has_vector in gone if has_vector == 1)
            self._con.executemany("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", with_vector)
        self._con.execute(
            "UPDATE vault_vector SET unused_since = ?2 WHERE text_hash IN (SELECT value FROM json_each(?1))"
            " AND NOT EXISTS (SELECT 1 FROM vault_chunk c WHERE c.text_hash = vault_vector.text_hash)",
            (json.dumps([text_hash for _, text_hash, _ in gone]), time.time()),
        )

    def _without_vector(self, path: str) -> Iterator[_Unattached]:
        found = select(
            self._con,
            "SELECT c.id, c.text_hash, v.embedding FROM vault_chunk c LEFT JOIN vault_vector v USING (text_hash)"
            " WHERE c.path = ? AND c.has_vector = 0",
            (path,),
        )
        return (_Unattached(id=row_id, text_hash=text_hash, vector=blob) for row_id, text_hash, blob in found)

    def _attach(self, chunks: Iterable[_Unattached]) -> None:
        found = list(chunks)
        if self._indexes:
            self._con.executemany(
                "INSERT INTO vault_chunk_vec VALUES (?, ?)", ((chunk.id, chunk.vector) for chunk in found)
            )
        self._con.executemany(
            "UPDATE vault_chunk SET has_vector = 1 WHERE id = ?", ((chunk.id,) for chunk in found)
        )
        self._con.executemany(
            "UPDATE vault_vector SET unused_since = NULL WHERE text_hash = ?",
            ((chunk.text_hash,) for chunk in found),
        )


def _titles(title: str, aliases: Iterable[str]) -> str:
    """Return a note's title and aliases, one per line, for the title column of its chunks' full-text rows."""
    return "\n".join((title, *aliases))


def add_words(con: apsw.Connection, chunks: Iterable[int]) -> None:
    """Write the full-text rows of stored chunks that have none (inside the caller's transaction)."""
    stored = select(
        con,
        "SELECT c.id, n.title, n.aliases, c.section, c.heading_path, c.text FROM vault_chunk c"
        " JOIN vault_node n USING (path) WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id",
        (json.dumps(list(chunks)),),
    )
    con.executemany(
        "INSERT INTO vault_chunk_fts (rowid, title, section, text) VALUES (?, ?, ?, ?)",
        (full_text_row(*row) for row in stored),
    )


def add_vectors(con: apsw.Connection, chunks: Iterable[int]) -> None:
    """Write the vectors of stored chunks into the index of vectors that lacks them (inside a transaction)."""
    con.execute(
        "INSERT INTO vault_chunk_vec SELECT c.id, v.embedding FROM vault_chunk c JOIN vault_vector v"
        " USING (text_hash) WHERE c.has_vector = 1 AND c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id",
        (json.dumps(list(chunks)),),
    )


def full_text_row(
    chunk_id: int, title: str, aliases: str, section: str, headings: str, text: str
) -> tuple[int, str, str, str]:
    """Return the full-text row of a stored chunk of a stored note, as `ChunkRows` makes it of a new one."""
    words = lexical.chunk_words(section, json.loads(headings), text, title)
    return chunk_id, lexical.index_text(_titles(title, json.loads(aliases))), *words


def _match(old: Sequence[_Stored], new: Sequence[Chunk]) -> list[tuple[Chunk, int | None]]:
    """Return each new chunk with the row that already has its words, if any.

    Among rows with the same words, the first chunk takes the first row; `old` is in reverse order.
    """
    rows: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for stored in old:
        rows[stored.text_hash, stored.section, stored.heading_path].append(stored.id)
    matched = []
    for chunk in new:
        same = rows.get((chunk.text_hash, chunk.section, _as_json(chunk.heading_path)))
        matched.append((chunk, same.pop() if same else None))
    return matched


def _position(chunk: Chunk) -> dict[str, object]:
    """Return a chunk's position in its note, as SQL parameters."""
    return {
        "position": chunk.position,
        "heading_path": _as_json(chunk.heading_path),
        "start": chunk.start,
        "end": chunk.end,
        "first_line": chunk.first_line,
        "last_line": chunk.last_line,
        "locator": chunk.place.as_json() if chunk.place else None,
    }


_Words = Sequence[lexical.ChunkWords] | None


class CacheTables:
    """The tables of a cache that SQLite and PostgreSQL have in common, on a connection to either."""

    path: Path

    def __init__(self, con: Connection, meta: CacheMeta, clock: Callable[[], float]) -> None:
        self.con = con
        self.meta = meta
        self.ledger = SqlLedger(con, clock)
        self.leases = SqlLeases(con, clock)
        self.edges = SqlEdges(con, clock)
        self.chunks = ChunkRows(con, embeds=meta.embeds)
        self.vectors = SqlVectors(con, meta)
        self.second = SqlSecondVectors(con)
        self.dates = SqlDating(con)

    def close(self) -> None:
        """Close the connection."""
        self.con.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context that runs a write transaction, or joins the one in progress.

        Leaving it raises StorageUnavailableError (nothing was written; a retry may succeed), CacheCorruptError.
        """
        return transaction(self.con)

    def adopt(self, meta: CacheMeta) -> None:
        """Take another pipeline for the current one, which makes every note dirty."""
        with transaction(self.con):
            self.ledger.replace_pipeline(meta.pipeline)
            self.ledger.want_again()
            self.con.execute("UPDATE vault_node SET private = NULL")  # another version said what is private
            self.con.execute("UPDATE vault_sentence SET codes = NULL")  # a text may have other sentences now
        self.meta = meta

    # One transaction per note

    def commit_note(
        self,
        row: LeasedRow,
        content: FileContent,
        note: Note,
        chunks: Sequence[Chunk],
        vectors: Mapping[str, Vector],
        *,
        words: _Words = None,
    ) -> bool:
        """Write a note's words and links, and its vectors if all of them are stored; say whether they are.

        Raises StaleWorkError or BadVectorError, and then writes nothing.
        """
        with transaction(self.con):
            generation = self.leases.claim(row, content.sha256)
            old_title = self._upsert_node(note, content)
            # A row that this pipeline has never applied may have words that another pipeline split differently.
            reworded = old_title != _titles(note.title, note.aliases) or row.applied_generation == 0
            self.chunks.replace(note, chunks, words, reworded=reworded)
            self.edges.replace_links(note.path, note.links)
            self.vectors.store(vectors)
            embedded = self.chunks.attach_vectors(note.path)
            self.leases.applied(
                row, generation, content.found, content.sha256, embedded=embedded, at=now_iso()
            )
        return embedded

    def commit_vectors(self, row: LeasedRow) -> bool:
        """Attach a note's vectors in the caller's transaction if all are stored; say so. Raises StaleWorkError."""
        self.leases.claim(row, row.wanted_hash)
        embedded = self.chunks.attach_vectors(row.path)
        if embedded:
            self.leases.embedded(row)
        return embedded

    def commit_deletion(self, row: LeasedRow) -> tuple[str | None, int]:
        """Remove a deleted note; return what `Leases.removed` does. Raises StaleWorkError if its file is back."""
        with transaction(self.con):
            self.leases.claim(row, None)
            self._remove(row.path)
            return self.leases.removed(row)

    def park(self, row: LeasedRow, kind: str, reason: str, *, keep_words: bool = False) -> None:
        """Park a note with its reason; `keep_words` (only its vectors failed): its words stay indexed."""
        with transaction(self.con):
            self.leases.claim(row, row.wanted_hash)
            if not keep_words:
                self._remove(row.path)
            self.leases.parked(row, kind, reason, indexed=keep_words)

    def _upsert_node(self, note: Note, content: FileContent) -> str | None:
        tags = _as_json(note.tags)
        row = first(self.con, "SELECT title, aliases, tags FROM vault_node WHERE path = ?", (note.path,))
        if row is None:
            self.edges.came_or_went(note.path)
        elif (row[0], row[2]) != (note.title, tags):
            self.edges.graph_changed()  # communities are labelled by titles and tags
        stored = {
            "path": note.path,
            "title": note.title,
            "frontmatter": _as_json(note.frontmatter),
            "tags": tags,
            "aliases": _as_json(note.aliases),
            "author": note.author,
            "kind": note.kind,
            "modified_at": modified_at(content.found.mtime_ns),
            "evergreen": note.evergreen,
            "warnings": _as_json(note.warnings),
            "private": note.privacy.private,
            "place": note.privacy.place,
            "tag_lines": "".join(f"\n{tag}" for tag in note.privacy.tags)
            + ("\n" if note.privacy.tags else ""),
            **dict(zip(STATED_COLUMNS, note.dates.as_row(), strict=True)),
        }
        replaced = ", ".join(f"{name} = excluded.{name}" for name in stored)
        self.con.execute(
            f"INSERT INTO vault_node ({', '.join(stored)}) VALUES (:{', :'.join(stored)})"
            f" ON CONFLICT (path) DO UPDATE SET {replaced}",
            stored,
        )
        return _titles(row[0], json.loads(row[1])) if row else None

    def _remove(self, path: str) -> None:
        self.chunks.remove_all(path)
        self.edges.came_or_went(path)
        self.con.execute("DELETE FROM vault_node WHERE path = ?", (path,))
        self.edges.replace_links(path, ())

    # Figures for `status`

    def set_ignored(self, ignored: Mapping[str, str]) -> None:
        """Replace the list of ignored files (path -> rule); write nothing if it is unchanged."""
        if self.ignored() == dict(ignored):
            return
        with transaction(self.con):
            self.con.execute("DELETE FROM vault_ignored")
            self.con.executemany("INSERT INTO vault_ignored VALUES (?, ?)", ignored.items())

    def ignored(self) -> dict[str, str]:
        """Return the files that the last scan ignored, by path, each with the rule."""
        return dict(select(self.con, "SELECT path, rule FROM vault_ignored ORDER BY path"))

    def note_ignored(self, path: str, rule: str | None) -> None:
        """Record the rule that ignores a path, or None if no rule does."""
        if self.ignored_rule(path) == rule:
            return
        with transaction(self.con):
            self.con.execute("DELETE FROM vault_ignored WHERE path = ?", (path,))
            if rule:
                self.con.execute("INSERT INTO vault_ignored VALUES (?, ?)", (path, rule))

    def counts(self, besides: Collection[str] = ()) -> Counts:
        """Count what `status` shows, all as of one moment; files `besides` the notes are none of these."""
        with snapshot(self.con):
            pending, oldest = self.ledger.pending()
            notes, chunks, without_vector, parked, ignored = one(
                self.con,
                "SELECT (SELECT count(*) FROM vault_node) - (SELECT count(*) FROM vault_node WHERE path IN"
                "   (SELECT path FROM vault_file WHERE parked = 1 UNION SELECT value FROM json_each(?))),"
                " (SELECT count(*) FROM vault_chunk),"
                " (SELECT count(*) FROM vault_chunk WHERE has_vector <> 1),"
                " (SELECT count(*) FROM vault_file WHERE parked = 1),"
                " (SELECT count(*) FROM vault_ignored)",
                (json.dumps(list(besides)),),
            )
            vectors_pending = self.vectors.pending()
        return Counts(
            notes, chunks, chunks - without_vector, pending, oldest, vectors_pending, parked, ignored
        )

    def ignored_rule(self, path: str) -> str | None:
        """Return the rule by which the last scan ignored a path, or None."""
        row = first(self.con, "SELECT rule FROM vault_ignored WHERE path = ?", (path,))
        return row[0] if row else None


class SqliteCache(CacheTables):
    """A cache in one SQLite file; `pipelines.store` says what it promises. Do not share it between threads."""

    con: apsw.Connection

    def __init__(self, path: Path, con: apsw.Connection, meta: CacheMeta, clock: Callable[[], float]) -> None:
        super().__init__(con, meta, clock)
        self.path = path
        register_functions(con)
        self.filters = SqliteFiltering(con)
        self.graph = SqlGraph(con, self.edges)
        self.notes = SqliteNotes(con)
        self.passages = SqlPassages(con, meta.dimension)
        self.search = SqliteSearch(con, path, meta.dimension, self.passages, self.second)

    @classmethod
    def create(
        cls, path: Path, meta: CacheMeta, *, clock: Callable[[], float] = time.monotonic
    ) -> SqliteCache:
        """Open a cache for writing, and create it if it does not exist.

        A change of `meta.pipeline` makes every note dirty. Raises ModelMismatchError, CacheCorruptError, StateError.
        """
        con = connect(path)
        try:
            with transaction(con):
                if not first(con, "SELECT 1 FROM sqlite_master WHERE name = 'vault_meta'"):
                    build(con, meta)
            found = read_meta(con, path)
            migrate(con, steps_for(found.dimension), version_of)
            cache = cls(path, con, found, clock)
            check_model(found, meta.model, meta.dimension, path)
            if found.pipeline != meta.pipeline:
                cache.adopt(meta)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            con.close()
            raise corrupt(path, error) from error
        except BaseException:
            con.close()
            raise
        return cache

    @classmethod
    def open(cls, path: Path) -> SqliteCache:
        """Open an existing cache for reading; one of an earlier version is migrated before.

        Raises CacheMissingError, CacheError, CacheCorruptError.
        """
        if not path.exists():
            raise missing(path)
        con = connect(path, readonly=True)
        try:
            meta = read_meta(con, path)
            steps = steps_for(meta.dimension)
            if version_of(con) < max(steps):
                with closing(connect(path)) as writing:
                    migrate(writing, steps, version_of)
            cache = cls(path, con, meta, time.monotonic)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            con.close()
            raise corrupt(path, error) from error
        except BaseException:
            con.close()
            raise
        return cache

    def snapshot(self) -> AbstractContextManager[None]:
        """Return a context whose reads all see the same state, or that joins the transaction in progress."""
        return snapshot(self.con)

    def data_version(self) -> int:
        """Return a number that changes with each commit of another connection; compare it only on this connection."""
        return data_version(self.con)

    def tidy(self) -> None:
        """Truncate the journal if readers kept it from being truncated, so that it grew large. Raises CacheError."""
        bound_journal(self.con)


# Read vectors from a cache that another domain fills, or that a new one replaces; it may be damaged.


# What opening or reading a damaged file may raise; a text that is not UTF-8 is a ValueError.
_UNREADABLE = (CacheError, StateError, apsw.Error, ValueError, MemoryError)
# The hash is read from the row itself: an index that is damaged may lead to the row of another text.
_BY_HASH = (
    "SELECT own.text_hash, own.embedding FROM vault_vector found JOIN vault_vector own ON own.rowid = found.rowid"
    " WHERE found.text_hash IN (SELECT value FROM json_each(?))"
)
_SENTENCES = (
    "SELECT text_hash, codes FROM vault_sentence"
    " WHERE text_hash IN (SELECT value FROM json_each(?)) AND length(codes) % ? = 0"
)


def readable_vectors(
    path: Path, meta: CacheMeta, hashes: Collection[str], probes: Sequence[Vector] = ()
) -> dict[str, Vector]:
    """Return those vectors of these text hashes that a cache of the same model has, and that can be read.

    The model is the same if its name, its dimension and the vectors of its `probes` are. A damaged vector is left
    out: it is cheap to compute again, and its file is reported elsewhere.
    """
    found: dict[str, Vector] = {}
    with suppress(*_UNREADABLE), closing(SqliteCache.open(path)) as other:
        if (other.meta.model, other.meta.dimension) != (meta.model, meta.dimension):
            return {}
        if not np.array_equal(other.vectors.probes(), probes):
            return {}
        try:
            found = _readable(other, hashes)
        except _UNREADABLE:
            for text_hash in hashes:
                with suppress(*_UNREADABLE):
                    found |= _readable(other, [text_hash])
    return found


def readable_sentences(path: Path, meta: CacheMeta, hashes: Collection[str]) -> dict[str, Quantized]:
    """Return the vectors of the sentences of these texts that a cache of the same model and version has, by hash."""
    found: dict[str, Quantized] = {}
    with suppress(*_UNREADABLE), closing(SqliteCache.open(path)) as other:
        if (other.meta.model, other.meta.version) == (meta.model, meta.version):
            rows = select(other.con, _SENTENCES, (json.dumps(list(hashes)), meta.dimension))
            for text_hash, codes in rows:
                found[text_hash] = np.frombuffer(codes, np.int8).reshape(-1, meta.dimension)
    return found


def readable_second(path: Path, model: str, hashes: Collection[str]) -> dict[str, Quantized]:
    """Return the vectors of these texts that a cache has by a second model, by hash."""
    found: dict[str, Quantized] = {}
    with suppress(*_UNREADABLE), closing(SqliteCache.open(path)) as other:
        found = other.second.of(model, hashes)
    return found


def _readable(cache: SqliteCache, hashes: Collection[str]) -> dict[str, Vector]:
    size = 4 * cache.meta.dimension
    vectors = {
        text_hash: np.frombuffer(blob, "<f4")
        for text_hash, blob in select(cache.con, _BY_HASH, (json.dumps(list(hashes)),))
        if isinstance(blob, bytes) and len(blob) == size
    }
    wanted = set(hashes)
    return {
        text_hash: vector for text_hash, vector in vectors.items() if text_hash in wanted and is_unit(vector)
    }
