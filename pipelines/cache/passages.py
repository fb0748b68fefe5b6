"""Read-only SQL over a cache for what a hit shows: chunks, and what is known of their notes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.cache.dates import CHANGED, CHANGED_BY, CREATED, CREATED_BY, NODES, STATED
from pipelines.formats import format_of
from pipelines.model import BY_GIT, Locator, NoteFacts
from pipelines.sqlite import Connection, records, select, transaction

_LAST_PATH = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk with its note's title and time."""

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
    published: str | None = None
    place: Locator | None = None

    @property
    def is_names_alone(self) -> bool:
        """Say whether the note has no text, so that the chunk holds its title, aliases and description."""
        return self.start == self.end


@dataclass(frozen=True, slots=True)
class NoteDates:
    """When a note was created and changed (ISO 8601), and by what: `property created`, `file name`, `git`, `file`."""

    created: str
    created_by: str
    changed: str
    changed_by: str

    @property
    def said(self) -> str:
        """Both dates in a sentence."""
        created, changed = _by(self.created_by), _by(self.changed_by)
        return f"created {self.created[:10]} {created}; changed {self.changed[:10]} {changed}"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A note's own row. `published_at` is its date of creation unless only its file's time is known."""

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
    dates: NoteDates


def _by(source: str) -> str:
    return f"by {source}" if source == BY_GIT else f"by its {source}"


def whole_sections(chunks: Sequence[ChunkRow]) -> list[str]:
    """Return the text of each section that has several of a note's chunks; words where they overlap come once."""
    texts = []
    for _, several in groupby(chunks, key=lambda chunk: chunk.section):
        own = list(several)
        text = own[0].text
        for before, chunk in pairwise(own):
            overlap = before.end - chunk.start
            text += chunk.text[overlap:] if overlap >= 0 else f"\n{chunk.text}"
        if len(own) > 1:
            texts.append(text)
    return texts


_CHUNK_COLUMNS = (
    "c.id, c.path, n.title, c.section, c.heading_path, c.text, c.first_line, c.last_line,"
    f" c.start_offset, c.end_offset, {CHANGED}, {STATED}, c.locator"
)


def _chunk(row: tuple[Any, ...]) -> ChunkRow:
    chunk_id, path, title, section, headings, text, first_line, last_line, start, end, *of_note, place = row
    modified, published = of_note
    return ChunkRow(
        chunk_id=chunk_id,
        path=path,
        title=title,
        section=section,
        heading_path=tuple(json.loads(headings)),
        text=text,
        first_line=first_line,
        last_line=last_line,
        start=start,
        end=end,
        modified=modified,
        published=published,
        place=Locator.from_json(place) if place else None,
    )


def document_text(chunks: Sequence[ChunkRow]) -> str:
    """Return the text of a document from its chunks, in order, with their lines and offsets.

    What lies between chunks is white space, or a part too short to be one.
    """
    parts: list[str] = []
    at, line = 0, 1
    for chunk in chunks:
        if chunk.start > at:
            ends = min(chunk.first_line - line, chunk.start - at)
            parts.append(" " * (chunk.start - at - ends) + "\n" * ends)
        parts.append(chunk.text[max(0, at - chunk.start) :])
        at, line = max(at, chunk.end), chunk.last_line
    return "".join(parts)


# The vectors of sentences as signed bytes: which are pending, how they are stored, and how a question reads them.


Quantized = npt.NDArray[np.int8]
"""Vectors with one signed byte per dimension; the column is named `codes`, as FAISS calls them."""


# A text that no chunk has any more is not embedded: it only waits for its vector's grace period to end.
# A subquery per row, because PostgreSQL would join all passages to return a few.
_PENDING = (
    "SELECT text_hash, text FROM (SELECT s.text_hash, (SELECT text FROM vault_chunk c"
    " WHERE c.text_hash = s.text_hash LIMIT 1) AS text FROM vault_sentence s WHERE s.codes IS NULL) pending"
    " WHERE text IS NOT NULL"
)


# Read-only SQL over a cache for source files: their symbols, the passages of these, and what files refer to.


_CODE = "code"


@dataclass(frozen=True, slots=True)
class FileSymbols:
    """The symbols of a source file, by their qualified names, and the first passage of each that has its own."""

    names: frozenset[str]
    chunks: dict[str, int] = field(default_factory=dict)


def source_files(paths: Iterable[str]) -> list[str]:
    """Return those of these paths that are of source files, by the ends of their names."""
    return [path for path in paths if (form := format_of(path)) is not None and form.name == _CODE]


def _names(stored: object) -> frozenset[str]:
    names = json.loads(stored) if isinstance(stored, str) and stored.startswith("[") else []
    return frozenset(name for name in names if isinstance(name, str))


# Find passages that may say little: those with many links, and the names of notes without text.


_SHORT = 300  # characters


@dataclass(frozen=True, slots=True)
class LinkChunk:
    """A chunk with links, its note's title, and the text of its note's first chunk."""

    chunk_id: int
    title: str
    section: str
    text: str
    first: str


def _node_row(
    path: str,
    title: str,
    frontmatter: str,
    tags: str,
    aliases: str,
    author: str | None,
    kind: str | None,
    published: str | None,
    evergreen: int,
    warnings: str,
    *dates: Any,
) -> NodeRow:
    return NodeRow(
        path=path,
        title=title,
        frontmatter=json.loads(frontmatter),
        tags=json.loads(tags),
        aliases=json.loads(aliases),
        author=author,
        kind=kind,
        published_at=published,
        modified=dates[2],
        evergreen=bool(evergreen),
        warnings=json.loads(warnings),
        dates=NoteDates(*dates),
    )


class SqlPassages:
    """What a hit shows, and the vectors of sentences, on a cache's connection.

    Of a copy, `source` says which sentences lack vectors, and takes them.
    """

    def __init__(self, con: Connection, dimension: int, source: Connection | None = None) -> None:
        self._con = con
        self._source = source or con
        self._dimension = dimension

    def note_facts(self, paths: Sequence[str]) -> dict[str, NoteFacts]:
        """Return the facts that the later layers need of notes, by path."""
        rows = select(
            self._con,
            f"SELECT n.path, n.author, n.kind, {CREATED}, {CHANGED}, n.modified_at, n.evergreen,"
            " nullif(r.pagerank, 0), iif(r.community > 0, r.centrality, NULL)"
            f" FROM {NODES} LEFT JOIN vault_rank r ON r.path = n.path"
            " WHERE n.path IN (SELECT value FROM json_each(?))",
            (json.dumps(list(paths)),),
        )
        return {
            row[0]: NoteFacts(
                path=row[0],
                author=row[1],
                kind=row[2],
                created=row[3],
                changed=row[4],
                modified_at=row[5],
                evergreen=bool(row[6]),
                pagerank=row[7],
                centrality=row[8],
            )
            for row in rows
        }

    def chunk_paths(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the paths of chunks by id."""
        return dict(
            select(
                self._con,
                "SELECT id, path FROM vault_chunk WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(ids),),
            )
        )

    def chunk_rows(self, ids: Sequence[int]) -> dict[int, ChunkRow]:
        """Return chunks by id."""
        rows = select(
            self._con,
            f"SELECT {_CHUNK_COLUMNS} FROM {NODES} JOIN vault_chunk c ON c.path = n.path"
            " WHERE c.id IN (SELECT value FROM json_each(?))",
            (json.dumps(ids),),
        )
        return {row[0]: _chunk(row) for row in rows}

    def text_around(self, ids: Sequence[int], most: int) -> dict[int, tuple[str, str]]:
        """Return, by chunk id, up to `most` characters before and after each chunk that overlaps with neighbours."""
        rows = select(
            self._con,
            "SELECT c.id, c.start_offset, c.end_offset, b.text, b.start_offset, a.text, a.start_offset"
            " FROM vault_chunk c LEFT JOIN vault_chunk b ON b.path = c.path AND b.position = c.position - 1"
            " AND b.end_offset > c.start_offset"
            " LEFT JOIN vault_chunk a ON a.path = c.path AND a.position = c.position + 1"
            " AND a.start_offset < c.end_offset"
            " WHERE c.id IN (SELECT value FROM json_each(?))",
            (json.dumps(ids),),
        )
        found = {}
        for chunk_id, start, end, before, before_start, after, after_start in rows:
            lead = before[: start - before_start][-most:] if before else ""
            found[chunk_id] = lead, after[end - after_start :][:most] if after else ""
        return found

    def chunks_of(self, path: str) -> list[ChunkRow]:
        """Return a note's chunks in order."""
        rows = select(
            self._con,
            f"SELECT {_CHUNK_COLUMNS} FROM {NODES} JOIN vault_chunk c ON c.path = n.path"
            " WHERE c.path = ? ORDER BY c.position",
            (path,),
        )
        return [_chunk(row) for row in rows]

    def texts_on_lines(self, lines: Mapping[str, int]) -> dict[str, tuple[str, int]]:
        """Return, by path, the text and first line of the first of a note's chunks that has a line of the file."""
        found: dict[str, tuple[str, int]] = {}
        for path, text, first_line in select(
            self._con,
            "SELECT c.path, c.text, c.first_line FROM json_each(?) line CROSS JOIN vault_chunk c ON c.path = line.key"
            " WHERE line.value BETWEEN c.first_line AND c.last_line AND c.end_offset > c.start_offset"
            " ORDER BY c.path, c.position",
            (json.dumps(dict(lines)),),
        ):
            found.setdefault(path, (text, first_line))
        return found

    def chunks_around(self, ids: Sequence[int], within: int) -> dict[str, list[ChunkRow]]:
        """Return, by path, the chunks of a note up to `within` places before and after each of these, in order."""
        found: dict[str, list[ChunkRow]] = {}
        for row in select(
            self._con,
            f"SELECT {_CHUNK_COLUMNS} FROM {NODES} JOIN vault_chunk c ON c.path = n.path WHERE c.id IN"
            " (SELECT other.id FROM vault_chunk one JOIN vault_chunk other ON other.path = one.path"
            " AND other.position BETWEEN one.position - ?2 AND one.position + ?2"
            " WHERE one.id IN (SELECT value FROM json_each(?1))) ORDER BY c.path, c.position",
            (json.dumps(list(ids)), within),
        ):
            chunk = _chunk(row)
            found.setdefault(chunk.path, []).append(chunk)
        return found

    def texts_in_folder(self, folder: str, first: int, without: Collection[str]) -> dict[str, list[str]]:
        """Return, by path, the texts of the chunks of the `first` notes directly in a folder, except some of them.

        `""` is the vault's own folder.
        """
        start = f"{folder}/" if folder else ""
        found: dict[str, list[str]] = {}
        for path, text in select(
            self._con,
            "WITH own AS MATERIALIZED (SELECT path FROM vault_node WHERE path >= ?1 AND path < ?2"
            " AND instr(substr(path, length(?1) + 1), '/') = 0 AND path NOT IN (SELECT value FROM json_each(?3))"
            " ORDER BY path LIMIT ?4)"
            " SELECT own.path, c.text FROM own CROSS JOIN vault_chunk c USING (path) ORDER BY own.path, c.position",
            (start, f"{folder}0" if folder else _LAST_PATH, json.dumps(list(without)), first),
        ):
            found.setdefault(path, []).append(text)
        return found

    def node(self, path: str) -> NodeRow | None:
        """Return a note's row, or None."""
        return self.nodes([path]).get(path)

    def nodes(self, paths: Collection[str]) -> dict[str, NodeRow]:
        """Return the rows of those of these notes that are indexed, by path."""
        rows = select(
            self._con,
            f"SELECT n.path, title, frontmatter, tags, aliases, author, kind, {STATED}, evergreen, warnings,"
            f" {CREATED}, {CREATED_BY}, {CHANGED}, {CHANGED_BY} FROM {NODES}"
            " WHERE n.path IN (SELECT value FROM json_each(?))",
            (json.dumps(list(paths)),),
        )
        return {row[0]: _node_row(*row) for row in rows}

    def text_hashes(self, paths: Sequence[str]) -> dict[str, list[str]]:
        """Return, by path, the hashes of notes' passages that have a vector, in the order of the text."""
        found: dict[str, list[str]] = defaultdict(list)
        for path, text_hash in select(
            self._con,
            "SELECT path, text_hash FROM vault_chunk WHERE path IN (SELECT value FROM json_each(?))"
            " AND has_vector = 1 ORDER BY path, position",
            (json.dumps(list(paths)),),
        ):
            found[path].append(text_hash)
        return found

    def pending_sentences(self, most: int) -> dict[str, str]:
        """Return up to `most` texts whose sentences have no vectors yet, by hash."""
        return dict(select(self._source, f"{_PENDING} LIMIT ?", (most,)))

    def hashes_of_pending_sentences(self) -> list[str]:
        """Return the hashes of all texts whose sentences have no vectors yet."""
        return [
            text_hash
            for (text_hash,) in select(
                self._source, "SELECT text_hash FROM vault_sentence WHERE codes IS NULL"
            )
        ]

    def keep_quantized(self, quantized: Mapping[str, Quantized]) -> None:
        """Store the quantized vectors of texts' sentences by text hash: shape (sentences, dimension)."""
        with transaction(self._source):
            self._source.executemany(
                "UPDATE vault_sentence SET codes = ? WHERE text_hash = ?",
                ((matrix.tobytes(), text_hash) for text_hash, matrix in quantized.items()),
            )

    def quantized_of_chunks(self, ids: Sequence[int]) -> dict[int, Quantized]:
        """Return the quantized vectors of chunks' sentences by chunk id, without unprepared ones.

        Shape: (sentences, dimension).
        """
        found = select(
            self._con,
            "SELECT c.id, s.codes FROM vault_chunk c JOIN vault_sentence s USING (text_hash)"
            " WHERE c.id IN (SELECT value FROM json_each(?)) AND length(s.codes) % ? = 0",
            (json.dumps(list(ids)), self._dimension),
        )
        return {
            chunk_id: np.frombuffer(blob, np.int8).reshape(-1, self._dimension) for chunk_id, blob in found
        }

    def source_files_since(self, newest: int) -> list[str]:
        """Return the paths of the source files that have a passage with an id above `newest`.

        A file with a new symbol has a new passage.
        """
        found = select(
            self._con,
            "SELECT path FROM vault_node WHERE path IN (SELECT path FROM vault_chunk WHERE id > ?)"
            " AND instr(frontmatter, '\"symbols\"') ORDER BY path",
            (newest,),
        )
        return source_files(path for (path,) in found)

    def symbols_of(self, paths: Collection[str]) -> dict[str, FileSymbols]:
        """Return the symbols of each of these source files that is indexed.

        The property `symbols` lacks those of a large file that had no room in it; their passages have their names.
        """
        chosen = (json.dumps(list(paths)),)
        labels: dict[str, dict[str, int]] = defaultdict(dict)
        for path, label, chunk_id in select(
            self._con,
            "SELECT path, section, id FROM vault_chunk WHERE path IN (SELECT value FROM json_each(?))"
            " AND locator IS NOT NULL ORDER BY path, position",
            chosen,
        ):
            labels[path].setdefault(label, chunk_id)
        found = select(
            self._con,
            "SELECT path, json_extract(frontmatter, '$.symbols') FROM vault_node"
            " WHERE path IN (SELECT value FROM json_each(?))",
            chosen,
        )
        return {
            path: FileSymbols(_names(stored) | labels[path].keys(), labels[path]) for path, stored in found
        }

    def referring(self, paths: Collection[str]) -> dict[str, set[str]]:
        """Return, by the path of each other indexed source file, which of these files refer to it."""
        found: dict[str, set[str]] = defaultdict(set)
        chosen = json.dumps(list(paths))
        for path, target in select(
            self._con,
            "SELECT DISTINCT e.path, e.target FROM vault_edge e JOIN vault_node n ON n.path = e.target"
            " WHERE e.path IN (SELECT value FROM json_each(?1))"
            " AND e.target NOT IN (SELECT value FROM json_each(?1))",
            (chosen,),
        ):
            found[target].add(path)
        return {path: found[path] for path in source_files(sorted(found))}

    def later_chunks_with_links(self, ids: Sequence[int]) -> list[LinkChunk]:
        """Return these chunks, without first ones, that have many links."""
        return records(
            self._con,
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

    def chunks_of_names(self, ids: Sequence[int]) -> set[int]:
        """Return those of these chunks that hold only their note's names, because the note has no text."""
        found = select(
            self._con,
            "SELECT id FROM vault_chunk WHERE id IN (SELECT value FROM json_each(?)) AND start_offset = end_offset",
            (json.dumps(list(ids)),),
        )
        return {chunk_id for (chunk_id,) in found}
