"""Compare the full-text index with what the texts of the chunks give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apsw

from pipelines import lexical
from pipelines.store.cache import Cache
from pipelines.store.check import STRAY_WORDS
from pipelines.store.connection import corrupt, one
from pipelines.store.connection import rows as select

_END: tuple[Any, ...] = (None, None)
_OF_ANOTHER_PIPELINE = (
    "SELECT id FROM vault_chunk WHERE path IN (SELECT path FROM vault_file WHERE applied_generation = 0)"
)


def word_drift(cache: Cache) -> dict[int, str]:
    """Return the paths of the chunks, by id, whose full-text rows differ from what their texts give.

    The path is "" for words left behind by a chunk that no longer exists. Notes that this pipeline has not indexed
    yet are left out, because another one may have chosen other words. A contentless index cannot return a row, so it
    is built a second time in a temporary table, and the two are compared word by word.
    """
    con = cache.con
    (made,) = one(con, "SELECT sql FROM sqlite_master WHERE name = 'vault_chunk_fts'")
    con.execute(made.replace("vault_chunk_fts", "temp.expected_fts", 1))
    con.execute(
        "CREATE VIRTUAL TABLE temp.expected_words USING fts5vocab('temp', 'expected_fts', 'instance')"
    )
    con.execute(
        "CREATE VIRTUAL TABLE temp.found_words USING fts5vocab('main', 'vault_chunk_fts', 'instance')"
    )
    con.executemany(
        "INSERT INTO temp.expected_fts (rowid, title, section, text) VALUES (?, ?, ?, ?)", _index_rows(con)
    )
    lengths = select(
        con,
        "SELECT c.id FROM vault_chunk c LEFT JOIN main.vault_chunk_fts_docsize f USING (id)"
        " LEFT JOIN temp.expected_fts_docsize e USING (id) WHERE f.sz IS NOT e.sz",
    )
    drifted = {chunk_id for (chunk_id,) in lengths} | _differing(
        con.execute("SELECT term, doc, col, offset FROM temp.expected_words"),
        con.execute("SELECT term, doc, col, offset FROM temp.found_words"),
    )
    if not drifted and _totals(con, "main.vault_chunk_fts") != _totals(con, "temp.expected_fts"):
        raise corrupt(cache.path, ValueError("the full-text index counts its words wrongly"))
    drifted -= {rowid for (rowid,) in select(con, STRAY_WORDS)}  # `orphans` reports these
    drifted -= {chunk_id for (chunk_id,) in select(con, _OF_ANOTHER_PIPELINE)}
    paths = dict(select(con, "SELECT id, path FROM vault_chunk"))
    return {chunk_id: paths.get(chunk_id, "") for chunk_id in sorted(drifted)}


def _totals(con: apsw.Connection, table: str) -> list[int]:
    """Return the numbers of rows, and of words per column, that FTS5 has recorded and computes BM25 with.

    FTS5 stores them as varints in its first record: https://sqlite.org/fileformat2.html#varint.
    """
    numbers, number = [], 0
    ((block,),) = select(con, f"SELECT coalesce((SELECT block FROM {table}_data WHERE id = 1), x'')")
    for byte in block:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    return numbers if any(numbers) else []


def _index_rows(con: apsw.Connection) -> Iterator[tuple[Any, ...]]:
    for chunk_id, title, aliases, section, headings, text in con.execute(
        "SELECT c.id, coalesce(n.title, ''), coalesce(n.aliases, '[]'), c.section, c.heading_path, c.text"
        " FROM vault_chunk c LEFT JOIN vault_node n USING (path)"
    ):
        titles = "\n".join((title, *json.loads(aliases)))
        words = lexical.chunk_words(section, json.loads(headings), text, title)
        yield chunk_id, lexical.index_text(titles), *words


def _differing(expected: Iterator[tuple[Any, ...]], found: Iterator[tuple[Any, ...]]) -> set[int]:
    """Return the rows in which two lists of (word, row, ...) differ; both are sorted by word and row."""
    rows: set[int] = set()
    left, right = next(expected, _END), next(found, _END)
    while left is not _END or right is not _END:
        if left == right:
            left, right = next(expected, _END), next(found, _END)
            continue
        ahead, behind = _place(left), _place(right)
        if ahead <= behind:
            rows.add(left[1])
            left = next(expected, _END)
        if behind <= ahead:
            rows.add(right[1])
            right = next(found, _END)
    return rows


def _place(instance: tuple[Any, ...]) -> tuple[bool, bytes, int]:
    if instance is _END:
        return True, b"", 0
    return False, instance[0].encode(), instance[1]
