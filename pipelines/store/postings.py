"""Words and numbers of the full-text index: which chunks contain a word, how often, and how long chunks are."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from pipelines.store.cache import Cache
from pipelines.store.connection import one
from pipelines.store.connection import rows as select

_LAST = 2**63 - 1
_STEMS = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.fts_{0} USING fts5vocab('main', 'vault_chunk_fts', '{0}')"


def newest_chunk(cache: Cache) -> int:
    """Return the highest id that a chunk ever had; ids only grow."""
    (newest,) = one(
        cache.con, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'vault_chunk'), 0)"
    )
    return int(newest)


def lengths(cache: Cache, after: int, upto: int = _LAST) -> list[tuple[int, int]]:
    """Return the chunks with ids in (after, upto], in order, each with its number of words."""
    return select(
        cache.con,
        "SELECT rowid, word_count(vault_chunk_fts) FROM vault_chunk_fts"
        " WHERE rowid > ? AND rowid <= ? ORDER BY rowid",
        (after, upto),
    )


def occurrences(cache: Cache, phrase: str, after: int, upto: int = _LAST) -> list[tuple[int, float]]:
    """Return the chunks with ids in (after, upto] that contain a phrase, in order, and its count by column weight."""
    return select(
        cache.con,
        "SELECT rowid, weighted_count(vault_chunk_fts) FROM vault_chunk_fts"
        " WHERE vault_chunk_fts MATCH ? AND rowid > ? AND rowid <= ? ORDER BY rowid",
        (f'"{phrase}"', after, upto),
    )


def totals(cache: Cache) -> tuple[int, int]:
    """Return the number of chunks, and the number of words in all of them."""
    return one(
        cache.con,
        "SELECT (SELECT count(*) FROM vault_chunk),"
        " coalesce((SELECT all_words(vault_chunk_fts) FROM vault_chunk_fts LIMIT 1), 0)",
    )


def count_having(cache: Cache, phrase: str) -> int:
    """Count the chunks that contain a phrase."""
    (count,) = one(
        cache.con, "SELECT count(*) FROM vault_chunk_fts WHERE vault_chunk_fts MATCH ?", (f'"{phrase}"',)
    )
    return int(count)


def lengths_of(cache: Cache, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return those of these chunks that exist, in order, each with its number of words."""
    return select(
        cache.con,
        "SELECT rowid, word_count(vault_chunk_fts) FROM vault_chunk_fts"
        " WHERE rowid IN (SELECT value FROM json_each(?)) ORDER BY rowid",
        (json.dumps(list(ids)),),
    )


def occurrences_in(cache: Cache, phrase: str, ids: Sequence[int]) -> list[tuple[int, float]]:
    """Return those of these chunks that contain a phrase, in order, with its count by column weight."""
    return select(
        cache.con,
        # The plus: otherwise SQLite would search for the phrase once per id.
        "SELECT rowid, weighted_count(vault_chunk_fts) FROM vault_chunk_fts"
        " WHERE vault_chunk_fts MATCH ? AND +rowid IN (SELECT value FROM json_each(?)) ORDER BY rowid",
        (f'"{phrase}"', json.dumps(list(ids))),
    )


def stems_beginning(cache: Cache, letter: str) -> list[str]:
    """Return the words of the index that begin with a letter, as the tokenizer stemmed them."""
    cache.con.execute(_STEMS.format("row"))
    found = select(
        cache.con,
        "SELECT term FROM temp.fts_row WHERE term >= ? AND term < ?",
        (letter, chr(ord(letter) + 1)),
    )
    return [term for (term,) in found]


def texts_with_stem(cache: Cache, stem: str, hidden: Collection[str], most: int) -> list[str]:
    """Return texts, with the names of their notes, of chunks with a stemmed word, but not of `hidden` notes."""
    cache.con.execute(_STEMS.format("instance"))
    found = select(
        cache.con,
        "SELECT n.title || char(10) || n.aliases || char(10) || c.section || char(10) || c.text FROM vault_chunk c"
        " JOIN vault_node n USING (path) WHERE c.id IN (SELECT doc FROM temp.fts_instance WHERE term = ?)"
        " AND c.path NOT IN (SELECT value FROM json_each(?)) ORDER BY c.id LIMIT ?",
        (stem, json.dumps(list(hidden)), most),
    )
    return [text for (text,) in found]
