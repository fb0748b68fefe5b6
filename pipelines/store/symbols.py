"""Read-only SQL over a cache for source files: their symbols, the passages of these, and what files refer to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from pipelines.documents.formats import format_of
from pipelines.store.cache import Cache
from pipelines.store.connection import rows as select

_CODE = "code"


@dataclass(frozen=True, slots=True)
class FileSymbols:
    """The symbols of a source file, by their qualified names, and the first passage of each that has its own."""

    names: frozenset[str]
    chunks: dict[str, int] = field(default_factory=dict)


def source_files(paths: Iterable[str]) -> list[str]:
    """Return those of these paths that are of source files, by the ends of their names."""
    return [path for path in paths if (form := format_of(path)) is not None and form.name == _CODE]


def source_files_since(cache: Cache, newest: int) -> list[str]:
    """Return the paths of the source files that have a passage with an id above `newest`.

    A file with a new symbol has a new passage.
    """
    found = select(
        cache.con,
        "SELECT path FROM vault_node WHERE path IN (SELECT path FROM vault_chunk WHERE id > ?)"
        " AND instr(frontmatter, '\"symbols\"') ORDER BY path",
        (newest,),
    )
    return source_files(path for (path,) in found)


def symbols_of(cache: Cache, paths: Collection[str]) -> dict[str, FileSymbols]:
    """Return the symbols of each of these source files that is indexed.

    The property `symbols` lacks those of a large file that had no room in it; their passages have their names.
    """
    chosen = (json.dumps(list(paths)),)
    labels: dict[str, dict[str, int]] = defaultdict(dict)
    for path, label, chunk_id in select(
        cache.con,
        "SELECT path, section, id FROM vault_chunk WHERE path IN (SELECT value FROM json_each(?))"
        " AND id IN (SELECT chunk_id FROM vault_place) ORDER BY path, position",
        chosen,
    ):
        labels[path].setdefault(label, chunk_id)
    found = select(
        cache.con,
        "SELECT path, json_extract(frontmatter, '$.symbols') FROM vault_node"
        " WHERE path IN (SELECT value FROM json_each(?))",
        chosen,
    )
    return {path: FileSymbols(_names(stored) | labels[path].keys(), labels[path]) for path, stored in found}


def _names(stored: object) -> frozenset[str]:
    names = json.loads(stored) if isinstance(stored, str) and stored.startswith("[") else []
    return frozenset(name for name in names if isinstance(name, str))


def referring(cache: Cache, paths: Collection[str]) -> dict[str, set[str]]:
    """Return, by the path of each other indexed source file, which of these files refer to it."""
    found: dict[str, set[str]] = defaultdict(set)
    chosen = json.dumps(list(paths))
    for path, target in select(
        cache.con,
        "SELECT DISTINCT e.path, e.target FROM vault_edge e JOIN vault_node n ON n.path = e.target"
        " WHERE e.path IN (SELECT value FROM json_each(?1))"
        " AND e.target NOT IN (SELECT value FROM json_each(?1))",
        (chosen,),
    ):
        found[target].add(path)
    return {path: found[path] for path in source_files(sorted(found))}
