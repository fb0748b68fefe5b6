"""Open files below a folder without following links on the way: the only access to the files of a vault.

The vault may come from a stranger. Whatever links, FIFOs, devices and sizes it contains, nothing outside it is opened
and nothing blocks: Linux resolves a path in one step (`openat2`), other systems open it folder by folder. The root is
the operator's choice, and every call opens it again, because another file system may be mounted there meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from pipelines.errors import UnsafePathError

_PASSING = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# For a file that was replaced since it was checked: do not wait for a FIFO's writer, do not acquire a terminal.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_OPENAT2 = 437  # the same on every architecture that Python runs on, except Alpha
_NO_LINKS_BENEATH = 0x02 | 0x04 | 0x08  # RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH
_LIBC = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    """`struct open_how`, https://man7.org/linux/man-pages/man2/openat2.2.html."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def read_file(root: Path, raw: str, limit: int) -> bytes:
    """Return the bytes of a regular file below the root, at most `limit` of them.

    Raises UnsafePathError for a link on the way, another kind of file, or a larger file; OSError (FileNotFoundError
    if there is no file).
    """
    with os.fdopen(open_file(root, raw), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(limit + 1) if size <= limit else b""
    if max(size, len(data)) > limit:
        raise UnsafePathError(f"{raw!r} has more than {limit / 1e6:g} MB, too much to read")
    return data


def open_file(root: Path, raw: str) -> int:
    """Return a descriptor for reading a regular file below the root. Raises UnsafePathError, OSError."""
    refused = UnsafePathError(f"{raw!r} is not a regular file")
    # Check first, because opening a FIFO or a device already acts on it. A link is refused when it is opened.
    if not (stat.S_ISREG(mode := look(root, raw).st_mode) or stat.S_ISLNK(mode)):
        raise refused
    fd = _open(root, _parts(raw), _FILE)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise refused
    return fd


def open_folder(root: Path, raw: str = "") -> int:
    """Return a descriptor of a folder below the root, or of the root itself. Raises UnsafePathError, OSError.

    Operations relative to it stay in this folder, even if its path is replaced meanwhile.
    """
    return _open(root, _parts(raw), _FOLDER)


@contextmanager
def folder(root: Path, raw: str = "") -> Iterator[int]:
    """Open a folder as `open_folder` does, and close it at the end of the block."""
    fd = open_folder(root, raw)
    try:
        yield fd
    finally:
        os.close(fd)


def walk(root: Path, start: str = "") -> Iterator[tuple[str, int, list[str]]]:
    """Yield every folder from `start` on: its path, its descriptor, the names of its entries that are not folders.

    Skips folders below it whose names begin with a dot, and folders that cannot be read.
    """
    waiting = [start]
    while waiting:
        raw = waiting.pop()
        with suppress(OSError, UnsafePathError), folder(root, raw) as fd:
            names = []
            with os.scandir(fd) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        names.append(entry.name)
                    elif not entry.name.startswith("."):
                        waiting.append(f"{raw}/{entry.name}" if raw else entry.name)
            yield raw, fd, names


def subfolders(root: Path, raw: str) -> list[str]:
    """Return the paths of the folders in a folder; none if it cannot be listed or is behind a link."""
    try:
        with folder(root, raw) as fd, os.scandir(fd) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (OSError, UnsafePathError):
        return []
    return [f"{raw}/{name}" if raw else name for name in names]


def look(root: Path, raw: str) -> os.stat_result:
    """Return the `lstat` result of a path below the root. Raises UnsafePathError for a link on the way, OSError."""
    parts = _parts(raw)
    fd = _open(root, parts[:-1], _PASSING)
    try:
        return os.stat(parts[-1] if parts else ".", dir_fd=fd, follow_symlinks=False)
    finally:
        os.close(fd)


def _parts(raw: str) -> list[str]:
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    try:
        if not raw.startswith("/") and ".." not in parts and b"\0" not in os.fsencode(raw):
            return parts
    except UnicodeEncodeError:
        pass  # no file system allows such a name
    raise UnsafePathError(f"{raw!r} leaves the vault")


def _open(root: Path, parts: list[str], flags: int) -> int:
    at = os.open(root, _PASSING if parts else flags)
    if not parts:
        return at
    try:
        return _open_at_once(at, parts, flags) if _has_openat2() else _open_step_by_step(at, parts, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafePathError(
                f"{'/'.join(parts)!r} is a symbolic link or behind one; links are not followed"
            ) from error
        raise
    finally:
        os.close(at)


def _open_at_once(at: int, parts: list[str], flags: int) -> int:
    path = "/".join(parts)
    how = _How(flags, 0, _NO_LINKS_BENEATH)
    while True:
        fd = _LIBC.syscall(
            ctypes.c_long(_OPENAT2), at, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(24)
        )
        if fd >= 0:
            return int(fd)
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code), path)


def _open_step_by_step(at: int, parts: list[str], flags: int) -> int:
    fd = os.dup(at)
    try:
        for part in parts[:-1]:
            passed, fd = fd, _enter(fd, part, _PASSING)
            os.close(passed)
        return _enter(fd, parts[-1], flags)
    finally:
        os.close(fd)


def _enter(fd: int, part: str, flags: int) -> int:
    try:
        return os.open(part, flags | os.O_NOFOLLOW, dir_fd=fd)
    except NotADirectoryError as error:
        # O_NOFOLLOW reports a link as "not a directory". A folder found now was a link a moment ago.
        mode = os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part) from error
        raise


@cache
def _has_openat2() -> bool:
    """Say whether the kernel supports openat2 (Linux 5.6) and no sandbox forbids it."""
    if sys.platform != "linux":
        return False
    root = os.open("/", _PASSING)
    try:
        os.close(_open_at_once(root, ["."], _PASSING))
    except OSError:
        return False
    finally:
        os.close(root)
    return True
