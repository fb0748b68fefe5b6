"""Compare and mend what a cache stores besides its notes' rows: schema, names, times, sentences and counters."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np

from pipelines.model import FoundFile
from pipelines.parsing.links import name_key, target_name
from pipelines.store.cache import Cache
from pipelines.store.connection import connect, transaction
from pipelines.store.connection import rows as select
from pipelines.store.dates import forget_commit
from pipelines.store.ledger import modified_at
from pipelines.store.meta import ADDED_LATER, CacheMeta, build

_LARGEST_CODE = 127
_KNN_LIMIT = 4096  # sqlite-vec refuses a larger k
_TYPES = {"TEXT": "'text'", "INTEGER": "'integer'", "REAL": "'real'", "BLOB": "'blob'"}
_JSON = ("frontmatter", "tags", "aliases", "warnings", "heading_path", "locator")
_COUNTS_BY = {"vault_chunk": "id", "vault_chunk_change": "number", "vault_community": "id"}


def lost_tables(cache: Cache) -> list[str]:
    """Return a sentence for each table that this cache lacks or that has columns other than in a new cache."""
    with closing(_fresh(cache.meta)) as fresh:
        wanted = {name: _columns(fresh, name) for name in _tables(fresh)}
    have = _tables(cache.con)
    return [
        f"the table {name} {'differs from a new cache' if name in have else 'is missing'}"
        for name, columns in wanted.items()
        if name not in have or _columns(cache.con, name) != columns
    ]


def is_of_an_earlier_version(cache: Cache) -> bool:
    """Say whether this cache lacks a table that opening it for writing adds."""
    with closing(_fresh(cache.meta)) as fresh:
        return not _tables(fresh) & ADDED_LATER <= _tables(cache.con)


def unreadable(cache: Cache) -> list[str]:
    """Return a sentence for each column with values of the wrong type, or that is not valid JSON where it must be."""
    found = []
    for table in sorted(name for name in _tables(cache.con) if name.startswith("vault_") and _is_plain(name)):
        described = select(cache.con, 'SELECT name, type, "notnull" FROM pragma_table_info(?)', (table,))
        for column, kind, required in described:
            types = _TYPES[kind] if required else f"{_TYPES[kind]}, 'null'"
            wrong = f"typeof({column}) NOT IN ({types})"
            if column in _JSON:
                wrong += f" OR NOT json_valid({column})"
            (count,) = select(cache.con, f"SELECT count(*) FROM {table} WHERE {wrong}")[0]
            if count:
                found.append(f"{count} rows of {table} have an unreadable value of {column}")
    return found


def _is_plain(table: str) -> bool:
    return not table.startswith(("vault_chunk_fts", "vault_chunk_vec"))


def schema_drift(cache: Cache) -> list[str]:
    """Return a sentence for each trigger, index or view that is missing, unknown, or different from a new cache's."""
    have, wanted = _objects(cache.con), _wanted_objects(cache.meta)
    return [
        f"the {kind} {name} is {'missing' if (kind, name) not in have else 'different from a new cache'}"
        for kind, name in sorted(have.keys() | wanted.keys())
        if have.get((kind, name)) != wanted.get((kind, name))
    ]


def mend_schema(cache: Cache) -> None:
    """Replace a cache's triggers, indexes and views by those of a new one (inside the caller's transaction)."""
    have, wanted = _objects(cache.con), _wanted_objects(cache.meta)
    for kind, name in have:
        if have[kind, name] != wanted.get((kind, name)):
            quoted = name.replace('"', '""')
            cache.con.execute(f'DROP {kind} "{quoted}"')
    for key, sql in wanted.items():
        if have.get(key) != sql:
            cache.con.execute(sql)


def _fresh(meta: CacheMeta) -> apsw.Connection:
    con = connect(Path(":memory:"))
    build(con, meta)
    return con


def _wanted_objects(meta: CacheMeta) -> dict[tuple[str, str], str]:
    with closing(_fresh(meta)) as fresh:
        return _objects(fresh)


def _objects(con: apsw.Connection) -> dict[tuple[str, str], str]:
    found = select(con, "SELECT type, name, sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL")
    return {(kind, name): sql for kind, name, sql in found}


def _tables(con: apsw.Connection) -> set[str]:
    return {name for (name,) in select(con, "SELECT name FROM sqlite_schema WHERE type = 'table'")}


def _columns(con: apsw.Connection, table: str) -> list[str]:
    return [name for (name,) in select(con, "SELECT name FROM pragma_table_info(?)", (table,))]


# Files, names and times


def kept_ignored(cache: Cache) -> dict[str, str]:
    """Return the ignored files as the cache has them (path -> rule)."""
    return dict(select(cache.con, "SELECT path, rule FROM vault_ignored"))


def kept_files(cache: Cache) -> dict[str, FoundFile]:
    """Return each path's file as the ledger recorded it."""
    found = select(cache.con, "SELECT path, raw, size, mtime_ns, inode FROM vault_file")
    return {path: FoundFile(path, os.fsdecode(raw), *stat) for path, raw, *stat in found}


def name_drift(cache: Cache) -> tuple[list[str], list[str]]:
    """Return the files, and the notes with links, whose stored names differ from those that links are resolved by."""
    files = select(cache.con, "SELECT path, name FROM vault_path ORDER BY path")
    links = select(cache.con, "SELECT path, target, name FROM vault_link ORDER BY path, position")
    return (
        [path for path, name in files if name != name_key(path)],
        list(dict.fromkeys(path for path, target, name in links if name != target_name(target))),
    )


def time_drift(cache: Cache) -> list[str]:
    """Return the indexed notes whose time differs from their file's in the ledger; pending notes are left out."""
    found = select(
        cache.con,
        "SELECT path, n.modified_at, f.mtime_ns FROM vault_node n JOIN vault_file f USING (path)"
        " WHERE f.applied_generation = f.generation ORDER BY path",
    )
    return [path for path, kept, mtime_ns in found if kept != modified_at(mtime_ns)]


# Sentences


def sentence_drift(cache: Cache, count: Callable[[str], int]) -> list[str]:
    """Return the hashes of texts whose sentences' vectors are missing, belong to no text, or are not valid.

    `count` returns how many sentences a text has. The values are not recomputed, because a wrong one costs only an
    excerpt. What is checked: one row per sentence, and 127 as the largest number of each row.
    """
    owed = select(
        cache.con,
        "SELECT text_hash FROM vault_vector WHERE text_hash NOT IN (SELECT text_hash FROM vault_sentence)"
        " UNION SELECT text_hash FROM vault_sentence WHERE text_hash NOT IN (SELECT text_hash FROM vault_vector)",
    )
    kept = cache.con.execute(
        "SELECT s.text_hash, s.codes, (SELECT text FROM vault_chunk c WHERE c.text_hash = s.text_hash)"
        " FROM vault_sentence s WHERE s.codes IS NOT NULL"
    )
    wrong = [
        h
        for h, quantized, text in kept
        if not _are_quantized(quantized, None if text is None else count(text), cache.meta.dimension)
    ]
    return [text_hash for (text_hash,) in owed] + wrong


def _are_quantized(blob: object, sentences: int | None, dimension: int) -> bool:
    if not isinstance(blob, bytes) or len(blob) % dimension:
        return False
    quantized = np.frombuffer(blob, np.int8).reshape(-1, dimension)
    if len(quantized) == 0:
        return True  # its sentences have no vectors
    if sentences is not None and len(quantized) != sentences:
        return False
    largest = np.abs(quantized.astype(np.int16)).max(axis=1)
    return bool((largest == _LARGEST_CODE).all())


def mend_sentences(cache: Cache, hashes: list[str]) -> None:
    """Make the sentences of these texts pending, or drop those of gone texts (inside the caller's transaction)."""
    chosen = json.dumps(hashes)
    cache.con.execute(
        "DELETE FROM vault_sentence WHERE text_hash IN (SELECT value FROM json_each(?))", (chosen,)
    )
    cache.con.execute(
        "INSERT OR IGNORE INTO vault_sentence SELECT text_hash, NULL FROM vault_vector"
        " WHERE text_hash IN (SELECT value FROM json_each(?))",
        (chosen,),
    )


# Counters


def counter_drift(cache: Cache) -> Iterator[str]:
    """Yield a sentence for each counter that contradicts the rows that it counts."""
    for table, column in _COUNTS_BY.items():
        (behind,) = select(
            cache.con,
            f"SELECT coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = ?), 0)"
            f" < coalesce((SELECT max({column}) FROM {table}), 0)",
            (table,),
        )[0]
        if behind:
            yield f"the last number of {table} is lower than a number in use"
    graphs = select(
        cache.con, "SELECT count(*) FROM vault_graph WHERE rowid = 1 AND ranked_generation <= generation"
    )
    others = select(cache.con, "SELECT count(*) FROM vault_graph")
    if (graphs, others) != ([(1,)], [(1,)]):
        yield "the graph's generation is not a single row, or is lower than that of its ranks"
    unused = select(
        cache.con,
        "SELECT count(*) FROM vault_vector WHERE unused_since IS NULL"
        " AND text_hash NOT IN (SELECT text_hash FROM vault_chunk)",
    )
    if unused != [(0,)]:
        yield f"{unused[0][0]} vectors without a passage are not marked as unused"


def mend_counters(cache: Cache) -> None:
    """Set each counter to match its rows, and make the ranks due (inside the caller's transaction)."""
    con = cache.con
    for table, column in _COUNTS_BY.items():
        (most,) = select(con, f"SELECT coalesce(max({column}), 0) FROM {table}")[0]
        (kept,) = select(con, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,))[0]
        con.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        con.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, max(kept, most)))
    con.execute("DELETE FROM vault_graph WHERE rowid <> 1")
    con.execute(
        "INSERT INTO vault_graph SELECT 0, 0, NULL, NULL, NULL WHERE NOT EXISTS (SELECT 1 FROM vault_graph)"
    )
    con.execute("UPDATE vault_graph SET ranked_generation = -1, generation = max(generation, 0)")
    cache.edges.graph_changed()


# The vector index


def unfindable(cache: Cache) -> list[int]:
    """Return the chunks that have a row in the vector index but that a search of the index does not find."""
    ids = [chunk for (chunk,) in select(cache.con, "SELECT chunk_id FROM vault_chunk_vec ORDER BY chunk_id")]
    lost: list[int] = []
    question = np.full(cache.meta.dimension, 1.0, "<f4").tobytes()
    for start in range(0, len(ids), _KNN_LIMIT):
        some = ids[start : start + _KNN_LIMIT]
        found = select(
            cache.con,
            "SELECT chunk_id FROM vault_chunk_vec WHERE embedding MATCH ? AND k = ?"
            " AND chunk_id IN (SELECT value FROM json_each(?))",
            (question, len(some), json.dumps(some)),
        )
        lost += sorted(set(some) - {chunk for (chunk,) in found})
    return lost


def mend(cache: Cache, count: Callable[[str], int]) -> None:
    """Mend, in one transaction, everything here that can be mended in place; `count` is as in `sentence_drift`."""
    with transaction(cache.con):
        mend_schema(cache)
        files, _ = name_drift(cache)
        cache.con.executemany(
            "UPDATE vault_path SET name = ? WHERE path = ?", ((name_key(path), path) for path in files)
        )
        cache.con.executemany(
            "UPDATE vault_node SET modified_at = ? WHERE path = ?",
            (
                (modified_at(mtime), path)
                for mtime, path in select(
                    cache.con,
                    "SELECT mtime_ns, path FROM vault_file WHERE path IN (SELECT value FROM json_each(?))",
                    (json.dumps(time_drift(cache)),),
                )
            ),
        )
        forget_commit(cache.con)
        mend_sentences(cache, sentence_drift(cache, count))
        if next(counter_drift(cache), None):
            mend_counters(cache)
