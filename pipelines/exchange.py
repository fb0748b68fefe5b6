"""Replace a file that somebody else may be writing just now: the operator's editor, a sync tool, a second machine.

What we write stands beside first and is *exchanged* with the file in one step (`renameat2(RENAME_EXCHANGE)`, on
macOS `renamex_np(RENAME_SWAP)`), so nothing is ever overwritten: whatever was there is in our hands, and is
looked at. If it is not what we had read, it goes back; for that moment a reader sees what we wrote. A file that
was displaced is an inode to which an editor may still hold a descriptor, so it is kept for ten minutes, and
`late_writes` looks at it again.

Where the system or the file system knows no exchange (NFS, SMB, exFAT), the old file is linked aside, replaced, and
looked at just the same. Between the link and the replacement lie some microseconds in which a save by
renaming is lost. Where there are no hard links either, the file is renamed aside: for that moment there is none.

A crash leaves the old content or the new at the path (without hard links: perhaps none, until it is restored), and
beside it at most a `.everindex-*.tmp` and an `.old.tmp` that a record in the folder of displaced files names.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import hashlib
import json
import os
import secrets
import stat
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pipelines.atomic import write_atomic
from pipelines.errors import (
    NotARegularFileError,
    NoteError,
    NoteUnreadableError,
    NoteVanishedError,
    StateError,
)
from pipelines.identity import DOT_FOLDER

KEPT_S = 600.0
"""How long a displaced file is kept: longer than an editor takes from opening a file to writing it."""

QUIET_S = 1.0
"""A displaced file that was written to more recently may be in the middle of a save: it is told next time."""

_UNDER_WAY_S = 60.0  # no exchange takes so long: what still stands beside the note was left by a crash
_BESIDE, _TMP, _OLD = ".everindex-", ".tmp", ".old.tmp"
_AT_FDCWD = -100
_REFUSED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_NO_LINKS = {*_REFUSED, errno.EPERM, errno.EMLINK}
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Late:
    """Bytes that somebody wrote and that are not at `path`: `late` was made from `base`, or from what replaced it."""

    path: Path
    base: bytes
    late: bytes
    record: Path


@dataclass(frozen=True, slots=True)
class _Record:
    """What is known of one exchange; written before it, so that a crash at any point leaves nothing unnamed.

    `read` is in base64; `places` are where the displaced file may be, `started` is `time.monotonic()`.
    """

    path: str
    read: str
    new_sha256: str
    places: list[str]
    started: float

    @property
    def base(self) -> bytes:
        """The bytes that were read."""
        return base64.b64decode(self.read)

    def knows(self, data: bytes) -> bool:
        """Say whether bytes are those that were read, or those that took their place."""
        return data == self.base or hashlib.sha256(data).hexdigest() == self.new_sha256


def exchange(path: Path, read: bytes | None, new: bytes, displaced: Path) -> bytes | None:
    """Make `new` the content of `path` if it still is `read`; return None, or the bytes that are there instead.

    Bytes that are returned were left in place, and may be half of a save: read them again when the file is
    quiet. Where there is no file, `read` is None or empty and `new` is created, never over one that appeared.
    Mode, owner and (on Linux) extended attributes are kept as far as permitted. What is displaced goes to the
    folder `displaced`; from another file system to the vault's own `.everindex/displaced`, because a descriptor
    belongs to an inode. Raises NoteVanishedError, NotARegularFileError, NoteUnreadableError, StateError.
    """
    path, displaced = path.absolute(), displaced.absolute()
    beside = path.with_name(f"{_BESIDE}{secrets.token_hex(8)}{_TMP}")
    try:
        if not read and not os.path.lexists(path):
            return _create(path, new, beside)
        found = _content(path)
        if found != read:
            return found
        token = beside.name.removeprefix(_BESIDE).removesuffix(_TMP)
        return _replace(path, found, new, beside, displaced / f"{token}.json")
    except FileNotFoundError as error:
        raise NoteVanishedError(f"{str(path)!r} or its folder is no longer there") from error
    except OSError as error:
        raise NoteUnreadableError(
            f"{str(path)!r} cannot be replaced ({error.strerror}); check its folder's permissions and free space"
        ) from error


def _create(path: Path, new: bytes, beside: Path) -> bytes | None:
    try:
        _write(beside, new, like=None)
        if not _rename(beside, path, swap=False):
            path.hardlink_to(beside)
    except FileExistsError:
        return _content(path)
    finally:
        beside.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return None


def _write_record(file: Path, path: Path, read: bytes, new: bytes, beside: Path) -> _Record:
    dot_folders = (parent / DOT_FOLDER for parent in path.parents)
    folders = [file.parent, *(dot / "displaced" for dot in dot_folders if dot.is_dir())][:2]
    places = [*(folder / f"{file.stem}.kept" for folder in folders), beside, beside.with_suffix(_OLD)]
    record = _Record(
        os.fspath(path),
        base64.b64encode(read).decode("ascii"),
        hashlib.sha256(new).hexdigest(),
        [os.fspath(place) for place in places],
        time.monotonic(),
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, json.dumps(asdict(record)).encode("ascii"))
    except OSError as error:
        raise StateError(
            f"{str(file.parent)!r} cannot be written ({error.strerror}); nothing was changed. Check its "
            "permissions and free space"
        ) from error
    return record


def _replace(path: Path, read: bytes, new: bytes, beside: Path, file: Path) -> bytes | None:
    record = _write_record(file, path, read, new, beside)
    try:
        _write(beside, new, like=path)
        _swap(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        file.unlink(missing_ok=True)
        raise
    try:
        return _put_back(read, new, beside, path)
    finally:
        _keep(record, beside)
        _sync_folder(path.parent)


def _put_back(read: bytes, new: bytes, beside: Path, path: Path) -> bytes | None:
    """Look at what was displaced; put it back unless it is what was read, and so on until nobody wrote meanwhile.

    Of two foreign contents the one that was found at the path later stays there; the other one is left beside.
    """
    placed: bytes | NoteError | None = new
    displaced = _look(beside)
    if displaced == read:
        return None
    while True:
        _swap(beside, path)
        found = _look(beside)
        if found == placed or not isinstance(found, bytes):
            break
        placed, displaced = displaced, found
    if isinstance(displaced, NoteError):
        raise displaced
    return displaced


def late_writes(displaced: Path, now: float) -> list[Late]:
    """Return what was written to files after they were displaced, and let go of those that are older than KEPT_S.

    `now` is `time.monotonic()`, which no change of the clock moves; where it is earlier than a record's, the
    machine was started anew, and no descriptor is open any more. What is returned stays, and is returned again,
    until `settle` says that it is safe elsewhere; what cannot be read stays, too.
    """
    return [late for file in sorted(displaced.glob("*.json")) for late in _look_again(file, now)]


def _look_again(file: Path, now: float) -> list[Late]:
    record = _read_record(file)
    if record is None:
        return []
    age = now - record.started
    path, places = Path(record.path), [Path(place) for place in record.places]
    if 0 <= age < _UNDER_WAY_S:
        places = [place for place in places if place.suffix == ".kept"]
    else:
        _after_a_crash(path, places)
    late = []
    done = not 0 <= age < KEPT_S
    for place in places:
        data = _look(place)
        if data is None:
            continue
        if isinstance(data, NoteError) or not _is_quiet(place, QUIET_S):
            done = False
        elif not record.knows(data):
            late.append(Late(path, record.base, data, file))
    if done and not late:
        for place in (*places, file):
            place.unlink(missing_ok=True)
    return late


def _after_a_crash(path: Path, places: list[Path]) -> None:
    """Undo the first step of an exchange in three steps."""
    aside = places[-1]
    if not os.path.lexists(path) and aside.exists():
        aside.rename(path)
    elif aside.exists() and path.exists() and aside.samefile(path):
        aside.unlink()


def settle(late: Late) -> None:
    """Record that late bytes are safe elsewhere: only what is written after them will be told."""
    record = _read_record(late.record)
    if record is not None:
        told = replace(record, read=base64.b64encode(late.late).decode("ascii"))
        write_atomic(late.record, json.dumps(asdict(told)).encode("ascii"))


def leftovers(root: Path, displaced: Path) -> list[Path]:
    """Move what a crash left beside notes, and no record names, to `displaced/unclaimed`; return where it is now.

    Its bytes may be a person's and nowhere else, so it is never deleted: say so to the operator. What a record
    names is `late_writes`' part, and what is younger than a minute may be in use.
    """
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not (name.startswith(_BESIDE) and name.endswith(_TMP)):
                continue
            token = name.removeprefix(_BESIDE).partition(".")[0]
            place = Path(folder, name)
            if (displaced / f"{token}.json").exists() or not _is_quiet(place, _UNDER_WAY_S):
                continue
            unclaimed = displaced / "unclaimed" / name.removeprefix(".")
            unclaimed.parent.mkdir(parents=True, exist_ok=True)
            try:
                place.rename(unclaimed)
            except OSError:  # another file system: it is safe where it is
                found.append(place)
            else:
                found.append(unclaimed)
    return found


def _read_record(file: Path) -> _Record | None:
    """Return a record, or None for one that is damaged: it, and what it may be of, is left alone."""
    try:
        return _Record(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _keep(record: _Record, beside: Path) -> None:
    """Move a displaced file out of the notes' way; where nothing else is on its file system it stays beside."""
    for place in map(Path, record.places):
        if place.suffix == ".kept":
            with suppress(OSError):
                place.parent.mkdir(exist_ok=True)
                beside.rename(place)
                return


def _content(path: Path) -> bytes:
    """Read a regular file that is no link; raises FileNotFoundError, NotARegularFileError, NoteUnreadableError."""
    refused = (
        f"{str(path)!r} is a link or no regular file; it is not written. Put a regular file in its place"
    )
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotARegularFileError(refused) from error
        raise NoteUnreadableError(
            f"{str(path)!r} cannot be opened ({error.strerror}); check its permissions"
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotARegularFileError(refused)
    with os.fdopen(fd, "rb") as file:
        return file.read()


def _look(place: Path) -> bytes | NoteError | None:
    """Return a file's bytes, why they cannot be read (what was displaced may be anything), or None without one."""
    try:
        return _content(place)
    except FileNotFoundError:
        return None
    except NoteError as error:
        return error
    except OSError as error:
        return NoteUnreadableError(f"{str(place)!r} cannot be read ({error.strerror}); check the disk")


def _write(beside: Path, data: bytes, *, like: Path | None) -> None:
    """Write a new file and force it to disk, with the mode, owner and attributes of another one if there is one."""
    with beside.open("xb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            info = like.lstat()
            for uid, gid in ((info.st_uid, -1), (-1, info.st_gid)):
                with suppress(PermissionError):
                    os.fchown(file.fileno(), uid, gid)
            os.fchmod(file.fileno(), stat.S_IMODE(info.st_mode))
            _copy_attributes(like, file.fileno())
        os.fsync(file.fileno())


def _copy_attributes(like: Path, fd: int) -> None:
    if sys.platform == "linux":  # elsewhere Python cannot read them
        with suppress(OSError):
            for name in os.listxattr(like, follow_symlinks=False):
                with suppress(OSError):
                    os.setxattr(fd, name, os.getxattr(like, name, follow_symlinks=False))


def _swap(beside: Path, path: Path) -> None:
    """Exchange two files; where that is refused, in three steps that the module's docstring describes."""
    if _rename(beside, path, swap=True):
        return
    aside = beside.with_suffix(_OLD)
    try:
        aside.hardlink_to(path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        path.rename(aside)
    try:
        beside.replace(path)
    except OSError:
        if os.path.lexists(path):
            aside.unlink()
        else:
            aside.rename(path)
        raise
    aside.rename(beside)


def _rename(source: Path, target: Path, *, swap: bool) -> bool:
    """Exchange two files, or rename one unless there is a target; return False where that is not known.

    https://man7.org/linux/man-pages/man2/rename.2.html, and `man renamex_np` on macOS.
    """
    names = os.fsencode(source), os.fsencode(target)
    if hasattr(_LIBC, "renameat2"):
        flag = ctypes.c_uint(2 if swap else 1)
        failed = _LIBC.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flag)
    elif hasattr(_LIBC, "renamex_np"):
        failed = _LIBC.renamex_np(*names, ctypes.c_uint(2 if swap else 4))
    else:
        return False
    if failed and (code := ctypes.get_errno()) not in _REFUSED:
        raise OSError(code, os.strerror(code), os.fspath(target))
    return not failed


def _is_quiet(place: Path, seconds: float) -> bool:
    try:
        # A time in the future is a clock that was set back, not a save.
        return abs(time.time() - place.lstat().st_mtime) >= seconds
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems refuse it
            os.fsync(fd)
    finally:
        os.close(fd)
