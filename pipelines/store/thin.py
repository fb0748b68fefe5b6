"""Find passages that may say little: those with many links, and the names of notes without text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.store.cache import Cache
from pipelines.store.connection import records
from pipelines.store.connection import rows as select

_SHORT = 300  # characters


@dataclass(frozen=True, slots=True)
class LinkChunk:
    """A chunk with links, its note's title, and the text of its note's first chunk."""

    chunk_id: int
    title: str
    section: str
    text: str
    first: str


def later_chunks_with_links(cache: Cache, ids: Sequence[int]) -> list[LinkChunk]:
    """Return these chunks, without first ones, that have many links.

    These are at least two and one per 100 characters; in a short chunk one is enough.
    """
    return records(
        cache.con,
        LinkChunk,
        "SELECT c.id AS chunk_id, n.title AS title, c.section AS section, c.text AS text, f.text AS first"
        " FROM vault_chunk c JOIN vault_node n USING (path)"
        " JOIN vault_chunk f ON f.path = c.path AND f.position = 0"
        " WHERE c.id IN (SELECT value FROM json_each(?)) AND c.position > 0"
        " AND (instr(c.text, '[[') OR instr(c.text, '](') OR instr(c.text, '//'))"
        " AND length(c.text) - length(replace(replace(replace(c.text, '[[', ''), '](', ''), '//', ''))"
        " >= iif(length(c.text) <= ?, 2, max(4, length(c.text) / 50))",
        (json.dumps(list(ids)), _SHORT),
    )


def chunks_of_names(cache: Cache, ids: Sequence[int]) -> set[int]:
    """Return those of these chunks that hold only their note's names, because the note has no text."""
    found = select(
        cache.con,
        "SELECT id FROM vault_chunk WHERE id IN (SELECT value FROM json_each(?)) AND start_offset = end_offset",
        (json.dumps(list(ids)),),
    )
    return {chunk_id for (chunk_id,) in found}
