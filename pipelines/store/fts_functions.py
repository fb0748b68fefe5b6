"""SQL functions for what FTS5 offers only to C: word counts per chunk and per phrase."""

from __future__ import annotations

import apsw

# For title, section and text: a word in a title or a heading says more.
COLUMN_WEIGHTS = (2.0, 1.5, 1.0)


def register_functions(con: apsw.Connection) -> None:
    """Make FTS5's word counts, which it offers only to C, callable from SQL; call this once per connection."""
    con.register_fts5_function("weighted_count", _weighted_count)
    con.register_fts5_function("word_count", _word_count)
    con.register_fts5_function("all_words", _all_words)


def _weighted_count(row: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> float:
    title, section, text = map(len, row.phrase_locations(0))
    return COLUMN_WEIGHTS[0] * title + COLUMN_WEIGHTS[1] * section + COLUMN_WEIGHTS[2] * text


def _word_count(row: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> int:
    return row.column_size(-1)


def _all_words(row: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> int:
    return row.column_total_size(-1)
