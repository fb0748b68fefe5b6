"""Read-only SQL over a cache's notes: names, texts and vectors."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import apsw
import numpy as np

from pipelines.cache.dates import CHANGED, NODES
from pipelines.cache.vectors import Vector
from pipelines.model import Privacy
from pipelines.notes.links import NOTE_SUFFIXES
from pipelines.sqlite import data_version, first, one, select, snapshot

_OPENING_CHUNKS = 4  # the first ones may be nothing but a heading
_OPENING = 4_000
_WHOLE_STEM = 3  # letters of a stem that are compared as they are
_CALLED = "EXISTS (SELECT 1 FROM json_each(?2) WHERE substr('/' || file.path, -length(value)) = value COLLATE NOCASE)"


def _files_called(name: str) -> list[str]:
    suffixes = ("",) if name.lower().endswith(NOTE_SUFFIXES) else NOTE_SUFFIXES
    return [f"/{name}{suffix}" for suffix in suffixes]


# Which notes are private: what each says itself, stored when it is indexed, and its domain's current settings.


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


class Private(NamedTuple):
    """The paths of a cache's notes that are private, or may be; `known`: those that were when they were indexed."""

    notes: frozenset[str]
    known: frozenset[str]


class _Judged(NamedTuple):
    """The private notes by some rules, the commits and own changes seen by then, and the journal's last number."""

    state: tuple[int, int]
    rules: Rules
    number: int
    found: Private


class SqliteNotes:
    """What a cache knows of notes, read on its connection."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con
        self._private: _Judged | None = None

    def names(self, paths: Collection[str] | None = None) -> dict[str, tuple[str, str]]:
        """Return the title, and the aliases as JSON, of every note or of those at `paths`, by path."""
        some = "" if paths is None else " WHERE path IN (SELECT value FROM json_each(?))"
        bindings = () if paths is None else (json.dumps(list(paths)),)
        found = select(self._con, f"SELECT path, title, aliases FROM vault_node{some}", bindings)
        return {path: (title, aliases) for path, title, aliases in found}

    def headings(self, paths: Collection[str], most: int) -> list[tuple[str, list[str]]]:
        """Return the path and the headings above each of the first `most` chunks of notes, in order."""
        found = select(
            self._con,
            "SELECT path, heading_path FROM vault_chunk WHERE path IN (SELECT value FROM json_each(?))"
            " AND position < ? ORDER BY path, position",
            (json.dumps(list(paths)), most),
        )
        return [(path, json.loads(headings)) for path, headings in found]

    def settling(self) -> frozenset[str]:
        """Return the paths of the notes of which a newer version waits to be indexed."""
        waiting = "applied_generation < generation AND parked = 0 AND wanted_hash IS NOT NULL"
        sql = f"SELECT path FROM vault_file WHERE {waiting}"
        return frozenset(path for (path,) in select(self._con, sql))

    def has_note_called(self, name: str) -> bool:
        """Say whether an indexed note has a title, an alias or a file called so, whatever the case of ASCII."""
        found = first(
            self._con,
            "SELECT 1 FROM vault_node file WHERE title = ?1 COLLATE NOCASE OR EXISTS"
            f" (SELECT 1 FROM json_each(aliases) WHERE value = ?1 COLLATE NOCASE) OR {_CALLED} LIMIT 1",
            (name, json.dumps(_files_called(name))),
        )
        return found is not None

    def unindexed_files_called(self, name: str) -> list[str]:
        """Return the notes that are ignored, parked or not indexed yet and whose file is called so."""
        found = select(
            self._con,
            "SELECT file.path FROM"
            " (SELECT path FROM vault_ignored UNION SELECT path FROM vault_file WHERE indexed_hash IS NULL) file"
            f" WHERE ?1 <> '' AND {_CALLED} ORDER BY file.path",
            (name, json.dumps(_files_called(name))),
        )
        return [path for (path,) in found]

    def files_without_note(self, words: Collection[str]) -> list[str]:
        """Return the files of the vault whose names may have one of these stems, and that are no notes of this cache.

        The notes of other caches are among them.
        """
        # A stem differs from its word at the end only.
        begins = [word[:-1] if len(word) > _WHOLE_STEM else word for word in words]
        has_one = " OR ".join(["instr(name, ?)"] * len(begins))
        sql = f"SELECT path FROM vault_path WHERE ({has_one}) AND path NOT IN (SELECT path FROM vault_node)"
        return [path for (path,) in select(self._con, sql, tuple(begins))]

    def record_ids(self, identity: str | None = None) -> list[tuple[str, str]]:
        """Return the id and the path of each record (YAML, JSON) that has one, or of those with this id, by path."""
        return select(
            self._con,
            "SELECT frontmatter ->> '$.id' AS id, path FROM vault_node"
            " WHERE (path LIKE '%.yaml' OR path LIKE '%.yml' OR path LIKE '%.json')"
            # Only what is read as the record's id is an alias, too.
            " AND EXISTS (SELECT 1 FROM json_each(aliases) WHERE value = frontmatter ->> '$.id')"
            " AND (?1 IS NULL OR frontmatter ->> '$.id' = ?1) ORDER BY path",
            (identity,),
        )

    def names_since(self, newest: int) -> dict[str, tuple[str, str]]:
        """Return title and aliases, as `names` does, of the notes that have a chunk with an id above `newest`."""
        found = select(
            self._con,
            "SELECT path, title, aliases FROM vault_node WHERE path IN (SELECT path FROM vault_chunk WHERE id > ?)",
            (newest,),
        )
        return {path: (title, aliases) for path, title, aliases in found}

    def first_chunks(self, paths: Collection[str]) -> dict[str, int]:
        """Return the id of each note's first chunk; notes without one are left out."""
        return dict(
            select(
                self._con,
                "SELECT path, id FROM vault_chunk WHERE path IN (SELECT value FROM json_each(?)) AND position = 0",
                (json.dumps(list(paths)),),
            )
        )

    def vectors_of(self, path: str) -> list[Vector]:
        """Return the vectors of a note's chunks that have one."""
        found = select(
            self._con,
            "SELECT v.embedding FROM vault_chunk c JOIN vault_vector v USING (text_hash) WHERE c.path = ?",
            (path,),
        )
        return [np.frombuffer(blob, "<f4") for (blob,) in found]

    def texts_of(self, path: str) -> list[str]:
        """Return the texts of a note's chunks in order, unchanged; neighbours may overlap.

        A note without text has none.
        """
        sql = "SELECT text FROM vault_chunk WHERE path = ? AND start_offset < end_offset ORDER BY position"
        found = select(self._con, sql, (path,))
        return [text for (text,) in found]

    def openings(self, paths: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the title and the beginning of the text of each of these notes that is indexed."""
        found = select(
            self._con,
            "SELECT path, title, coalesce((SELECT group_concat(text, char(10)) FROM"
            " (SELECT text FROM vault_chunk c WHERE c.path = n.path ORDER BY position LIMIT ?)), '')"
            " FROM vault_node n WHERE path IN (SELECT value FROM json_each(?))",
            (_OPENING_CHUNKS, json.dumps(list(paths))),
        )
        return {path: (title, text[:_OPENING]) for path, title, text in found}

    def indexed_hashes(self, paths: Collection[str]) -> dict[str, str]:
        """Return the hash of the indexed content of each of these notes; a note that is not indexed is missing."""
        sql = (
            "SELECT path, indexed_hash FROM vault_file WHERE indexed_hash IS NOT NULL"
            " AND path IN (SELECT value FROM json_each(?)) ORDER BY path"
        )
        return dict(select(self._con, sql, (json.dumps(list(paths)),)))

    def weighed(self) -> Iterator[tuple[str, str, tuple[str, ...], str, list[Vector]]]:
        """Yield every note: path, title, tags, the beginning of its text, the vectors of its chunks.

        Text and vectors are empty for a note without text.
        """
        chunks = select(
            self._con,
            "SELECT c.path, c.position, c.text, v.embedding FROM vault_chunk c"
            " LEFT JOIN vault_vector v USING (text_hash) WHERE c.start_offset < c.end_offset"
            " ORDER BY c.path, c.position",
        )
        texts: dict[str, str] = {}
        vectors: dict[str, list[Vector]] = {}
        for path, _, text, blob in chunks:
            if len(texts.get(path, "")) < _OPENING:
                texts[path] = (texts.get(path, "") + "\n" + text)[:_OPENING]
            if blob is not None:
                vectors.setdefault(path, []).append(np.frombuffer(blob, "<f4"))
        for path, title, tags in select(self._con, "SELECT path, title, tags FROM vault_node"):
            yield path, title, tuple(json.loads(tags)), texts.get(path, ""), vectors.get(path, [])

    def untagged(self) -> list[str]:
        """Return the paths of the notes and documents that have no tag."""
        return [
            path
            for (path,) in select(self._con, "SELECT path FROM vault_node WHERE tags = '[]' ORDER BY path")
        ]

    def recently_changed(
        self, limit: int, hidden: Collection[str] = frozenset()
    ) -> list[tuple[str, str, str]]:
        """Return path, title and time (UTC) of the notes (but the `hidden` ones) that changed last, newest first.

        A note that is to change in the future has the time of its file.
        """
        sql = (
            # The time of a file is written like this already: of most notes it counts.
            "SELECT path, title, iif(changed = modified_at, modified_at, strftime('%Y-%m-%dT%H:%M:%S+00:00',"
            " iif(coalesce(unixepoch(changed) <= unixepoch(), 0), changed, modified_at))) AS at"
            f" FROM (SELECT n.path, title, {CHANGED} AS changed, n.modified_at FROM {NODES})"
            " WHERE path NOT IN (SELECT value FROM json_each(?)) ORDER BY at DESC, path LIMIT ?"
        )
        return list(select(self._con, sql, (json.dumps(list(hidden)), limit)))

    def kept_of(self, path: str) -> dict[str, object] | None:
        """Return what is stored about a note's privacy, by the names of `OwnPrivacy`'s fields; None if nothing is."""
        found = first(self._con, "SELECT private, place, tag_lines FROM vault_node WHERE path = ?", (path,))
        if found is None or found[0] is None:
            return None
        return {"private": bool(found[0]), "place": found[1], "tags": found[2].split("\n")[1:-1]}

    def private(self, rules: Rules) -> Private:
        """Return which of this cache's notes are private. Raises CacheError.

        A note whose file is known to differ from what was indexed may be private, and so may a note of which nothing
        is stored, and one that belongs to another domain now. The answer is kept; after a commit, only the notes that
        the journal names are judged again.
        """
        if self._con.txn_state() == apsw.SQLITE_TXN_WRITE:  # what it sees may be rolled back
            return _split(dict(self._private_notes(rules)))
        state = data_version(self._con), self._con.total_changes()
        if self._private is None or (self._private.state, self._private.rules) != (state, rules):
            with snapshot(self._con):
                self._private = self._judged(state, rules, self._private)
        return self._private.found

    def _judged(self, state: tuple[int, int], rules: Rules, last: _Judged | None) -> _Judged:
        """Return which notes are private now, from which were and what changed since, if that is known."""
        oldest, number = one(
            self._con,
            "SELECT coalesce((SELECT min(number) FROM vault_privacy_change), 1),"
            " coalesce((SELECT max(number) FROM vault_privacy_change), 0)",
        )
        if last is None or last.rules != rules or not oldest - 1 <= last.number <= number:
            found = dict(self._private_notes(rules))
            return _Judged(state, rules, number, _split(found))
        sql = "SELECT DISTINCT path FROM vault_privacy_change WHERE number > ?"
        changed = [path for (path,) in select(self._con, sql, (last.number,))]
        if not changed:
            return _Judged(state, rules, number, last.found)
        new = _split(dict(self._private_notes(rules, changed)))
        notes, known = ((old.difference(changed) | now) for old, now in zip(last.found, new, strict=True))
        return _Judged(state, rules, number, Private(notes, known))

    def _private_notes(self, rules: Rules, among: Collection[str] | None = None) -> list[tuple[str, bool]]:
        """Return the paths (of `among` these) of the notes that are private or may be.

        Each with whether it was when it was indexed.
        """
        some = "" if among is None else " AND path IN (SELECT value FROM json_each(?))"
        these = [] if among is None else [json.dumps(list(among), ensure_ascii=False)]
        if not rules.settings.llm:
            found = select(
                self._con,
                f"SELECT path FROM vault_file WHERE true{some} UNION SELECT path FROM vault_node WHERE true{some}",
                these * 2,
            )
            return [(path, True) for (path,) in found]
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
            self._con,
            f"SELECT path, is_known FROM (SELECT path, coalesce({known}, 0) AS is_known,"
            " p.private IS NULL OR f.wanted_hash IS NOT f.indexed_hash AS is_new"
            f" FROM vault_file f LEFT JOIN vault_node p USING (path) WHERE true{some}) WHERE is_known OR is_new"
            f" UNION ALL SELECT path, 0 FROM vault_node WHERE path NOT IN (SELECT path FROM vault_file){some}",
            [rules.folder, *(names for _, names in conditions), *these * 2],
        )
        return [(path, bool(is_known)) for path, is_known in found]


def _split(found: Mapping[str, bool]) -> Private:
    return Private(frozenset(found), frozenset(path for path, is_known in found.items() if is_known))
