"""What only its owner may read: the state folder, and the secrets in it. Light: every command loads it."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OTHERS = 0o077
_LARGEST_SECRET = 4_096


class NotPrivateError(Exception):
    """A state folder or a secret is not its owner's alone, or is damaged; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in a file of the state folder: the file's name, its form, and what makes a new one."""

    name: str
    form: re.Pattern[str]
    make: Callable[[], str]


TOKEN = Secret("token", re.compile(r"[!-~]{20,}"), lambda: secrets.token_urlsafe(32))
QUEUE_KEY = Secret("queue.key", re.compile(r"[0-9a-f]{64}"), lambda: secrets.token_hex(32))


def read_secret(state: Path, secret: Secret) -> str:
    """Return a secret, made at the first call (mode 0600). Raises NotPrivateError, OSError."""
    path = state / secret.name
    if not os.path.lexists(path):
        write_secret(path, secret.make())
    return _checked(path, secret)


def check_secrets(state: Path) -> None:
    """Refuse secrets that are there and cannot be used. Raises NotPrivateError."""
    for secret in (TOKEN, QUEUE_KEY):
        if os.path.lexists(state / secret.name):
            _checked(state / secret.name, secret)


def write_secret(path: Path, text: str) -> None:
    """Write a file of mode 0600, unless it is there already: the first writer wins."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())  # a power cut must not leave an empty secret, which anybody knows
        path.hardlink_to(beside)
    except FileExistsError:
        pass  # another process was first; its secret is the one in use
    finally:
        beside.unlink(missing_ok=True)


def _checked(path: Path, secret: Secret) -> str:
    """Return the secret of a file that is its owner's alone. Raises NotPrivateError."""
    try:
        # Neither through a link nor waiting for the other end of a FIFO.
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
    return NotPrivateError(f"{path} {why}; delete it and start again, and a new one is made")


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
    """Make a state folder and all in it private; one that is open to others must be empty, or hold the file `mark`.

    The folder belongs to the user who runs this process. Root may also work in the folder of the user whose vault it
    is. Raises NotPrivateError, OSError.
    """
    check_owner(folder, vault=vault)
    info = folder.stat()
    owners = {os.geteuid(), info.st_uid}
    if info.st_mode & _OTHERS:
        if any(folder.iterdir()) and (info.st_mode & stat.S_ISVTX or not _is_marked(folder / mark, owners)):
            raise NotPrivateError(
                f"the folder {folder} is open to other users, and holds what is not Everindex's; choose a new or an "
                "empty folder with --state"
            )
        folder.chmod(stat.S_IMODE(info.st_mode) & ~_OTHERS)
        if folder.stat().st_mode & _OTHERS:
            raise NotPrivateError(
                f"the state folder {folder} lies on a file system without permissions, where every user can read "
                "it; choose another with --state"
            )
    _close_to_others(folder, owners)


def _is_marked(file: Path, owners: set[int]) -> bool:
    return os.path.lexists(file) and file.lstat().st_uid in owners


def _close_to_others(folder: Path, owners: set[int]) -> None:
    """Take every right of other users from what lies in a folder. Raises NotPrivateError for what is not ours."""
    for _, folders, files, within in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            with suppress(OSError):  # a temporary file that is gone, a file system that may only be read
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
