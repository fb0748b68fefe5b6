"""Settings -> what a process works with: the vault, its state, domains, caches, embedders. One place."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import psutil
import structlog

from pipelines import domains, vault
from pipelines.atomic import write_atomic
from pipelines.chunk import chunk_settings
from pipelines.domains import Registry
from pipelines.embed import Embedder
from pipelines.errors import CacheMissingError, ConfigurationError, VaultNotFoundError
from pipelines.heartbeat import lives
from pipelines.ingest import Ingest, pipeline_name
from pipelines.model import ChunkSettings, Domain
from pipelines.model_files import ModelInfo, find_model
from pipelines.store.cache import Cache
from pipelines.store.meta import CacheMeta, check_model
from pipelines.store.processes import Processes
from pipelines.store.state import State
from queue_config.queue import Queue, open_queue
from queue_config.settings import Settings
from workers.place import open_place

GOOD_DOMAINS_FILE = "domains.good.yaml"
LAST_QUERY_FILE = "last-query"
OPENVINO_FOLDER = "openvino"
# For so long after a question the workers leave one core to the query worker.
_QUERY_QUIET_SECONDS = 30.0

_find_model = lru_cache(find_model)

log = structlog.get_logger()


def owner_name() -> str:
    """Name a piece of work, and who does it so that others can tell whether he lives: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}/{secrets.token_hex(4)}"


def is_alive(owner: str) -> bool:
    """Say whether the process that `owner_name` names lives; one on another machine is believed to.

    A process id that was given again makes a dead owner look alive: its lease then runs out by itself.
    """
    host, _, process = owner.rpartition(":")
    return host != socket.gethostname() or psutil.pid_exists(int(process.partition("/")[0]))


class Resources:
    """What a process works with. Connections belong to the thread that asks for them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.place = open_place(settings.vault, settings.state)
        self._own = threading.local()
        self._reading = threading.Lock()
        self._loading = threading.Lock()
        self._registry: Registry | None = None
        self._embedders: dict[str, Embedder] = {}
        # Pieces of work that a failing disk ended, and kept from giving their leases back.
        self.broken_off: set[str] = set()

    # The vault

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self.place.root

    def present(self) -> bool:
        """Say whether the vault is there: unmounted is not empty."""
        return vault.is_present(self.root, self.place.identity)

    def require_present(self) -> None:
        """Raise VaultNotFoundError where the vault is not there."""
        if not self.present():
            raise VaultNotFoundError(
                f"the vault {self.root} is not there (unmounted?); its index is kept until it is back"
            )

    def registry(self) -> Registry:
        """Return the domains in force, read again when `_domains.yaml` changed.

        Raises DomainsFileError where it is invalid and there is no earlier one to go on with.
        """
        with self._reading:
            good = self.place.state / GOOD_DOMAINS_FILE
            last = self._registry
            if last is None and good.exists():
                text = good.read_text(encoding="utf-8")
                last = Registry(domains.parse(text, str(good)), text)
            registry = domains.load(self.root, last)
            if registry.source and not registry.error and registry is not last:
                # A full disk must not keep it from being in force; the next start writes it.
                with suppress(OSError):
                    write_atomic(good, registry.source.encode())
            self._registry = registry
            return registry

    def domains(self) -> tuple[Domain, ...]:
        """Return the domains of this process: all, or the one that the settings name."""
        registry = self.registry()
        if self.settings.domain is None:
            return registry.domains
        domain = registry.get(self.settings.domain)
        if domain is None:
            known = ", ".join(d.slug for d in registry.domains)
            raise ConfigurationError(f"there is no domain {self.settings.domain!r}; the vault has {known}")
        return (domain,)

    # State and caches, a connection a thread

    def state(self) -> State:
        """Return this thread's connection to `state.db`."""
        if not hasattr(self._own, "state"):
            self._own.state = State(self.place.state)
        state: State = self._own.state
        return state

    def processes(self) -> Processes:
        """Return this thread's connection to what the vault's processes say of themselves."""
        if not hasattr(self._own, "processes"):
            self.state()  # makes the tables
            self._own.processes = Processes(self.place.state)
        processes: Processes = self._own.processes
        return processes

    def workers(self) -> dict[str, bool]:
        """Return the workers that spoke within the last hour and did not say that they end: whether each lives."""
        said = self.processes().heard()
        return {one.name: lives(one.name, age) for one, age in said if one.role == "worker"}

    def model_of(self, domain: Domain) -> ModelInfo:
        """Return the model that the settings want for a domain. Raises ModelUnavailableError, ConfigurationError."""
        info = _find_model(self.settings.embedding_model or domain.embedding)
        wanted = domain.embedding_dim
        if self.settings.embedding_model is None and wanted is not None and wanted != info.dimension:
            raise ConfigurationError(
                f"{domains.DOMAINS_FILE}: {domain.slug}.embedding_dim is {wanted}, but {info.name} has "
                f"{info.dimension} dimensions; correct one of the two"
            )
        return info

    def check_models(self) -> None:
        """Refuse caches of another model than the settings want. Raises ModelMismatchError."""
        for domain in self.domains():
            path = self.state().cache_path(domain.slug)
            try:
                cache = Cache.open(path)
            except CacheMissingError:
                continue  # not there, or its maker died early: whoever writes first makes it
            info = self.model_of(domain)
            check_model(cache.meta, info.name, info.dimension, path)
            cache.close()

    def cache(self, domain: Domain) -> Cache:
        """Return this thread's connection to a domain's current cache, for writing; made at first use.

        An existing cache keeps its model whatever the settings say: `check_models` is for the start.
        """
        return self._held(
            "writers",
            domain,
            lambda path: self.open_cache(path, self._model_in(path) or self.model_of(domain)),
        )

    def reader(self, domain: Domain) -> Cache:
        """Return this thread's connection to a domain's current cache, for reading. Raises CacheError."""
        return self._held("readers", domain, Cache.open)

    def _held(self, kind: str, domain: Domain, opener: Callable[[Path], Cache]) -> Cache:
        """Return the connection that this thread holds, opened again when another cache became current."""
        path = self.state().cache_path(domain.slug)
        held: dict[str, Cache] = self._own.__dict__.setdefault(kind, {})
        if domain.slug in held and held[domain.slug].path != path:
            held.pop(domain.slug).close()
        if domain.slug not in held:
            held[domain.slug] = opener(path)
        return held[domain.slug]

    def _model_in(self, path: Path) -> ModelInfo | None:
        try:
            cache = Cache.open(path)
        except CacheMissingError:
            return None
        cache.close()
        return _find_model(cache.meta.model)

    def open_cache(self, path: Path, info: ModelInfo) -> Cache:
        """Open a cache file for writing with a model and the settings' way of cutting notes."""
        return Cache.create(path, CacheMeta(info.name, info.dimension, pipeline_name(self.chunking(info))))

    def caches(self) -> dict[str, Cache]:
        """Return the caches of this process's domains by slug."""
        return {domain.slug: self.cache(domain) for domain in self.domains()}

    def chunking(self, info: ModelInfo) -> ChunkSettings:
        """Return how notes are cut for a model."""
        return chunk_settings(
            info.window, self.settings.chunk_target_tokens, self.settings.chunk_overlap_tokens
        )

    # Work

    def embedder(self, model: str, threads: int | None = None) -> Embedder:
        """Return the loaded model of that name; loading it takes seconds."""
        with self._loading:
            if model not in self._embedders:
                openvino = self.settings.embedding_backend == "openvino"
                embedder = Embedder(
                    _find_model(model),
                    threads=threads or self.threads(),
                    openvino=self.place.state / OPENVINO_FOLDER if openvino else None,
                )
                if embedder.warning:
                    log.warning(embedder.warning)
                self._embedders[model] = embedder
            return self._embedders[model]

    def bulk_embedder(self, model: str) -> Embedder:
        """Return the loaded model of that name with as many threads as bulk work may use now."""
        embedder = self.embedder(model)
        embedder.use_threads(self.threads())
        return embedder

    def has_loaded(self, model: str) -> bool:
        """Say whether the model of that name can be had without a wait."""
        return model in self._embedders

    def threads(self) -> int:
        """Return how many threads bulk work may use.

        One core is left free while questions come, and the workers of this machine share the others.
        """
        cores = os.cpu_count() or 1
        with suppress(OSError):  # nobody has asked anything yet
            if time.time() - (self.place.state / LAST_QUERY_FILE).stat().st_mtime < _QUERY_QUIET_SECONDS:
                cores -= 1
        here = f"{socket.gethostname()}:"
        workers = sum(alive and name.startswith(here) for name, alive in self.workers().items())
        return max(1, cores // max(1, workers))

    def ingest(self, domain: Domain, cache: Cache) -> Ingest:
        """Return what indexing a domain takes."""
        return Ingest(
            domain=domain.slug,
            root=self.root,
            max_bytes=self.settings.max_note_bytes,
            chunking=self.chunking(_find_model(cache.meta.model)),
            owner=owner_name(),
            present=self.present,
            encoder=lambda: self.bulk_embedder(cache.meta.model),
            encoder_ready=lambda: self.has_loaded(cache.meta.model),
            siblings=lambda: self._siblings(cache.path),
        )

    def _siblings(self, own: Path) -> Iterator[Path]:
        """Yield the current caches of the vault's domains but one."""
        for domain in self.registry().domains:
            path = self.state().cache_path(domain.slug)
            if path != own and path.exists():
                yield path

    def queue(self) -> Queue:
        """Open the vault's queue."""
        redis = self.settings.redis_url
        return open_queue(
            self.place.state, redis.get_secret_value() if redis else None, self.place.identity.vault_id
        )
