"""The two retrievers, and what a hit shows: read-only SQL over a cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.store.cache import Cache, Vector
from pipelines.store.connection import row as first
from pipelines.store.connection import rows as select

# bm25() weights of the FTS columns: a word in a title or a section's heading says more.
_TITLE_WEIGHT, _SECTION_WEIGHT, _TEXT_WEIGHT = 2.0, 1.5, 1.0
_KNN_LIMIT = 4096  # sqlite-vec refuses a larger k


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk and what its note says of itself."""

    chunk_id: int
    path: str
    title: str
    section: str
    heading_path: tuple[str, ...]
    text: str
    first_line: int
    last_line: int
    start: int
    end: int
    modified: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A note's own row."""

    path: str
    title: str
    frontmatter: dict[str, object]
    tags: list[str]
    aliases: list[str]
    author: str | None
    kind: str | None
    published_at: str | None
    modified: str
    evergreen: bool
    warnings: list[str]


def nearest(cache: Cache, vector: Vector, depth: int) -> list[tuple[int, float]]:
    """Return chunk ids with their cosine to a unit vector, nearest first."""
    rows = select(
        cache.con,
        "SELECT chunk_id, distance FROM vault_chunk_vec WHERE embedding MATCH ? AND k = ?",
        (vector.astype("<f4").tobytes(), min(depth, _KNN_LIMIT)),
    )
    return [(chunk_id, 1.0 - distance) for chunk_id, distance in rows]


def matching(cache: Cache, expression: str, depth: int) -> list[tuple[int, float]]:
    """Return chunk ids with their BM25 (higher is better) for an FTS5 expression, best first."""
    rows = select(
        cache.con,
        "SELECT rowid, -bm25(vault_chunk_fts, ?, ?, ?) AS score FROM vault_chunk_fts"
        " WHERE vault_chunk_fts MATCH ? ORDER BY score DESC, rowid LIMIT ?",
        (_TITLE_WEIGHT, _SECTION_WEIGHT, _TEXT_WEIGHT, expression, depth),
    )
    return [(chunk_id, score) for chunk_id, score in rows]


def chunk_paths(cache: Cache, ids: Sequence[int]) -> dict[int, str]:
    """Return the paths of chunks by id."""
    return dict(
        select(
            cache.con,
            "SELECT id, path FROM vault_chunk WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(ids),),
        )
    )


_CHUNK_COLUMNS = (
    "c.id, c.path, n.title, c.section, c.heading_path, c.text, c.first_line, c.last_line,"
    " c.start_offset, c.end_offset, n.modified_at"
)


def chunk_rows(cache: Cache, ids: Sequence[int]) -> dict[int, ChunkRow]:
    """Return chunks by id."""
    rows = select(
        cache.con,
        f"SELECT {_CHUNK_COLUMNS} FROM vault_chunk c JOIN vault_node n USING (path)"
        " WHERE c.id IN (SELECT value FROM json_each(?))",
        (json.dumps(ids),),
    )
    return {row[0]: _chunk(row) for row in rows}


def chunks_of(cache: Cache, path: str) -> list[ChunkRow]:
    """Return a note's chunks in order."""
    rows = select(
        cache.con,
        f"SELECT {_CHUNK_COLUMNS} FROM vault_chunk c JOIN vault_node n USING (path)"
        " WHERE c.path = ? ORDER BY c.position",
        (path,),
    )
    return [_chunk(row) for row in rows]


def _chunk(row: tuple[Any, ...]) -> ChunkRow:
    values = list(row)
    values[4] = tuple(json.loads(row[4]))
    return ChunkRow(*values)


def node(cache: Cache, path: str) -> NodeRow | None:
    """Return a note's row, or None."""
    row = first(
        cache.con,
        "SELECT path, title, frontmatter, tags, aliases, author, kind, published_at, modified_at, evergreen,"
        " warnings FROM vault_node WHERE path = ?",
        (path,),
    )
    if row is None:
        return None
    path, title, frontmatter, tags, aliases, author, kind, published, modified, evergreen, warnings = row
    return NodeRow(
        path=path,
        title=title,
        frontmatter=json.loads(frontmatter),
        tags=json.loads(tags),
        aliases=json.loads(aliases),
        author=author,
        kind=kind,
        published_at=published,
        modified=modified,
        evergreen=bool(evergreen),
        warnings=json.loads(warnings),
    )


def links_of(cache: Cache, path: str) -> list[dict[str, object]]:
    """Return a note's links as they are written."""
    names = ("kind", "target", "fragment", "text", "line", "section", "property")
    rows = select(
        cache.con, f"SELECT {', '.join(names)} FROM vault_link WHERE path = ? ORDER BY position", (path,)
    )
    return [dict(zip(names, row, strict=True)) for row in rows]
