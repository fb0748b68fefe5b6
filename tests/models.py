"""Models that the tests of a process share: loading one takes as long as most of what is asked of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipelines.embedding.embedder import Embedder, Library
from pipelines.embedding.models import ModelInfo
from workers.models import Embedders

_LOADED: dict[tuple[ModelInfo, Library], Embedder] = {}


def _load_once(
    info: ModelInfo,
    *,
    threads: int,
    library: Library = "numpy",
    unpacked: Path | None = None,  # noqa: ARG001 - tests that share a model share no state folder
) -> Embedder:
    loaded = _LOADED.get((info, library))
    if loaded is None or loaded.is_broken:
        loaded = _LOADED[info, library] = Embedder(info, threads=threads, library=library)
    loaded.use_threads(threads)
    loaded._vector_of_question.cache_clear()  # a model that was just loaded has no vector of an earlier question
    return loaded


@pytest.fixture(autouse=True)
def shared_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each `Resources` the models that an earlier test has loaded; one that broke is loaded again."""
    monkeypatch.setattr(sys.modules[Embedders.__module__], "Embedder", _load_once)
