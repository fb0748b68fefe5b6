"""Read-only SQL over a cache's notes: names, texts and vectors."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipelines.cache.cache import Cache, Vector
from pipelines.cache.dates import CHANGED, NODES
from pipelines.cache.ledger import below
from pipelines.model import FoundFile, Privacy
from pipelines.notes.lexical import index_text
from pipelines.notes.links import NOTE_SUFFIXES
from pipelines.sqlite import first, one, select, transaction

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
    found = select(cache.con, f"SELECT path, title, aliases FROM vault_node{some}", bindings)
    return {path: (title, aliases) for path, title, aliases in found}


def settling(cache: Cache) -> frozenset[str]:
    """Return the paths of the notes of which a newer version waits to be indexed."""
    waiting = "applied_generation < generation AND parked = 0 AND wanted_hash IS NOT NULL"
    sql = f"SELECT path FROM vault_file WHERE {waiting}"
    return frozenset(path for (path,) in select(cache.con, sql))


def has_note_called(cache: Cache, name: str) -> bool:
    """Say whether an indexed note has a title, an alias or a file called so, whatever the case of ASCII letters."""
    found = first(
        cache.con,
        "SELECT 1 FROM vault_node file WHERE title = ?1 COLLATE NOCASE OR EXISTS"
        f" (SELECT 1 FROM json_each(aliases) WHERE value = ?1 COLLATE NOCASE) OR {_CALLED} LIMIT 1",
        (name, json.dumps(_files_called(name))),
    )
    return found is not None


def unindexed_files_called(cache: Cache, name: str) -> list[str]:
    """Return the notes that are ignored, parked or not indexed yet and whose file is called so."""
    found = select(
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
    found = select(
        cache.con,
        "SELECT path, title, aliases FROM vault_node WHERE path IN (SELECT path FROM vault_chunk WHERE id > ?)",
        (newest,),
    )
    return {path: (title, aliases) for path, title, aliases in found}


def first_chunks(cache: Cache, paths: Collection[str]) -> dict[str, int]:
    """Return the id of each note's first chunk; notes without one are left out."""
    return dict(
        select(
            cache.con,
            "SELECT path, id FROM vault_chunk WHERE path IN (SELECT value FROM json_each(?)) AND position = 0",
            (json.dumps(list(paths)),),
        )
    )


def vectors_of(cache: Cache, path: str) -> list[Vector]:
    """Return the vectors of a note's chunks that have one."""
    found = select(
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
    found = select(cache.con, sql, (path,))
    return [text for (text,) in found]


def tags_of(cache: Cache, paths: Collection[str]) -> dict[str, set[str]]:
    """Return the tags of notes by path, in lower case."""
    found = select(
        cache.con,
        "SELECT path, tags FROM vault_node WHERE path IN (SELECT value FROM json_each(?))",
        (json.dumps(list(paths)),),
    )
    return {path: {tag.casefold() for tag in json.loads(tags)} for path, tags in found}


def openings(cache: Cache, paths: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the title and the beginning of the text of each of these notes that is indexed."""
    found = select(
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
    return dict(select(cache.con, sql, (json.dumps(list(paths)),)))


def weighed_notes(cache: Cache) -> Iterator[tuple[str, str, tuple[str, ...], str, list[Vector]]]:
    """Yield every note: path, title, tags, the beginning of its text, the vectors of its chunks.

    Text and vectors are empty for a note without text.
    """
    chunks = select(
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
    for path, title, tags in select(cache.con, "SELECT path, title, tags FROM vault_node"):
        yield path, title, tuple(json.loads(tags)), texts.get(path, ""), vectors.get(path, [])


def untagged(cache: Cache) -> list[str]:
    """Return the paths of the notes and documents that have no tag."""
    return [
        path for (path,) in select(cache.con, "SELECT path FROM vault_node WHERE tags = '[]' ORDER BY path")
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
    return list(select(cache.con, sql, (json.dumps(list(hidden)), limit)))


def notes_having(cache: Cache, phrase: str) -> list[str]:
    """Return the paths of the notes that contain a phrase, in any of its English forms."""
    found = select(
        cache.con,
        "SELECT DISTINCT c.path FROM vault_chunk_fts f JOIN vault_chunk c ON c.id = f.rowid"
        " WHERE vault_chunk_fts MATCH ? ORDER BY c.path",
        (f'"{index_text(phrase)}"',),
    )
    return [path for (path,) in found]


# Which notes are private: what each says itself, stored when it is indexed, and its domain's current settings.


_LISTED_TAG = (
    "EXISTS (SELECT 1 FROM json_each(?) l WHERE CASE WHEN l.value IN ('', '.') THEN p.tag_lines <> '' ELSE"
    " instr(p.tag_lines, char(10) || l.value || char(10)) OR instr(p.tag_lines, char(10) || l.value || '/') END)"
)
_LISTED_FOLDER = (
    "EXISTS (SELECT 1 FROM json_each(?) l WHERE l.value IN ('', '.')"
    " OR instr('/' || p.place, '/' || l.value || '/'))"
)
_ELSEWHERE = "EXISTS (SELECT 1 FROM json_each(?) l WHERE instr(f.path, l.value) = 1)"


class Rules(NamedTuple):
    """A domain's settings, in the form of `privacy.compared`, and what of the vault it owns.

    `folder`: the start of its notes' paths. `nested`: that of paths in it that belong to other domains, whose
    settings may be stricter.
    """

    settings: Privacy
    folder: str = ""
    nested: tuple[str, ...] = ()


def kept_of(cache: Cache, path: str) -> dict[str, object] | None:
    """Return what is stored about a note's privacy, by the names of `OwnPrivacy`'s fields; None if nothing is."""
    found = first(cache.con, "SELECT private, place, tag_lines FROM vault_node WHERE path = ?", (path,))
    if found is None or found[0] is None:
        return None
    return {"private": bool(found[0]), "place": found[1], "tags": found[2].split("\n")[1:-1]}


class Private(NamedTuple):
    """The paths of a cache's notes that are private, or may be; `known`: those that were when they were indexed."""

    notes: frozenset[str]
    known: frozenset[str]


def private_notes(cache: Cache, rules: Rules) -> Private:
    """Return which of this cache's notes are private. Raises CacheError.

    A note whose file is known to differ from what was indexed may be private, and so may a note of which nothing is
    stored, and one that belongs to another domain now.
    """
    state = int(one(cache.con, "PRAGMA data_version")[0]), cache.con.total_changes()
    if cache.private is None or cache.private[0] != (state, rules):
        found = dict(_private_notes(cache, rules))
        cache.private = ((state, rules), frozenset(found), frozenset(path for path in found if found[path]))
    return Private(*cache.private[1:])


def indexed_among(cache: Cache, paths: Collection[str]) -> set[str]:
    """Return those of the paths that are indexed notes. Raises CacheError."""
    sql = "SELECT path FROM vault_node WHERE path IN (SELECT value FROM json_each(?))"
    return {path for (path,) in select(cache.con, sql, (json.dumps(list(paths)),))}


def _private_notes(cache: Cache, rules: Rules) -> list[tuple[str, bool]]:
    """Return the paths of the notes that are private or may be, each with whether it was when it was indexed."""
    if not rules.settings.llm:
        found = select(cache.con, "SELECT path FROM vault_file UNION SELECT path FROM vault_node")
        return [(path, True) for (path,) in found]
    conditions = [
        (sql, json.dumps(names, ensure_ascii=False))
        for sql, names in (
            (_LISTED_TAG, rules.settings.tags),
            (_LISTED_FOLDER, rules.settings.folders),
            (_ELSEWHERE, rules.nested),
        )
        if names
    ]
    known = " OR ".join(("p.private <> 0", "instr(f.path, ?) <> 1", *(sql for sql, _ in conditions)))
    found = select(
        cache.con,
        f"SELECT path, is_known FROM (SELECT f.path, coalesce({known}, 0) AS is_known,"
        " p.private IS NULL OR f.wanted_hash IS NOT f.indexed_hash AS is_new"
        " FROM vault_file f LEFT JOIN vault_node p USING (path)) WHERE is_known OR is_new"
        " UNION ALL SELECT path, 0 FROM vault_node WHERE path NOT IN (SELECT path FROM vault_file)",
        [rules.folder, *(names for _, names in conditions)],
    )
    return [(path, bool(is_known)) for path, is_known in found]


# Compare a scan of the disk with the ledger.


@dataclass(frozen=True, slots=True)
class Difference:
    """Disk compared with ledger: files whose `stat` differs, paths that are gone, the number of unchanged files."""

    changed: list[FoundFile]
    gone: list[str]
    unchanged: int


def compare_scan(
    cache: Cache, found: Iterable[FoundFile], folder: str = "", suspects: AbstractSet[str] = frozenset()
) -> Difference:
    """Compare a scan of a folder with the ledger, by `stat` alone; `suspects` always count as changed."""
    con = cache.con
    con.execute(
        "CREATE TEMP TABLE IF NOT EXISTS seen"
        " (path TEXT PRIMARY KEY, raw BLOB, size INTEGER, mtime_ns INTEGER, inode INTEGER) WITHOUT ROWID"
    )
    with transaction(con):
        con.execute("DELETE FROM seen")
        con.executemany(
            "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)",
            ((f.path, os.fsencode(f.raw), f.size, f.mtime_ns, f.inode) for f in found),
        )
        changed = select(
            con,
            "SELECT s.path, s.raw, s.size, s.mtime_ns, s.inode FROM seen s LEFT JOIN vault_file f USING (path)"
            " WHERE f.wanted_hash IS NULL OR f.size <> s.size OR f.mtime_ns <> s.mtime_ns"
            " OR f.inode <> s.inode OR f.raw <> s.raw"
            # These columns do not show a change of permissions, of another file's name, or of the size limit.
            " OR (f.parked = 1 AND f.error_kind IN ('unreadable', 'changing', 'name-collision', 'too-large'))"
            " OR s.path IN (SELECT value FROM json_each(?))",
            (json.dumps(list(suspects)),),
        )
        low, high = below(folder)
        gone = select(
            con,
            "SELECT path FROM vault_file WHERE wanted_hash IS NOT NULL AND path >= ? AND path < ?"
            " AND path NOT IN (SELECT path FROM seen)",
            (low, high),
        )
        (total,) = one(con, "SELECT count(*) FROM seen")
    files = [FoundFile(path, os.fsdecode(raw), *rest) for path, raw, *rest in changed]
    return Difference(files, [path for (path,) in gone], total - len(files))
