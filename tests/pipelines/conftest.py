"""A vault, its cache and its pipeline in one process: real files, real SQLite, a real (tiny) model."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.postgres import PostgresCache
from pipelines.cache.schema import CacheMeta
from pipelines.documents.read import Files
from pipelines.documents.sandbox import Sandbox
from pipelines.domains import load
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import ModelInfo, find_model
from pipelines.indexing.deletions import Release
from pipelines.indexing.ingest import Ingest, Outcome, embed_pending, index_saved, index_words, pipeline_name
from pipelines.indexing.reconcile import Report, check_paths, reconcile
from pipelines.model import EmbeddingContext, Place, PostgresPlace
from pipelines.notes.chunk import chunk_settings
from pipelines.state.note_log import NoteEvent
from pipelines.vault import files
from pipelines.vault.identity import identify
from tests.postgres import PostgresServer, postgres_server

MAX_BYTES = 1_000_000
_NOBODY = 65_534


class CountingEmbedder:
    """The real embedder, which records the texts that it encodes."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.texts: list[str] = []

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += texts
        return self._embedder.encode_documents(texts)


class LetGo:
    """A brake that holds nothing."""

    def release(self, _slug, vanished, _known, _looked):
        return Release(frozenset(vanished))


def as_read(cache: SqliteCache | PostgresCache) -> SqliteCache:
    """What is read for questions: the cache itself, or this host's copy of it."""
    if isinstance(cache, SqliteCache):
        return cache
    cache.follow()
    return cache.copy.cache


class House:
    """One domain of one vault. `now` is its clock."""

    def __init__(
        self,
        root: Path,
        state: Path,
        embedder: Embedder,
        context: EmbeddingContext = "off",
        address: str | None = None,
    ) -> None:
        self.root = root
        self.address = address
        self.token = secrets.token_hex(8)
        self.state = state
        self.now = 1000.0
        self.embedder = CountingEmbedder(embedder)
        self.info: ModelInfo = embedder.info
        self.identity = identify(root)
        self.chunking = chunk_settings(self.info.window, None, None, context)
        self.cache = self.open("cache-vault.1.db")
        self.siblings: list[Path] = []
        self.sandbox = Sandbox()
        self.files = Files(self.sandbox)
        self.events: list[NoteEvent] = []

    def open(self, name: str) -> SqliteCache | PostgresCache:
        meta = CacheMeta(self.info.name, self.info.dimension, pipeline_name(self.chunking))
        if self.address is None:
            return SqliteCache.create(self.state / name, meta, clock=lambda: self.now)
        schema = f"{name}-{self.token}"
        return PostgresCache.create(self.address, schema, self.state / name, meta, clock=lambda: self.now)

    @property
    def ingest(self) -> Ingest:
        return Ingest(
            domain="vault",
            root=self.root,
            max_bytes=MAX_BYTES,
            chunking=self.chunking,
            owner="test",
            present=lambda: files.find(self.root, self.identity) is not None,
            encoder=lambda: self.embedder,
            encoder_ready=lambda: True,
            siblings=lambda: self.siblings,
            files=self.files,
            record=self.events.extend,
        )

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def reconcile(self) -> Report:
        return reconcile(self.root, load(self.root), {"vault": self.cache}, max_bytes=MAX_BYTES)["vault"]

    def notice(self, *paths: str) -> Report:
        """What the watcher does with paths that settled."""
        return check_paths(self.root, load(self.root), {"vault": self.cache}, paths, max_bytes=MAX_BYTES)[
            "vault"
        ]

    def save(self, path: str, text: str | bytes) -> Outcome:
        """What the watcher and a worker do with one save."""
        self.write(path, text)
        self.notice(path)
        return index_saved(self.cache, self.ingest)

    def drain(self) -> list[str]:
        """Work until nothing is pending, advancing the clock when a row waits; return the texts that were embedded."""
        before = len(self.embedder.texts)
        for _ in range(10_000):
            stage = index_words if self.cache.leases.has_pending("words") else embed_pending
            outcome = stage(self.cache, self.ingest)
            counts = self.cache.counts()
            if not counts.pending and not counts.vectors_pending:
                return self.embedder.texts[before:]
            if not outcome.touched:
                self.now += 5
        raise AssertionError(f"never quiet: {self.cache.counts()}")

    def close(self) -> None:
        self.cache.close()
        self.sandbox.close()

    def index(self) -> list[str]:
        self.reconcile()
        return self.drain()

    def parked(self) -> list[tuple[str, str, str]]:
        """Path, kind of error and reason of each parked note."""
        return [(row.path, row.kind, row.reason) for row in self.cache.ledger.parked_notes()]

    def picture(self, cache: SqliteCache | PostgresCache | None = None) -> dict[str, object]:
        """Everything derived, without ids: what must equal a from-scratch index."""
        con = as_read(cache or self.cache).con
        chunks = con.execute(
            "SELECT path, position, section, heading_path, text, text_hash, start_offset, end_offset,"
            " first_line, last_line, locator, context, has_vector, id FROM vault_chunk ORDER BY path, position"
        ).fetchall()
        vectors = dict(con.execute("SELECT chunk_id, embedding FROM vault_chunk_vec").fetchall())
        fts = {row[0] for row in con.execute("SELECT rowid FROM vault_chunk_fts").fetchall()}
        con.execute("INSERT INTO vault_chunk_fts (vault_chunk_fts) VALUES ('integrity-check')")
        assert fts == {row[-1] for row in chunks}, "FTS rows and chunks differ"
        assert set(vectors) == {row[-1] for row in chunks if row[-2]}, "vec rows and chunks differ"
        return {
            "nodes": con.execute(
                "SELECT path, title, frontmatter, tags, aliases, author, kind, published_at, evergreen, warnings,"
                " private, place, tag_lines, created_by, created_after, changed, changed_by, changed_after"
                " FROM vault_node ORDER BY path"
            ).fetchall(),
            "chunks": [row[:-1] for row in chunks],
            "vectors": [
                np.round(np.frombuffer(vectors[row[-1]], "<f4"), 2).tolist() for row in chunks if row[-2]
            ],
            "links": con.execute("SELECT * FROM vault_link ORDER BY path, position").fetchall(),
            "edges": con.execute("SELECT * FROM vault_edge ORDER BY path, position").fetchall(),
            "paths": con.execute("SELECT * FROM vault_path ORDER BY path").fetchall(),
            "files": con.execute(
                "SELECT path, raw, wanted_hash, indexed_hash, parked, error_kind FROM vault_file ORDER BY path"
            ).fetchall(),
        }

    def scratch_picture(self) -> dict[str, object]:
        """The picture of a cache that was built from the disk alone."""
        kept = self.cache, self.embedder.texts
        self.cache = self.open(f"scratch-{os.urandom(4).hex()}.db")
        try:
            self.index()
            return self.picture()
        finally:
            self.cache.close()
            self.cache, self.embedder.texts = kept


@pytest.fixture(scope="session")
def tiny_embedder(tiny_model: Path) -> Embedder:
    return Embedder(find_model(str(tiny_model)), threads=1)


@contextmanager
def housed(base: Path, embedder: Embedder, notes: Mapping[str, str]) -> Iterator[House]:
    """Make a house below an empty folder with these notes, indexed."""
    (base / "vault").mkdir()
    (base / "state").mkdir()
    made = House(base / "vault", base / "state", embedder)
    for path, text in notes.items():
        made.write(path, text)
    made.index()
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a module that says `ON_BOTH_STORES`, unless they are about SQLite, on PostgreSQL, too."""
    if "address" in metafunc.fixturenames and getattr(metafunc.module, "ON_BOTH_STORES", False):
        stores = [pytest.param("", id="sqlite")]
        if not metafunc.definition.get_closest_marker("of_sqlite"):
            stores.append(pytest.param("postgres", id="postgres", marks=pytest.mark.slow))
        metafunc.parametrize("address", stores, indirect=True)


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str | None:
    """Where the house keeps its cache: the address of a PostgreSQL, or None for a file."""
    if not getattr(request, "param", ""):
        return None
    return str(request.getfixturevalue("postgres").address)


@pytest.fixture
def place(tmp_path: Path, address: str | None) -> Place:
    """Where a vault's state is: in a folder, or in PostgreSQL."""
    return tmp_path if address is None else PostgresPlace(tmp_path, address, secrets.token_hex(8))


@pytest.fixture
def house(vault: Path, tmp_path: Path, tiny_embedder: Embedder, address: str | None) -> Iterator[House]:
    state = tmp_path / "state"
    state.mkdir()
    made = House(vault, state, tiny_embedder, address=address)
    yield made
    made.close()


@pytest.fixture
def variant(tiny_model, tmp_path):
    """Copy the tiny model under another name, and change its JSON files; None removes a file, or a key."""

    def make(changes, name="variant"):
        folder = tmp_path / name
        shutil.copytree(tiny_model, folder)
        for stem, change in changes.items():
            file = folder / stem
            if change is None:
                file.unlink()
            else:
                known = (json.loads(file.read_text()) if file.exists() else {}) | change
                file.write_text(json.dumps({key: value for key, value in known.items() if value is not None}))
        return folder

    return make


@pytest.fixture
def public():
    """A folder that every user can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="everindex-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def as_nobody():
    """Run a block without root's power to read and write everything."""

    def call(function, *args):
        if os.geteuid() != 0:
            return function(*args)
        os.seteuid(_NOBODY)
        try:
            return function(*args)
        finally:
            os.seteuid(0)

    return call
