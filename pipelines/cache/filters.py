"""Find the chunks that pass a question's filters, with one query of fixed fragments in which every value is bound."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import apsw

from pipelines.cache.dates import CREATED, NODES
from pipelines.cache.graph import OF_CODE
from pipelines.filters import Filters, as_number, exact_heading, fold, has_heading, has_task
from pipelines.formats import FORMATS, MARKDOWN, format_of
from pipelines.sqlite import data_version, one, select

_Condition = tuple[str, Sequence[object]]


def _folded(text: str) -> str:
    """Return SQL that folds case. ASCII is folded by SQLite, much faster than by Python; NULL stays NULL."""
    return f"CASE WHEN length({text}) < octet_length({text}) THEN fold({text}) ELSE lower({text}) END"


def _is_value(item: str) -> str:
    """Return SQL for whether a JSON item is a value that is bound as an integer, as a real (or NULL), and as text.

    A number is stored as such only where its text says no more, so the text decides: `1.1` is not `1.10`.
    """
    return (
        f"CASE {item}.type WHEN 'integer' THEN {item}.value = CAST(? AS INTEGER)"
        f" WHEN 'real' THEN {item}.value = CAST(? AS REAL)"
        f" WHEN 'text' THEN {_folded(f'{item}.value')} = ?"
        f" ELSE {item}.type IN ('true', 'false') AND {item}.type = ? END"
    )


_FOLDER = f"instr({_folded('n.path')}, ?) = 1"
# Tags contain no quotes, so a tag is searched for verbatim in their JSON: `"name"`, or `"name/...`.
_TAG = f"(instr({_folded('n.tags')}, ?) OR instr({_folded('n.tags')}, ?))"
# A note may have several authors, joined by commas.
_AUTHOR = f"instr(', ' || {_folded('n.author')} || ', ', ?)"
_PATH = (
    "(n.path IN (SELECT value FROM json_each(?))"
    f" OR EXISTS (SELECT 1 FROM json_each(?) w WHERE instr({_folded('n.path')}, w.value)))"
)
_TITLE = f"instr({_folded('n.title')}, ?)"
# What is left of a path without the characters at its end that are no slash is its folder; the rest is the name.
_FOLDER_OF = "rtrim(n.path, replace(n.path, '/', ''))"
_TOP_FOLDER_OF = "substr(n.path, 1, instr(n.path, '/'))"
_NAME = f"substr(n.path, length({_FOLDER_OF}) + 1)"
_FILE = f"instr({_folded(_NAME)}, ?)"
# The headings above a chunk are a JSON list; a short section may also begin within the chunk.
_SECTION = (
    f"(EXISTS (SELECT 1 FROM json_each(c.heading_path) h WHERE iif(?, {_folded('h.value')} = ?,"
    f" instr({_folded('h.value')}, ?))) OR instr(c.text, '#') AND has_heading(c.text, ?))"
)
_FORMAT = "lower(n.path) GLOB ?"
_KIND = f"{_folded('n.kind')} = ?"
_DAY = f"substr({CREATED}, 1, 10)"
_PROPERTY = (
    f"EXISTS (SELECT 1 FROM json_each(n.frontmatter) p WHERE {_folded('p.key')} = ?"
    " AND CASE p.type WHEN 'array' THEN EXISTS (SELECT 1 FROM json_each(p.value) v"
    f" WHERE {_is_value('v')}) ELSE {_is_value('p')} END)"
)
_COMMUNITY = "n.path IN (SELECT path FROM vault_rank WHERE community IN (SELECT value FROM json_each(?)))"
_HAS = {
    "link": "EXISTS (SELECT 1 FROM vault_link l WHERE l.path = n.path AND l.kind <> 'embed')",
    "embed": "EXISTS (SELECT 1 FROM vault_link l WHERE l.path = n.path AND l.kind = 'embed')",
    "tag": "n.tags <> '[]'",
    "alias": "n.aliases <> '[]'",
    "property": "n.frontmatter <> '{}'",
    "backlink": "EXISTS (SELECT 1 FROM vault_edge e WHERE e.target = n.path AND e.path <> n.path"
    " AND e.path NOT IN (SELECT value FROM json_each(?)))",
    "broken-link": (
        "EXISTS (SELECT 1 FROM vault_link l LEFT JOIN vault_edge e USING (path, position)"
        f" WHERE l.path = n.path AND NOT {OF_CODE}"
        " AND (e.path IS NULL OR e.target IN (SELECT value FROM json_each(?))))"
    ),
    "warning": "n.warnings <> '[]'",
    # The condition in brackets is that of the index vault_chunk_task, so that few texts are read.
    "task": (
        "EXISTS (SELECT 1 FROM vault_chunk t WHERE t.path = n.path"
        " AND (instr(t.text, '[ ]') OR instr(t.text, '[x]') OR instr(t.text, '[X]')) AND has_task(t.text))"
    ),
}


class MatchingNote(NamedTuple):
    """A note as a list shows it; `day` is the one that `since` and `until` compare."""

    path: str
    title: str
    kind: str | None
    day: str
    chunks: int
    warnings: tuple[str, ...]


class DatedNote(NamedTuple):
    """A note as a page lists it; `day` is the one that `since` and `until` compare."""

    path: str
    title: str
    day: str


class NoteCounts(NamedTuple):
    """How many notes pass, and how many of them have each set of tags, kind and format or are in each folder.

    Folders end with a slash; that of the vault is "".
    """

    notes: int
    tags: list[tuple[frozenset[str], int]]
    kinds: Counter[str]
    formats: Counter[str]
    folders: Counter[str]


def _counts(count: int, tags: str | None, kinds: str, folders: str, others: str) -> NoteCounts:
    """Return the counts of what was read of notes; `others` are the paths that do not end like Markdown."""
    unlike = json.loads(others)
    formats: Counter[str] = Counter({MARKDOWN: count - len(unlike)})
    formats.update(form.name for path in unlike if (form := format_of(path)))
    return NoteCounts(
        count,
        [
            (frozenset(json.loads(some)), many)
            for some, many in Counter(tags.split("\n") if tags else ()).items()
        ],
        Counter(json.loads(kinds)),
        +formats,
        Counter(json.loads(folders)),
    )


def _where(filters: Filters, hidden: Collection[str]) -> tuple[str, list[object]]:
    """Return the WHERE clause of filters, empty where every note passes, and what it binds."""
    unseen = json.dumps(list(hidden))
    conditions = [
        *([("n.path NOT IN (SELECT value FROM json_each(?))", (unseen,))] if hidden else []),
        *_conditions(filters, unseen),
    ]
    if not conditions:
        return "", []
    clause, values = _all(conditions)
    return f"WHERE {clause}", values


def _of_notes(filters: Filters, hidden: Collection[str]) -> tuple[str, list[object]]:
    """Return the WHERE clause of filters on notes: a section that is asked for is one of any of their chunks."""
    where, bindings = _where(filters, hidden)
    if not filters.sections:
        return where, bindings
    of_note = f"EXISTS (SELECT 1 FROM vault_chunk c WHERE c.path = n.path AND {_sections(filters)})"
    return f"{where or 'WHERE true'} AND {of_note}", [*bindings, *_headings(filters.sections)]


def _all(conditions: Iterable[_Condition]) -> tuple[str, list[object]]:
    """Return the condition that all of several hold, and what it binds; without any it holds."""
    parts = list(conditions)
    clause = " AND ".join(sql for sql, _ in parts) or "true"
    return f"({clause})", [value for _, values in parts for value in values]


def _sections(filters: Filters) -> str:
    """Return the condition on the chunk `c` that it is in one of the sections; it binds their names."""
    return f"({' OR '.join([_SECTION] * len(filters.sections))})"


def _headings(sections: Sequence[str]) -> list[object]:
    """Return what the conditions of `_sections` bind."""
    exact = [exact_heading(name) for name in sections]
    return [
        value
        for name, whole in zip(sections, exact, strict=True)
        for value in (whole is not None, whole, name, name)
    ]


def _conditions(filters: Filters, hidden: str) -> Iterator[_Condition]:
    """Yield the conditions on the note `n`, each with the values that it binds. `hidden`: paths, as JSON."""
    yield from _of_fields(filters)
    yield from _of_properties(filters.properties)
    for what in filters.has:
        yield _HAS[what], (hidden,) * _HAS[what].count("?")
    for scope in filters.scopes:
        yield from _conditions(scope, hidden)
    if filters.either:
        several = [_all(_conditions(alternative, hidden)) for alternative in filters.either]
        yield f"({' OR '.join(sql for sql, _ in several)})", [one for _, values in several for one in values]
    for unwanted in filters.without:
        sql, values = _all(_conditions(unwanted, hidden))
        yield (
            f"NOT coalesce({sql}, false)",
            values,
        )  # of what a note lacks it is NULL, and so would be its negation


def _of_fields(filters: Filters) -> Iterator[_Condition]:
    yield from _any(_FOLDER, [f"{folder}/" for folder in filters.folders])
    yield from _any(_AUTHOR, [f", {author}, " for author in filters.authors])
    yield from _any(
        _FORMAT, [f"*{end}" for one in FORMATS if one.name in filters.formats for end in one.suffixes]
    )
    yield from _any(_KIND, filters.kinds)
    if filters.paths or filters.in_paths:
        yield _PATH, (json.dumps(filters.paths), json.dumps(filters.in_paths))
    yield from ((_TITLE, (title,)) for title in filters.titles)
    yield from ((_FILE, (name,)) for name in filters.files)
    for tag in filters.tags:
        start = json.dumps(tag, ensure_ascii=False)[:-1]
        yield _TAG, (f'{start}"', f"{start}/")
    if filters.since:
        yield f"{_DAY} >= ?", (filters.since,)
    if filters.until:
        yield f"{_DAY} <= ?", (filters.until,)
    if filters.communities:
        yield _COMMUNITY, (json.dumps(filters.communities),)


def _of_properties(properties: Sequence[tuple[str, str]]) -> Iterator[_Condition]:
    """Yield a condition for each name: that the property has one of the values given for it."""
    for name in dict(properties):
        values = [value for other, value in properties if other == name]
        items = [(*as_number(value), value, value) for value in values]
        bound = [one for item in items for one in (name, *item, *item)]
        yield f"({' OR '.join([_PROPERTY] * len(values))})", bound


def _any(sql: str, values: Sequence[str]) -> Iterator[_Condition]:
    if values:
        yield f"({' OR '.join([sql] * len(values))})", values


class SqliteFiltering:
    """The notes and chunks that pass filters, read on a cache's connection."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con
        self._visible: tuple[object, list[int]] | None = None
        """The commits and own changes seen and the hidden paths of the last question without filters; its chunks."""
        self._counted: tuple[object, NoteCounts] | None = None

    def matching_chunks(self, filters: Filters, hidden: Collection[str] = frozenset()) -> list[int] | None:
        """Return the ids of the chunks of all notes that pass, or None if every note does. Raises CacheError.

        `filters.domains` selects caches and is ignored here. Notes and files at `hidden` paths count as missing.
        """
        where, bindings = _where(filters, hidden)
        if not where and not filters.sections:
            return None
        if not filters.sections and not any(_conditions(filters, "")):
            return self._visible_chunks(frozenset(hidden))
        self._register()
        sections = f" WHERE {_sections(filters)}" if filters.sections else ""
        (ids,) = one(
            self._con,
            # Materialized and joined in this order: otherwise SQLite evaluates the conditions per chunk instead of
            # per note. One JSON text is read many times faster than as many rows.
            f"WITH passing AS MATERIALIZED (SELECT n.path FROM {NODES} {where})"
            " SELECT json_group_array(c.id) FROM passing CROSS JOIN vault_chunk c USING (path)" + sections,
            [*bindings, *_headings(filters.sections)],
        )
        found: list[int] = json.loads(ids)
        return found

    def _visible_chunks(self, hidden: frozenset[str]) -> list[int]:
        """Return the ids of the chunks of all notes that are not hidden, kept until a commit."""
        state = data_version(self._con), self._con.total_changes(), hidden
        if self._visible is None or self._visible[0] != state:
            sql = "SELECT json_group_array(id) FROM vault_chunk WHERE path NOT IN (SELECT value FROM json_each(?))"
            (ids,) = one(self._con, sql, (json.dumps(list(hidden)),))
            self._visible = state, json.loads(ids)
        return self._visible[1]

    def facets(self, paths: Collection[str]) -> list[tuple[str, list[str], str]]:
        """Return path, tags and day of notes, as `tag`, `since` and `until` compare them."""
        found = select(
            self._con,
            f"SELECT n.path, n.tags, {_DAY} FROM {NODES} WHERE n.path IN (SELECT value FROM json_each(?))",
            (json.dumps(list(paths)),),
        )
        return [(path, json.loads(tags), day) for path, tags, day in found]

    def days_of(self, only: Collection[int] | None) -> list[tuple[str, int, str]]:
        """Return path, first chunk (of `only` these) and day of the notes that have chunks. Raises CacheError."""
        of_these = "" if only is None else "WHERE c.id IN (SELECT value FROM json_each(?))"
        found = select(
            self._con,
            # With `min`, SQLite takes the other columns from the row that has it.
            f"SELECT n.path, c.id, {_DAY}, min(c.position) FROM {NODES} JOIN vault_chunk c ON c.path = n.path"
            f" {of_these} GROUP BY n.path",
            () if only is None else (json.dumps(list(only)),),
        )
        return [(path, chunk_id, day) for path, chunk_id, day, _ in found]

    def values_in_use(
        self, longest: Mapping[str, int], hidden: Collection[str] = frozenset()
    ) -> Iterator[tuple[str, str, int]]:
        """Yield filter, value and number of notes for the tags, folders and kinds that notes have.

        Notes at `hidden` paths do not count.
        """
        yield from select(
            self._con,
            "WITH shown AS (SELECT path, tags, kind FROM vault_node"
            " WHERE path NOT IN (SELECT value FROM json_each(:hidden)))"
            " SELECT 'tag', t.value, count(*) FROM shown n, json_each(n.tags) t"
            " WHERE length(t.value) <= :tag GROUP BY t.value"
            # What is left of a path without the characters at its end that are no slash: its folder.
            " UNION ALL SELECT 'folder', rtrim(rtrim(path, replace(path, '/', '')), '/') AS folder, count(*)"
            " FROM shown GROUP BY folder HAVING length(folder) BETWEEN 1 AND :folder"
            " UNION ALL SELECT 'kind', kind, count(*) FROM shown WHERE length(kind) BETWEEN 1 AND :kind"
            " GROUP BY kind",
            {**longest, "hidden": json.dumps(list(hidden))},
        )

    def count_notes(
        self, filters: Filters, hidden: Collection[str] = frozenset(), *, all_levels: bool
    ) -> NoteCounts:
        """Count the notes that pass, by the outermost folder unless `all_levels`. Raises CacheError.

        The rows are read once, as one text: that is many times faster than as many rows. The answer is kept until a
        commit.
        """
        where, bindings = _of_notes(filters, hidden)
        state = data_version(self._con), self._con.total_changes(), where, tuple(bindings), all_levels
        if self._counted is None or self._counted[0] != state:
            self._register()
            folder = _FOLDER_OF if all_levels else _TOP_FOLDER_OF
            found = one(
                self._con,
                "SELECT count(*), group_concat(n.tags, char(10)),"
                f" json_group_array(n.kind) FILTER (WHERE n.kind <> ''), json_group_array({folder}),"
                f" json_group_array(n.path) FILTER (WHERE substr(n.path, -3) <> '.md') FROM {NODES} {where}",
                bindings,
            )
            self._counted = state, _counts(*found)
        return self._counted[1]

    def newest_notes(
        self, filters: Filters, hidden: Collection[str], limit: int, offset: int = 0
    ) -> list[DatedNote]:
        """Return a part of the notes that pass, the newest first. Raises CacheError."""
        self._register()
        where, bindings = _of_notes(filters, hidden)
        sql = f"SELECT n.path, n.title, {_DAY} AS day FROM {NODES} {where} ORDER BY day DESC, n.path LIMIT ? OFFSET ?"
        return [DatedNote(*row) for row in select(self._con, sql, [*bindings, limit, offset])]

    def notes_in(self, folder: str, hidden: Collection[str], limit: int, offset: int = 0) -> list[DatedNote]:
        """Return a part of the notes directly in a folder, as `count_notes` spells it, by path. Raises CacheError."""
        within = "n.path >= ? AND n.path < ? AND" if folder else ""
        ends = [folder, f"{folder[:-1]}0"] if folder else []  # 0 is the character after the slash
        found = select(
            self._con,
            f"SELECT n.path, n.title, {_DAY} FROM {NODES} WHERE {within} instr(substr(n.path, ?), '/') = 0"
            " AND n.path NOT IN (SELECT value FROM json_each(?)) ORDER BY n.path LIMIT ? OFFSET ?",
            [*ends, len(folder) + 1, json.dumps(list(hidden)), limit, offset],
        )
        return [DatedNote(*row) for row in found]

    def matching_notes(self, filters: Filters, hidden: Collection[str] = frozenset()) -> list[MatchingNote]:
        """Return all notes that pass, by path. Raises CacheError. `matching_chunks` describes the parameters."""
        self._register()
        where, bindings = _of_notes(filters, hidden)
        found = select(
            self._con,
            f"SELECT n.path, n.title, n.kind, {_DAY}, (SELECT count(*) FROM vault_chunk c WHERE c.path = n.path),"
            f" n.warnings FROM {NODES} {where} ORDER BY n.path",
            bindings,
        )
        return [
            MatchingNote(path, title, kind, day, chunks, tuple(json.loads(warnings)))
            for path, title, kind, day, chunks, warnings in found
        ]

    def count_warned(self) -> int:
        """Count the notes of which a part could not be read. Raises CacheError."""
        (count,) = one(self._con, f"SELECT count(*) FROM vault_node n WHERE {_HAS['warning']}")
        return int(count)

    def _register(self) -> None:
        self._con.create_scalar_function("fold", lambda *text: fold(str(*text)), 1, deterministic=True)
        self._con.create_scalar_function(
            "has_heading", lambda *of: has_heading(*map(str, of)), 2, deterministic=True
        )
        self._con.create_scalar_function(
            "has_task", lambda *text: has_task(str(*text)), 1, deterministic=True
        )
