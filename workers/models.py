"""Choose a domain's model and what it reads: as the settings say, or else as its vault says.

A model that only the vault names has to be on this machine already.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pipelines.embedding.models import ModelInfo, find_downloaded, find_model
from pipelines.errors import ModelNotAllowedError
from pipelines.model import ChunkSettings, Domain
from pipelines.notes.chunk import chunk_settings
from queue_config.settings import Settings

_find_model = lru_cache(find_model)
_find_downloaded = lru_cache(find_downloaded)


def chosen_model(settings: Settings, named: str | None) -> ModelInfo:
    """Return the model that the settings choose, or else the one that a vault names.

    Raises ModelUnavailableError, and ModelNotAllowedError if only the vault names the model.
    """
    name = settings.embedding_model or named
    return _find_model(name) if name is None or name in settings.chosen_models else _find_downloaded(name)


def chosen_chunking(settings: Settings, info: ModelInfo, domain: Domain) -> ChunkSettings:
    """Return how a domain's notes are split for a model, and which context is embedded with each passage."""
    return chunk_settings(
        info.window,
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
