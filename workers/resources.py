"""Open what a process works with, from its settings: the vault, its state, domains, caches, embedders."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import structlog

from pipelines import domains
from pipelines.cache.cache import SqliteCache
from pipelines.cache.schema import CacheMeta, check_model
from pipelines.documents.read import Files, options_of
from pipelines.documents.sandbox import Sandbox
from pipelines.domains import Registry
from pipelines.embedding.embedder import Embedder, Library
from pipelines.embedding.models import EMBEDDED_MODEL, ModelInfo, find_downloaded, find_model
from pipelines.errors import (
    CacheError,
    CacheMissingError,
    ConfigurationError,
    DomainNotFoundError,
    EverindexError,
    ModelNotAllowedError,
)
from pipelines.formats import FormatName
from pipelines.indexing.deletions import DeletionBrake
from pipelines.indexing.ingest import Ingest, chunking_of, pipeline_name
from pipelines.model import ChunkSettings, DateOrder, Domain
from pipelines.notes.chunk import chunk_settings
from pipelines.notes.privacy import is_private_place
from pipelines.sqlite import FileId, file_id
from pipelines.state.health import Problems, Processes, Vanished
from pipelines.state.note_log import NoteEvent, NoteLog
from pipelines.state.state import State, numbered_caches
from pipelines.vault import files
from pipelines.vault.atomic import write_atomic
from pipelines.vault.obsidian import read_daily_format
from queue_config.logs import Trouble
from queue_config.queue import ONCE_SECONDS, NotRecordedError, Queue, open_queue
from queue_config.settings import Settings
from workers.heartbeat import lives, process_name
from workers.vault_paths import locate_vault, not_there

# A process's connections to `state.db` and to the caches: one per thread, opened at first use.


Store = TypeVar("Store")

log = structlog.get_logger()


class Stores:
    """A process's connections to the databases of a state folder, one per thread and kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = threading.local()
        self.replaced = 0
        """How often a cache's file was deleted or replaced while it was open."""

    def of(self, kind: Callable[[Path], Store]) -> Store:
        """Return this thread's connection of a kind, which is a class that opens the `state.db` of a folder."""
        opened: dict[Callable[[Path], Store], Store] = self._own.__dict__.setdefault("opened", {})
        if kind not in opened:
            opened[kind] = kind(self._folder)
        return opened[kind]

    def cache(self, slug: str, opener: Callable[[Path], SqliteCache], *, writable: bool) -> SqliteCache:
        """Return this thread's connection to a domain's current cache.

        It is reopened when another cache became current, and when the file was deleted or replaced, because writes to
        a deleted file are lost.
        """
        path = self.of(State).cache_path(slug)
        held: dict[tuple[str, bool], tuple[SqliteCache, FileId | None]] = self._own.__dict__.setdefault(
            "caches", {}
        )
        cache, opened = held.get((slug, writable), (None, None))
        if cache and (cache.path != path or opened != file_id(path)):
            if cache.path == path:
                self.replaced += 1
                log.error("the index was deleted or replaced while it was open", file=str(path))
            held.pop((slug, writable))
            cache.close()
            cache = None
        if cache is None:
            cache = opener(path)
            held[slug, writable] = cache, file_id(path)
        return cache


# The models that a process has loaded, and the number of threads that they may use.


LAST_QUERY_FILE = "last-query"
# How long after a question the workers leave one core to the query worker.
_QUERY_QUIET_SECONDS = 30.0
# From here on, loading torch and computing with it takes less time than numpy needs.
_MANY_TEXTS = 100


def _none() -> int:
    return 0


class Embedders:
    """A process's loaded models by name; each is loaded at first use, by numpy, or by torch when many texts wait.

    `find` returns the information about a model. `workers` returns the known worker processes and whether each lives.
    """

    def __init__(
        self,
        folder: Path,
        find: Callable[[str], ModelInfo],
        workers: Callable[[], Mapping[str, bool]],
    ) -> None:
        self._folder = folder
        self._find = find
        self._workers = workers
        self._loading = threading.Lock()
        self._loaded: dict[str, Embedder] = {}
        self._wanted: dict[str, Library] = {}

    def get(self, model: str, threads: int | None = None) -> Embedder:
        """Return the loaded model of that name. A broken one is loaded again."""
        with self._loading:
            return self._get(model, threads, self._wanted.get(model, "numpy"))

    def bulk(self, model: str, texts: Callable[[], int] = _none) -> Embedder:
        """Return the loaded model, set to the number of threads that bulk work may use now, in torch for many texts.

        Loading torch takes seconds.
        """
        with self._loading:
            wanted = self._wanted.get(model, "numpy")
            if wanted == "numpy" and texts() >= _MANY_TEXTS:
                wanted = "torch"
            embedder = self._get(model, self.threads(), wanted)
        embedder.use_threads(self.threads())
        return embedder

    def _get(self, model: str, threads: int | None, wanted: Library) -> Embedder:
        if not self.has_loaded(model) or self._wanted[model] != wanted:
            embedder = Embedder(self._find(model), threads=threads or self.threads(), library=wanted)
            if embedder.warning:
                log.warning("a model runs in a slower mode", model=model, reason=embedder.warning)
            self._loaded[model], self._wanted[model] = embedder, wanted
        return self._loaded[model]

    def has_loaded(self, model: str) -> bool:
        """Say whether the model of that name is already loaded, and works."""
        return model in self._loaded and not self._loaded[model].is_broken

    def leave_a_core(self) -> None:
        """Make the bulk work of all processes leave a core free for a while, because a question is being answered."""
        with suppress(OSError):  # questions are answered even on a full or read-only disk
            (self._folder / LAST_QUERY_FILE).touch()

    def threads(self) -> int:
        """Return how many threads bulk work may use.

        One core stays free while questions come; the workers of this machine share the others.
        """
        cores = os.cpu_count() or 1
        with suppress(OSError):  # no question was asked yet
            if time.time() - (self._folder / LAST_QUERY_FILE).stat().st_mtime < _QUERY_QUIET_SECONDS:
                cores -= 1
        here = f"{socket.gethostname()}:"
        workers = sum(alive and name.startswith(here) for name, alive in self._workers().items())
        return max(1, cores // max(1, workers))


@lru_cache(maxsize=256)
def _model_in(path: Path, _file: FileId | None) -> str | None:
    """Return the model of a cache that never changes; None if it cannot be read."""
    with suppress(CacheError), closing(SqliteCache.open(path)) as cache:
        return cache.meta.model
    return None


# Choose a domain's model and what it reads: as the settings say, or else as its vault says.
#
# A model that only the vault names has to be on this machine already.


_find_model = lru_cache(find_model)
_find_downloaded = lru_cache(find_downloaded)


def chosen_model(settings: Settings, named: str | None) -> ModelInfo:
    """Return the model that the settings choose, or else the vault's.

    Raises ModelUnavailableError, and ModelNotAllowedError if only the vault names the model.
    """
    name = settings.embedding_model or named
    return _find_model(name) if name is None or name in settings.chosen_models else _find_downloaded(name)


def chosen_chunking(settings: Settings, info: ModelInfo, domain: Domain) -> ChunkSettings:
    """Return how a domain's notes are split for a model, and which context is embedded with each passage."""
    return chunk_settings(
        info.passage_tokens,
        settings.chunk_target_words,
        settings.chunk_overlap_words,
        settings.embedding_context or domain.embedding_context,
    )


def recorded_model(settings: Settings, name: str, root: Path) -> ModelInfo:
    """Return the model that an existing index was built with. Raises ModelUnavailableError.

    Folders inside the vault are refused, and only models named in the settings are downloaded.
    """
    folder = Path(name)
    if name in settings.chosen_models or (
        folder.is_absolute() and folder.is_dir() and not folder.resolve().is_relative_to(root)
    ):
        return _find_model(name)
    try:
        return _find_downloaded(name)
    except ModelNotAllowedError as error:
        raise ModelNotAllowedError(f"an index was built with another model: {error}") from error


GOOD_DOMAINS_FILE = "domains.good.yaml"
_NOT_ALLOWED = "model not allowed"


class Resources:
    """What a process works with. Connections belong to the thread that asks for them."""

    def __init__(self, settings: Settings, *, create: bool = True) -> None:
        self._began = time.monotonic()
        self.settings = settings
        self.place = locate_vault(settings.vault, settings.state, create=create)
        self._reading = threading.Lock()
        self._registry: Registry | None = None
        self._formats: tuple[FormatName, ...] | None = None
        self.stores = Stores(self.place.state)
        self.sandbox = Sandbox()
        self.embedders = Embedders(self.place.state, self._recorded, self.workers)
        # Owners of work that a failing disk ended before it could release its leases.
        self.broken_off: set[str] = set()
        self._unlogged = Trouble("the log by note cannot be written; notes are indexed without it")

    # The vault

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self.place.root

    def present(self) -> bool:
        """Say whether the vault is available; an unmounted vault is not an empty one."""
        found = files.find(self.root, self.place.identity)
        if found and found is not self.place.identity:
            self.place = replace(self.place, identity=found)
        return found is not None

    def require_present(self) -> None:
        """Raise VaultNotFoundError if the vault is not available."""
        if not self.present():
            raise not_there(self.root)

    def registry(self) -> Registry:
        """Return the current domains, read again whenever `_domains.yaml` changes.

        Raises DomainsFileError if the file is invalid and there is no earlier version to use.
        """
        with self._reading:
            good = self.place.state / GOOD_DOMAINS_FILE
            last = self._registry
            if last is None and good.exists():
                text = good.read_text(encoding="utf-8")
                last = Registry(domains.parse(text, str(good)), text)
            registry = domains.load(self.root, last)
            if last and last.source and registry.source is None and not self.present():
                registry = last  # an empty mount point has not lost its domains
            if registry.source and not registry.error and registry is not last:
                # A full disk must not prevent it from being used; the next start writes it.
                with suppress(OSError):
                    write_atomic(good, registry.source.encode())
            self._registry = registry
            if self._formats is None:
                self._formats = self.state().formats()
            return replace(registry, formats=self._formats)

    def domains(self) -> tuple[Domain, ...]:
        """Return this process's domains: all, or the one in the settings."""
        registry = self.registry()
        if self.settings.domain is None:
            return registry.domains
        domain = registry.get(self.settings.domain)
        if domain is None:
            unknown = DomainNotFoundError(self.settings.domain, [d.slug for d in registry.domains])
            raise ConfigurationError(f"the setting `domain`: {unknown}")
        return (domain,)

    # State and caches: one connection per thread

    def state(self) -> State:
        """Return this thread's connection to `state.db`."""
        return self.stores.of(State)

    def processes(self) -> Processes:
        """Return this thread's connection to the vault's processes."""
        return self.stores.of(Processes)

    def problems(self) -> Problems:
        """Return this thread's connection to the problems that the vault's processes report."""
        return self.stores.of(Problems)

    def vanished(self) -> Vanished:
        """Return this thread's connection to the vault's vanished notes."""
        return self.stores.of(Vanished)

    def brake(self, *, settle: bool = True, confirmed: bool = False) -> DeletionBrake:
        """Return the brake that decides which vanished notes are forgotten."""
        running_s = time.monotonic() - self._began
        return DeletionBrake(
            self.state(), self.vanished(), running_s=running_s, settle=settle, confirmed=confirmed
        )

    def workers(self) -> dict[str, bool]:
        """Return the workers that reported within the last hour and did not end: whether each lives."""
        said = self.processes().recent()
        return {one.name: lives(one.name, age) for one, age in said if one.role == "worker"}

    def is_at_work(self, owner: str) -> bool:
        """Say whether the process that leased notes as this owner (`Ingest.owner`) lives.

        A command on another machine never reports; its leases are respected until they expire.
        """
        name, _, _ = owner.partition("#")
        ages = {process.name: age for process, age in self.processes().recent()}
        return lives(name, ages.get(name, 0.0))

    def model_of(self, domain: Domain) -> ModelInfo:
        """Return a domain's model by the settings or its vault.

        If only the vault names a model and it is not on this machine, report a problem and return the embedded one.
        Raises ModelUnavailableError, ConfigurationError.
        """
        try:
            info = chosen_model(self.settings, domain.embedding)
        except ModelNotAllowedError as error:
            self.problems().report(
                _NOT_ALLOWED, domain.slug, f"{domain.slug}: {error}; until then {EMBEDDED_MODEL} is used"
            )
            return find_model(None)
        self.problems().clear(_NOT_ALLOWED, domain.slug)
        wanted = domain.embedding_dim
        if self.settings.embedding_model is None and wanted is not None and wanted != info.dimension:
            raise ConfigurationError(
                f"{domains.DOMAINS_FILE}: {domain.slug}.embedding_dim is {wanted}, but {info.name} has "
                f"{info.dimension} dimensions; correct one of the two"
            )
        return info

    def refused_models(self) -> list[str]:
        """Return a sentence for each domain whose model is not used, because only its vault names it.

        Raises ModelUnavailableError, ConfigurationError.
        """
        for domain in self.domains():
            self.model_of(domain)
        return [found.message for found in self.problems().reported() if found.kind == _NOT_ALLOWED]

    def check_models(self) -> None:
        """Refuse caches of another model than the settings choose. Raises ModelMismatchError."""
        for domain in self.domains():
            path = self.state().cache_path(domain.slug)
            try:
                cache = SqliteCache.open(path)
            except CacheMissingError:
                continue  # missing or incomplete: the first writer creates it
            cache.close()
            info = self.model_of(domain)
            if info.name == EMBEDDED_MODEL and cache.meta.model == domain.embedding:
                continue  # it was chosen when it was allowed
            check_model(cache.meta, info.name, info.dimension, path)

    def cache(self, domain: Domain) -> SqliteCache:
        """Return this thread's connection to a domain's current cache, for writing; it is created at first use.

        An existing cache keeps its model, splitting and context whatever the settings say, until `everindex reembed`.
        """
        return self.stores.cache(domain.slug, partial(self._open_current, domain), writable=True)

    def _open_current(self, domain: Domain, path: Path) -> SqliteCache:
        try:
            found = SqliteCache.open(path)
        except CacheMissingError:
            return self.open_cache(path, self.model_of(domain), domain)
        found.close()
        info = self._recorded(found.meta.model)
        return self.open_cache(path, info, domain, chunking_of(found.meta.pipeline))

    def reader(self, domain: Domain) -> SqliteCache:
        """Return this thread's connection to a domain's current cache, for reading. Raises CacheError."""
        return self.stores.cache(domain.slug, SqliteCache.open, writable=False)

    def _recorded(self, model: str) -> ModelInfo:
        return recorded_model(self.settings, model, self.root)

    def open_cache(
        self, path: Path, info: ModelInfo, domain: Domain, chunking: ChunkSettings | None = None
    ) -> SqliteCache:
        """Open a cache file of a domain for writing with a model and a way of splitting notes (the settings')."""
        pipeline = pipeline_name(chunking or chosen_chunking(self.settings, info, domain), options_of(domain))
        return SqliteCache.create(path, CacheMeta(info.name, info.dimension, pipeline))

    def date_order(self, domain: Domain) -> DateOrder:
        """Return the sources of the dates of a domain's notes."""
        return replace(domain.dates, daily=read_daily_format(self.root))

    def caches(self) -> dict[str, SqliteCache]:
        """Return the caches of this process's domains by slug."""
        return {domain.slug: self.cache(domain) for domain in self.domains()}

    # Work

    def ingest(self, domain: Domain, cache: SqliteCache) -> Ingest:
        """Return what indexing a domain needs."""
        return Ingest(
            domain=domain.slug,
            root=self.root,
            max_bytes=self.settings.max_note_bytes,
            chunking=chunking_of(cache.meta.pipeline)
            or chosen_chunking(self.settings, self._recorded(cache.meta.model), domain),
            owner=f"{process_name()}#{secrets.token_hex(4)}",
            present=self.present,
            encoder=lambda: self.embedders.bulk(cache.meta.model, cache.vectors.pending),
            encoder_ready=lambda: self.embedders.has_loaded(cache.meta.model),
            siblings=lambda: self.siblings(cache.path),
            kept=lambda: self._kept_with(cache.meta.model),
            brake=self.brake(),
            files=Files(
                self.sandbox,
                options_of(domain),
                partial(is_private_place, domain.privacy),
                self.date_order(domain),
            ),
            record=partial(self._record, domain.slug, cache),
        )

    def _record(self, slug: str, cache: SqliteCache, events: Sequence[NoteEvent]) -> None:
        """Write to the log by note. It is best effort: notes are also indexed while `state.db` cannot be written."""
        try:
            if events:
                self.stores.of(NoteLog).add(slug, cache.meta.model, cache.meta.pipeline, events)
            self._unlogged.over()
        except EverindexError as error:
            self._unlogged.met(str(error))

    # Other caches

    def siblings(self, own: Path) -> Iterator[Path]:
        """Yield the current caches of the vault but `own`; of a cache that is being built, also the one in use."""
        for domain in self.registry().domains:
            path = self.state().cache_path(domain.slug)
            if path != own and path.exists():
                yield path

    def _kept_with(self, model: str) -> Iterator[Path]:
        """Yield the kept caches of a model; none of them ever changes, so that each is opened for this only once."""
        for _, path in self.kept_caches():
            if _model_in(path, file_id(path)) == model:
                yield path

    def kept_caches(self) -> list[tuple[str, Path]]:
        """Return the domain and file of each cache that is not current, and not being built, newest first."""
        state, known = self.state(), {domain.slug for domain in self.registry().domains}
        return [
            (domain, path)
            for domain, number, path in numbered_caches(self.place.state)
            if number < state.cache_number(domain) + (domain not in known)
        ]

    def queue(self) -> Queue:
        """Open the vault's queue."""
        redis = self.settings.redis_url
        queue = open_queue(
            self.place.state, redis.get_secret_value() if redis else None, self.place.identity.vault_id
        )
        queue.is_first = self._is_first
        return queue

    def _is_first(self, task: str) -> bool:
        try:
            # Longer than the maximum age of a message, in case the clock is set back.
            return self.state().is_first(task, 2 * ONCE_SECONDS)
        except EverindexError as error:
            raise NotRecordedError(str(error)) from error
