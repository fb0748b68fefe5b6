"""Read what `everindex verify` needs to compare a cache with the disk and with itself."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import apsw
import numpy as np

from pipelines.cache.cache import CacheTables, SqliteCache, full_text_row
from pipelines.cache.ledger import modified_at
from pipelines.cache.schema import fresh_cache, mend_schema, objects_of, wanted_objects
from pipelines.cache.vectors import is_unit
from pipelines.errors import CacheCorruptError
from pipelines.model import Chunk, FoundFile, Link, Locator
from pipelines.notes.links import name_key, target_name
from pipelines.sqlite import corrupt, first, one, select, transaction


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The state of a path in the ledger (`known`: it has a row) and in the cache: its node, its unembedded chunks."""

    path: str
    raw: bytes
    wanted_hash: str | None
    indexed_hash: str | None
    generation: int
    applied: int
    embedded: int
    unembedded: int
    known: bool
    parked: bool
    reason: str | None
    has_node: bool

    @property
    def behind(self) -> bool:
        """Say whether the note is known to differ from the disk: it is pending or parked."""
        return self.parked or self.applied < self.generation


@contextmanager
def reading(cache: SqliteCache) -> Iterator[None]:
    """Run checks that all see the same state of the cache. Raises CacheCorruptError if SQLite cannot read it."""
    try:
        cache.con.execute("BEGIN DEFERRED")
        try:
            yield
        finally:
            if cache.con.in_transaction:  # SQLite may have ended it on its own
                cache.con.execute("ROLLBACK")
    except apsw.Error as error:
        raise corrupt(cache.path, error) from error


def damage(cache: SqliteCache) -> list[str]:
    """Return the faults that SQLite finds in the file, including FTS5's check of its own index."""
    try:
        found = [text for (text,) in select(cache.con, "PRAGMA integrity_check(20)")]
    except CacheCorruptError as error:
        return [str(error.__cause__)]
    return [text for text in found if text != "ok"]


def ledger_states(cache: SqliteCache) -> list[LedgerState]:
    """Return the state of every path that has a row in the ledger or a node."""
    found = select(
        cache.con,
        "SELECT p.path, coalesce(f.raw, ''), f.wanted_hash, f.indexed_hash,"
        " coalesce(f.generation, 0), coalesce(f.applied_generation, 0), coalesce(f.embedded_generation, 0),"
        " (SELECT count(*) FROM vault_chunk c WHERE c.path = p.path AND c.has_vector = 0),"
        " f.path IS NOT NULL, coalesce(f.parked, 0), f.error_kind,"
        " EXISTS (SELECT 1 FROM vault_node n WHERE n.path = p.path)"
        " FROM (SELECT path FROM vault_file UNION SELECT path FROM vault_node) p"
        " LEFT JOIN vault_file f USING (path) ORDER BY p.path",
    )
    return [
        LedgerState(
            path=path,
            raw=raw,
            wanted_hash=wanted,
            indexed_hash=indexed,
            generation=generation,
            applied=applied,
            embedded=embedded,
            unembedded=lacking,
            known=bool(known),
            parked=bool(parked),
            reason=reason,
            has_node=bool(node),
        )
        for path, raw, wanted, indexed, generation, applied, embedded, lacking, known, parked, reason, node in found
    ]


def chunks_of(cache: SqliteCache, path: str) -> tuple[Chunk, ...]:
    """Return a note's chunks as stored in the cache."""
    found = select(
        cache.con,
        "SELECT text, text_hash, section, heading_path, position, start_offset, end_offset, first_line, last_line,"
        " locator, coalesce(context, '')"
        " FROM vault_chunk WHERE path = ? ORDER BY position, id",
        (path,),
    )
    return tuple(
        Chunk(
            text=text,
            text_hash=text_hash,
            section=section,
            heading_path=tuple(json.loads(headings)),
            position=position,
            start=start,
            end=end,
            first_line=first_line,
            last_line=last_line,
            place=Locator.from_json(place) if place else None,
            context=context,
        )
        for text, text_hash, section, headings, position, start, end, first_line, last_line, place, context in found
    )


def links_of(cache: SqliteCache, path: str) -> tuple[Link, ...]:
    """Return a note's links as stored in the cache."""
    return tuple(
        Link(kind, target, fragment, text, line, section, name, bool(cites), relation)
        for kind, target, fragment, text, line, section, name, cites, relation in select(
            cache.con,
            "SELECT kind, target, fragment, text, line, section, property, cites, type FROM vault_link"
            " WHERE path = ? ORDER BY position",
            (path,),
        )
    )


def node_of(cache: SqliteCache, path: str) -> dict[str, Any]:
    """Return a note's metadata as stored in the cache, by the names of `Note`'s fields."""
    plain, as_json = (
        ("title", "author", "kind"),
        ("frontmatter", "tags", "aliases", "warnings"),
    )
    sql = f"SELECT {', '.join((*plain, *as_json))}, evergreen FROM vault_node WHERE path = ?"
    found = first(cache.con, sql, (path,))
    if found is None:
        return {}
    *texts, evergreen = found
    lists = {name: json.loads(text) for name, text in zip(as_json, texts[len(plain) :], strict=True)}
    own = {
        "evergreen": bool(evergreen),
        "privacy": cache.notes.kept_of(path),
        "stated_dates": cache.dates.of(path),
    }
    return dict(zip(plain, texts, strict=False)) | lists | own


# Rows without an owner

NO_NODE = "NOT EXISTS (SELECT 1 FROM vault_node n WHERE n.path = own.path)"
STRAY_WORDS = "SELECT rowid FROM vault_chunk_fts WHERE rowid NOT IN (SELECT id FROM vault_chunk)"
STRAY_VECTORS = "SELECT chunk_id FROM vault_chunk_vec WHERE chunk_id NOT IN (SELECT id FROM vault_chunk)"


def orphans(cache: SqliteCache) -> list[tuple[str, str]]:
    """Return the path and a description of every row without an owner; the path is "" if it is unknown."""
    con = cache.con
    counted = [
        (path, f"{count} {what} of a note that does not exist")
        for what, table in (
            ("chunks", "vault_chunk"),
            ("links", "vault_link"),
        )
        for path, count in select(
            con, f"SELECT path, count(*) FROM {table} AS own WHERE {NO_NODE} GROUP BY path"
        )
    ]
    return [
        *counted,
        *(
            ("", f"full-text row {number} of a chunk that does not exist")
            for (number,) in select(con, STRAY_WORDS)
        ),
        *(
            ("", f"vector row {number} of a chunk that does not exist")
            for (number,) in select(con, STRAY_VECTORS)
        ),
    ]


# Vectors


def bad_vectors(cache: SqliteCache) -> dict[str, str]:
    """Return what is wrong with stored vectors, by the hash of their text."""
    wrong = {}
    for text_hash, blob in cache.con.execute("SELECT text_hash, embedding FROM vault_vector"):
        whole = isinstance(blob, bytes) and len(blob) % 4 == 0
        vector = np.frombuffer(blob, "<f4") if whole else np.empty(0, "<f4")
        if vector.shape != (cache.meta.dimension,):
            wrong[text_hash] = f"its vector has {len(blob)} bytes, not {4 * cache.meta.dimension}"
        elif not np.isfinite(vector).all():
            wrong[text_hash] = "its vector has numbers that are not finite"
        elif not is_unit(vector):
            wrong[text_hash] = f"its vector has length {float(np.linalg.norm(vector)):.4g}, not 1"
    return wrong


@dataclass(frozen=True, slots=True)
class VectorDrift:
    """A chunk whose row in the vector index differs from its stored vector.

    `in_doubt`: it is unknown which of the two is right.
    """

    path: str
    text_hash: str
    detail: str
    in_doubt: bool


def vector_drift(cache: SqliteCache) -> list[VectorDrift]:
    """Return every chunk whose row in the vector index differs from the stored vector of its text."""
    drifted = cache.con.execute(
        "SELECT c.path, c.text_hash, c.id, c.has_vector, v.text_hash IS NOT NULL,"
        " coalesce(v.embedding <> e.embedding, 0)"
        " FROM vault_chunk_vec e JOIN vault_chunk c ON c.id = e.chunk_id"
        " LEFT JOIN vault_vector v USING (text_hash)"
        " WHERE c.has_vector <> 1 OR v.text_hash IS NULL OR v.unused_since IS NOT NULL"
        " OR v.embedding <> e.embedding"
    )
    found = [
        VectorDrift(path, text_hash, f"chunk {chunk_id}: {_say(has_vector, kept, differs)}", bool(differs))
        for path, text_hash, chunk_id, has_vector, kept, differs in drifted
    ]
    missing = cache.con.execute(
        "SELECT path, text_hash, id FROM vault_chunk WHERE has_vector = 1"
        " AND id NOT IN (SELECT chunk_id FROM vault_chunk_vec)"
    )
    return found + [
        VectorDrift(path, text_hash, f"chunk {chunk_id} has no row in the vector index", in_doubt=False)
        for path, text_hash, chunk_id in missing
    ]


def _say(has_vector: int, kept: int, differs: int) -> str:
    if differs:
        return "its row in the vector index differs from the stored vector of its text"
    if has_vector != 1:
        return "it has a row in the vector index, but is marked as having none"
    if not kept:
        return "the vector of its text is not stored"
    return "the vector of its text is marked as unused"


def paths_of_texts(cache: SqliteCache, hashes: Iterable[str]) -> dict[str, list[str]]:
    """Return, for each of these text hashes, the notes that have a chunk with that text."""
    found = select(
        cache.con,
        "SELECT DISTINCT text_hash, path FROM vault_chunk"
        " WHERE text_hash IN (SELECT value FROM json_each(?)) ORDER BY text_hash, path",
        (json.dumps(list(hashes)),),
    )
    return {key: [path for _, path in group] for key, group in groupby(found, key=itemgetter(0))}


# Compare and mend what a cache stores besides its notes' rows: schema, names, times, sentences and counters.


_LARGEST_CODE = 127
_KNN_LIMIT = 4096  # sqlite-vec refuses a larger k
_TYPES = {"TEXT": "'text'", "INTEGER": "'integer'", "REAL": "'real'", "BLOB": "'blob'"}
_JSON = ("frontmatter", "tags", "aliases", "warnings", "heading_path", "locator")
_COUNTS_BY = {
    "vault_chunk": "id",
    "vault_chunk_change": "number",
    "vault_privacy_change": "number",
    "vault_community": "id",
}


def lost_tables(cache: SqliteCache) -> list[str]:
    """Return a sentence for each table that this cache lacks or that has columns other than in a new cache."""
    with closing(fresh_cache(cache.meta)) as fresh:
        wanted = {name: _columns(fresh, name) for name in _tables(fresh)}
    have = _tables(cache.con)
    return [
        f"the table {name} {'differs from a new cache' if name in have else 'is missing'}"
        for name, columns in wanted.items()
        if name not in have or _columns(cache.con, name) != columns
    ]


def unreadable(cache: SqliteCache) -> list[str]:
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


def schema_drift(cache: SqliteCache) -> list[str]:
    """Return a sentence for each trigger, index or view that is missing, unknown, or different from a new cache's."""
    have, wanted = objects_of(cache.con), wanted_objects(cache.meta)
    return [
        f"the {kind} {name} is {'missing' if (kind, name) not in have else 'different from a new cache'}"
        for kind, name in sorted(have.keys() | wanted.keys())
        if have.get((kind, name)) != wanted.get((kind, name))
    ]


def _tables(con: apsw.Connection) -> set[str]:
    return {name for (name,) in select(con, "SELECT name FROM sqlite_schema WHERE type = 'table'")}


def _columns(con: apsw.Connection, table: str) -> list[str]:
    return [name for (name,) in select(con, "SELECT name FROM pragma_table_info(?)", (table,))]


# Files, names and times


def kept_ignored(cache: SqliteCache) -> dict[str, str]:
    """Return the ignored files as the cache has them (path -> rule)."""
    return cache.ignored()


def kept_files(cache: SqliteCache) -> dict[str, FoundFile]:
    """Return each path's file as the ledger recorded it."""
    found = select(cache.con, "SELECT path, raw, size, mtime_ns, inode FROM vault_file")
    return {path: FoundFile(path, os.fsdecode(raw), *stat) for path, raw, *stat in found}


def name_drift(cache: SqliteCache) -> tuple[list[str], list[str]]:
    """Return the files, and the notes with links, whose stored names differ from those that links are resolved by."""
    files = select(cache.con, "SELECT path, name FROM vault_path ORDER BY path")
    links = select(cache.con, "SELECT path, target, name FROM vault_link ORDER BY path, position")
    return (
        [path for path, name in files if name != name_key(path)],
        list(dict.fromkeys(path for path, target, name in links if name != target_name(target))),
    )


def time_drift(cache: SqliteCache) -> list[str]:
    """Return the indexed notes whose time differs from their file's in the ledger; pending notes are left out."""
    found = select(
        cache.con,
        "SELECT path, n.modified_at, f.mtime_ns FROM vault_node n JOIN vault_file f USING (path)"
        " WHERE f.applied_generation = f.generation ORDER BY path",
    )
    return [path for path, kept, mtime_ns in found if kept != modified_at(mtime_ns)]


# Sentences


def sentence_drift(cache: SqliteCache, count: Callable[[str], int]) -> list[str]:
    """Return the hashes of texts whose sentences' vectors are missing, belong to no text, or are not valid.

    `count` returns how many sentences a text has. The values are not recomputed, because a wrong one costs only an
    excerpt. What is checked: one row per sentence, and 127 as the largest number of each row.
    """
    unmatched = select(
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
    return [text_hash for (text_hash,) in unmatched] + wrong


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


def mend_sentences(cache: CacheTables, hashes: list[str]) -> None:
    """Make the sentences of these texts pending, or drop those of gone texts (inside the caller's transaction)."""
    _make_pending(cache, "vault_sentence", "SELECT text_hash, NULL FROM vault_vector", hashes)


def _make_pending(cache: CacheTables, table: str, pending: str, hashes: list[str]) -> None:
    """Replace the rows of these texts by those that the query `pending` returns for them."""
    among, chosen = "WHERE text_hash IN (SELECT value FROM json_each(?))", (json.dumps(hashes),)
    cache.con.execute(f"DELETE FROM {table} {among}", chosen)
    cache.con.execute(f"INSERT INTO {table} {pending} {among} ON CONFLICT DO NOTHING", chosen)


# Vectors by a second model


def second_drift(cache: SqliteCache) -> list[str]:
    """Return the hashes of texts whose vectors by a second model are missing, belong to no text, or are not valid.

    The values are not recomputed, because a wrong one costs only a place. What is checked: the length that most
    vectors of the model have, and 127 as the largest number.
    """
    unmatched = select(
        cache.con,
        "SELECT text_hash FROM vault_vector JOIN vault_meta ON key = 'second_model' WHERE text_hash NOT IN"
        " (SELECT text_hash FROM vault_second WHERE model = value) UNION SELECT text_hash FROM vault_second"
        " WHERE text_hash NOT IN (SELECT text_hash FROM vault_vector)",
    )
    lengths = select(
        cache.con,
        "SELECT model, length(codes) FROM vault_second WHERE length(codes) > 0 GROUP BY 1, 2 ORDER BY count(*)",
    )
    usual = dict(lengths)  # the last one of each model stays
    kept = cache.con.execute("SELECT text_hash, model, codes FROM vault_second WHERE codes IS NOT NULL")
    wrong = [h for h, model, codes in kept if not _are_quantized(codes, 1, usual.get(model, 1))]
    return [text_hash for (text_hash,) in unmatched] + wrong


def mend_second(cache: CacheTables, hashes: list[str]) -> None:
    """Make these texts wait for the second model, or drop the vectors of gone texts (inside a transaction)."""
    wanted = "SELECT text_hash, value, NULL FROM vault_vector JOIN vault_meta ON key = 'second_model'"
    _make_pending(cache, "vault_second", wanted, hashes)


# Counters


def counter_drift(cache: SqliteCache) -> Iterator[str]:
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


def mend_counters(cache: CacheTables) -> None:
    """Set each counter to match its rows, and make the ranks due (inside the caller's transaction)."""
    con = cache.con
    if isinstance(con, apsw.Connection):
        _mend_sequences(con)
    con.execute("DELETE FROM vault_graph WHERE rowid <> 1")
    con.execute(
        "INSERT INTO vault_graph (generation, ranked_generation)"
        " SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM vault_graph)"
    )
    con.execute("UPDATE vault_graph SET ranked_generation = -1, generation = max(generation, 0)")
    cache.edges.graph_changed()


def _mend_sequences(con: apsw.Connection) -> None:
    for table, column in _COUNTS_BY.items():
        (most,) = select(con, f"SELECT coalesce(max({column}), 0) FROM {table}")[0]
        (kept,) = select(con, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,))[0]
        con.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        con.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, max(kept, most)))


# The vector index


def unfindable(cache: SqliteCache) -> list[int]:
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


def mend(read: SqliteCache, cache: CacheTables, count: Callable[[str], int]) -> None:
    """Mend, in one transaction, everything here that can be mended in place; `count` is as in `sentence_drift`.

    `read` is what questions read of the cache: itself, or this host's copy of it.
    """
    with transaction(cache.con):
        if isinstance(cache, SqliteCache):
            mend_schema(cache.con, cache.meta)
        files, _ = name_drift(read)
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
                    (json.dumps(time_drift(read)),),
                )
            ),
        )
        cache.dates.forget_commit()
        mend_sentences(cache, sentence_drift(read, count))
        mend_second(cache, second_drift(read))
        if next(counter_drift(read), None):
            mend_counters(cache)


# Compare the full-text index with what the texts of the chunks give.


_END: tuple[Any, ...] = (None, None)
_OF_ANOTHER_PIPELINE = (
    "SELECT id FROM vault_chunk WHERE path IN (SELECT path FROM vault_file WHERE applied_generation = 0)"
)


def word_drift(cache: SqliteCache) -> dict[int, str]:
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
    for chunk in con.execute(
        "SELECT c.id, coalesce(n.title, ''), coalesce(n.aliases, '[]'), c.section, c.heading_path, c.text"
        " FROM vault_chunk c LEFT JOIN vault_node n USING (path)"
    ):
        yield full_text_row(*chunk)


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


# Remove from a cache what `everindex verify --repair` found to differ, and make it pending again.


def make_pending(cache: CacheTables, paths: Sequence[str], distrusted: Sequence[str]) -> None:
    """Delete the data derived from these notes and make them dirty; delete distrusted vectors and all orphans.

    The notes' other vectors stay, so indexing these notes again embeds nothing that is known. One transaction.
    """
    con = cache.con
    chosen = json.dumps(list(paths))
    with transaction(con):
        con.execute(
            "DELETE FROM vault_vector WHERE text_hash IN (SELECT value FROM json_each(?))",
            (json.dumps(list(distrusted)),),
        )
        con.execute(
            "DELETE FROM vault_node WHERE path IN (SELECT value FROM json_each(?))"
            " OR NOT EXISTS (SELECT 1 FROM vault_file f WHERE f.path = vault_node.path)",
            (chosen,),
        )
        for table in ("vault_chunk", "vault_link", "vault_edge"):
            con.execute(f"DELETE FROM {table} AS own WHERE {NO_NODE}")
        if isinstance(con, apsw.Connection):
            strays = select(con, STRAY_WORDS)
            con.executemany("DELETE FROM vault_chunk_fts WHERE rowid = ?", strays)
            con.executemany("DELETE FROM vault_chunk_vec WHERE chunk_id = ?", select(con, STRAY_VECTORS))
        con.execute(
            "UPDATE vault_vector SET unused_since = ? WHERE unused_since IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM vault_chunk c WHERE c.text_hash = vault_vector.text_hash)",
            (time.time(),),
        )
        # The counters restart, whatever they were; a lease stays with its holder.
        con.execute(
            "UPDATE vault_file SET indexed_hash = NULL WHERE path IN (SELECT value FROM json_each(?))",
            (chosen,),
        )
        cache.ledger.want_again(paths)
