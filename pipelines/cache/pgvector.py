"""The vectors of a cache in PostgreSQL, where pgvector finds the nearest, for query workers with too little memory.

They are in a table of their own, which is derived from the cache's: the first query worker that needs it makes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import numpy as np

from pipelines.cache.cache import SqliteCache
from pipelines.cache.vectors import Vector
from pipelines.errors import CacheError, ConfigurationError
from pipelines.model import VectorIndex
from pipelines.postgres import PostgresConnection
from pipelines.sqlite import first, one, select, transaction

Choice = Literal["auto", "exact", "ivfflat", "hnsw"]

_OLDEST = (0, 8)  # with iterative scans, without which a filter may leave too few of what an index finds
_AT_ONCE = 2_000
_MOST_DIMENSIONS = 4_000  # of half-precision vectors in an index
_FEW_LISTS, _HNSW = 10_000, 100_000  # passages
_HAS_GROWN = 2  # times: the lists of IVFFlat are those of the passages with which it was built
_ASKED, _NEAREST = 50, 10  # questions that measure recall, and how many passages each should find
# Among so few an exact search is as fast, and a filter that leaves a small share of all would exhaust an index.
_FEW = 20_000
_EXTENSION = (
    "SELECT quote_ident(nspname), extversion, to_regclass('vault_embedding') IS NOT NULL"
    " FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'vector'"
)
# The trigger is for a passage whose vector is taken away, so that none keeps an earlier one.
_TABLE = """
CREATE TABLE vault_embedding (
    chunk_id BIGINT PRIMARY KEY REFERENCES vault_chunk ON DELETE CASCADE,
    embedding {0}.halfvec({1}) NOT NULL
);
CREATE OR REPLACE FUNCTION vault_embedding_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM vault_embedding WHERE chunk_id = NEW.id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER embedding_ended AFTER UPDATE OF has_vector, text_hash ON vault_chunk FOR EACH ROW
    WHEN (NEW.has_vector <> 1 OR NEW.text_hash <> OLD.text_hash) EXECUTE FUNCTION vault_embedding_ended();
"""
_LACKING = (
    "FROM vault_chunk c JOIN vault_vector v USING (text_hash) WHERE c.has_vector = 1"
    " AND octet_length(v.embedding) = {} AND {}"
    " AND NOT EXISTS (SELECT FROM vault_embedding e WHERE e.chunk_id = c.id)"
)
_INDEXES = (
    "SELECT quote_ident(relname), indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid"
    " WHERE indrelid = to_regclass('vault_embedding') AND NOT indisprimary"
    " AND starts_with(CAST(relname AS TEXT), 'vault_embedding_')"
)
_SETTINGS = (
    "SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = {};"
    " SET LOCAL ivfflat.iterative_scan = relaxed_order; SET LOCAL ivfflat.probes = {};"
)
_AMONG = "WHERE chunk_id = ANY(CAST(?2 AS BIGINT[]))"
# Entries of HNSW: of 200,000 passages, 800 find 0.99 of the ten nearest in 8 ms, and 200 find 0.89 in 2 ms (2026-11).
_FEWEST_VISITED, _MOST_VISITED = 800, 1_000
_PROBES = 10  # lists of IVFFlat


class _Index(NamedTuple):
    """An index as it is built; its name says all that distinguishes it from the others."""

    name: str
    kind: str
    with_: str


def _wanted(choice: Choice, passages: int, dimension: int) -> _Index | None:
    """Return the index for so many passages, or None for an exact search."""
    kind = choice
    if choice == "auto":
        kind = "ivfflat" if passages <= _HNSW else "hnsw"
    if kind == "exact" or dimension > _MOST_DIMENSIONS:
        return None
    if kind == "hnsw":
        return _Index("vault_embedding_hnsw", kind, "m = 16, ef_construction = 64")
    lists = 50 if passages < _FEW_LISTS else 100
    return _Index(f"vault_embedding_ivfflat_{lists}", kind, f"lists = {lists}")


class VectorTable:
    """The vectors of one cache for pgvector. One thread calls `follow`, one calls `keep`; any may ask."""

    def __init__(self, address: str, schema: str, dimension: int) -> None:
        """Connect when it is first used."""
        self._address = address
        self._schema = schema
        self._dimension = dimension
        self._home = "public"  # the schema of the extension
        self.is_complete = False
        """Whether it can be asked: it has the vectors that this host's copy of the cache has."""
        self._followed: int | None = None
        self._after: int | None = 0
        """Up to which passage the table was compared with the cache; None: with all."""
        self._changed: set[int] = set()
        self._kept: int | None = None

    def _connection(self) -> PostgresConnection:
        return PostgresConnection(self._address, self._schema)

    # Vectors come; with their passages they go

    def follow(self, cache: SqliteCache) -> None:
        """Add some of the vectors that the table lacks, unless another process does so at the moment."""
        try:
            self.is_complete = self._follow(cache)
        except CacheError:
            # The server is unavailable, which others report, or the table is gone, and `keep` makes it again.
            self.is_complete, self._followed = False, None

    def _follow(self, cache: SqliteCache) -> bool:
        """Add some vectors; say whether none lacks, or only those that came just now."""
        last, changed = cache.search.chunk_changes(self._followed)
        if changed is None:
            self._after, self._changed = 0, set()
        else:
            self._changed |= changed
        self._followed = last
        is_known = self._after is None and not self._changed
        if is_known and self.is_complete:
            return True
        con = self._connection()
        if not self._is_made(con):
            self._followed = None
            return False
        if is_known:
            return True
        added = (
            self._add(con, "c.id = ANY(CAST(? AS BIGINT[]))", _array(self._changed))
            if self._after is None
            else self._add(con, "c.id > ?", self._after)
        )
        if self._after is None:
            if added is not None and len(added) < _AT_ONCE:
                self._changed.clear()
        elif added is not None:
            self._after = added[-1] if len(added) == _AT_ONCE else None
        return self._after is None

    def _is_made(self, con: PostgresConnection) -> bool:
        self._home, _, is_made = first(con, _EXTENSION) or (self._home, "", False)
        return bool(is_made)

    def _add(self, con: PostgresConnection, which: str, value: object) -> list[int] | None:
        """Add vectors that are lacking; return their passages, in order, or None if another process adds some now."""
        lacking = _LACKING.format(4 * self._dimension, which)
        if first(con, f"SELECT 1 {lacking} LIMIT 1", (value,)) is None:
            return []
        with con.alone("vectors") as is_mine:
            if not is_mine:
                return None
            with transaction(con):
                found = select(
                    con, f"SELECT c.id, v.embedding {lacking} ORDER BY c.id LIMIT {_AT_ONCE}", (value,)
                )
                con.copy_in("COPY vault_embedding FROM STDIN (FORMAT BINARY)", self._rows(found))
        return [chunk for chunk, _ in found]

    def _rows(self, found: Sequence[tuple[int, bytes]]) -> bytes:
        """Return rows in the binary format of COPY: a vector is its dimension, zero, and its numbers."""
        rows = np.zeros(
            len(found),
            [
                *(("fields", ">i2"), ("id_size", ">i4"), ("id", ">i8"), ("vector_size", ">i4")),
                *(("dimension", ">i2"), ("zero", ">i2"), ("vector", ">f2", (self._dimension,))),
            ],
        )
        rows["fields"], rows["id_size"], rows["vector_size"] = 2, 8, 4 + 2 * self._dimension
        rows["dimension"], rows["id"] = self._dimension, [chunk for chunk, _ in found]
        vectors = np.frombuffer(b"".join(blob for _, blob in found), "<f4").reshape(-1, self._dimension)
        rows["vector"] = np.clip(np.nan_to_num(vectors), -1, 1)  # damage, too, must be storable
        return b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff"

    # Questions

    def nearest(self, vector: Vector, count: int, only: Sequence[int] | None = None) -> list[int]:
        """Return the ids of about the nearest chunks (of `only` these) to a vector. Raises CacheError."""
        con, question = self._connection(), f"[{','.join(map(str, vector.tolist()))}]"
        if only is None:
            return [chunk for chunk, _ in self._ask(con, question, count)]
        if len(only) > _FEW:
            # Most filters leave most of the passages: some more are found faster than all that pass are sent.
            found = np.array([chunk for chunk, _ in self._ask(con, question, 2 * count)], np.int64)
            passing: list[int] = found[np.isin(found, np.fromiter(only, np.int64))][:count].tolist()
            if len(passing) < count:
                passing = [chunk for chunk, _ in self._ask(con, question, count, _AMONG, _array(only))]
            if len(passing) == count:
                return passing
        return [chunk for chunk, _ in self._ask(con, question, count, _AMONG, _array(only), exact=True)]

    def _ask(
        self,
        con: PostgresConnection,
        question: str,
        count: int,
        which: str = "",
        *values: object,
        exact: bool = False,
    ) -> list[tuple[int, float]]:
        """Return the nearest passages with their distances: the exactly nearest ones, or those an index finds."""
        settings = _SETTINGS.format(min(max(count, _FEWEST_VISITED), _MOST_VISITED), _PROBES)
        distance = f"embedding OPERATOR({self._home}.<=>) CAST(?1 AS {self._home}.halfvec)"
        # No index has an order by a sum.
        order = f"({distance}) + 0" if exact else distance
        return con.last_rows(
            f"{settings} SELECT chunk_id, {distance} FROM vault_embedding {which} ORDER BY {order} LIMIT {count}",
            (question, *values),
        )

    # The extension, the table and its index

    def keep(self, choice: Choice, known: VectorIndex | None) -> VectorIndex | None:
        """Make what is missing; return what is to be known of an index that was built, which may take minutes.

        `known`: of the last one. Raises ConfigurationError where pgvector cannot be used, CacheError.
        """
        con = self._connection()
        if not self.is_complete:
            self._make(con)
            return None
        followed = self._followed
        if self._kept == followed:
            return None
        (passages,) = one(con, "SELECT count(*) FROM vault_embedding")
        index = _wanted(choice, passages, self._dimension)
        there = dict(select(con, _INDEXES))
        built = VectorIndex(index.kind if index else "exact", passages, 1.0)
        has_grown = bool(
            index and index.kind == "ivfflat" and known and passages > _HAS_GROWN * known.passages
        )
        is_there = there == ({index.name: True} if index else {})
        if is_there and known and known.kind == built.kind and not has_grown:
            self._kept = followed
            return None
        with con.alone("index") as is_mine:
            if not is_mine:
                return None
            there = dict(select(con, _INDEXES))  # another process may have built it meanwhile
            self._build(con, there, index, again=has_grown)
            self._kept = followed
            return built._replace(recall=self._recall(con))

    def _make(self, con: PostgresConnection) -> None:
        if first(con, _EXTENSION) is None:
            with con.errors():
                con.make_extension("vector")
        self._home, version, is_made = one(con, _EXTENSION)
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            raise ConfigurationError(
                f"the database has pgvector {version}, which is older than {'.'.join(map(str, _OLDEST))}: have its"
                " administrator install a newer one and run `ALTER EXTENSION vector UPDATE`"
            )
        if not is_made:
            self._kept = None
            with transaction(con):
                if not self._is_made(con):  # another process may have made it meanwhile
                    con.last_rows(_TABLE.format(self._home, self._dimension) + "SELECT 1", ())

    def _build(
        self, con: PostgresConnection, there: dict[str, bool], index: _Index | None, *, again: bool
    ) -> None:
        """Build an index beside the others, which serve until then, and drop these."""
        with con.errors():
            for name in [name for name, is_valid in there.items() if not is_valid]:
                con.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")  # what was left of a build
            if index and there.get(index.name):
                if again:
                    con.execute(f"REINDEX INDEX CONCURRENTLY {index.name}")
            elif index:
                con.execute(
                    f"CREATE INDEX CONCURRENTLY {index.name} ON vault_embedding"
                    f" USING {index.kind} (embedding {self._home}.halfvec_cosine_ops) WITH ({index.with_})"
                )
            for name in there:
                if index is None or name != index.name:
                    con.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")

    def _recall(self, con: PostgresConnection) -> float:
        """Return the share of the exactly nearest passages that are found, for a sample of passages as questions."""
        sample = select(
            con,
            "SELECT chunk_id, CAST(embedding AS TEXT) FROM vault_embedding WHERE chunk_id IN (SELECT chunk_id"
            f" FROM vault_embedding ORDER BY random() LIMIT {_ASKED})",
        )
        found = wanted = 0
        for chunk, text in sample:
            others = "WHERE chunk_id <> ?2", chunk
            exact = self._ask(con, text, _NEAREST, *others, exact=True)
            if not exact:
                continue
            # By distance, because of passages that are equally far any may be found.
            furthest = exact[-1][1]
            found += sum(distance <= furthest for _, distance in self._ask(con, text, _NEAREST, *others))
            wanted += len(exact)
        return found / wanted if wanted else 1.0


def _array(ids: Collection[int]) -> str:
    return f"{{{','.join(map(str, ids))}}}"
