"""The models that a process has loaded, and the number of threads that they may use."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import ModelInfo

LAST_QUERY_FILE = "last-query"
OPENVINO_FOLDER = "openvino"
# How long after a question the workers leave one core to the query worker.
_QUERY_QUIET_SECONDS = 30.0

log = structlog.get_logger()


class Embedders:
    """A process's loaded models by name; each is loaded at first use.

    `find` returns the information about a model. `workers` returns the known worker processes and whether each lives.
    """

    def __init__(
        self,
        folder: Path,
        find: Callable[[str], ModelInfo],
        workers: Callable[[], Mapping[str, bool]],
        *,
        openvino: bool,
    ) -> None:
        self._folder = folder
        self._find = find
        self._workers = workers
        self._openvino = folder / OPENVINO_FOLDER if openvino else None
        self._loading = threading.Lock()
        self._loaded: dict[str, Embedder] = {}

    def get(self, model: str, threads: int | None = None) -> Embedder:
        """Return the loaded model of that name; loading takes seconds. A broken one is loaded again."""
        with self._loading:
            if not self.has_loaded(model):
                embedder = Embedder(
                    self._find(model), threads=threads or self.threads(), openvino=self._openvino
                )
                if embedder.warning:
                    log.warning("a model runs in a slower mode", model=model, reason=embedder.warning)
                self._loaded[model] = embedder
            return self._loaded[model]

    def bulk(self, model: str) -> Embedder:
        """Return the loaded model of that name, set to the number of threads that bulk work may use now."""
        embedder = self.get(model)
        embedder.use_threads(self.threads())
        return embedder

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
