"""Files that only their owner may read: the state folder and its secrets. Imports little: every command loads it."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OTHERS = 0o077
_LARGEST_SECRET = 4_096


class NotPrivateError(Exception):
    """A state folder or secret is accessible to other users, or damaged; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in a file of the state folder: the file's name, its format, and how to create a new one."""

    name: str
    form: re.Pattern[str]
    make: Callable[[], str]


TOKEN = Secret("token", re.compile(r"[!-~]{20,}"), lambda: secrets.token_urlsafe(32))
QUEUE_KEY = Secret("queue.key", re.compile(r"[0-9a-f]{64}"), lambda: secrets.token_hex(32))
SECRETS = (TOKEN, QUEUE_KEY)


def read_secret(state: Path, secret: Secret) -> str:
    """Return a secret, created by the first call (mode 0600). Raises NotPrivateError, OSError."""
    path = state / secret.name
    if not os.path.lexists(path):
        write_secret(path, secret.make())
    return _checked(path, secret)


def check_secrets(state: Path, wanted: Iterable[Secret] = SECRETS) -> None:
    """Refuse secrets that exist but cannot be used. Raises NotPrivateError."""
    for secret in wanted:
        if os.path.lexists(state / secret.name):
            _checked(state / secret.name, secret)


def write_secret(path: Path, text: str) -> None:
    """Write a file of mode 0600 unless it exists: the first writer wins."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())  # a power cut must not leave an empty secret, which anyone could guess
        path.hardlink_to(beside)
    except FileExistsError:
        pass  # another process was first; its secret is in use
    finally:
        beside.unlink(missing_ok=True)


def _checked(path: Path, secret: Secret) -> str:
    """Return the secret in a file, if only its owner can access it. Raises NotPrivateError."""
    try:
        # Do not follow a link or block on a FIFO.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(fd)
            owners = (os.geteuid(), path.parent.stat().st_uid)
            data = os.read(fd, _LARGEST_SECRET) if stat.S_ISREG(info.st_mode) else b""
        finally:
            os.close(fd)
    except OSError as error:
        why = "is a link" if path.is_symlink() else f"cannot be read ({error.strerror})"
        raise _unusable(path, why) from error
    if not stat.S_ISREG(info.st_mode):
        raise _unusable(path, "is not a file")
    if info.st_uid not in owners:
        raise _unusable(path, f"belongs to {_name(info.st_uid)}")
    if info.st_mode & _OTHERS:
        raise _unusable(path, "is open to other users")
    text = data.decode("utf-8", "replace").strip()
    if not secret.form.fullmatch(text):
        raise _unusable(path, "is empty or damaged")
    return text


def _unusable(path: Path, why: str) -> NotPrivateError:
    return NotPrivateError(
        f"{path} {why}; delete it, stop Everindex and start it again: that creates a new one"
    )


def check_owner(folder: Path, *, vault: Path) -> None:
    """Refuse a state folder of another user; root may use that of the vault's owner.

    Raises NotPrivateError, OSError.
    """
    owner, me = folder.stat().st_uid, os.geteuid()
    if owner != me and (me != 0 or owner != vault.stat().st_uid):
        raise NotPrivateError(
            f"the state folder {folder} belongs to {_name(owner)}, who could read your notes in it; "
            "choose another with --state"
        )


def secure_folder(folder: Path, mark: str, *, vault: Path) -> None:
    """Make a state folder and its contents private; one open to others must be empty or contain the file `mark`.

    The folder must belong to the user of this process. Root may also use the folder of the vault's owner.
    Raises NotPrivateError, OSError.
    """
    check_owner(folder, vault=vault)
    info = folder.stat()
    owners = {os.geteuid(), info.st_uid}
    if info.st_mode & _OTHERS:
        if any(folder.iterdir()) and (info.st_mode & stat.S_ISVTX or not _is_marked(folder / mark, owners)):
            raise NotPrivateError(
                f"the folder {folder} is open to other users and contains other files; choose a new or an "
                "empty folder with --state"
            )
        folder.chmod(stat.S_IMODE(info.st_mode) & ~_OTHERS)
        if folder.stat().st_mode & _OTHERS:
            raise NotPrivateError(
                f"the state folder {folder} is on a file system without permissions, where every user can read "
                "it; choose another with --state"
            )
    _close_to_others(folder, owners)


def _is_marked(file: Path, owners: set[int]) -> bool:
    return os.path.lexists(file) and file.lstat().st_uid in owners


def _close_to_others(folder: Path, owners: set[int]) -> None:
    """Remove other users' permissions from a folder's contents. Raises NotPrivateError for another user's file."""
    for _, folders, files, within in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            with suppress(OSError):  # a temporary file that is gone, or a read-only file system
                info = os.stat(name, dir_fd=within, follow_symlinks=False)
                if info.st_uid not in owners:
                    raise NotPrivateError(
                        f"{name!r} in the state folder {folder} belongs to {_name(info.st_uid)}; delete it, or make "
                        "it yours with `chown`"
                    )
                if not stat.S_ISLNK(info.st_mode) and info.st_mode & _OTHERS:
                    os.chmod(name, stat.S_IMODE(info.st_mode) & ~_OTHERS, dir_fd=within)


def _name(user: int) -> str:
    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"the user with the number {user}"
