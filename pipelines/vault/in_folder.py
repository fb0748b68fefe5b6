"""Work on files by name in a folder held by its descriptor, whatever replaces the folder meanwhile.

No link is followed, nothing blocks, and a file may be replaced by anything.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from contextlib import suppress

from pipelines.errors import NotARegularFileError, NoteError, NoteTooLargeError, NoteUnreadableError
from pipelines.vault.atomic import give_users_mode

NOT_KNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
"""The error codes of a file system that does not support an operation."""

_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LARGEST = 1_000_000_000  # bytes: a replaced note is read completely
_LIBC = ctypes.CDLL(None, use_errno=True)


def read(folder: int, name: str) -> bytes:
    """Read a regular file that is not a link. Raises FileNotFoundError, NoteError."""
    refused = f"{name!r} is a link or not a regular file and was not written; put a regular file in its place"
    try:
        fd = os.open(name, _READING, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotARegularFileError(refused) from error
        raise NoteUnreadableError(
            f"{name!r} cannot be opened ({error.strerror}); check its permissions"
        ) from error
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        raise NotARegularFileError(refused)
    with os.fdopen(fd, "rb") as file:
        if info.st_size > _LARGEST:
            raise NoteTooLargeError(f"{name!r} has {info.st_size / 1e6:.1f} MB, too much to replace")
        return file.read()


def look(folder: int, name: str) -> bytes | NoteError | None:
    """Return a file's bytes, the error if they are unreadable (it may be anything), or None without a file."""
    try:
        return read(folder, name)
    except FileNotFoundError:
        return None
    except NoteError as error:
        return error
    except OSError as error:
        return NoteUnreadableError(f"{name!r} cannot be read ({error.strerror}); check the disk")


def write_new(folder: int, beside: str, data: bytes, *, like: str | None) -> None:
    """Write a new file and force it to disk, with the mode, owner and attributes of the file `like`, if given."""
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        if like is None:
            give_users_mode(fd, 0o666)
        else:
            _be_like(fd, folder, like)
        os.fsync(fd)


def _be_like(fd: int, folder: int, name: str) -> None:
    other = os.open(name, _READING, dir_fd=folder)
    try:
        info = os.fstat(other)
        for uid, gid in ((info.st_uid, -1), (-1, info.st_gid)):
            with suppress(PermissionError):
                os.fchown(fd, uid, gid)
        os.fchmod(fd, stat.S_IMODE(info.st_mode))
        if sys.platform == "linux":  # elsewhere Python cannot read them
            with suppress(OSError):
                for attribute in os.listxattr(other):
                    with suppress(OSError):
                        os.setxattr(fd, attribute, os.getxattr(other, attribute))
    finally:
        os.close(other)


def rename(folder: int, source: str, target: str, *, swap: bool) -> bool:
    """Exchange two files, or rename one unless the target exists; return False if that is not supported.

    https://man7.org/linux/man-pages/man2/rename.2.html, and `man renameatx_np` on macOS.
    """
    names = os.fsencode(source), os.fsencode(target)
    if hasattr(_LIBC, "renameat2"):
        failed = _LIBC.renameat2(folder, names[0], folder, names[1], ctypes.c_uint(2 if swap else 1))
    elif hasattr(_LIBC, "renameatx_np"):
        failed = _LIBC.renameatx_np(folder, names[0], folder, names[1], ctypes.c_uint(2 if swap else 4))
    else:
        return False
    if failed and (code := ctypes.get_errno()) not in NOT_KNOWN:
        raise OSError(code, os.strerror(code), target)
    return not failed


def move(folder: int, source: str, target: str) -> None:
    """Rename a file, replacing the target if it exists. Raises OSError."""
    os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def link(folder: int, source: str, target: str) -> None:
    """Give a file a second name. Raises OSError."""
    os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)


def unlink(folder: int, name: str) -> None:
    """Remove a file if it is there. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def lstat(folder: int, name: str) -> os.stat_result:
    """Return the `lstat` result of a name. Raises OSError."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def exists(folder: int, name: str) -> bool:
    """Say whether anything of that name exists."""
    try:
        lstat(folder, name)
    except OSError:
        return False
    return True


def sync(folder: int) -> None:
    """Force the names in a folder to disk."""
    with suppress(OSError):  # some network file systems refuse it
        os.fsync(folder)
