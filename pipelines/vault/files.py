"""Access to a vault's files: their keys, whether the vault is there, and reads that hash exactly what they return."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pipelines.errors import (
    NameCollisionError,
    NotARegularFileError,
    NoteChangedError,
    NoteTooLargeError,
    NoteUnreadableError,
    NoteVanishedError,
    UnsafePathError,
    VaultIdError,
)
from pipelines.formats import MARKDOWN, format_of
from pipelines.model import FileContent, FoundFile
from pipelines.vault import paths
from pipelines.vault.identity import Identity, read_id, write_id

LARGEST_DOCUMENT = 100_000_000
_TOO_LARGE = 2**63  # for an SQLite column
_LIKE_A_BYTE = re.compile(r"\\(?=x(?:5c|[89a-f][0-9a-f]))")
_DAY_NS = 24 * 3600 * 10**9


def note_key(path: str) -> str:
    """Return the key of a note for a path given by a person: POSIX, valid Unicode, composed form (NFC)."""
    return unicodedata.normalize("NFC", path if path.isascii() else _valid(path))


def disk_key(raw: str) -> str:
    """Return the key of a relative path on disk: `own_key` in composed form (NFC)."""
    return unicodedata.normalize("NFC", own_key(raw))


def own_key(raw: str) -> str:
    r"""Return a relative path as valid Unicode in its form on disk, which is the key if names collide.

    Bytes that are not UTF-8 become `\xff`. Text that looks like that becomes `\x5cxff`, so that names never share a
    key.
    """
    if "\\x" in raw:
        raw = _LIKE_A_BYTE.sub(r"\\x5c", raw)
    return raw if raw.isascii() else _valid(raw)


def _valid(raw: str) -> str:
    return os.fsencode(raw).decode("utf-8", "backslashreplace")


def is_note(name: str) -> bool:
    """Say whether a file of this name may be a note: Markdown, or a format that domains may index (`formats:`)."""
    form = format_of(name)
    return form is not None and (form.name == MARKDOWN or not name.rpartition("/")[2].startswith("."))


def is_markdown(name: str) -> bool:
    """Say whether a file name is that of a Markdown note."""
    form = format_of(name)
    return form is not None and form.name == MARKDOWN


def is_hidden(raw: str) -> bool:
    """Say whether a path contains a name that begins with a dot; links never mean such paths."""
    return raw.startswith(".") or "/." in raw


def find(root: Path, identity: Identity) -> Identity | None:
    """Return the vault's identity if it is available; an empty mount point or a missing folder is not the vault.

    A folder that replaced it and has notes, but no readable id, is taken for the vault and gets its id; the result
    then has the new folder's device and inode. The very folder that was identified gets no id back while a process
    runs, because it may be in the process of being removed.
    """
    try:
        info = root.stat()
        if not identity.marked:
            return identity if identity.is_of(info) else None
        try:
            found = read_id(root)
        except VaultIdError:
            found = None  # the next start repairs it
        if found:
            return identity.at(info) if found == identity.vault_id else None
        if not any(is_note(name) for _, _, names in paths.walk(root) for name in names):
            return None
        if not identity.is_of(info):
            with suppress(UnsafePathError):
                write_id(root, identity.vault_id, once=True)
    except OSError:
        return None
    return identity.at(info)


def found_file(key: str, raw: str, info: os.stat_result) -> FoundFile:
    """Return a file's `stat` values as numbers that SQLite can store.

    Each inode keeps a unique number. A time after 2262 or before 1678 becomes one on the last representable day.
    """
    mtime = info.st_mtime_ns
    if not -_TOO_LARGE <= mtime < _TOO_LARGE:
        of_day = mtime % _DAY_NS
        mtime = _TOO_LARGE - 1 - of_day if mtime > 0 else of_day - _TOO_LARGE
    inode = info.st_ino
    return FoundFile(key, raw, info.st_size, mtime, inode if inode < _TOO_LARGE else inode - 2 * _TOO_LARGE)


def look(root: Path, raw: str) -> FoundFile | None:
    """Return the `stat` values of a file, or None if there is no file or a folder. Links are not followed."""
    try:
        return look_closely(root, raw)
    except OSError:
        return None


def look_closely(root: Path, raw: str) -> FoundFile | None:
    """Return what `look` returns. Raises OSError if it cannot be determined whether there is a file."""
    try:
        info = paths.look(root, raw)
    except UnsafePathError:
        return None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            return None
        raise
    return None if stat.S_ISDIR(info.st_mode) else found_file(disk_key(raw), raw, info)


def is_folder(root: Path, raw: str) -> bool:
    """Say whether a path is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(paths.look(root, raw).st_mode)
    except (OSError, UnsafePathError):
        return False


def path_on_disk(root: Path, key: str) -> str:
    """Return the path on disk of the file or folder with this key, relative to the vault; without one, of a new file.

    A name on disk may be in another Unicode form than its key, and no program finds it by the key on Linux. A new
    file belongs in the folder that is there; if that is missing, too, the path is the key.
    """
    if "\\x" not in key and (key.isascii() or look(root, key)):
        return key
    found = _paths(root, key, _forms)
    if key in found:
        return key
    parent, _, name = key.rpartition("/")
    folders = _paths(root, parent, _forms) if parent else []
    new = [f"{folder}/{name}" for folder in sorted(folders, key=parent.__ne__) if is_folder(root, folder)]
    there = [raw for looked in (look, is_folder) for raw in found if looked(root, raw)]
    return next(iter([*there, *new]), key)


def twins(root: Path, raw: str) -> list[str]:
    """Return the other files whose names have the same composed form (NFC) as this one."""
    if not may_have_twin(raw):
        return []
    own = look(root, raw)
    found = ((other, look(root, other)) for other in _paths(root, raw, _other_forms) if other != raw)
    # A file system that normalises names shows the same file under both names.
    return [other for other, file in found if file and (own is None or file.inode != own.inode)]


def may_have_twin(raw: str) -> bool:
    """Say whether a name has a second Unicode form; if so, only a folder listing tells which files exist."""
    return unicodedata.normalize("NFD", raw) != unicodedata.normalize("NFC", raw)


def _paths(root: Path, path: str, forms: Callable[[Path, str, str], list[str]]) -> list[str]:
    """Return the paths that a path may mean on disk; `forms` returns the names in a folder that one part may mean."""
    found = [""]
    for part in path.split("/"):
        found = [
            f"{folder}/{name}" if folder else name for folder in found for name in forms(root, folder, part)
        ]
    return found


def _other_forms(root: Path, folder: str, name: str) -> list[str]:
    return _forms(root, folder, disk_key(name)) if may_have_twin(name) else [name]


def _forms(root: Path, folder: str, key: str) -> list[str]:
    """Return the names in a folder that have this key; only the key itself if the folder cannot be listed."""
    try:
        with paths.folder(root, folder) as fd:
            names = os.listdir(fd)  # noqa: PTH208 - a descriptor has no Path
    except (OSError, UnsafePathError):
        return [key]
    return [name for name in names if disk_key(name) == key]


def read(root: Path, raw: str, max_bytes: int) -> FileContent:
    """Read one note and hash exactly the bytes that were read, without following a link on the way.

    A document that is read apart may have `LARGEST_DOCUMENT` bytes, because pictures make most of its size.

    Raises NoteVanishedError, NotARegularFileError, NoteTooLargeError, NoteUnreadableError, NoteChangedError (it was
    written to meanwhile), NameCollisionError.
    """
    other = twins(root, raw)
    if other:
        raise NameCollisionError(
            f"{raw!r} and {other[0]!r} are the same name in two Unicode forms; rename one of them"
        )
    try:
        fd = paths.open_file(root, raw)
    except UnsafePathError as error:
        raise NotARegularFileError(f"{error}; it is not indexed") from error
    except OSError as error:
        raise _open_error(raw, error) from error
    with os.fdopen(fd, "rb") as file:
        before = os.fstat(fd)
        _refuse_large(raw, before.st_size, max_bytes)
        try:
            data = file.read(before.st_size + 1)
        except OSError as error:
            raise NoteUnreadableError(f"{raw!r} cannot be read ({error.strerror})") from error
        after = os.fstat(fd)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(
        data
    ) != after.st_size:
        raise NoteChangedError(f"{raw!r} was written to during the read; it is read again when it is quiet")
    found = found_file(disk_key(raw), raw, after)
    return FileContent(data, hashlib.sha256(data).hexdigest(), found)


def _refuse_large(raw: str, size: int, max_bytes: int) -> None:
    form = format_of(raw)
    if size <= max(max_bytes, LARGEST_DOCUMENT if form and form.apart else 0):
        return
    if form and form.apart:
        raise NoteTooLargeError(
            f"{raw!r} has {size / 1e6:,.1f} MB; documents of up to {LARGEST_DOCUMENT / 1e6:g} MB are read: split it"
        )
    raise NoteTooLargeError(
        f"{raw!r} has {size / 1e6:.1f} MB, more than max_note_mb = {max_bytes / 1e6:g}; "
        "split it, or raise the setting"
    )


def _open_error(raw: str, error: OSError) -> Exception:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NoteVanishedError(f"{raw!r} no longer exists")
    return NoteUnreadableError(f"{raw!r} cannot be opened ({error.strerror}); check its permissions")
