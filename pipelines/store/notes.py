"""Read-only SQL over a cache's notes: names, texts and vectors."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

import numpy as np

from pipelines.lexical import index_text
from pipelines.parsing.links import NOTE_SUFFIXES
from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import one, row, rows
from pipelines.store.dates import CHANGED, NODES

_OPENING_CHUNKS = 4  # the first ones may be nothing but a heading
_OPENING = 4_000
_CALLED = "EXISTS (SELECT 1 FROM json_each(?2) WHERE substr('/' || file.path, -length(value)) = value COLLATE NOCASE)"


def data_version(cache: Cache) -> int:
    """Return a number that changes with each commit of another connection; compare it only on the same connection."""
    return int(one(cache.con, "PRAGMA data_version")[0])


def note_names(cache: Cache, paths: Collection[str] | None = None) -> dict[str, tuple[str, str]]:
    """Return the title, and the aliases as JSON, of every note or of those at `paths`, by path."""
    some = "" if paths is None else " WHERE path IN (SELECT value FROM json_each(?))"
    bindings = () if paths is None else (json.dumps(list(paths)),)
    found = rows(cache.con, f"SELECT path, title, aliases FROM vault_node{some}", bindings)
    return {path: (title, aliases) for path, title, aliases in found}


def settling(cache: Cache) -> frozenset[str]:
    """Return the paths of the notes of which a newer version waits to be indexed."""
    waiting = "applied_generation < generation AND parked = 0 AND wanted_hash IS NOT NULL"
    sql = f"SELECT path FROM vault_file WHERE {waiting}"
    return frozenset(path for (path,) in rows(cache.con, sql))


def has_note_called(cache: Cache, name: str) -> bool:
    """Say whether an indexed note has a title, an alias or a file called so, whatever the case of ASCII letters."""
    found = row(
        cache.con,
        "SELECT 1 FROM vault_node file WHERE title = ?1 COLLATE NOCASE OR EXISTS"
        f" (SELECT 1 FROM json_each(aliases) WHERE value = ?1 COLLATE NOCASE) OR {_CALLED} LIMIT 1",
        (name, json.dumps(_files_called(name))),
    )
    return found is not None


def unindexed_files_called(cache: Cache, name: str) -> list[str]:
    """Return the notes that are ignored, parked or not indexed yet and whose file is called so."""
    found = rows(
        cache.con,
        "SELECT file.path FROM"
        " (SELECT path FROM vault_ignored UNION SELECT path FROM vault_file WHERE indexed_hash IS NULL) file"
        f" WHERE ?1 <> '' AND {_CALLED} ORDER BY file.path",
        (name, json.dumps(_files_called(name))),
    )
    return [path for (path,) in found]


def _files_called(name: str) -> list[str]:
    suffixes = ("",) if name.lower().endswith(NOTE_SUFFIXES) else NOTE_SUFFIXES
    return [f"/{name}{suffix}" for suffix in suffixes]


def names_since(cache: Cache, newest: int) -> dict[str, tuple[str, str]]:
    """Return title and aliases, as `note_names` does, of the notes that have a chunk with an id above `newest`.

    A note whose title or aliases changed has new chunks.
    """
    found = rows(
        cache.con,
        "SELECT path, title, aliases FROM vault_node WHERE path IN (SELECT path FROM vault_chunk WHERE id > ?)",
        (newest,),
    )
    return {path: (title, aliases) for path, title, aliases in found}


def first_chunks(cache: Cache, paths: Collection[str]) -> dict[str, int]:
    """Return the id of each note's first chunk; notes without one are left out."""
    return dict(
        rows(
            cache.con,
            "SELECT path, id FROM vault_chunk WHERE path IN (SELECT value FROM json_each(?)) AND position = 0",
            (json.dumps(list(paths)),),
        )
    )


def vectors_of(cache: Cache, path: str) -> list[Vector]:
    """Return the vectors of a note's chunks that have one."""
    found = rows(
        cache.con,
        "SELECT v.embedding FROM vault_chunk c JOIN vault_vector v USING (text_hash) WHERE c.path = ?",
        (path,),
    )
    return [np.frombuffer(blob, "<f4") for (blob,) in found]


def texts_of(cache: Cache, path: str) -> list[str]:
    """Return the texts of a note's chunks in order, unchanged; neighbours may overlap.

    A note without text has none.
    """
    sql = "SELECT text FROM vault_chunk WHERE path = ? AND start_offset < end_offset ORDER BY position"
    found = rows(cache.con, sql, (path,))
    return [text for (text,) in found]


def tags_of(cache: Cache, paths: Collection[str]) -> dict[str, set[str]]:
    """Return the tags of notes by path, in lower case."""
    found = rows(
        cache.con,
        "SELECT path, tags FROM vault_node WHERE path IN (SELECT value FROM json_each(?))",
        (json.dumps(list(paths)),),
    )
    return {path: {tag.casefold() for tag in json.loads(tags)} for path, tags in found}


def openings(cache: Cache, paths: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the title and the beginning of the text of each of these notes that is indexed."""
    found = rows(
        cache.con,
        "SELECT path, title, coalesce((SELECT group_concat(text, char(10)) FROM"
        " (SELECT text FROM vault_chunk c WHERE c.path = n.path ORDER BY position LIMIT ?)), '')"
        " FROM vault_node n WHERE path IN (SELECT value FROM json_each(?))",
        (_OPENING_CHUNKS, json.dumps(list(paths))),
    )
    return {path: (title, text[:_OPENING]) for path, title, text in found}


def indexed_hashes(cache: Cache, paths: Collection[str]) -> dict[str, str]:
    """Return the hash of the indexed content of each of these notes; a note that is not indexed is missing."""
    sql = (
        "SELECT path, indexed_hash FROM vault_file WHERE indexed_hash IS NOT NULL"
        " AND path IN (SELECT value FROM json_each(?)) ORDER BY path"
    )
    return dict(rows(cache.con, sql, (json.dumps(list(paths)),)))


def weighed_notes(cache: Cache) -> Iterator[tuple[str, str, tuple[str, ...], str, list[Vector]]]:
    """Yield every note: path, title, tags, the beginning of its text, the vectors of its chunks.

    Text and vectors are empty for a note without text.
    """
    chunks = rows(
        cache.con,
        "SELECT c.path, c.position, c.text, v.embedding FROM vault_chunk c"
        " LEFT JOIN vault_vector v USING (text_hash) WHERE c.start_offset < c.end_offset"
        " ORDER BY c.path, c.position",
    )
    texts: dict[str, str] = {}
    vectors: dict[str, list[Vector]] = {}
    for path, _, text, blob in chunks:
        if len(texts.get(path, "")) < _OPENING:
            texts[path] = (texts.get(path, "") + "\n" + text)[:_OPENING]
        if blob is not None:
            vectors.setdefault(path, []).append(np.frombuffer(blob, "<f4"))
    for path, title, tags in rows(cache.con, "SELECT path, title, tags FROM vault_node"):
        yield path, title, tuple(json.loads(tags)), texts.get(path, ""), vectors.get(path, [])


def untagged(cache: Cache) -> list[str]:
    """Return the paths of the notes and documents that have no tag."""
    return [
        path for (path,) in rows(cache.con, "SELECT path FROM vault_node WHERE tags = '[]' ORDER BY path")
    ]


def recently_changed(
    cache: Cache, limit: int, hidden: Collection[str] = frozenset()
) -> list[tuple[str, str, str]]:
    """Return path, title and time (UTC) of the notes (but the `hidden` ones) that changed last, newest first.

    A note that is to change in the future has the time of its file.
    """
    sql = (
        "SELECT path, title, strftime('%Y-%m-%dT%H:%M:%S+00:00',"
        " iif(coalesce(unixepoch(changed) <= unixepoch(), 0), changed, modified_at)) AS at"
        f" FROM (SELECT n.path, title, {CHANGED} AS changed, n.modified_at FROM {NODES})"
        " WHERE path NOT IN (SELECT value FROM json_each(?)) ORDER BY at DESC, path LIMIT ?"
    )
    return list(rows(cache.con, sql, (json.dumps(list(hidden)), limit)))


def notes_having(cache: Cache, phrase: str) -> list[str]:
    """Return the paths of the notes that contain a phrase, in any of its English forms."""
    found = rows(
        cache.con,
        "SELECT DISTINCT c.path FROM vault_chunk_fts f JOIN vault_chunk c ON c.id = f.rowid"
        " WHERE vault_chunk_fts MATCH ? ORDER BY c.path",
        (f'"{index_text(phrase)}"',),
    )
    return [path for (path,) in found]
