"""What FTS5 offers only to C: word counts per chunk and per phrase as SQL functions, and its stems."""

from __future__ import annotations

import threading
from functools import cache, lru_cache

import apsw

# For title, section and text: a word in a title or a heading says more.
COLUMN_WEIGHTS = (2.0, 1.5, 1.0)
TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
"""The tokenizer of the full-text index, as its schema has it."""
_one_at_a_time = threading.Lock()  # a tokenizer belongs to a connection


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


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return a word without case, diacritics and endings, as the full-text index stems it.

    It is stemmed until nothing changes, because Porter's rules make `alias` of "aliases", but `alia` of "alias".
    """
    with _one_at_a_time:
        stemmed = _token(word)
        while stemmed != word:
            word, stemmed = stemmed, _token(stemmed)
    return stemmed


def _token(word: str) -> str:
    found = _tokenizer()(word.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)
    return "".join(str(token) for tokens in found for token in tokens) or word


@cache
def _tokenizer() -> apsw.FTS5Tokenizer:
    name, *arguments = TOKENIZER
    return apsw.Connection(":memory:").fts5_tokenizer(name, arguments)
