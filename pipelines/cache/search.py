"""Read-only SQL over a cache for the retrievers: which chunks are near, match, or are linked."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath

import apsw
import numpy as np

from pipelines.cache.passages import SqlPassages
from pipelines.cache.vectors import SqlSecondVectors, Vector
from pipelines.model import PagerankOver
from pipelines.notes.lexical import LexicalQuery, index_text
from pipelines.sqlite import COLUMN_WEIGHTS, corrupt, data_version, one, select

_ROUNDING = 1e-5  # between numpy's cosine and sqlite-vec's
_KNN_LIMIT = 4096  # sqlite-vec refuses a larger k


def _among(column: str, only: Collection[int] | Collection[str] | None) -> tuple[str, tuple[str, ...]]:
    if only is None:
        return "", ()
    return f"AND {column} IN (SELECT value FROM json_each(?))", (json.dumps(list(only)),)


# Words and numbers of the full-text index: which chunks contain a word, how often, and how long chunks are.


_LAST = 2**63 - 1
_FEW = 20  # chunks: a search in each takes 0.07 ms, and one for a phrase of common words in all of 10,000 up to 5 ms
_STEMS = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.fts_{0} USING fts5vocab('main', 'vault_chunk_fts', '{0}')"


class SqliteSearch:
    """What the retrievers read, on a cache's connection."""

    def __init__(
        self,
        con: apsw.Connection,
        path: Path,
        dimension: int,
        passages: SqlPassages,
        second: SqlSecondVectors,
    ) -> None:
        self._con = con
        self._path = path
        self._dimension = dimension
        self._passages = passages
        self._second = second
        self._state: tuple[tuple[int, int], tuple[str, bool]] | None = None
        """The commits and own changes that this connection saw, and the name of the state that they left."""
        self._visible: tuple[object, str] | None = None
        """The same for those from whom notes are hidden; the hidden notes belong to what it depends on."""

    def nearest(
        self, vector: Vector, depth: int, only: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return chunk ids (of `only` these) with their cosine to a unit vector, nearest first."""
        among, bindings = _among("chunk_id", only)
        rows = select(
            self._con,
            f"SELECT chunk_id, distance FROM vault_chunk_vec WHERE embedding MATCH ? AND k = ? {among}",
            (vector.astype("<f4").tobytes(), min(depth, _KNN_LIMIT), *bindings),
        )
        return [(chunk_id, 1.0 - distance) for chunk_id, distance in rows]

    def matching(
        self, wanted: LexicalQuery, depth: int, only: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return chunk ids (of `only` these) with their BM25 (more is better) for a question's words, best first."""
        # The plus: otherwise SQLite would run the whole expression once per id.
        among, bindings = _among("+rowid", only)
        rows = select(
            self._con,
            "SELECT rowid, -bm25(vault_chunk_fts, ?, ?, ?) AS score FROM vault_chunk_fts"
            f" WHERE vault_chunk_fts MATCH ? {among} ORDER BY score DESC, rowid LIMIT ?",
            (*COLUMN_WEIGHTS, wanted.expression(), *bindings, depth),
        )
        return [(chunk_id, score) for chunk_id, score in rows]

    def notes_having(self, words: Sequence[str], within: int, has_it: Callable[[str], bool]) -> set[str]:
        """Return the paths of notes of which `has_it` accepts a name, or a passage that has the words together."""
        quoted = " ".join(f'"{word}"' for word in words)

        def is_there(*columns: object) -> bool:
            text, title, aliases = map(str, columns)
            return any(map(has_it, (text, title, *json.loads(aliases))))

        self._con.create_scalar_function("is_there", is_there, 3)
        self._con.create_scalar_function(
            "is_called_so", lambda *path: has_it(PurePosixPath(str(*path)).stem), 1
        )
        found = select(
            self._con,
            "SELECT c.path FROM vault_chunk_fts f JOIN vault_chunk c ON c.id = f.rowid"
            " JOIN vault_node n USING (path) WHERE vault_chunk_fts MATCH ? AND is_there(c.text, n.title, n.aliases)"
            # The index has titles, but no names of files: these are read where they are not the titles.
            " UNION SELECT path FROM vault_node WHERE instr(path, title || '.') = 0 AND is_called_so(path)",
            (f"NEAR({quoted}, {within})" if len(words) > 1 else quoted,),
        )
        return {path for (path,) in found}

    def notes_matching(self, phrase: str) -> set[str]:
        """Return the paths of the notes that have a passage with a phrase, in any of its English forms."""
        found = select(
            self._con,
            "SELECT DISTINCT c.path FROM vault_chunk_fts f JOIN vault_chunk c ON c.id = f.rowid"
            " WHERE vault_chunk_fts MATCH ?",
            (f'"{index_text(phrase)}"',),
        )
        return {path for (path,) in found}

    def texts_with(
        self, phrases: Collection[str], without: Collection[str], most: int
    ) -> list[tuple[str, str, int]]:
        """Return path, text and first line of chunks that have one of the phrases, in any of its English forms.

        The newest chunks come first, at most `most`, none of them of the notes `without`.
        """
        wanted = " OR ".join(f'"{words}"' for words in map(index_text, phrases) if words)
        if not wanted:
            return []
        return list(
            select(
                self._con,
                "SELECT c.path, c.text, c.first_line FROM vault_chunk_fts f JOIN vault_chunk c ON c.id = f.rowid"
                " WHERE vault_chunk_fts MATCH ? AND c.end_offset > c.start_offset"
                " AND c.path NOT IN (SELECT value FROM json_each(?)) ORDER BY f.rowid DESC LIMIT ?",
                (f"text : ({wanted})", json.dumps(list(without)), most),
            )
        )

    def chunks_of_notes(
        self, among: Collection[str] | None, without: Collection[str], only: Collection[int] | None
    ) -> list[int]:
        """Return the ids of the chunks (of `only` these) of the notes `among` these paths and not `without`."""
        of_notes, paths = _among("path", among)
        of_these, ids = _among("id", only)
        found = select(
            self._con,
            "SELECT id FROM vault_chunk WHERE path NOT IN (SELECT value FROM json_each(?))"
            f" {of_notes} {of_these} ORDER BY id",
            (json.dumps(list(without)), *paths, *ids),
        )
        return [chunk_id for (chunk_id,) in found]

    def notes_of(self, only: Collection[int] | None) -> set[str]:
        """Return the paths of the notes that have chunks (of `only` these)."""
        of_these, ids = _among("id", only)
        found = select(self._con, f"SELECT DISTINCT path FROM vault_chunk WHERE true {of_these}", ids)
        return {path for (path,) in found}

    def cosines(self, vector: Vector, ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of chunks to a unit vector, by id; chunks without a vector yet are left out."""
        return {chunk_id: float(own @ vector) for chunk_id, own in self.vectors_of_chunks(ids).items()}

    def chunks_with_vectors(self, only: Collection[int] | None) -> set[int]:
        """Return the ids of the chunks (of `only` these) that have a vector."""
        among, bindings = _among("id", only)
        found = select(self._con, f"SELECT id FROM vault_chunk WHERE has_vector = 1 {among}", bindings)
        return {chunk_id for (chunk_id,) in found}

    def count_vectors(self) -> int:
        """Count the chunks that have a vector."""
        (count,) = one(self._con, "SELECT count(*) FROM vault_chunk_vec_rowids")
        return int(count)

    def chunks_with_vectors_between(self, after: int, upto: int) -> set[int]:
        """Return those of the chunks with ids in (after, upto] that have a vector."""
        found = select(
            self._con,
            "SELECT c.id FROM vault_chunk c JOIN vault_vector v USING (text_hash)"
            " WHERE c.has_vector = 1 AND c.id > ? AND c.id <= ?",
            (after, upto),
        )
        return {chunk_id for (chunk_id,) in found}

    def chunk_changes(self, after: int | None) -> tuple[int, set[int] | None]:
        """Return the number of the last change, and the chunks embedded or deleted after the change `after`."""
        oldest, last = one(
            self._con,
            # Two queries: for a single end of an index SQLite does one lookup; for both it reads the whole index.
            "SELECT coalesce((SELECT min(number) FROM vault_chunk_change), 1),"
            " coalesce((SELECT max(number) FROM vault_chunk_change), 0)",
        )
        if after is None or not oldest - 1 <= after <= last:
            return last, None
        changed = select(self._con, "SELECT chunk_id FROM vault_chunk_change WHERE number > ?", (after,))
        return last, {chunk_id for (chunk_id,) in changed}

    def generation(self) -> str:
        """Return a name for the state of a cache that rankings depend on, computed again after each commit.

        Made of its file, newest chunk, last change of a vector, links, ranks, texts that wait for vectors of their
        sentences or by a second model, and number of notes and of their saves.
        """
        return self._ranking_state()[0]

    def is_refining(self) -> bool:
        """Say whether texts wait for vectors of their sentences, or by a second model; kept until a commit."""
        return self._ranking_state()[1]

    def _ranking_state(self) -> tuple[str, bool]:
        commits = (data_version(self._con), self._con.total_changes())
        if self._state is None or self._state[0] != commits:
            refining = bool(self._passages.pending_sentences(1) or self._second.pending(1))
            self._state = (commits, (self._generation(), refining))
        return self._state[1]

    def visible_generation(self, hidden: Collection[str]) -> str:
        """Return a name for the state of the notes that are not hidden; a change of hidden notes does not change it.

        Made of the number of these notes, their saves and vectors, their newest chunk, and when the last one was
        indexed. Computed again after each commit.
        """
        state = (data_version(self._con), self._con.total_changes(), frozenset(hidden))
        if self._visible is None or self._visible[0] != state:
            parts = one(
                self._con,
                "SELECT count(*), sum(applied_generation), sum(embedded_generation), max(indexed_at), (SELECT id FROM"
                " vault_chunk WHERE path NOT IN (SELECT value FROM json_each(?1)) ORDER BY id DESC LIMIT 1)"
                " FROM vault_file WHERE path NOT IN (SELECT value FROM json_each(?1))",
                (json.dumps(list(hidden)),),
            )
            self._visible = (state, ".".join(map(str, (self._path.stem, *parts))))
        return self._visible[1]

    def _generation(self) -> str:
        parts = one(
            self._con,
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'vault_chunk'), 0),"
            " coalesce((SELECT max(number) FROM vault_chunk_change), 0),"
            " (SELECT generation || '.' || ranked_generation FROM vault_graph),"
            " (SELECT count(*) FROM vault_sentence WHERE codes IS NULL), (SELECT count(*) FROM vault_second"
            " WHERE codes IS NULL), count(*), sum(applied_generation) FROM vault_file",
        )
        return ".".join(map(str, (self._path.stem, *parts)))

    def vectors_of_chunks(self, ids: Sequence[int]) -> dict[int, Vector]:
        """Return the unit vectors of chunks by id; chunks without a vector are left out."""
        found = select(
            self._con,
            "SELECT c.id, v.embedding FROM vault_chunk c JOIN vault_vector v USING (text_hash)"
            " WHERE c.id IN (SELECT value FROM json_each(?)) AND c.has_vector = 1",
            (json.dumps(list(ids)),),
        )
        size = 4 * self._dimension
        if any(len(blob) != size for _, blob in found):
            raise corrupt(self._path, ValueError("a vector does not have the dimension of its model"))
        return {chunk_id: np.frombuffer(blob, "<f4") for chunk_id, blob in found}

    def passages_nearer(self, vector: Vector, cosine: float, only: Collection[int] | None = None) -> int:
        """Count the chunks (of `only` these) nearer to a unit vector than a cosine; reads all vectors."""
        among, bindings = _among("chunk_id", only)
        (count,) = one(
            self._con,
            f"SELECT count(*) FROM vault_chunk_vec WHERE vec_distance_cosine(embedding, ?) < ? {among}",
            (vector.astype("<f4").tobytes(), 1.0 - cosine - _ROUNDING, *bindings),
        )
        return int(count)

    def chunks_as_near(self, vector: Vector, cosine: float, only: Collection[int] | None = None) -> list[int]:
        """Return the chunks (of `only` these) with at least this cosine to a unit vector; reads all vectors."""
        among, bindings = _among("chunk_id", only)
        found = select(
            self._con,
            f"SELECT chunk_id FROM vault_chunk_vec WHERE vec_distance_cosine(embedding, ?) <= ? {among}",
            (vector.astype("<f4").tobytes(), 1.0 - cosine + _ROUNDING, *bindings),
        )
        return [chunk_id for (chunk_id,) in found]

    def citations_touching(
        self, paths: Sequence[str], over: PagerankOver, most: int, hidden: Collection[str] = frozenset()
    ) -> int:
        """Count, up to `most`, the edges that PageRank uses and that begin or end at one of these notes.

        Those that begin or end at a `hidden` note do not count.
        """
        kinds = {"citations": "('citation')", "links": "('citation', 'wikilink')"}[over]
        (count,) = one(
            self._con,
            "WITH chosen AS (SELECT value AS path FROM json_each(?1)), hidden AS MATERIALIZED (SELECT value FROM"
            " json_each(?3)) SELECT count(*) FROM (SELECT 1 FROM vault_edge"
            f" WHERE kind IN {kinds} AND path IN chosen AND target <> path AND target NOT IN hidden"
            f" UNION ALL SELECT 1 FROM vault_edge WHERE kind IN {kinds} AND target IN chosen AND path NOT IN chosen"
            " AND path NOT IN hidden LIMIT ?2)",
            (json.dumps(list(paths)), most, json.dumps(list(hidden))),
        )
        return int(count)

    def linked_from(self, paths: Sequence[str], hidden: Collection[str] = frozenset()) -> dict[str, set[str]]:
        """Return the notes of the domain, without `hidden` ones, that each of these notes links to, in any way."""
        found: dict[str, set[str]] = defaultdict(set)
        for path, target in select(
            self._con,
            "SELECT e.path, e.target FROM vault_edge e JOIN vault_node n ON n.path = e.target"
            " WHERE e.path IN (SELECT value FROM json_each(?)) AND e.target <> e.path",
            (json.dumps(list(paths)),),
        ):
            if target in hidden:
                continue
            found[path].add(target)
        return found

    def newest_chunk(self) -> int:
        """Return the highest id that a chunk ever had; ids only grow."""
        (newest,) = one(
            self._con, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'vault_chunk'), 0)"
        )
        return int(newest)

    def lengths(self, after: int, upto: int = _LAST) -> list[tuple[int, int]]:
        """Return the chunks with ids in (after, upto], in order, each with its number of words."""
        return select(
            self._con,
            "SELECT rowid, word_count(vault_chunk_fts) FROM vault_chunk_fts"
            " WHERE rowid > ? AND rowid <= ? ORDER BY rowid",
            (after, upto),
        )

    def occurrences(self, phrase: str, after: int, upto: int = _LAST) -> list[tuple[int, float]]:
        """Return the chunks in (after, upto] that contain a phrase, in order, with its count by column weight."""
        return select(
            self._con,
            "SELECT rowid, weighted_count(vault_chunk_fts) FROM vault_chunk_fts"
            " WHERE vault_chunk_fts MATCH ? AND rowid > ? AND rowid <= ? ORDER BY rowid",
            (f'"{phrase}"', after, upto),
        )

    def totals(self) -> tuple[int, int]:
        """Return the number of chunks, and the number of words in all of them."""
        return one(
            self._con,
            "SELECT (SELECT count(*) FROM vault_chunk),"
            " coalesce((SELECT all_words(vault_chunk_fts) FROM vault_chunk_fts LIMIT 1), 0)",
        )

    def count_having(self, phrase: str) -> int:
        """Count the chunks that contain a phrase."""
        (count,) = one(
            self._con, "SELECT count(*) FROM vault_chunk_fts WHERE vault_chunk_fts MATCH ?", (f'"{phrase}"',)
        )
        return int(count)

    def lengths_of(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return those of these chunks that exist, in order, each with its number of words."""
        return select(
            self._con,
            "SELECT rowid, word_count(vault_chunk_fts) FROM vault_chunk_fts"
            " WHERE rowid IN (SELECT value FROM json_each(?)) ORDER BY rowid",
            (json.dumps(list(ids)),),
        )

    def occurrences_in(self, phrase: str, ids: Sequence[int]) -> list[tuple[int, float]]:
        """Return those of these chunks that contain a phrase, in order, with its count by column weight."""
        # With the plus SQLite searches for the phrase once, and without it once per id, which is faster for a few.
        rowid = "rowid" if len(ids) <= _FEW else "+rowid"
        return select(
            self._con,
            "SELECT rowid, weighted_count(vault_chunk_fts) FROM vault_chunk_fts"
            f" WHERE vault_chunk_fts MATCH ? AND {rowid} IN (SELECT value FROM json_each(?)) ORDER BY rowid",
            (f'"{phrase}"', json.dumps(list(ids))),
        )

    def stems_beginning(self, letter: str) -> list[str]:
        """Return the words of the index that begin with a letter, as the tokenizer stemmed them."""
        self._con.execute(_STEMS.format("row"))
        found = select(
            self._con,
            "SELECT term FROM temp.fts_row WHERE term >= ? AND term < ?",
            (letter, chr(ord(letter) + 1)),
        )
        return [term for (term,) in found]

    def texts_with_stem(self, stem: str, hidden: Collection[str], most: int) -> list[str]:
        """Return texts, with the names of their notes, of chunks with a stemmed word, but not of `hidden` notes."""
        self._con.execute(_STEMS.format("instance"))
        found = select(
            self._con,
            "SELECT n.title || char(10) || n.aliases || char(10) || c.section || char(10) || c.text"
            " FROM vault_chunk c JOIN vault_node n USING (path)"
            " WHERE c.id IN (SELECT doc FROM temp.fts_instance WHERE term = ?)"
            " AND c.path NOT IN (SELECT value FROM json_each(?)) ORDER BY c.id LIMIT ?",
            (stem, json.dumps(list(hidden)), most),
        )
        return [text for (text,) in found]
