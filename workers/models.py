"""Choose a domain's model, load models, and compute many texts in a process of their own."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import structlog

from pipelines.cache.schema import CacheMeta
from pipelines.embedding.apart import Kind, TorchProcess
from pipelines.embedding.embedder import CrossEncoder, Embedder, Vectors, load_cross_encoder
from pipelines.embedding.models import (
    NO_MODEL,
    ModelInfo,
    SecondModel,
    find_downloaded,
    find_model,
    is_cross_encoder,
)
from pipelines.embedding.remote import RemoteEmbedder, describe_remote
from pipelines.errors import ChildDiedError, ModelNotAllowedError, ModelUnavailableError
from pipelines.indexing.ingest import Encode
from pipelines.model import ChunkSettings, Domain
from pipelines.notes.chunk import chunk_settings
from queue_config.settings import Settings
from workers.heartbeat import host

log = structlog.get_logger()


# Choose a domain's model and what it reads: as the settings say, or else as its vault says.
#
# A model that only the vault names has to be on this machine already.


_find_model = lru_cache(find_model)
_find_downloaded = lru_cache(find_downloaded)


def chosen_model(settings: Settings, named: str | None) -> ModelInfo:
    """Return the model that the settings choose, or else the vault's, which runs here.

    Raises ModelUnavailableError, and ModelNotAllowedError if only the vault names the model.
    """
    name = settings.embedding_model or named
    return _find_model(name) if name is None or name in settings.chosen_models else _find_downloaded(name)


def second_model(settings: Settings, name: str) -> SecondModel:
    """Return the model of that name, by which a vault wants notes ranked again. Raises ModelUnavailableError.

    Only the settings may download it or name a folder. Raises ModelNotAllowedError.
    """
    if name == NO_MODEL:
        raise ModelUnavailableError("`none` is no model; leave `rerank` out of _domains.yaml")
    if settings.endpoints_of(name):
        raise ModelUnavailableError(f"endpoints serve {name!r}; a second model has to be on this machine")
    if name not in settings.chosen_models:
        return SecondModel(_find_downloaded(name).name)
    if is_cross_encoder(Path(name).expanduser()):
        return SecondModel(name, is_cross_encoder=True)
    return SecondModel(_find_model(name).name)


def chosen_chunking(settings: Settings, info: ModelInfo, domain: Domain) -> ChunkSettings:
    """Return how a domain's notes are split for a model, and which context is embedded with each passage."""
    return chunk_settings(
        info.passage_tokens,
        settings.chunk_target_words,
        settings.chunk_overlap_words,
        settings.embedding_context or domain.embedding_context,
    )


def recorded_model(settings: Settings, meta: CacheMeta, root: Path) -> ModelInfo:
    """Return the model that an existing index was built with. Raises ModelUnavailableError."""
    if settings.endpoints_of(meta.model):
        return describe_remote(meta.model, meta.dimension)
    return recorded_here(settings, meta.model, root)


def recorded_here(settings: Settings, name: str, root: Path) -> ModelInfo:
    """Return a model that runs here. Raises ModelUnavailableError.

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


# The models that a process has loaded, and the number of threads that they may use.


LAST_QUERY_FILE = "last-query"
UNPACKED_FOLDER = "models"
"""The folder below the state folder in which the processes share what is unpacked of a model."""
# How long after a question the workers leave one core to the query worker.
_QUERY_QUIET_SECONDS = 30.0
MANY_TEXTS = 100
"""From this number on, loading torch and computing with it takes less time than numpy needs."""
# How long numpy alone computes after a process with torch ended otherwise than because it was idle.
_WITHOUT_TORCH_SECONDS = 600.0


class BulkEmbedder:
    """A model for many texts: torch computes it in its own process, and this process what that one leaves undone."""

    def __init__(self, embedder: Embedder, torch: TorchProcess, threads: int) -> None:
        self._embedder = embedder
        self._torch = torch
        self._threads = threads

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """Encode texts as `Embedder.encode_documents` does, with the same errors."""
        return self._encode("documents", texts)

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Encode texts as questions, likewise."""
        return self._encode("queries", texts)

    def _encode(self, kind: Kind, texts: Sequence[str]) -> Vectors:
        with suppress(ChildDiedError):  # `Embedders` says so when it is asked for the next texts
            return self._torch.encode(kind, texts, self._threads)
        embedder = self._embedder
        return (embedder.encode_documents if kind == "documents" else embedder.encode_queries)(texts)


Encoder = Embedder | RemoteEmbedder


def _end(processes: Mapping[str, TorchProcess]) -> None:
    for process in processes.values():
        process.close()


class Embedders:
    """A process's loaded models by name; each is loaded at first use, and by torch besides when many texts wait.

    `find` returns the information about a model. `workers` returns the known worker processes and whether each lives.
    `remote` returns the chain of a model that endpoints serve, None for any other.
    """

    def __init__(
        self,
        folder: Path,
        find: Callable[[str], ModelInfo],
        workers: Callable[[], Mapping[str, bool]],
        *,
        remote: Callable[[str], RemoteEmbedder | None] = lambda _: None,
    ) -> None:
        self._folder = folder
        self._remote = remote
        self._find = find
        self._workers = workers
        self._loading, self._pairing = threading.Lock(), threading.Lock()
        self._loaded: dict[str, Encoder] = {}
        self._torch: dict[str, TorchProcess] = {}
        # A process that forgets its models does not leave torch idle for a minute.
        weakref.finalize(self, _end, self._torch)
        self._without_torch_until = -math.inf
        self._is_closed = False
        self._pairs: dict[str, CrossEncoder] = {}

    def get(self, model: str, threads: int | None = None) -> Encoder:
        """Return the loaded model of that name. A broken one is loaded again.

        A chain of endpoints is returned as it is; `load` connects to it.
        """
        with self._loading:
            return self._get(model, threads)

    def load(self, model: str, threads: int | None = None) -> Encoder:
        """Return the model of that name, ready for use: loaded, or connected to an endpoint.

        Endpoints that failed are tried again when their time has come. Raises ModelUnavailableError, CacheError.
        """
        embedder = self.get(model, threads)
        if isinstance(embedder, RemoteEmbedder):
            embedder.connect()
        return embedder

    def close(self) -> None:
        """Close the connections to endpoints, and end the processes with torch."""
        self._is_closed = True
        _end(self._torch)
        for embedder in self._loaded.values():
            if isinstance(embedder, RemoteEmbedder):
                embedder.close()

    def rest(self) -> bool:
        """Let go of the memory of models that were idle for a minute; say whether there were any."""
        loaded = [one for one in list(self._loaded.values()) if isinstance(one, Embedder)]
        return bool(sum(one.rest() for one in loaded))

    def prepares(self, model: str) -> bool:
        """Say whether the model of that name is ready and may read every sentence: it, or an endpoint, is local."""
        embedder = self._loaded.get(model)
        return embedder.has_local if isinstance(embedder, RemoteEmbedder) else self.has_loaded(model)

    def sentence_encoder(self, model: str) -> Encode | None:
        """Return what encodes sentences while a question waits; None for endpoints, which take too long."""
        embedder = self.get(model)
        return None if isinstance(embedder, RemoteEmbedder) else embedder.encode_queries

    def bulk(self, model: str, texts: Callable[[], int] = lambda: 0) -> Encoder | BulkEmbedder:
        """Return the model, set to the number of threads that bulk work may use now.

        Many texts start a process that computes it in torch. That takes seconds, which numpy uses, and half a
        gigabyte until it was idle for a minute.
        """
        threads = self.threads()
        with self._loading:
            embedder = self._get(model, threads)
            if isinstance(embedder, RemoteEmbedder):
                return embedder
            torch = self._running_torch(embedder, texts)
        embedder.use_threads(threads)
        return BulkEmbedder(embedder, torch, threads) if torch and torch.is_ready() else embedder

    def _running_torch(self, embedder: Embedder, texts: Callable[[], int]) -> TorchProcess | None:
        """Return the process that computes a model in torch, ready or not; many texts start it."""
        name = embedder.info.name
        process = self._torch.get(name)
        if process and process.ended is not None:
            del self._torch[name]
            if process.has_failed and not self._is_closed:
                self._without_torch_until = time.monotonic() + _WITHOUT_TORCH_SECONDS
                log.warning("torch failed; numpy computes the model", model=name, reason=process.ended)
            process = None
        if process and process.warning:
            log.warning("a model runs in a slower mode", model=name, reason=process.warning)
            process.warning = None
        can = embedder.library == "numpy" and find_spec("sentence_transformers") is not None
        if process or not can or self._is_closed or time.monotonic() < self._without_torch_until:
            return process
        if texts() >= MANY_TEXTS:
            try:
                process = self._torch[name] = TorchProcess(embedder.info)
            except OSError as error:  # too many processes, or no memory
                self._without_torch_until = time.monotonic() + _WITHOUT_TORCH_SECONDS
                log.warning(
                    "torch cannot be started; numpy computes the model", model=name, reason=str(error)
                )
        return process

    def computing(self, model: str) -> tuple[str, str]:
        """Return the device and precision by which a loaded model computes many texts now."""
        process = self._torch.get(model)
        if process and process.loaded and process.ended is None:
            return process.loaded
        embedder = self.get(model)
        return embedder.device, embedder.precision

    def _get(self, model: str, threads: int | None) -> Encoder:
        if model == NO_MODEL:
            raise ModelUnavailableError(
                "these notes are found by words alone (`embedding: none`), and this compares meanings; choose a "
                "model and run `everindex reembed`"
            )
        if model not in self._loaded and (chain := self._remote(model)):
            self._loaded[model] = chain
        if isinstance(loaded := self._loaded.get(model), RemoteEmbedder):
            return loaded
        if not self.has_loaded(model):
            embedder = Embedder(
                self._find(model), threads=threads or self.threads(), unpacked=self._folder / UNPACKED_FOLDER
            )
            if embedder.warning:
                log.warning("a model runs in a slower mode", model=model, reason=embedder.warning)
            self._loaded[model] = embedder
        return self._loaded[model]

    def cross_encoder(self, folder: str) -> CrossEncoder:
        """Return the loaded cross-encoder of a folder. Raises ModelUnavailableError."""
        with self._pairing:  # not `_loading`, which other questions wait for
            if folder not in self._pairs:
                self._pairs[folder] = load_cross_encoder(Path(folder).expanduser())
            return self._pairs[folder]

    def has_loaded(self, model: str) -> bool:
        """Say whether the model of that name is loaded, and works; without one nothing is missing."""
        if model == NO_MODEL:
            return True
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
        here = f"{host()}:"
        workers = sum(alive and name.startswith(here) for name, alive in self._workers().items())
        return max(1, cores // max(1, workers))
