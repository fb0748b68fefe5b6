"""Which model a domain has: the settings' choice, or the vault's where that costs nothing but what is on the disk."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pipelines.embedding.model_info import ModelInfo, find_downloaded, find_model
from pipelines.errors import ModelNotAllowedError
from queue_config.settings import Settings

_find_model = lru_cache(find_model)
_find_downloaded = lru_cache(find_downloaded)


def chosen_model(settings: Settings, named: str | None) -> ModelInfo:
    """Return the model that the settings want, or the one that a vault names.

    Raises ModelUnavailableError; ModelNotAllowedError where only the vault names it.
    """
    name = settings.embedding_model or named
    return _find_model(name) if name is None or name in settings.chosen_models else _find_downloaded(name)


def recorded_model(settings: Settings, name: str, root: Path) -> ModelInfo:
    """Return the model that an index was built with: it was chosen once. Raises ModelUnavailableError.

    A folder of the vault is none, and nothing is fetched that the settings do not name.
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
