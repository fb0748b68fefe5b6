"""Read what `everindex verify` needs to compare a cache with the disk and with itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import apsw
import numpy as np

from pipelines.errors import CacheCorruptError
from pipelines.locator import Locator
from pipelines.model import Chunk, Link
from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import corrupt
from pipelines.store.connection import row as first
from pipelines.store.connection import rows as select
from pipelines.store.dates import dates_of
from pipelines.store.privacy import kept_of

# The length of a float32 unit vector with a few thousand dimensions is off by less than a hundredth of this.
_LENGTH_TOLERANCE = 1e-3


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
def reading(cache: Cache) -> Iterator[None]:
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


def damage(cache: Cache) -> list[str]:
    """Return the faults that SQLite finds in the file, including FTS5's check of its own index."""
    try:
        found = [text for (text,) in select(cache.con, "PRAGMA integrity_check(20)")]
    except CacheCorruptError as error:
        return [str(error.__cause__)]
    return [text for text in found if text != "ok"]


def ledger_states(cache: Cache) -> list[LedgerState]:
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


def chunks_of(cache: Cache, path: str) -> tuple[Chunk, ...]:
    """Return a note's chunks as stored in the cache."""
    found = select(
        cache.con,
        "SELECT text, text_hash, section, heading_path, position, start_offset, end_offset, first_line, last_line,"
        " (SELECT locator FROM vault_place WHERE chunk_id = vault_chunk.id),"
        " coalesce((SELECT context FROM vault_context WHERE chunk_id = vault_chunk.id), '')"
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


def links_of(cache: Cache, path: str) -> tuple[Link, ...]:
    """Return a note's links as stored in the cache."""
    return tuple(
        Link(kind, target, fragment, text, line, section, name, bool(cites))
        for kind, target, fragment, text, line, section, name, cites in select(
            cache.con,
            "SELECT kind, target, fragment, text, line, section, property, cites FROM vault_link"
            " WHERE path = ? ORDER BY position",
            (path,),
        )
    )


def node_of(cache: Cache, path: str) -> dict[str, Any]:
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
        "privacy": kept_of(cache, path),
        "stated_dates": dates_of(cache.con, path),
    }
    return dict(zip(plain, texts, strict=False)) | lists | own


# Rows without an owner

NO_NODE = "path NOT IN (SELECT path FROM vault_node)"
STRAY_WORDS = "SELECT rowid FROM vault_chunk_fts WHERE rowid NOT IN (SELECT id FROM vault_chunk)"
STRAY_PLACES = "SELECT chunk_id FROM vault_place WHERE chunk_id NOT IN (SELECT id FROM vault_chunk)"
STRAY_CONTEXTS = "SELECT chunk_id FROM vault_context WHERE chunk_id NOT IN (SELECT id FROM vault_chunk)"
STRAY_VECTORS = "SELECT chunk_id FROM vault_chunk_vec WHERE chunk_id NOT IN (SELECT id FROM vault_chunk)"


def orphans(cache: Cache) -> list[tuple[str, str]]:
    """Return the path and a description of every row without an owner; the path is "" if it is unknown."""
    con = cache.con
    counted = [
        (path, f"{count} {what} of a note that does not exist")
        for what, table in (
            ("chunks", "vault_chunk"),
            ("links", "vault_link"),
            ("facts", "vault_privacy"),
            ("dates", "vault_date"),
        )
        for path, count in select(con, f"SELECT path, count(*) FROM {table} WHERE {NO_NODE} GROUP BY path")
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
        *(("", f"place {number} of a chunk that does not exist") for (number,) in select(con, STRAY_PLACES)),
        *(
            ("", f"context {number} of a chunk that does not exist")
            for (number,) in select(con, STRAY_CONTEXTS)
        ),
    ]


# Vectors


def is_unit(vector: Vector) -> bool:
    """Say whether a vector has length 1, as every stored one; damage seldom leaves that as it was."""
    with np.errstate(all="ignore"):
        return bool(abs(np.linalg.norm(vector) - 1) <= _LENGTH_TOLERANCE)


def bad_vectors(cache: Cache) -> dict[str, str]:
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


def vector_drift(cache: Cache) -> list[VectorDrift]:
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


def paths_of_texts(cache: Cache, hashes: Iterable[str]) -> dict[str, list[str]]:
    """Return, for each of these text hashes, the notes that have a chunk with that text."""
    found = select(
        cache.con,
        "SELECT DISTINCT text_hash, path FROM vault_chunk"
        " WHERE text_hash IN (SELECT value FROM json_each(?)) ORDER BY text_hash, path",
        (json.dumps(list(hashes)),),
    )
    return {key: [path for _, path in group] for key, group in groupby(found, key=itemgetter(0))}
