"""Notes by their names and by their vectors: read-only SQL over a cache."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

import numpy as np

from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import one, rows

_OPENING = 4_000


def data_version(cache: Cache) -> int:
    """Return a number that changes with each commit of another connection; it means nothing to a third one."""
    return int(one(cache.con, "PRAGMA data_version")[0])


def note_names(cache: Cache) -> dict[str, tuple[str, str]]:
    """Return every note's title and its aliases as JSON, by path."""
    found = rows(cache.con, "SELECT path, title, aliases FROM vault_node")
    return {path: (title, aliases) for path, title, aliases in found}


def vectors_of(cache: Cache, path: str) -> list[Vector]:
    """Return the vectors of a note's chunks that have one."""
    found = rows(
        cache.con,
        "SELECT v.embedding FROM vault_chunk c JOIN vault_vector v USING (text_hash) WHERE c.path = ?",
        (path,),
    )
    return [np.frombuffer(blob, "<f4") for (blob,) in found]


def texts_of(cache: Cache, path: str) -> list[str]:
    """Return a note's chunks as they stand, in order; neighbours may overlap."""
    found = rows(cache.con, "SELECT text FROM vault_chunk WHERE path = ? ORDER BY position", (path,))
    return [text for (text,) in found]


def openings(cache: Cache, paths: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the title of each note that is indexed, and the beginning of its text."""
    found = rows(
        cache.con,
        "SELECT n.path, n.title, coalesce(c.text, '') FROM vault_node n"
        " LEFT JOIN vault_chunk c ON c.path = n.path AND c.position = 0"
        " WHERE n.path IN (SELECT value FROM json_each(?))",
        (json.dumps(list(paths)),),
    )
    return {path: (title, text[:_OPENING]) for path, title, text in found}


def weighed_notes(cache: Cache) -> Iterator[tuple[str, str, tuple[str, ...], str, list[Vector]]]:
    """Yield every note: path, title, tags, the beginning of its text, the vectors of its chunks."""
    chunks = rows(
        cache.con,
        "SELECT c.path, c.position, c.text, v.embedding FROM vault_chunk c"
        " LEFT JOIN vault_vector v USING (text_hash) ORDER BY c.path, c.position",
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
    """Return the paths of the notes that have no tag."""
    return [
        path for (path,) in rows(cache.con, "SELECT path FROM vault_node WHERE tags = '[]' ORDER BY path")
    ]
