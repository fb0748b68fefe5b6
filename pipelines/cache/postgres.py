"""A cache in PostgreSQL: what is durable is there, and what a question reads is in this host's copy of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path

from pipelines.cache.cache import CacheTables
from pipelines.cache.copied import COPY_OF, Copy
from pipelines.cache.filters import SqliteFiltering
from pipelines.cache.graph import RankedBy, SqliteGraph
from pipelines.cache.notes import SqliteNotes
from pipelines.cache.passages import Quantized, SqlitePassages
from pipelines.cache.schema import CacheMeta, build, check_model, read_meta
from pipelines.cache.search import SqliteSearch
from pipelines.postgres import PostgresConnection


class PostgresCache(CacheTables):
    """A cache in a schema of PostgreSQL, for writing; `pipelines.store` says what it promises.

    Everything that is written is written there. What is read for questions and lists is read from the copy, after it
    has taken in what was committed until then. Do not share it between threads.
    """

    con: PostgresConnection

    def __init__(
        self, con: PostgresConnection, copy: Copy, meta: CacheMeta, clock: Callable[[], float]
    ) -> None:
        super().__init__(con, meta, clock)
        self._copy = copy
        self._seen = -1
        self.path = copy.cache.path
        self._graph = _Graph(self, SqliteGraph(con, self.edges))
        self._passages = _Passages(self, SqlitePassages(con, meta.dimension))

    @classmethod
    def create(
        cls,
        address: str,
        schema: str,
        path: Path,
        meta: CacheMeta,
        *,
        clock: Callable[[], float] | None = None,
    ) -> PostgresCache:
        """Open a cache for writing with its copy at `path`, and create both if they do not exist.

        A change of `meta.pipeline` makes every note dirty. Raises ModelMismatchError, CacheCorruptError, StateError.
        """
        con = PostgresConnection(address, schema)
        try:
            with con.errors(), con.transaction():
                if not con.has_schema():
                    con.make_schema(files(__package__).joinpath("postgres.sql").read_text(encoding="utf-8"))
                    build(con, meta)
                    con.execute("INSERT INTO vault_meta VALUES (?, ?)", (COPY_OF, secrets.token_hex(16)))
            found = read_meta(con, Path(schema))
            check_model(found, meta.model, meta.dimension, Path(schema))
            cache = cls(con, Copy(con, path, found), found, clock or con.clock())
            if found.pipeline != meta.pipeline:
                cache.adopt(meta)
        except BaseException:
            con.close()
            raise
        return cache

    def close(self) -> None:
        """Close the connection and the copy."""
        self._copy.close()
        super().close()

    def follow(self) -> None:
        """Have the copy take in what was committed, unless this connection's own transaction is in progress."""
        if not self.con.in_transaction and (version := self.con.data_version()) != self._seen:
            self._copy.follow()
            self._seen = version

    # What is read is read from the copy

    @property
    def filters(self) -> SqliteFiltering:
        """Which notes pass a question's filters."""
        self.follow()
        return self._copy.cache.filters

    @property
    def notes(self) -> SqliteNotes:
        """What is known of notes by their names."""
        self.follow()
        return self._copy.cache.notes

    @property
    def search(self) -> SqliteSearch:
        """What the retrievers read."""
        self.follow()
        return self._copy.cache.search

    @property
    def graph(self) -> SqliteGraph:
        """The edges among notes, and their ranks."""
        self.follow()
        return self._graph

    @property
    def passages(self) -> SqlitePassages:
        """Chunks and what is known of their notes."""
        self.follow()
        return self._passages

    @property
    def copy(self) -> Copy:
        """This host's copy."""
        return self._copy

    def snapshot(self) -> AbstractContextManager[None]:
        """Return a context whose reads from the copy all see the same state."""
        self.follow()
        return self._copy.cache.snapshot()

    def data_version(self) -> int:
        """Return a number that changes with each commit of another connection; compare it only on this connection."""
        return self.con.data_version()

    def tidy(self) -> None:
        """Take in what was committed, and truncate the copy's journal. Raises CacheError."""
        self.follow()
        self._copy.cache.tidy()


class _Graph(SqliteGraph):
    """The graph of the copy; ranks are written to PostgreSQL."""

    def __init__(self, cache: PostgresCache, source: SqliteGraph) -> None:
        super().__init__(cache.copy.cache.con, cache.edges)
        self._source = source

    def forget_ranks(self) -> None:
        """Delete all ranks and communities as untrusted, and make them due."""
        self._source.forget_ranks()

    def write_ranks(
        self,
        generation: int,
        ranks: Iterable[tuple[str, float, float, int]],
        labels: Mapping[int, str],
        by: RankedBy,
    ) -> None:
        """Replace all ranks (path, PageRank, centrality, community) and communities at once."""
        self._source.write_ranks(generation, ranks, labels, by)


class _Passages(SqlitePassages):
    """The passages of the copy; which sentences lack vectors, and these vectors, are in PostgreSQL."""

    def __init__(self, cache: PostgresCache, source: SqlitePassages) -> None:
        super().__init__(cache.copy.cache.con, cache.meta.dimension)
        self._source = source

    def pending_sentences(self, most: int) -> dict[str, str]:
        """Return up to `most` texts whose sentences have no vectors yet, by hash."""
        return self._source.pending_sentences(most)

    def hashes_of_pending_sentences(self) -> list[str]:
        """Return the hashes of all texts whose sentences have no vectors yet."""
        return self._source.hashes_of_pending_sentences()

    def keep_quantized(self, quantized: Mapping[str, Quantized]) -> None:
        """Store the quantized vectors of texts' sentences by text hash: shape (sentences, dimension)."""
        self._source.keep_quantized(quantized)
