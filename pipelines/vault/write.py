"""Replace a file that another program may be writing: the operator's editor, a sync tool, a second machine.

The new content is first written beside the file and then *exchanged* with it in one step
(`renameat2(RENAME_EXCHANGE)`, on macOS `renamex_np(RENAME_SWAP)`). So nothing is ever overwritten: the displaced file
is then checked. If it is not what was read before, it is put back; for that moment a reader sees the new content. (A
program that loads that content, checks that it is still there, and renames a file over it, all within the moment,
overwrites what is put back.) An editor may still hold a descriptor to the displaced inode, so the displaced file is
kept for ten minutes and checked again by `late_writes`.

Where the system or the file system does not support exchanges (NFS, SMB, exFAT), the old file is linked aside,
replaced, and checked in the same way. Between the link and the replacement, a save by renaming is lost for some
microseconds. Without hard links, the file is renamed aside, and for that moment there is no file.

A crash leaves the old or the new content at the path (without hard links possibly none, until it is restored), and
beside it at most a `.everindex-*.tmp` and an `.old.tmp`, which a record in the folder of displaced files names.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from pipelines.errors import (
    NotARegularFileError,
    NoteError,
    NoteUnreadableError,
    NoteVanishedError,
    StateError,
    UnsafePathError,
)
from pipelines.vault import in_folder, paths
from pipelines.vault.atomic import write_atomic
from pipelines.vault.identity import DOT_FOLDER

BESIDE, TMP, _OLD = ".everindex-", ".tmp", ".old.tmp"
_KEPT_FOLDER = f"{DOT_FOLDER}/displaced"
_NO_LINKS = {*in_folder.NOT_KNOWN, errno.EPERM, errno.EMLINK}


@dataclass(frozen=True, slots=True)
class Record:
    """The record of one exchange, written before it, so that every file left by a crash is named in a record.

    `read` is in base64; `places` are where the displaced file may be, `started` is `time.monotonic()`. Paths are
    relative to the vault's root, or absolute.
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
        """Say whether bytes are those that were read, or those that replaced them."""
        return data == self.base or hashlib.sha256(data).hexdigest() == self.new_sha256


def replace_if_unchanged(
    root: Path, raw: str, read: bytes | None, new: bytes, displaced: Path
) -> bytes | None:
    """Replace the content of a vault's file by `new` if it still is `read`; return None, or the bytes found instead.

    Returned bytes were left in place and may be half of a save: read them again when the file is quiet. If there is
    no file, `read` is None or empty, and `new` is created without overwriting a file that appears meanwhile. Mode,
    owner and (on Linux) extended attributes are kept as far as permitted. The displaced file goes to the folder
    `displaced`, or on another file system to the vault's own `.everindex/displaced`, because a descriptor belongs to
    an inode. Everything happens in the one folder that was opened at the beginning, without following links. Raises
    NoteVanishedError, NotARegularFileError, NoteTooLargeError, NoteUnreadableError, StateError.
    """
    token = secrets.token_hex(8)
    with _refusals(raw), opened(root, raw) as (folder, name):
        beside = f"{BESIDE}{token}{TMP}"
        if not read and not in_folder.exists(folder, name):
            return _create(folder, name, new, beside)
        found = in_folder.read(folder, name)
        if found != read:
            return found
        file = displaced.absolute() / f"{token}.json"
        record = _write_record(file, raw, found, new, beside)
        return _replace(root, folder, name, found, new, beside, record, file)


def remove_if_unchanged(root: Path, raw: str, read: bytes, displaced: Path) -> bytes | None:
    """Remove a vault's file if its content still is `read`; return None, or the bytes found instead.

    Returned bytes were left in place. The removed file is kept like one that was replaced. Raises what
    `replace_if_unchanged` raises.
    """
    token = secrets.token_hex(8)
    beside = f"{BESIDE}{token}{TMP}"
    with _refusals(raw), opened(root, raw) as (folder, name):
        found = in_folder.read(folder, name)
        if found != read:
            return found
        record = _write_record(displaced.absolute() / f"{token}.json", raw, read, b"", beside)
        in_folder.move(folder, name, beside)
        removed = in_folder.look(folder, beside)
        # Another program wrote it a moment ago. It is put back, unless a newer file has taken its place by now.
        if removed != read and _back(folder, beside, name):
            if isinstance(removed, NoteError):
                raise removed
            return removed
        _keep(root, folder, beside, Path(record.places[0]))
        in_folder.sync(folder)
        return None


def _back(folder: int, beside: str, name: str) -> bool:
    """Give a file its name back, and say whether that was still free."""
    try:
        if in_folder.rename(folder, beside, name, swap=False):
            return True
    except FileExistsError:
        return False
    if in_folder.exists(folder, name):
        return False
    in_folder.move(folder, beside, name)
    return True


@contextmanager
def _refusals(raw: str) -> Iterator[None]:
    """Raise what keeps a file from being written as one of our errors."""
    try:
        yield
    except UnsafePathError as error:
        raise NotARegularFileError(f"{error} and was not written; put a regular file in its place") from error
    except FileNotFoundError as error:
        raise NoteVanishedError(f"{raw!r} or its folder no longer exists") from error
    except OSError as error:
        raise NoteUnreadableError(
            f"{raw!r} cannot be replaced ({error.strerror}); check its folder's permissions and free space"
        ) from error


@contextmanager
def opened(base: Path, raw: str) -> Iterator[tuple[int, str]]:
    """Open the parent folder of a path below `base`; yield its descriptor and the path's last part."""
    parent, _, name = raw.rpartition("/")
    with paths.folder(base, parent) as folder:
        yield folder, name


def _create(folder: int, name: str, new: bytes, beside: str) -> bytes | None:
    try:
        in_folder.write_new(folder, beside, new, like=None)
        if not in_folder.rename(folder, beside, name, swap=False):
            in_folder.link(folder, beside, name)
    except FileExistsError:
        return in_folder.read(folder, name)
    finally:
        in_folder.unlink(folder, beside)
    in_folder.sync(folder)
    return None


def _write_record(file: Path, raw: str, read: bytes, new: bytes, beside: str) -> Record:
    parent = raw.rpartition("/")[0]
    own = f"{parent}/{beside}" if parent else beside
    kept = f"{file.stem}.kept"
    record = Record(
        raw,
        base64.b64encode(read).decode("ascii"),
        hashlib.sha256(new).hexdigest(),
        [os.fspath(file.parent / kept), f"{_KEPT_FOLDER}/{kept}", own, _aside(own)],
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


def _replace(
    root: Path, folder: int, name: str, read: bytes, new: bytes, beside: str, record: Record, file: Path
) -> bytes | None:
    try:
        in_folder.write_new(folder, beside, new, like=name)
        _swap(folder, beside, name)
    except OSError:
        in_folder.unlink(folder, beside)
        file.unlink(missing_ok=True)
        raise
    try:
        return _put_back(folder, read, new, beside, name)
    finally:
        _keep(root, folder, beside, Path(record.places[0]))
        in_folder.sync(folder)


def _put_back(folder: int, read: bytes, new: bytes, beside: str, name: str) -> bytes | None:
    """Check the displaced file; put it back unless it is what was read, and repeat until no one wrote meanwhile.

    Of two foreign contents, the one found at the path last stays there, and the other one is left beside it.
    """
    placed: bytes | NoteError | None = new
    displaced = in_folder.look(folder, beside)
    if displaced == read:
        return None
    while True:
        _swap(folder, beside, name)
        found = in_folder.look(folder, beside)
        if found == placed or not isinstance(found, bytes):
            break
        placed, displaced = displaced, found
    if isinstance(displaced, NoteError):
        raise displaced
    return displaced


def _keep(root: Path, folder: int, beside: str, kept: Path) -> None:
    """Move a displaced file away from the notes; if no folder is on its file system, it stays beside the note."""
    with suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
        os.rename(beside, kept, src_dir_fd=folder)
        return
    with suppress(OSError, UnsafePathError):
        with paths.folder(root, DOT_FOLDER) as dot, suppress(FileExistsError):
            os.mkdir("displaced", dir_fd=dot)
        with paths.folder(root, _KEPT_FOLDER) as own:
            os.rename(beside, kept.name, src_dir_fd=folder, dst_dir_fd=own)


def _swap(folder: int, beside: str, name: str) -> None:
    """Exchange two files; if that is not supported, use the three steps in the module's docstring."""
    if in_folder.rename(folder, beside, name, swap=True):
        return
    aside = _aside(beside)
    try:
        in_folder.link(folder, name, aside)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        in_folder.move(folder, name, aside)
    try:
        in_folder.move(folder, beside, name)
    except OSError:
        if in_folder.exists(folder, name):
            in_folder.unlink(folder, aside)
        else:
            in_folder.move(folder, aside, name)
        raise
    in_folder.move(folder, aside, beside)


def _aside(beside: str) -> str:
    return beside.removesuffix(TMP) + _OLD


# Find what was written to files after they were displaced, and what a crash left beside notes.


UNCLAIMED = "unclaimed"
"""The folder, among the displaced files, for those that cannot be merged and need a person's decision."""

KEPT_S = 600.0
"""How long a displaced file is kept: longer than an editor takes between opening and writing a file."""

QUIET_S = 1.0
"""A displaced file that was written to more recently may be in the middle of a save, and is returned later."""

_UNDER_WAY_S = 60.0  # no exchange takes longer: older files beside a note were left by a crash


@dataclass(frozen=True, slots=True)
class Late:
    """Bytes that were saved but are not at `raw`: `late` was edited from `base`, or from what replaced it."""

    raw: str
    base: bytes
    late: bytes
    record: Path


def late_writes(root: Path, displaced: Path, now: float) -> list[Late]:
    """Return what was written to files after they were displaced, and delete displaced files older than KEPT_S.

    `now` is `time.monotonic()`, which setting the clock does not change. If it is earlier than a record's time, the
    machine was restarted, and no descriptor is open any more. Returned files stay, and are returned again, until
    `settle` records that they are safe elsewhere. Unreadable files stay, too.
    """
    records = sorted(displaced.absolute().glob("*.json"))
    return [late for file in records for late in _look_again(root, file, now)]


def _look_again(root: Path, file: Path, now: float) -> list[Late]:
    record = _read_record(file)
    if record is None:
        return []
    age = now - record.started
    places = record.places
    if 0 <= age < _UNDER_WAY_S:
        places = [place for place in places if place.endswith(".kept")]
    else:
        _after_a_crash(root, file, record)
    raw = (_where(root, file, record.path) or (root, record.path))[1]
    late = []
    done = not 0 <= age < KEPT_S
    for base, place in filter(None, (_where(root, file, place) for place in places)):
        try:
            with opened(base, place) as (folder, name):
                data, quiet = in_folder.look(folder, name), _is_quiet(folder, name, QUIET_S)
        except (FileNotFoundError, NotADirectoryError, UnsafePathError):
            continue
        except OSError:
            done = False
            continue
        if isinstance(data, NoteError) or (data is not None and not quiet):
            done = False
        elif data is not None and not record.knows(data):
            late.append(Late(raw, record.base, data, file))
    if done and not late:
        _forget(root, file, record)
    return late


def _where(root: Path, file: Path, place: str) -> tuple[Path, str] | None:
    """Return a record's path relative to the vault or to the folder of records; None if it is below neither."""
    if not place.startswith("/"):
        return root, place
    for base in (file.parent, root):
        if Path(place).is_relative_to(base):
            return base, str(Path(place).relative_to(base))
    return None  # the vault was moved since then


def _forget(root: Path, file: Path, record: Record) -> None:
    for base, place in filter(None, (_where(root, file, place) for place in record.places)):
        gone = suppress(FileNotFoundError, NotADirectoryError, UnsafePathError)
        with gone, opened(base, place) as (folder, name):
            os.unlink(name, dir_fd=folder)
    file.unlink(missing_ok=True)


def _after_a_crash(root: Path, file: Path, record: Record) -> None:
    """Undo the first step of an exchange that was done in three steps."""
    where = _where(root, file, record.path)
    if where is None:
        return
    aside = record.places[-1].rpartition("/")[2]
    with suppress(FileNotFoundError, NotADirectoryError, UnsafePathError), opened(*where) as (folder, name):
        if not in_folder.exists(folder, aside):
            return
        if not in_folder.exists(folder, name):
            os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
        elif os.path.samestat(in_folder.lstat(folder, aside), in_folder.lstat(folder, name)):
            os.unlink(aside, dir_fd=folder)


def settle(late: Late) -> None:
    """Record that late bytes are safe elsewhere; from now on, only later writes are returned."""
    record = _read_record(late.record)
    if record is not None:
        told = replace(record, read=base64.b64encode(late.late).decode("ascii"))
        write_atomic(late.record, json.dumps(asdict(told)).encode("ascii"))


def leftovers(root: Path, displaced: Path) -> list[Path]:
    """Move files that a crash left beside notes, and no record names, to `displaced/unclaimed`; return their paths.

    Such a file may be the only copy of a person's text, so it is never deleted, and the operator has to be told.
    Files that a record names are handled by `late_writes`, and files younger than a minute may be in use.
    """
    found = []
    for raw, folder, names in chain(paths.walk(root), paths.walk(root, DOT_FOLDER)):
        for name in names:
            if not (name.startswith(BESIDE) and name.endswith(TMP)):
                continue
            token = name.removeprefix(BESIDE).partition(".")[0]
            if (displaced / f"{token}.json").exists() or not _is_quiet(folder, name, _UNDER_WAY_S):
                continue
            unclaimed = displaced / UNCLAIMED / name.removeprefix(".")
            unclaimed.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(name, unclaimed, src_dir_fd=folder)
            except OSError:  # another file system: leave it where it is
                found.append(root / raw / name)
            else:
                found.append(unclaimed)
    return found


def _read_record(file: Path) -> Record | None:
    """Return a record; None if it is damaged, in which case the record and its files are left alone."""
    try:
        return Record(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _is_quiet(folder: int, name: str, seconds: float) -> bool:
    try:
        # A time in the future means that the clock was set back.
        return abs(time.time() - in_folder.lstat(folder, name).st_mtime) >= seconds
    except OSError:
        return False
