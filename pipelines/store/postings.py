"""What the full-text index knows of words, as numbers: which chunks have a word how often, how long chunks are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from pipelines.store.connection import one
from pipelines.store.connection import rows as select

if TYPE_CHECKING:
    from pipelines.store.cache import Cache

# Of title, section and text: a word in a title or a section's heading says more.
COLUMN_WEIGHTS = (2.0, 1.5, 1.0)


def register_functions(con: apsw.Connection) -> None:
    """Let SQL on a connection call what FTS5 offers to C alone: once a connection."""
    con.register_fts5_function("weighted_count", _weighted_count)
    con.register_fts5_function("word_count", _word_count)


def _weighted_count(row: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> float:
    title, section, text = map(len, row.phrase_locations(0))
    return COLUMN_WEIGHTS[0] * title + COLUMN_WEIGHTS[1] * section + COLUMN_WEIGHTS[2] * text


def _word_count(row: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> int:
    return row.column_size(-1)


def newest_chunk(cache: Cache) -> int:
    """Return the highest id that a chunk ever had; ids only grow."""
    (newest,) = one(
        cache.con, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'vault_chunk'), 0)"
    )
    return int(newest)


def lengths(cache: Cache, after: int) -> list[tuple[int, int]]:
    """Return the chunks with ids above a number, in order, each with how many words it has."""
    return select(
        cache.con,
        "SELECT rowid, word_count(vault_chunk_fts) FROM vault_chunk_fts WHERE rowid > ? ORDER BY rowid",
        (after,),
    )


def occurrences(cache: Cache, phrase: str, after: int) -> list[tuple[int, float]]:
    """Return the chunks with ids above a number that have a phrase, in order, and its count by column weight."""
    return select(
        cache.con,
        "SELECT rowid, weighted_count(vault_chunk_fts) FROM vault_chunk_fts"
        " WHERE vault_chunk_fts MATCH ? AND rowid > ? ORDER BY rowid",
        (f'"{phrase}"', after),
    )
