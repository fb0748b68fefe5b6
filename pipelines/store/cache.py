"""The cache file of a domain: created once for one model, written in one transaction per note."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import apsw
import numpy as np
import numpy.typing as npt

from pipelines import lexical
from pipelines.errors import BadVectorError
from pipelines.model import Chunk, Counts, Dates, FileContent, LeasedRow, Note
from pipelines.moments import now_iso
from pipelines.store import dates as date_rows
from pipelines.store import older, privacy_rows
from pipelines.store.chunk_rows import ChunkRows, titles_of
from pipelines.store.connection import connect, corrupt, one, snapshot, transaction
from pipelines.store.connection import row as first
from pipelines.store.connection import rows as select
from pipelines.store.edges import Edges
from pipelines.store.fts_functions import register_functions
from pipelines.store.leases import Leases
from pipelines.store.ledger import Ledger, modified_at
from pipelines.store.meta import CacheMeta, add_later, build, check_model, missing, read_meta, show_missing

VECTOR_GRACE_SECONDS = 7 * 24 * 3600.0
Vector = npt.NDArray[np.float32]
_Words = Sequence[lexical.ChunkWords] | None


class Cache:
    """A connection to a domain's cache. Do not share it between threads."""

    def __init__(self, path: Path, con: apsw.Connection, meta: CacheMeta, clock: Callable[[], float]) -> None:
        self.path = path
        self.meta = meta
        self.con = con
        register_functions(con)
        self.ledger = Ledger(con, clock)
        self.leases = Leases(con, clock)
        self.edges = Edges(con, clock)
        self.chunks = ChunkRows(con)
        self.generation: tuple[tuple[int, int], tuple[str, bool]] | None = None
        """The commits and own changes that this connection saw, and the name of the state that they left."""
        self._stand_ins: list[str] = []
        self.visible: tuple[object, str] | None = None
        """The same for those from whom notes are hidden; the hidden notes belong to what it depends on."""
        self.private: tuple[object, frozenset[str], frozenset[str]] | None = None
        """The state and the rules of the last question about private notes, and its answer: `privacy.Private`."""

    @classmethod
    def create(cls, path: Path, meta: CacheMeta, *, clock: Callable[[], float] = time.monotonic) -> Cache:
        """Open a cache for writing, and create it if it does not exist.

        A change of `meta.pipeline` makes every note dirty. Raises ModelMismatchError, CacheCorruptError, StateError.
        """
        con = connect(path)
        try:
            with transaction(con):
                if not first(con, "SELECT 1 FROM sqlite_master WHERE name = 'vault_meta'"):
                    build(con, meta)
            found = read_meta(con, path)
            with transaction(con):
                add_later(con)
            cache = cls(path, con, found, clock)
            check_model(found, meta.model, meta.dimension, path)
            if found.pipeline != meta.pipeline:
                cache._adopt(meta)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            con.close()
            raise corrupt(path, error) from error
        except BaseException:
            con.close()
            raise
        return cache

    @classmethod
    def open(cls, path: Path) -> Cache:
        """Open an existing cache for reading. Raises CacheMissingError, CacheError, CacheCorruptError."""
        if not path.exists():
            raise missing(path)
        con = connect(path, readonly=True)
        try:
            cache = cls(path, con, read_meta(con, path), time.monotonic)
            cache._stand_ins = show_missing(con)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            con.close()
            raise corrupt(path, error) from error
        except BaseException:
            con.close()
            raise
        return cache

    def is_outgrown(self) -> bool:
        """Say whether the file has tables by now that this connection reads as empty. Raises CacheError."""
        return bool(self._stand_ins) and bool(
            first(
                self.con,
                "SELECT 1 FROM sqlite_schema WHERE name IN (SELECT value FROM json_each(?))",
                (json.dumps(self._stand_ins),),
            )
        )

    def close(self) -> None:
        """Close the connection."""
        self.con.close()

    def _adopt(self, meta: CacheMeta) -> None:
        with transaction(self.con):
            older.replace_pipeline(self.con, meta.pipeline)
            self.ledger.want_again()
            privacy_rows.forget_all(self.con)
            self.con.execute("UPDATE vault_sentence SET codes = NULL")  # a text may have other sentences now
        self.meta = meta

    # Vectors

    def vectors(self, hashes: Iterable[str]) -> dict[str, Vector]:
        """Return the stored vectors among these text hashes."""
        return {
            text_hash: np.frombuffer(blob, "<f4")
            for text_hash, blob in select(
                self.con,
                "SELECT text_hash, embedding FROM vault_vector"
                " WHERE text_hash IN (SELECT value FROM json_each(?))",
                (json.dumps(list(hashes)),),
            )
        }

    def store_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by the hashes of their texts. Raises BadVectorError, and then stores none of them."""
        with transaction(self.con):
            self._keep_vectors(vectors)

    def _keep_vectors(self, vectors: Mapping[str, Vector]) -> None:
        rows = [(text_hash, self._blob(vector)) for text_hash, vector in vectors.items()]
        # A vector counts as unused until a chunk refers to it, so a worker that dies leaves nothing behind for good.
        self.con.executemany(
            "INSERT INTO vault_vector VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            ((text_hash, blob, time.time()) for text_hash, blob in rows),
        )

    def _blob(self, vector: Vector) -> bytes:
        if vector.shape != (self.meta.dimension,) or not (np.isfinite(vector).all() and vector.any()):
            raise BadVectorError(
                f"the model {self.meta.model} returned a vector of shape {vector.shape} that is not "
                f"{self.meta.dimension} finite numbers, or is zero; it was not stored"
            )
        return vector.astype("<f4").tobytes()

    def drop_unused_vectors(self) -> int:
        """Delete the vectors that have had no chunk for longer than the grace period; return how many."""
        with transaction(self.con):
            self.con.execute(
                "DELETE FROM vault_vector WHERE unused_since < ?", (time.time() - VECTOR_GRACE_SECONDS,)
            )
            return self.con.changes()

    def owed_texts(self, path: str, most: int) -> dict[str, str]:
        """Return up to `most` of a note's texts, below their contexts, that have no stored vector, by hash."""
        sql = (
            "SELECT c.text_hash, coalesce(x.context || char(10), '') || c.text FROM vault_chunk c"
            " LEFT JOIN vault_context x ON x.chunk_id = c.id LEFT JOIN vault_vector v USING (text_hash)"
            " WHERE c.path = ? AND c.has_vector = 0 AND v.text_hash IS NULL LIMIT ?"
        )
        return dict(select(self.con, sql, (path, most)))

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

        `words` are those of the chunks, if they are already known. Raises StaleWorkError or BadVectorError, and then
        writes nothing.
        """
        with transaction(self.con):
            generation = self.leases.claim(row, content.sha256)
            old_title = self._upsert_node(note, content)
            # A row that this pipeline has never applied may have words that another pipeline split differently.
            reworded = old_title != titles_of(note) or row.applied_generation == 0
            self.chunks.replace(note, chunks, words, reworded=reworded)
            self.edges.replace_links(note.path, note.links)
            privacy_rows.keep(self.con, note.path, note.privacy)
            date_rows.keep(self.con, note.path, note.dates)
            self._keep_vectors(vectors)
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
        tags = json.dumps(note.tags, ensure_ascii=False)
        row = first(self.con, "SELECT title, aliases, tags FROM vault_node WHERE path = ?", (note.path,))
        if row is None:
            self.edges.came_or_went(note.path)
        elif (row[0], row[2]) != (note.title, tags):
            self.edges.graph_changed()  # communities are labelled by titles and tags
        self.con.execute(
            "INSERT OR REPLACE INTO vault_node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                note.path,
                note.title,
                json.dumps(note.frontmatter, ensure_ascii=False),
                tags,
                json.dumps(note.aliases, ensure_ascii=False),
                note.author,
                note.kind,
                note.published_at,
                modified_at(content.found.mtime_ns),
                note.evergreen,
                json.dumps(note.warnings, ensure_ascii=False),
            ),
        )
        return "\n".join((row[0], *json.loads(row[1]))) if row else None

    def _remove(self, path: str) -> None:
        self.chunks.remove_all(path)
        self.edges.came_or_went(path)
        self.con.execute("DELETE FROM vault_node WHERE path = ?", (path,))
        privacy_rows.forget(self.con, path)
        date_rows.keep(self.con, path, Dates())
        self.edges.replace_links(path, ())

    # Figures for `status`

    def set_ignored(self, ignored: Mapping[str, str]) -> None:
        """Replace the list of ignored files (path -> rule); write nothing if it is unchanged."""
        if dict(select(self.con, "SELECT path, rule FROM vault_ignored")) == dict(ignored):
            return
        with transaction(self.con):
            self.con.execute("DELETE FROM vault_ignored")
            self.con.executemany("INSERT INTO vault_ignored VALUES (?, ?)", ignored.items())

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
            notes, chunks, owed, parked, ignored = one(
                self.con,
                "SELECT (SELECT count(*) FROM vault_node) - (SELECT count(*) FROM vault_node WHERE path IN"
                "   (SELECT path FROM vault_file WHERE parked = 1 UNION SELECT value FROM json_each(?))),"
                " (SELECT count(*) FROM vault_chunk),"
                " (SELECT count(*) FROM vault_chunk WHERE has_vector = 0),"
                " (SELECT count(*) FROM vault_file WHERE parked = 1),"
                " (SELECT count(*) FROM vault_ignored)",
                (json.dumps(list(besides)),),
            )
            vectors_pending = self.vectors_pending()
        return Counts(notes, chunks, chunks - owed, pending, oldest, vectors_pending, parked, ignored)

    def vectors_pending(self, besides: Collection[str] = ()) -> int:
        """Count the chunks whose vectors are pending, without those of parked notes and of the notes `besides`."""
        (count,) = one(
            self.con,
            "SELECT count(*) FROM vault_chunk WHERE has_vector = 0"
            " AND path NOT IN (SELECT path FROM vault_file WHERE parked = 1)"
            " AND path NOT IN (SELECT value FROM json_each(?))",
            (json.dumps(list(besides)),),
        )
        return int(count)

    def ignored_rule(self, path: str) -> str | None:
        """Return the rule by which the last scan ignored a path, or None."""
        row = first(self.con, "SELECT rule FROM vault_ignored WHERE path = ?", (path,))
        return row[0] if row else None
