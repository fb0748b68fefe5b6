"""Open what a process works with, from its settings: the vault, its state, domains, caches, embedders."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import structlog

from pipelines import domains
from pipelines.cache.cache import CacheTables, SqliteCache
from pipelines.cache.notes import Rules
from pipelines.cache.schema import CacheMeta, check_model
from pipelines.cache.vectors import Vector
from pipelines.documents.read import Files, options_of
from pipelines.documents.sandbox import Sandbox
from pipelines.domains import Registry
from pipelines.embedding.endpoints import Vectors
from pipelines.embedding.models import (
    CLOSE_ENOUGH,
    EMBEDDED_MODEL,
    MULTILINGUAL_MODEL,
    ModelInfo,
    SecondModel,
    find_model,
    has_english_model,
)
from pipelines.embedding.remote import PROBES, RemoteEmbedder, describe_remote
from pipelines.errors import (
    CacheError,
    CacheMissingError,
    ConfigurationError,
    DomainNotFoundError,
    EverindexError,
    ModelNotAllowedError,
    ModelUnavailableError,
    StateError,
    StorageUnavailableError,
)
from pipelines.formats import FormatName
from pipelines.indexing.deletions import DeletionBrake
from pipelines.indexing.ingest import Encode, Ingest, Remote, chunking_of, pipeline_name
from pipelines.indexing.languages import Languages, languages_by_domain
from pipelines.model import ChunkSettings, DateOrder, Domain, Place, PostgresPlace
from pipelines.notes.privacy import compared, is_private_place
from pipelines.sqlite import FileId, file_id
from pipelines.state.endpoints import EndpointUses
from pipelines.state.health import Problems, Processes, Vanished
from pipelines.state.note_log import NoteEvent, NoteLog
from pipelines.state.state import VAULT, State, VaultFacts, numbered_caches, state_exists
from pipelines.state.views import ViewedDomain, show
from pipelines.store import WritableCache
from pipelines.vault import files
from pipelines.vault.atomic import write_atomic
from pipelines.vault.obsidian import read_daily_format
from queue_config.logs import Trouble
from queue_config.queue import ONCE_SECONDS, NotRecordedError, Queue, open_queue
from queue_config.settings import Settings
from workers.endpoints import EndpointBooks, dimension_of, endpoints_of
from workers.heartbeat import lives, process_name
from workers.models import (
    BulkEmbedder,
    Embedders,
    Encoder,
    chosen_chunking,
    chosen_model,
    recorded_here,
    recorded_model,
    second_model,
)
from workers.vault_paths import locate_vault, not_there, on_another_host

if TYPE_CHECKING:
    from pipelines.cache.pgvector import VectorTable
    from pipelines.cache.postgres import PostgresCache
    from pipelines.postgres import Commits

# A process's connections to `state.db` and to the caches: one per thread, opened at first use.


Store = TypeVar("Store")
Opened = TypeVar("Opened", bound=CacheTables)

log = structlog.get_logger()

_PATH_SECONDS = 1.0


class Stores:
    """A process's connections to the databases of a state folder, one per thread and kind."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._own = threading.local()
        self._paths: dict[str, tuple[Path, float]] = {}
        self.replaced = 0
        """How often a cache's file was deleted or replaced while it was open."""

    def of(self, kind: Callable[[Place], Store]) -> Store:
        """Return this thread's connection of a kind, which is a class that opens the state at a place."""
        opened: dict[Callable[[Place], Store], Store] = self._own.__dict__.setdefault("opened", {})
        if kind not in opened:
            opened[kind] = kind(self._place)
        return opened[kind]

    def cache(self, slug: str, opener: Callable[[Path], Opened], *, writable: bool) -> Opened:
        """Return this thread's connection to a domain's current cache.

        It is reopened when another cache became current, and when the file was deleted or replaced, because writes to
        a deleted file are lost.
        """
        held: dict[tuple[str, bool], tuple[Any, FileId | None]] = self._own.__dict__.setdefault("caches", {})
        cache, opened = held.get((slug, writable), (None, None))
        path = self._path(slug, writable=writable)
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
        return cast("Opened", cache)

    def _path(self, slug: str, *, writable: bool) -> Path:
        """Return the file of a domain's current cache; who reads a copy asks the server for it once a second."""
        known, asked = self._paths.get(slug, (None, 0.0))
        is_copy = not (writable or isinstance(self._place, Path))
        if is_copy and known and time.monotonic() - asked < _PATH_SECONDS:
            return known
        try:
            path = self.of(State).cache_path(slug)
        except StorageUnavailableError:
            if known is None or not is_copy:
                raise
            path = known  # while the server is away, this host's copy is read
        self._paths[slug] = path, time.monotonic()
        return path


@lru_cache(maxsize=256)
def _model_in(path: Path, _file: FileId | None) -> str | None:
    """Return the model of a cache that never changes; None if it cannot be read."""
    with suppress(CacheError), closing(SqliteCache.open(path)) as cache:
        return cache.meta.model
    return None


GOOD_DOMAINS_FILE = "domains.good.yaml"
_NOT_ALLOWED = "model not allowed"
RERANK = "rerank"
"""The kind of the problem that a domain's second model cannot be used."""
VIEWS = "views"
"""The kind of the problem that the SQL views are not as the domains say."""
_AGAIN_SECONDS = 30.0
_TOLD_SECONDS = 2.0


def _place_in(address: str, root: Path, copies: Path) -> PostgresPlace:
    """Return where PostgreSQL has the vault of a folder. Raises ConfigurationError without PostgreSQL's client."""
    if find_spec("psycopg") is None:
        raise ConfigurationError("the client of PostgreSQL is not installed; install everindex[postgres]")
    name = re.sub(r"[^a-z0-9]+", "_", root.name.lower()).strip("_") or "vault"
    return PostgresPlace(copies, address, name)


def _stored_id(settings: Settings, root: Path) -> str | None:
    """Return the id of a vault that is not on this host, if the store has it. Raises StateError, CacheError."""
    if settings.store is None:
        return None
    place = _place_in(settings.store.get_secret_value(), root, Path())
    if not state_exists(place):
        return None
    with closing(State(place)) as state:
        told = state.get(VAULT)
    return told.value.vault_id if told else None


class Resources:
    """What a process works with. Connections belong to the thread that asks for them."""

    def __init__(self, settings: Settings, *, create: bool = True) -> None:
        self._began = time.monotonic()
        self.settings = settings
        stored = partial(_stored_id, settings)
        self.place = locate_vault(settings.vault, settings.state, create=create, stored_id=stored)
        self._reading = threading.Lock()
        self._registry: Registry | None = None
        self._formats: tuple[FormatName, ...] | None = None
        self._languages: dict[str, Languages] | None = None
        self.store: Place = self.place.state
        if settings.store is not None:
            self.store = self.in_postgresql(settings.store.get_secret_value())
        self._told: tuple[float, VaultFacts] | None = None
        self.stores = Stores(self.store)
        self._viewed: list[ViewedDomain] | None = None
        self.sandbox = Sandbox()
        self.embedders = Embedders(
            self.place.state,
            lambda model: recorded_here(self.settings, model, self.root),
            self.workers,
            remote=self._chain,
        )
        # Owners of work that a failing disk ended before it could release its leases.
        self.broken_off: set[str] = set()
        # By domain: the name of its second model, that model if it can be used, and until when that is believed.
        self._second: dict[str, tuple[str, SecondModel | None, float]] = {}
        self._unlogged = Trouble("the log by note cannot be written; notes are indexed without it")

    def in_postgresql(self, address: str) -> PostgresPlace:
        """Return where this vault is in the PostgreSQL at an address, whose copies on this host get a folder.

        Raises ConfigurationError where the client of PostgreSQL is not installed.
        """
        # Apart from the indexes that a vault had in files before, which are no copies.
        copies = self.place.state / "copies"
        copies.mkdir(mode=0o700, exist_ok=True)
        return _place_in(address, self.place.root, copies)

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
            raise on_another_host(self.root) if self.is_elsewhere else not_there(self.root)

    @property
    def is_elsewhere(self) -> bool:
        """Say whether the vault was on another host, and not on this one, when this process began."""
        return self.place.identity.inode == 0 and not isinstance(self.store, Path)

    def tell_of_vault(self) -> None:
        """Tell hosts without the vault, through PostgreSQL, what they must know of it. Raises CacheError."""
        facts = VaultFacts(self.place.identity.vault_id, self.registry().source, read_daily_format(self.root))
        if self._told is None or self._told[1] != facts:
            self.state().put(VAULT, facts)
            self._told = 0.0, facts

    def gone(self) -> frozenset[str]:
        """Return the notes that the host of the vault misses; none if it is this one, where each answer looks."""
        if self.is_elsewhere:
            with suppress(StorageUnavailableError):  # the answer says so
                return frozenset().union(*(self.vanished().waiting(one.slug) for one in self.domains()))
        return frozenset()

    def _heard_of_vault(self) -> VaultFacts:
        """Return what the host that has the vault told. Raises StateError if nothing is known of it."""
        if self._told is None or time.monotonic() - self._told[0] > _TOLD_SECONDS:
            try:
                told = self.state().get(VAULT)
                if told is None:
                    raise StateError(
                        f"no host has told the store about {self.root} yet; run `everindex up` on it"
                    )
                self._told = time.monotonic(), told.value
            except EverindexError:
                if self._told is None:
                    raise
        return self._told[1]

    def registry(self) -> Registry:
        """Return the current domains, read again whenever `_domains.yaml` changes.

        Raises DomainsFileError if the file is invalid and there is no earlier version to use.
        """
        if self.is_elsewhere:
            text = self._heard_of_vault().domains
            if self._registry is None or self._registry.source != text:
                self._registry = (
                    Registry(domains.parse(text), text) if text else Registry(domains.WHOLE_VAULT)
                )
            return replace(self._registry, formats=self._default_formats())
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
            return replace(registry, formats=self._default_formats())

    def _default_formats(self) -> tuple[FormatName, ...]:
        if self._formats is None:
            self._formats = self.state().formats()
        return self._formats

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
        return DeletionBrake(
            self.state(), self.vanished(), running_s=self.running_s, settle=settle, confirmed=confirmed
        )

    @property
    def running_s(self) -> float:
        """For how many seconds this process has had its resources."""
        return time.monotonic() - self._began

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
            named = domain.embedding or self._model_by_language(domain)
            served = self._served(self.settings.embedding_model or named or "")
            info = served or chosen_model(self.settings, named)
        except ModelNotAllowedError as error:
            self.problems().report(
                _NOT_ALLOWED,
                domain.slug,
                f"{domain.slug}: {error}, then `everindex reembed`; until then {EMBEDDED_MODEL} is used",
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

    def _model_by_language(self, domain: Domain) -> str | None:
        """Return the embedded model of a domain that names none: its index's, or the one for its notes' languages."""
        if self.settings.embedding_model or not has_english_model() or not self.present():
            return None
        model = _model_in(path := self.state().cache_path(domain.slug), file_id(path))
        if model in (EMBEDDED_MODEL, MULTILINGUAL_MODEL):
            return model
        return MULTILINGUAL_MODEL if self._languages_of(domain).need_multilingual else None

    def _languages_of(self, domain: Domain) -> Languages:
        if self._languages is None:
            self._languages = languages_by_domain(self.root, self.registry())
        return self._languages[domain.slug]

    def chosen_by_language(self) -> list[str]:
        """Return a sentence for each domain whose first index gets the multilingual model because of its notes."""
        if self.settings.embedding_model or not has_english_model():
            return []
        return [
            f"{domain.slug}: {found.described()}, so {MULTILINGUAL_MODEL} finds them by meaning; it computes at a "
            f"third of the speed of the model for English, which `embedding: {PurePath(EMBEDDED_MODEL).name}` in "
            f"{domains.DOMAINS_FILE} chooses"
            for domain in self.domains()
            if domain.embedding is None
            and (cache := self.cache(domain)).meta.model == MULTILINGUAL_MODEL
            and not cache.counts().notes
            and (found := self._languages_of(domain)).need_multilingual
        ]

    def refused_models(self) -> list[str]:
        """Return a sentence for each domain whose model is not used, because only its vault names it.

        Raises ModelUnavailableError, ConfigurationError.
        """
        for domain in self.domains():
            self.model_of(domain)
        return [found.message for found in self.problems().reported() if found.kind == _NOT_ALLOWED]

    def second_model(self, domain: Domain) -> SecondModel | None:
        """Return the model that ranks a domain's best notes again; None without one, or while it is a problem."""
        name = domain.rerank_model
        if name is None:
            self._second.pop(domain.slug, None)
            with suppress(EverindexError):
                self.problems().clear(RERANK, domain.slug)
            return None
        known = self._second.get(domain.slug)
        if known and known[0] == name and time.monotonic() < known[2]:
            return known[1]
        try:
            found = second_model(self.settings, name)
        except ModelUnavailableError as error:
            self.refuse_second(domain, error)
            return None
        self._second[domain.slug] = (name, found, time.monotonic() + _AGAIN_SECONDS)
        with suppress(EverindexError):  # a full disk is a problem of its own
            self.problems().clear(RERANK, domain.slug)
        return found

    def refuse_second(self, domain: Domain, error: ModelUnavailableError) -> None:
        """Do without a domain's second model for half a minute, and report why."""
        self._second[domain.slug] = (domain.rerank_model or "", None, time.monotonic() + _AGAIN_SECONDS)
        with suppress(EverindexError):
            message = f"{domain.slug}: answers are not ranked again by a second model: {error}"
            self.problems().report(RERANK, domain.slug, message)

    def check_models(self) -> None:
        """Refuse caches of another model than the settings choose. Raises ModelMismatchError."""
        for domain in self.domains():
            path = self.state().cache_path(domain.slug)
            try:
                cache = self._open_existing(path)
            except CacheMissingError:
                continue  # missing or incomplete: the first writer creates it
            cache.close()
            info = self.model_of(domain)
            if info.name == EMBEDDED_MODEL and cache.meta.model == domain.embedding:
                continue  # it was chosen when it was allowed
            check_model(cache.meta, info.name, info.dimension, path)

    def cache(self, domain: Domain) -> WritableCache:
        """Return this thread's connection to a domain's current cache, for writing; it is created at first use.

        An existing cache keeps its model, splitting and context whatever the settings say, until `everindex reembed`.
        """
        return self.stores.cache(domain.slug, partial(self._open_current, domain), writable=True)

    def _open_current(self, domain: Domain, path: Path) -> WritableCache:
        try:
            found = self._open_existing(path)
        except CacheMissingError:
            return self.open_cache(path, self.model_of(domain), domain)
        found.close()
        info = recorded_model(self.settings, found.meta, self.root)
        return self.open_cache(path, info, domain, chunking_of(found.meta.pipeline))

    def _open_existing(self, path: Path) -> WritableCache:
        return SqliteCache.open(path) if isinstance(self.store, Path) else self._open_stored(self.store, path)

    def _open_stored(self, store: PostgresPlace, path: Path) -> PostgresCache:
        from pipelines.cache.postgres import PostgresCache  # noqa: PLC0415 - its library is not always installed

        return PostgresCache.open(store.address, store.schema(path.stem), path)

    def stored(self, domain: Domain) -> PostgresCache:
        """Return this thread's connection to a domain's current cache in PostgreSQL.

        Raises CacheMissingError if there is none yet, CacheError, StateError, ConfigurationError without the setting.
        """
        if isinstance(self.store, Path):
            raise ConfigurationError("a worker without the vault needs the setting `store`")
        return self.stores.cache(domain.slug, partial(self._open_stored, self.store), writable=True)

    def reader(self, domain: Domain) -> SqliteCache:
        """Return this thread's connection to a domain's current cache, for reading. Raises CacheError."""
        return self.stores.cache(domain.slug, self._open_to_read, writable=False)

    def _open_to_read(self, path: Path) -> SqliteCache:
        try:
            self.follow()
        except StorageUnavailableError:
            if not path.exists():
                raise
        return SqliteCache.open(path)

    def follow(self) -> None:
        """Have this host's copies of caches in PostgreSQL take in what was committed. Raises CacheError."""
        if isinstance(self.store, Path):
            return
        for domain in self.domains():
            with suppress(CacheMissingError):  # a worker is about to make it
                self.stored(domain).tidy()

    def commits(self) -> Commits | None:
        """Return what hears of commits in PostgreSQL; None for files."""
        if isinstance(self.store, Path):
            return None
        from pipelines.postgres import Commits  # noqa: PLC0415 - its library is not always installed

        return Commits(self.store.address)

    def vector_table(self, cache: SqliteCache) -> VectorTable | None:
        """Return what has the vectors of a cache's original for pgvector; None for files."""
        if isinstance(self.store, Path):
            return None
        from pipelines.cache.pgvector import VectorTable  # noqa: PLC0415 - as above

        schema = self.store.schema(cache.path.stem)
        return VectorTable(self.store.address, schema, cache.meta.dimension)

    def open_cache(
        self, path: Path, info: ModelInfo, domain: Domain, chunking: ChunkSettings | None = None
    ) -> WritableCache:
        """Open a cache of a domain for writing with a model and a way of splitting notes (the settings')."""
        pipeline = pipeline_name(chunking or chosen_chunking(self.settings, info, domain), options_of(domain))
        cache = self._create(path, CacheMeta(info.name, info.dimension, pipeline))
        if self.settings.endpoints_of(info.name) and not cache.vectors.probes():
            # Its model is that of the other indexes by this name, whose vectors it may take.
            cache.vectors.keep_probes(self._probes_of(info.name))
        return cache

    def _create(self, path: Path, meta: CacheMeta) -> WritableCache:
        if isinstance(self.store, Path):
            return SqliteCache.create(path, meta)
        from pipelines.cache.postgres import PostgresCache  # noqa: PLC0415 - as above

        return PostgresCache.create(self.store.address, self.store.schema(path.stem), path, meta)

    def date_order(self, domain: Domain) -> DateOrder:
        """Return the sources of the dates of a domain's notes."""
        daily = self._heard_of_vault().daily if self.is_elsewhere else read_daily_format(self.root)
        return replace(domain.dates, daily=daily)

    def caches(self) -> dict[str, WritableCache]:
        """Return the caches of this process's domains by slug."""
        return {domain.slug: self.cache(domain) for domain in self.domains()}

    # Work

    def ingest(self, domain: Domain, cache: WritableCache) -> Ingest:
        """Return what indexing a domain needs."""
        return Ingest(
            domain=domain.slug,
            root=self.root,
            max_bytes=self.settings.max_note_bytes,
            chunking=chunking_of(cache.meta.pipeline)
            or chosen_chunking(self.settings, recorded_model(self.settings, cache.meta, self.root), domain),
            owner=f"{process_name()}#{secrets.token_hex(4)}",
            present=self.present,
            encoder=lambda: self._encoder(cache),
            encoder_ready=lambda: cache.meta.embeds and self.embedders.has_loaded(cache.meta.model),
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
            remote=self._remote_of(domain, cache) if self.settings.endpoints_of(cache.meta.model) else None,
        )

    def _record(self, slug: str, cache: WritableCache, events: Sequence[NoteEvent]) -> None:
        """Write to the log by note. It is best effort: notes are also indexed while `state.db` cannot be written."""
        try:
            if events:
                self.stores.of(NoteLog).add(slug, cache.meta.model, cache.meta.pipeline, events)
            self._unlogged.over()
        except EverindexError as error:
            self._unlogged.met(str(error))

    # Models that endpoints serve

    def _served(self, model: str) -> ModelInfo | None:
        """Return the model of that name if endpoints serve it. Raises ModelUnavailableError."""
        if not self.settings.endpoints_of(model):
            return None
        known = [cache.meta.dimension for cache in self._caches_of(model)]
        dimension = known[0] if known else dimension_of(self.settings, model)
        return describe_remote(model, dimension)

    def _chain(self, model: str) -> RemoteEmbedder | None:
        """Return a new chain of the endpoints that serve a model. Raises ModelUnavailableError."""
        info = self._served(model)
        if info is None:
            return None
        books = EndpointBooks(
            partial(self._agree_on_probes, model),
            partial(self.stores.of, EndpointUses),
            self.problems,
            self.settings.endpoints_usd_a_day,
        )
        return RemoteEmbedder(info, endpoints_of(self.settings, model), books)

    def _caches_of(self, model: str) -> Iterator[SqliteCache]:
        """Yield the caches of a model that can be read: the current ones, then those that are kept."""
        current = [self.state().cache_path(domain.slug) for domain in self.registry().domains]
        for path in [*current, *(path for _, path in self.kept_caches())]:
            with suppress(CacheError), closing(SqliteCache.open(path)) as cache:
                if cache.meta.model == model:
                    yield cache

    def _probes_of(self, model: str) -> list[Vector]:
        """Return the vectors that identify a model in this vault's indexes; none if no index has any."""
        return next(filter(None, (cache.vectors.probes() for cache in self._caches_of(model))), [])

    def _agree_on_probes(self, model: str, found: Vectors) -> Vectors:
        """Return the vectors that identify a model, which are these if no index has any.

        Raises ModelUnavailableError if an index has vectors that another model may have made, CacheError.
        """
        known = self._probes_of(model) or list(found)
        for domain in self.registry().domains:
            if not self.state().cache_path(domain.slug).exists():
                continue
            cache = self.cache(domain)
            if cache.meta.model == model:
                known = cache.vectors.keep_probes(known)
                if not known:
                    raise _other_model(cache)
        return np.array(known, np.float32)

    def _encoder(self, cache: WritableCache) -> Encoder | BulkEmbedder:
        """Return the loaded model of a cache, if its vectors are those of the cache.

        Raises ModelUnavailableError, CacheError.
        """
        embedder = self.embedders.bulk(cache.meta.model, cache.vectors.pending)
        if isinstance(embedder, RemoteEmbedder):
            if embedder.is_broken:
                embedder.connect()
            found, kept = embedder.probes, cache.vectors.keep_probes(list(embedder.probes))
        elif kept := cache.vectors.probes():
            found = embedder.encode_documents(PROBES)
        else:
            return embedder
        if not kept or float((found * np.array(kept)).sum(axis=1).min()) < CLOSE_ENOUGH:
            raise _other_model(cache)
        return embedder

    def _remote_of(self, domain: Domain, cache: WritableCache) -> Remote:
        def local() -> Encode | None:
            with suppress(ModelUnavailableError):
                embedder = self._encoder(cache)
                if isinstance(embedder, RemoteEmbedder):
                    embedder.connect()  # tries what failed again
                    encode = partial(embedder.encode_documents, private=True)
                    return encode if embedder.has_local else None
            return None

        return Remote(lambda: self.private_notes(domain, cache), local)

    def privacy_rules(self, domain: Domain) -> Rules:
        """Return by which rules notes of a domain's cache are private."""
        folder = _folder(domain)
        nested = (_folder(one) for one in self.registry().domains if one.slug != domain.slug)
        return Rules(
            compared(domain.privacy), folder, tuple(one for one in nested if one.startswith(folder) and one)
        )

    def private_notes(self, domain: Domain, cache: WritableCache) -> frozenset[str]:
        """Return the paths in a domain's cache whose texts must not leave this machine. Raises CacheError.

        A review queue quotes notes, so that the domain's own files are among them.
        """
        return cache.notes.private(self.privacy_rules(domain)).notes | frozenset(domain.configuration)

    def show_views(self) -> None:
        """Have the SQL views of a vault in PostgreSQL show the current domains, by what is private in them now.

        What prevents it is a problem, and delays no note. Raises StateError, StorageUnavailableError.
        """
        if isinstance(self.store, Path):
            return
        viewed = [self._viewed_domain(domain) for domain in self.registry().domains]
        if viewed == self._viewed:
            return
        self.state()  # where the views are made
        try:
            show(self.store, viewed)
        except (StateError, StorageUnavailableError) as error:
            self.problems().report(VIEWS, "", f"the SQL views do not show what changed: {error}")
            return
        self.problems().clear(VIEWS)
        self._viewed = viewed

    def _viewed_domain(self, domain: Domain) -> ViewedDomain:
        privacy, folder, nested = self.privacy_rules(domain)
        return ViewedDomain(
            domain.slug,
            privacy.llm,
            list(privacy.tags),
            list(privacy.folders),
            folder,
            list(nested),
            list(domain.configuration),
        )

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


def _other_model(cache: WritableCache) -> ModelUnavailableError:
    return ModelUnavailableError(
        f"{cache.path.name} may have the vectors of another model that is called {cache.meta.model}, too; restore the"
        " settings `endpoints` with which it was built, or run `everindex index --rebuild`"
    )


def _folder(domain: Domain) -> str:
    return f"{domain.path}/" if domain.path else ""
