"""Which vault a folder is: the id that moves with it. Light: every command loads it."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from pipelines.atomic import write_once
from pipelines.errors import VaultNotFoundError

DOT_FOLDER = ".everindex"
ID_FILE = "id"


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes a vault this vault: an id that moves with it, and the folder's device and inode."""

    vault_id: str
    marked: bool
    device: int
    inode: int


def identify(root: Path) -> Identity:
    """Return the vault's identity, writing the id into its dot-folder at first sight.

    Where the dot-folder cannot be written the id is made from the path, and `marked` is false.
    Raises VaultNotFoundError.
    """
    try:
        info = root.stat()
    except OSError as error:
        raise VaultNotFoundError(
            f"the vault {root} cannot be opened ({error.strerror}); check the path"
        ) from error
    if not stat.S_ISDIR(info.st_mode):
        raise VaultNotFoundError(f"the vault {root} is not a folder; give the folder that holds the notes")
    marker = root / DOT_FOLDER / ID_FILE
    try:
        if not marker.exists():
            marker.parent.mkdir(exist_ok=True)
            write_once(marker, (secrets.token_hex(6) + "\n").encode())
        vault_id = marker.read_text(encoding="ascii").strip()
        if vault_id and all(c in "0123456789abcdef" for c in vault_id):
            return Identity(vault_id, marked=True, device=info.st_dev, inode=info.st_ino)
    except (OSError, UnicodeDecodeError):
        pass  # a vault that we may only read is identified by where it lies
    by_path = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:12]
    return Identity(by_path, marked=False, device=info.st_dev, inode=info.st_ino)


def identify_anew(root: Path) -> Identity:
    """Give a copy of a vault an id of its own."""
    (root / DOT_FOLDER / ID_FILE).unlink()
    return identify(root)
