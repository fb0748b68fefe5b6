"""The token that programs show: a file of mode 0600 in the state folder, made at the first start."""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import StateError
from queue_config.secrets import TOKEN, NotPrivateError, read_secret
from workers.vault_paths import cannot_be_written


def read_token(state: Path) -> str:
    """Return the vault's token, made at the first call (mode 0600). Raises StateError."""
    try:
        return read_secret(state, TOKEN)
    except NotPrivateError as error:
        raise StateError(str(error)) from error
    except OSError as error:
        raise cannot_be_written(state, error) from error
