"""Identify a vault by the id that moves with it. Imports nothing heavy, because every command loads it."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pipelines.errors import UnsafePathError, VaultIdError, VaultNotFoundError
from pipelines.vault import paths
from pipelines.vault.atomic import give_users_mode, write_in_folder

DOT_FOLDER = ".everindex"
ID_FILE = "id"

_MARKER = f"{DOT_FOLDER}/{ID_FILE}"
_LONGEST = 64
_LIMIT = 1_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """A vault's identity: an id that moves with it, and its folder's device and inode."""

    vault_id: str
    marked: bool
    device: int
    inode: int

    def is_of(self, info: os.stat_result) -> bool:
        """Say whether a folder is the very folder that was identified."""
        return (info.st_dev, info.st_ino) == (self.device, self.inode)

    def at(self, info: os.stat_result) -> Identity:
        """Return the identity for another folder that replaced the identified one."""
        return self if self.is_of(info) else replace(self, device=info.st_dev, inode=info.st_ino)


class Seen(NamedTuple):
    """What a state folder remembers of a vault at a path: its id, and the folder's inode if it is known."""

    vault_id: str
    inode: int | None


def identify(root: Path, seen: Callable[[], Sequence[Seen]] = tuple, *, create: bool = True) -> Identity:
    """Return the vault's identity; at first use write an id into its dot-folder if `create` allows it.

    `seen` returns what is remembered of this path, best first. A damaged or lost id file gets the remembered id back.
    If the id cannot be written, `marked` is false, and a vault that was never seen is identified by its path. Raises
    VaultNotFoundError, and VaultIdError if the id file is damaged and nothing is remembered.
    """
    info = _stat(root, seen)
    damage: VaultIdError | None = None
    try:
        vault_id = read_id(root)
    except VaultIdError as error:
        vault_id, damage = None, error
    if vault_id:
        return Identity(vault_id, marked=True, device=info.st_dev, inode=info.st_ino)
    known = next((one.vault_id for one in seen() if damage or one.inode == info.st_ino), None)
    if known is None and damage:
        raise damage
    if create:
        with suppress(OSError, UnsafePathError, VaultIdError):  # a read-only vault
            write_id(root, known or secrets.token_hex(6), once=damage is None)
            vault_id = read_id(root)  # another process may have been faster
            if known:
                log.warning("%s was damaged or lost; it contains %s again", root / _MARKER, vault_id)
    found = vault_id or known or id_by_path(root)
    return Identity(found, marked=bool(vault_id), device=info.st_dev, inode=info.st_ino)


def id_by_path(root: Path) -> str:
    """Return the id of a vault without its own id, because it is read-only."""
    return hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:12]


def identify_anew(root: Path) -> Identity:
    """Give a copy of a vault its own id."""
    with paths.folder(root, DOT_FOLDER) as folder:
        os.unlink(ID_FILE, dir_fd=folder)
    return identify(root)


def read_id(root: Path) -> str | None:
    """Return the id in a vault's dot-folder, or None without one. Raises VaultIdError."""
    try:
        text = paths.read_file(root, _MARKER, _LIMIT).decode("ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnsafePathError as error:
        raise _damaged(root, str(error)) from error
    except UnicodeDecodeError as error:
        raise _damaged(root, "it is not ASCII text") from error
    except OSError as error:
        raise _damaged(root, f"it cannot be read: {error.strerror}") from error
    if not text:
        raise _damaged(root, "it is empty")
    if len(text) > _LONGEST or not all(c in "0123456789abcdef" for c in text):
        raise _damaged(root, "it should contain a few letters and digits (0-9, a-f) and nothing else")
    return text


def write_id(root: Path, vault_id: str, *, once: bool) -> None:
    """Write a vault's id; with `once` an existing one stays. Raises UnsafePathError, OSError."""
    try:
        with paths.folder(root) as folder:
            os.mkdir(DOT_FOLDER, dir_fd=folder)
        made = True
    except FileExistsError:
        made = False
    with paths.folder(root, DOT_FOLDER) as folder:
        if made:
            give_users_mode(folder, 0o777)
        write_in_folder(folder, ID_FILE, f"{vault_id}\n".encode(), once=once)


def _stat(root: Path, seen: Callable[[], Sequence[Seen]]) -> os.stat_result:
    try:
        info = root.stat()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and seen():
            raise VaultNotFoundError(
                f"the vault {root} is not there: it was moved, or is not mounted. Mount it, move it back, or give its"
                " new folder; its index is kept"
            ) from error
        raise VaultNotFoundError(
            f"the vault {root} cannot be opened ({error.strerror}); check the path"
        ) from error
    if not stat.S_ISDIR(info.st_mode):
        raise VaultNotFoundError(f"the vault {root} is not a folder; give the folder that contains the notes")
    return info


def _damaged(root: Path, reason: str) -> VaultIdError:
    return VaultIdError(
        f"{root / _MARKER} does not identify the vault: {reason}. Write the vault's id into it if you know it"
        " (it is the name of the state folder), or delete it; then the vault is indexed again from scratch"
    )
