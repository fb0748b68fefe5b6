"""Write files completely or not at all. Imports nothing heavy, because every command loads it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

_PRIVATE = 0o077
# Read once, before `keep_private`, because reading it requires changing it for a moment.
USERS_UMASK = os.umask(_PRIVATE)
os.umask(USERS_UMASK)


def keep_private() -> None:
    """Make all that this process creates from now on private to its owner; vault files get `give_users_mode`."""
    os.umask(_PRIVATE)


def give_users_mode(file: Path | int, mode: int) -> None:
    """Give a new file or folder of the vault the permissions that the user's own programs would give it."""
    with suppress(OSError):  # a file system without permissions
        os.chmod(file, mode & ~USERS_UMASK)  # noqa: PTH101 - also for a descriptor


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that readers see either the old or the new bytes: temporary file, fsync, replace."""
    beside = path.with_name(_name_beside())
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk, so that a power failure does not undo a rename. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_in_folder(folder: int, name: str, data: bytes, *, once: bool) -> None:
    """Write a file of the vault as `write_atomic` does, in the folder of a descriptor.

    With `once` an existing file stays: of several processes the first one wins.
    """
    beside = _name_beside()
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            give_users_mode(fd, 0o666)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if once:
            with suppress(FileExistsError):
                os.link(beside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        else:
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)


def _name_beside() -> str:
    return f".everindex-{secrets.token_hex(8)}.tmp"


def file_bytes(path: Path) -> int:
    """Return the size of a file; 0 if there is no file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
