"""Write a note's chunks with their full-text rows and vectors, so that an edit touches only its own chunks."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import apsw

from pipelines import lexical
from pipelines.locator import Locator
from pipelines.model import Chunk, Note
from pipelines.store.connection import row as first
from pipelines.store.connection import rows as select


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

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con

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
        titles = lexical.index_text(titles_of(note))
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
        self._attach(self._without_vector(path))
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
            _Stored(row_id, text_hash, section, heading_path, has_vector=bool(has_vector))
            for row_id, text_hash, section, heading_path, has_vector in found
        ]

    def _move(self, row_id: int, chunk: Chunk) -> None:
        self._con.execute(
            "UPDATE vault_chunk SET position = :position, heading_path = :heading_path, start_offset = :start,"
            " end_offset = :end, first_line = :first_line, last_line = :last_line WHERE id = :id",
            _position(chunk) | {"id": row_id},
        )
        if chunk.place is None:
            self._con.execute("DELETE FROM vault_place WHERE chunk_id = ?", (row_id,))
        else:
            self._set_place(row_id, chunk.place)

    def _set_place(self, row_id: int, place: Locator) -> None:
        self._con.execute("INSERT OR REPLACE INTO vault_place VALUES (?, ?)", (row_id, place.as_json()))

    def _insert(self, note: Note, chunk: Chunk, titles: str, words: lexical.ChunkWords) -> None:
        self._con.execute(
            "INSERT INTO vault_chunk (position, heading_path, start_offset, end_offset, first_line,"
            " last_line, path, section, text, text_hash, has_vector) VALUES"
            " (:position, :heading_path, :start, :end, :first_line, :last_line, :path, :section, :text, :hash, 0)",
            _position(chunk)
            | {"path": note.path, "section": chunk.section, "text": chunk.text, "hash": chunk.text_hash},
        )
        row_id, (section_words, text_words) = self._con.last_insert_rowid(), words
        self._con.execute(
            "INSERT INTO vault_chunk_fts (rowid, title, section, text) VALUES (?, ?, ?, ?)",
            (row_id, titles, section_words, text_words),
        )
        if chunk.place:
            self._set_place(row_id, chunk.place)
        if chunk.context:
            self._con.execute("INSERT INTO vault_context VALUES (?, ?)", (row_id, chunk.context))

    def _remove(self, ids: Sequence[int]) -> None:
        if not ids:
            return
        these, numbers = "(SELECT value FROM json_each(?1))", json.dumps(ids)
        deleted = f"DELETE FROM vault_chunk WHERE id IN {these} RETURNING id, text_hash, has_vector"
        gone = select(self._con, deleted, (numbers,))
        self._con.execute(f"DELETE FROM vault_chunk_fts WHERE rowid IN {these}", (numbers,))
        for table in ("vault_place", "vault_context"):
            self._con.execute(f"DELETE FROM {table} WHERE chunk_id IN {these}", (numbers,))
        with_vector = ((number,) for number, _, has_vector in gone if has_vector)
        self._con.executemany("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", with_vector)
        self._con.execute(
            f"UPDATE vault_vector SET unused_since = ?2 WHERE text_hash IN {these}"
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
        for chunk in chunks:
            self._con.execute("INSERT INTO vault_chunk_vec VALUES (?, ?)", (chunk.id, chunk.vector))
            self._con.execute("UPDATE vault_chunk SET has_vector = 1 WHERE id = ?", (chunk.id,))
            self._con.execute(
                "UPDATE vault_vector SET unused_since = NULL WHERE text_hash = ?", (chunk.text_hash,)
            )


def titles_of(note: Note) -> str:
    """Return a note's title and aliases, one per line, for the title column of its chunks' full-text rows."""
    return "\n".join((note.title, *note.aliases))


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


def _as_json(headings: Sequence[str]) -> str:
    return json.dumps(headings, ensure_ascii=False)


def _position(chunk: Chunk) -> dict[str, object]:
    """Return a chunk's position in its note, as SQL parameters."""
    return {
        "position": chunk.position,
        "heading_path": _as_json(chunk.heading_path),
        "start": chunk.start,
        "end": chunk.end,
        "first_line": chunk.first_line,
        "last_line": chunk.last_line,
    }
