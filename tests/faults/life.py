"""What a life consists of: a world (a vault, its state, its user), and the real service in one process.

Only two things are not real: the model (a fake that hashes, so that a child is quick) and the ledger's clock,
which advances when all that is left is postponed, so that no test has to wait.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from huey.signals import SIGNAL_ERROR

import pipelines.graph.leiden  # noqa: F401 - loaded once for all children
from pipelines.cache.cache import CacheTables
from pipelines.cache.postgres import PostgresCache
from pipelines.embedding.models import ModelInfo, find_model
from pipelines.errors import EverindexError
from pipelines.formats import FORMATS
from pipelines.indexing.ingest import Ingest
from pipelines.indexing.reconcile import Report, check_paths
from pipelines.model import ChunkSettings, Domain, PostgresPlace
from pipelines.store import WritableCache
from queue_config.settings import Settings
from service.usecases.maintenance import rebuild_caches, repair_caches, verify_caches
from tests.working import commit_all
from workers.heartbeat import host
from workers.models import Embedders
from workers.resources import Resources
from workers.run import make_upkeep_tasks, sweep_upkeep
from workers.tasks import announce, load_models, make_tasks, reconcile_now, rehash_share, sweep

DAY_SECONDS = 24 * 3600.0
LARGEST_NOTE_MB = 0.05
DEAD_OWNER = f"{host()}:{2**22 + 1}/1.00#0"  # above every process id that Linux gives
_MODELS = {"a": 8, "b": 12}
_MANY_TURNS = 2000
_FAILED_TURNS = 4
_STEP_SECONDS = 5.0
_PATIENCE_SECONDS = 120.0  # twice the longest pause between attempts; less than a lease

T = TypeVar("T")
Opened = TypeVar("Opened", bound=CacheTables)


def _do_nothing(*_: object) -> None:
    """Ignore all arguments."""


def make_models(folder: Path) -> None:
    """Write the files that `find_model` reads of a model, without weights that could be loaded."""
    for name, dimension in _MODELS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "modules.json").write_text(json.dumps([{"path": ""}]))
        said = {"hidden_size": dimension, "max_position_embeddings": 256}
        (folder / name / "config.json").write_text(json.dumps(said))


class FakeEmbedder:
    """A fake model: a text's hash as a unit vector. `before` is called first, and may raise."""

    def __init__(self, info: ModelInfo) -> None:
        self.info = info
        self.is_broken = False
        self.before: Callable[[], object] = _do_nothing

    def use_threads(self, threads: int) -> None:
        """It has none."""

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        self.before()
        return self.encode_queries(texts)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        digests = [hashlib.sha256(f"{self.info.dimension}{text}".encode()).digest() for text in texts]
        numbers = np.frombuffer(b"".join(digests), np.uint8).reshape(len(texts), -1)
        vectors = numbers[:, : self.info.dimension].astype(np.float32) - 127.5
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class FakeEmbedders(Embedders):
    """The fake model under every name."""

    def _get(self, model: str, threads: int | None) -> Any:  # noqa: ARG002 - the fake has none
        return self._loaded.setdefault(model, FakeEmbedder(find_model(model)))

    def _running_torch(self, *_: Any) -> None:
        """Do without a process: no library computes the fake."""


class LightResources(Resources):
    """The real resources, with the fake model and a ledger clock that can be advanced."""

    def __init__(self, settings: Settings, owner: str | None = None) -> None:
        super().__init__(settings)
        self.embedders = FakeEmbedders(self.place.state, find_model, dict)
        self.ahead = 0.0
        self._owner = owner
        # One process for all formats: otherwise each format would take another one.
        self.sandbox._used.update(form.reader for form in FORMATS if form.apart)

    def ingest(self, domain: Domain, cache: WritableCache) -> Ingest:
        ingest = super().ingest(domain, cache)
        return replace(ingest, owner=self._owner) if self._owner else ingest

    def before_encoding(self, step: Callable[[], object] = _do_nothing) -> None:
        for embedder in self.embedders._loaded.values():
            embedder.before = step  # type: ignore[union-attr]  # all are fakes

    def open_cache(
        self, path: Path, info: ModelInfo, domain: Domain, chunking: ChunkSettings | None = None
    ) -> WritableCache:
        return self._ahead_of_time(super().open_cache(path, info, domain, chunking))

    def _open_stored(self, store: PostgresPlace, path: Path) -> PostgresCache:
        return self._ahead_of_time(super()._open_stored(store, path))

    def _ahead_of_time(self, cache: Opened) -> Opened:
        now = cache.leases._clock
        cache.ledger._clock = cache.leases._clock = cache.edges._clock = lambda: now() + self.ahead
        return cache


@dataclass
class World:
    """A vault, its state and a backup in one folder, and what a user does there.

    `store` is the address of a PostgreSQL that has the state and the caches instead. `seen` are the digests of all states that the user brought the vault into.
    """

    base: Path
    models: Path
    store: str | None = None
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vault = self.base / "vault"
        self.state = self.base / "state"
        self.backup = self.base / "backup.tar"
        self.vault.mkdir(parents=True, exist_ok=True)
        self.seen.append(self.digest())

    def write(self, path: str, text: str | bytes) -> None:
        """Save as editors do: to a file beside the old one, which it then replaces."""
        beside = self.base / "beside"
        beside.write_bytes(text.encode() if isinstance(text, str) else text)
        (self.vault / path).parent.mkdir(parents=True, exist_ok=True)
        beside.replace(self.vault / path)
        self.seen.append(self.digest())

    def change_unseen(self, path: str) -> None:
        """Change a note in a way that `stat` does not show."""
        file = self.vault / path
        before = file.stat()
        file.write_text(file.read_text().replace("e", "E"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.seen.append(self.digest())

    def rename(self, old: str, new: str) -> None:
        (self.vault / old).rename(self.vault / new)
        self.seen.append(self.digest())

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self.vault / path).unlink()
        self.seen.append(self.digest())

    def commit(self) -> None:
        commit_all(self.vault, "2019-05-04T12:00:00Z")

    def forget_commits(self) -> None:
        shutil.rmtree(self.vault / ".git")

    def digest(self) -> str:
        """Return a digest of the vault's content: every file except our own dot-folder and git's."""
        total = hashlib.sha256()
        for folder, folders, names in os.walk(self.vault):
            folders[:] = sorted(set(folders) - {".everindex", ".git"})
            for name in sorted(names):
                data = Path(folder, name).read_bytes()
                total.update(f"{folder[len(str(self.vault)) :]}/{name}:{len(data)}:".encode() + data)
        return total.hexdigest()

    def settings(self, changes: Mapping[str, Any], state: Path | None = None) -> Settings:
        """Return the settings of a process in this world; with another `state`, of one that keeps all in files."""
        given = {"model": "a", "chunk_target_words": None} | dict(changes)
        model = str(self.models / given.pop("model"))
        return Settings(
            vault=self.vault,
            state=state or self.state,
            store=None if state else self.store,
            embedding_model=model,
            max_note_mb=LARGEST_NOTE_MB,
            **given,
        )


class Service:
    """Watcher and worker in one process. It goes on after our own errors, as they do."""

    def __init__(self, settings: Settings) -> None:
        self.resources = LightResources(settings)
        self.queue = self.resources.queue()
        self.tasks = make_tasks(self.queue, self.resources)
        self.upkeep = make_upkeep_tasks(self.queue, self.resources)
        self.troubles: list[BaseException] = []
        self.queue.signal(SIGNAL_ERROR)(lambda _signal, _task, error: self.troubles.append(error))

    def carry_on(self, step: Callable[[], T]) -> T | None:
        """Do a step; an error of our own class ends only this step, any other error is a bug."""
        try:
            return step()
        except EverindexError as error:
            self.troubles.append(error)
            return None

    def begin(self) -> None:
        """Start as watcher and worker do, and work."""
        self.carry_on(self.resources.check_models)
        self.compare()
        self.work()

    def compare(self, *, confirmed: bool = False) -> dict[str, Report]:
        again = partial(reconcile_now, self.queue, self.tasks, self.resources, confirmed=confirmed)
        return self.carry_on(again) or {}

    def notice(self, *raws: str) -> None:
        """What the watcher does with paths that settled."""
        self.carry_on(lambda: self._notice(raws))

    def _notice(self, raws: Sequence[str]) -> None:
        resources, caches = self.resources, self.resources.caches()
        reports = check_paths(
            resources.root,
            resources.registry(),
            caches,
            raws,
            max_bytes=resources.settings.max_note_bytes,
            brake=resources.brake(settle=False),
        )
        for domain in resources.domains():
            announce(self.queue, self.tasks, domain, caches[domain.slug], reports[domain.slug].events)

    def turn(self) -> bool:
        """What the worker does next: sweep, load models, and execute a task; say whether there was one."""
        for work in (sweep, load_models):
            self.carry_on(partial(work, self.queue, self.tasks, self.resources))
        self.carry_on(partial(sweep_upkeep, self.queue, self.upkeep, self.resources))
        task = self.queue.dequeue()
        if task is not None:
            self.queue.execute(task)
        return task is not None

    def work(self) -> bool:
        """Work until nothing is pending, and say whether that succeeded; give up on a disk that keeps failing."""
        failing = 0
        for _ in range(_MANY_TURNS):
            before = len(self.troubles)
            left = self.turn() or self.carry_on(self.pending)
            if len(self.troubles) > before:
                failing += 1
                if failing > _FAILED_TURNS:
                    return False
            elif not left:
                return True
            elif left is not True:
                self.resources.ahead += _STEP_SECONDS
        raise AssertionError(f"never quiet: {self.pending()} are pending")

    def rehash(self) -> None:
        self.carry_on(lambda: rehash_share(self.queue, self.tasks, self.resources, DAY_SECONDS))

    def pending(self) -> int:
        caches = self.resources.caches().values()
        counts = [cache.counts() for cache in caches]
        return sum(c.pending + c.vectors_pending for c in counts) + sum(
            c.edges.ranks_behind() + bool(c.passages.pending_sentences(1)) for c in caches
        )

    def shortcomings(self) -> list[str]:
        """Say what is wrong with how the work was done: some of it is left, or it waited too long."""
        wrong = []
        if pending := self.pending():
            wrong.append(f"{pending} are still pending")
        if self.resources.ahead > _PATIENCE_SECONDS:
            wrong.append(f"the work waited for {self.resources.ahead:.0f} s")
        return wrong

    def command(self, step: Callable[[Resources], object]) -> None:
        """Do what a command does in a process of its own: its leases have no living owner once it ends."""
        self.carry_on(lambda: step(LightResources(self.resources.settings, DEAD_OWNER)))

    def rebuild(self, *, only_other_models: bool = False) -> None:
        self.command(lambda own: rebuild_caches(own, _do_nothing, only_other_models=only_other_models))

    def repair(self) -> None:
        self.command(lambda own: repair_caches(own, verify_caches(own), _do_nothing))
