"""The models that a process has loaded, and how many threads they may use."""

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
from pipelines.embedding.model_info import ModelInfo

LAST_QUERY_FILE = "last-query"
OPENVINO_FOLDER = "openvino"
# For so long after a question the workers leave one core to the query worker.
_QUERY_QUIET_SECONDS = 30.0

log = structlog.get_logger()


class Embedders:
    """The loaded models of a process by name; each is loaded at first use.

    `find`: return what is known of a model of that name. `workers`: return which worker processes live.
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
        """Return the loaded model of that name; loading it takes seconds."""
        with self._loading:
            if model not in self._loaded:
                embedder = Embedder(
                    self._find(model), threads=threads or self.threads(), openvino=self._openvino
                )
                if embedder.warning:
                    log.warning("a model is loaded in a slower way", model=model, reason=embedder.warning)
                self._loaded[model] = embedder
            return self._loaded[model]

    def bulk(self, model: str) -> Embedder:
        """Return the loaded model of that name with as many threads as bulk work may use now."""
        embedder = self.get(model)
        embedder.use_threads(self.threads())
        return embedder

    def has_loaded(self, model: str) -> bool:
        """Say whether the model of that name can be had without a wait."""
        return model in self._loaded

    def leave_a_core(self) -> None:
        """Let the bulk work of all processes leave a core free for a while, because a question is being answered."""
        with suppress(OSError):  # questions are answered on a full or read-only disk, too
            (self._folder / LAST_QUERY_FILE).touch()

    def threads(self) -> int:
        """Return how many threads bulk work may use.

        One core is left free while questions come, and the workers of this machine share the others.
        """
        cores = os.cpu_count() or 1
        with suppress(OSError):  # there was no question yet
            if time.time() - (self._folder / LAST_QUERY_FILE).stat().st_mtime < _QUERY_QUIET_SECONDS:
                cores -= 1
        here = f"{socket.gethostname()}:"
        workers = sum(alive and name.startswith(here) for name, alive in self._workers().items())
        return max(1, cores // max(1, workers))
