"""Which notes are private: what each says itself, stored when it is indexed, and its domain's current settings."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from pipelines.model import Privacy
from pipelines.store.cache import Cache
from pipelines.store.connection import one
from pipelines.store.connection import row as first
from pipelines.store.connection import rows as select

_LISTED_TAG = (
    "EXISTS (SELECT 1 FROM json_each(?) l WHERE CASE WHEN l.value IN ('', '.') THEN p.tag_lines <> '' ELSE"
    " instr(p.tag_lines, char(10) || l.value || char(10)) OR instr(p.tag_lines, char(10) || l.value || '/') END)"
)
_LISTED_FOLDER = (
    "EXISTS (SELECT 1 FROM json_each(?) l WHERE l.value IN ('', '.')"
    " OR instr('/' || p.place, '/' || l.value || '/'))"
)
_ELSEWHERE = "EXISTS (SELECT 1 FROM json_each(?) l WHERE instr(f.path, l.value) = 1)"


class Rules(NamedTuple):
    """A domain's settings, in the form of `privacy.compared`, and what of the vault it owns.

    `folder`: the start of its notes' paths. `nested`: that of paths in it that belong to other domains, whose
    settings may be stricter.
    """

    settings: Privacy
    folder: str = ""
    nested: tuple[str, ...] = ()


def kept_of(cache: Cache, path: str) -> dict[str, object] | None:
    """Return what is stored about a note's privacy, by the names of `OwnPrivacy`'s fields; None if nothing is."""
    found = first(cache.con, "SELECT private, place, tag_lines FROM vault_privacy WHERE path = ?", (path,))
    if found is None:
        return None
    return {"private": bool(found[0]), "place": found[1], "tags": found[2].split("\n")[1:-1]}


class Private(NamedTuple):
    """The paths of a cache's notes that are private, or may be; `known`: those that were when they were indexed."""

    notes: frozenset[str]
    known: frozenset[str]


def private_notes(cache: Cache, rules: Rules) -> Private:
    """Return which of this cache's notes are private. Raises CacheError.

    A note whose file is known to differ from what was indexed may be private, and so may a note of which nothing is
    stored, and one that belongs to another domain now.
    """
    state = int(one(cache.con, "PRAGMA data_version")[0]), cache.con.total_changes()
    if cache.private is None or cache.private[0] != (state, rules):
        found = dict(_private_notes(cache, rules))
        cache.private = ((state, rules), frozenset(found), frozenset(path for path in found if found[path]))
    return Private(*cache.private[1:])


def indexed_among(cache: Cache, paths: Collection[str]) -> set[str]:
    """Return those of the paths that are indexed notes. Raises CacheError."""
    sql = "SELECT path FROM vault_node WHERE path IN (SELECT value FROM json_each(?))"
    return {path for (path,) in select(cache.con, sql, (json.dumps(list(paths)),))}


def _private_notes(cache: Cache, rules: Rules) -> list[tuple[str, bool]]:
    """Return the paths of the notes that are private or may be, each with whether it was when it was indexed."""
    if not rules.settings.llm or not _is_there(cache):
        found = select(cache.con, "SELECT path FROM vault_file UNION SELECT path FROM vault_node")
        return [(path, not rules.settings.llm) for (path,) in found]
    conditions = [
        (sql, json.dumps(names, ensure_ascii=False))
        for sql, names in (
            (_LISTED_TAG, rules.settings.tags),
            (_LISTED_FOLDER, rules.settings.folders),
            (_ELSEWHERE, rules.nested),
        )
        if names
    ]
    known = " OR ".join(("p.private <> 0", "instr(f.path, ?) <> 1", *(sql for sql, _ in conditions)))
    found = select(
        cache.con,
        f"SELECT path, is_known FROM (SELECT f.path, coalesce({known}, 0) AS is_known,"
        " p.path IS NULL OR f.wanted_hash IS NOT f.indexed_hash AS is_new"
        " FROM vault_file f LEFT JOIN vault_privacy p USING (path)) WHERE is_known OR is_new"
        " UNION ALL SELECT path, 0 FROM vault_node WHERE path NOT IN (SELECT path FROM vault_file)",
        [rules.folder, *(names for _, names in conditions)],
    )
    return [(path, bool(is_known)) for path, is_known in found]


def _is_there(cache: Cache) -> bool:
    """Say whether this cache stores privacy; one made by an earlier version does once it was opened for writing."""
    return bool(first(cache.con, "SELECT 1 FROM sqlite_master WHERE name = 'vault_privacy'"))
