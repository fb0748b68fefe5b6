"""The token that programs show: a file of mode 0600 in the state folder, made at the first start."""

from __future__ import annotations

import secrets
from pathlib import Path

TOKEN_FILE = "token"  # noqa: S105 - the file's name


def read_token(state: Path) -> str:
    """Return the vault's token, made at the first call (mode 0600)."""
    path = state / TOKEN_FILE
    if not path.exists():
        from queue_config.queue import write_secret  # noqa: PLC0415 - loads the queue's libraries

        write_secret(path, secrets.token_urlsafe(32))
    return path.read_text().strip()
