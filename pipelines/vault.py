"""The disk: which files are notes, and safe reads that hash exactly what they read."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines import beneath
from pipelines.errors import (
    NameCollisionError,
    NotARegularFileError,
    NoteChangedError,
    NoteTooLargeError,
    NoteUnreadableError,
    NoteVanishedError,
    UnsafePathError,
    VaultIdError,
    VaultNotFoundError,
)
from pipelines.identity import Identity, read_id, write_id
from pipelines.ignore import DEEPEST_FOLDER, IgnoreRules, Scope
from pipelines.model import FileContent, FoundFile

MARKDOWN_SUFFIXES = (".md", ".markdown")
_TOO_LARGE = 2**63  # for a column of SQLite
_LIKE_A_BYTE = re.compile(r"\\(?=x(?:5c|[89a-f][0-9a-f]))")
_LONGEST_PATH = 4095  # bytes that Linux opens
_LONG_PATH = f"its path is longer than {_LONGEST_PATH:,} bytes"
_DAY_NS = 24 * 3600 * 10**9


def note_key(path: str) -> str:
    """Return the key of a note whose path somebody gives: POSIX, valid Unicode, composed form (NFC)."""
    return unicodedata.normalize("NFC", path if path.isascii() else _valid(path))


def disk_key(raw: str) -> str:
    """Return the key of a relative path as it is on disk: `own_key` in composed form (NFC)."""
    return unicodedata.normalize("NFC", own_key(raw))


def own_key(raw: str) -> str:
    r"""Return a relative path as valid Unicode in the form that it has on disk: the key of a name that collides.

    A byte that is no UTF-8 becomes `\xff`. What looks like that in a name becomes `\x5cxff`: names never share a key.
    """
    if "\\x" in raw:
        raw = _LIKE_A_BYTE.sub(r"\\x5c", raw)
    return raw if raw.isascii() else _valid(raw)


def _valid(raw: str) -> str:
    return os.fsencode(raw).decode("utf-8", "backslashreplace")


def is_note(name: str) -> bool:
    """Say whether a file's name is a Markdown note's."""
    return name.lower().endswith(MARKDOWN_SUFFIXES)


def is_hidden(raw: str) -> bool:
    """Say whether a path lies in a folder, or has a name, that begins with a dot: no link means it."""
    return raw.startswith(".") or "/." in raw


def find(root: Path, identity: Identity) -> Identity | None:
    """Return the vault's identity if it is really there: an empty mount point or a missing folder is not the vault.

    A folder that took its place and has notes, but no id that can be read, is taken for the vault and gets its id;
    its own device and inode are in what is returned. The very folder that was identified gets no id back while a
    process runs: it may be on the way to be removed.
    """
    try:
        info = root.stat()
        if not identity.marked:
            return identity if identity.is_of(info) else None
        try:
            found = read_id(root)
        except VaultIdError:
            found = None  # the next start mends it
        if found:
            return identity.at(info) if found == identity.vault_id else None
        if not any(is_note(name) for _, _, names in beneath.walk(root) for name in names):
            return None
        if not identity.is_of(info):
            with suppress(UnsafePathError):
                write_id(root, identity.vault_id, once=True)
    except OSError:
        return None
    return identity.at(info)


@dataclass(slots=True)
class Scan:
    """Every Markdown file below a folder: the notes, those ignored and by which rule, colliding names.

    `files` are the keys of all files that a link may mean, whatever their kind; `unreadable` are folders whose files
    could not be listed or looked at: nobody knows what is in them.
    """

    notes: dict[str, FoundFile] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    collisions: dict[str, list[str]] = field(default_factory=dict)
    colliding: set[str] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)


def scan(root: Path, rules: IgnoreRules, folder: str = "") -> Scan:
    """Walk a folder of the vault (`""`: all of it) with `os.scandir`, following no links.

    Folders that are ignored are walked too, for names only, so that every Markdown file is accounted for; those
    that are nested too deep are named themselves. Raises VaultNotFoundError when the vault's own folder cannot be
    listed.
    """
    result = Scan()
    rule, scope = rules.above(folder)
    waiting = [(folder, rule, scope)]
    while waiting:
        waiting += _scan_folder(root, *waiting.pop(), rules, result)
    for key, raws in result.collisions.items():
        first = result.notes.pop(key)
        for raw in raws:
            # Each keeps the form it has on disk as its key, so that neither hides the other.
            result.notes[own_key(raw)] = replace(look(root, raw) or first, path=own_key(raw))
            result.colliding.add(own_key(raw))
    return result


_Folder = tuple[str, str | None, Scope]


def _scan_folder(
    root: Path, folder: str, inherited: str | None, scope: Scope, rules: IgnoreRules, out: Scan
) -> list[_Folder]:
    """Note the files of one folder; return the folders in it, each with the rule and the rule files it inherits."""
    if folder.count("/") >= DEEPEST_FOLDER:
        out.ignored[disk_key(folder)] = inherited or rules.TOO_DEEP
        return []
    folders: list[_Folder] = []
    hidden = is_hidden(folder)
    try:
        with beneath.folder(root, folder) as fd, os.scandir(fd) as listed:
            entries = list(listed)
            scope = rules.enter(folder, (entry.name for entry in entries), scope)
            for entry in entries:
                raw = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append((raw, inherited or rules.match(raw, scope, is_folder=True), scope))
                    continue
                key = disk_key(raw)
                if not (hidden or entry.name.startswith(".")):
                    out.files.add(key)
                if is_note(entry.name):
                    rule = rules.SYMLINK if entry.is_symlink() else rules.match(raw, scope)
                    _add_note(entry, raw, key, inherited or rule, out)
    except UnsafePathError:
        out.ignored[disk_key(folder)] = rules.SYMLINK
    except OSError as error:
        if not folder:
            raise VaultNotFoundError(
                f"the vault {root} cannot be listed ({error.strerror}); check that it is mounted and readable"
            ) from error
        if error.errno == errno.ENAMETOOLONG:
            out.ignored[disk_key(folder)] = _LONG_PATH
        else:
            out.unreadable.append(disk_key(folder))
    return folders


def _add_note(entry: os.DirEntry[str], raw: str, key: str, rule: str | None, out: Scan) -> None:
    # No character has more than four bytes.
    if rule is None and 4 * len(raw) > _LONGEST_PATH and len(os.fsencode(raw)) > _LONGEST_PATH:
        rule = _LONG_PATH
    if rule:
        out.ignored[key] = rule
        return
    try:
        info = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return  # vanished since the folder was listed
    except OSError:
        # A folder that may be listed, but not entered: nobody knows what became of its notes.
        folder = disk_key(raw.rpartition("/")[0])
        if folder not in out.unreadable:
            out.unreadable.append(folder)
        return
    if key in out.notes:
        out.collisions.setdefault(key, [out.notes[key].raw]).append(raw)
    else:
        out.notes[key] = found_file(key, raw, info)


def found_file(key: str, raw: str, info: os.stat_result) -> FoundFile:
    """Return what `stat` says of a file, in numbers that SQLite can keep.

    An inode is another number of its own; a time beyond the year 2262, or before 1678, is one of the last day before.
    """
    mtime = info.st_mtime_ns
    if not -_TOO_LARGE <= mtime < _TOO_LARGE:
        of_day = mtime % _DAY_NS
        mtime = _TOO_LARGE - 1 - of_day if mtime > 0 else of_day - _TOO_LARGE
    inode = info.st_ino
    return FoundFile(key, raw, info.st_size, mtime, inode if inode < _TOO_LARGE else inode - 2 * _TOO_LARGE)


def look(root: Path, raw: str) -> FoundFile | None:
    """Return what `stat` says of one file, or None where there is none, or a folder. Links are not followed."""
    try:
        return look_closely(root, raw)
    except OSError:
        return None


def look_closely(root: Path, raw: str) -> FoundFile | None:
    """Return what `look` does. Raises OSError where nobody can tell whether there is a file."""
    try:
        info = beneath.look(root, raw)
    except UnsafePathError:
        return None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            return None
        raise
    return None if stat.S_ISDIR(info.st_mode) else found_file(disk_key(raw), raw, info)


def is_folder(root: Path, raw: str) -> bool:
    """Say whether a path is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(beneath.look(root, raw).st_mode)
    except (OSError, UnsafePathError):
        return False


def twins(root: Path, raw: str) -> list[str]:
    """Return the other files whose names have the same composed form (NFC) as this one."""
    if not may_have_twin(raw):
        return []
    own = look(root, raw)
    candidates = [""]
    for part in raw.split("/"):
        candidates = [f"{c}/{name}" if c else name for c in candidates for name in _forms(root, c, part)]
    found = ((other, look(root, other)) for other in candidates if other != raw)
    # A file system that normalises names shows one file under both.
    return [other for other, file in found if file and (own is None or file.inode != own.inode)]


def may_have_twin(raw: str) -> bool:
    """Say whether a name has a second Unicode form: then only its folders tell which files exist."""
    return unicodedata.normalize("NFD", raw) != unicodedata.normalize("NFC", raw)


def _forms(root: Path, folder: str, name: str) -> list[str]:
    """Return the names in a folder that have the same composed form as this one."""
    if not may_have_twin(name):
        return [name]
    try:
        with beneath.folder(root, folder) as fd:
            names = os.listdir(fd)  # noqa: PTH208 - a path cannot be made of a descriptor
    except (OSError, UnsafePathError):
        return [name]
    key = disk_key(name)
    return [other for other in names if not other.isascii() and disk_key(other) == key]


def read(root: Path, raw: str, max_bytes: int) -> FileContent:
    """Read one note and hash exactly the bytes that were read, following no link on the way to it.

    Raises NoteVanishedError, NotARegularFileError, NoteTooLargeError, NoteUnreadableError,
    NoteChangedError (it was written to meanwhile), NameCollisionError.
    """
    other = twins(root, raw)
    if other:
        raise NameCollisionError(
            f"{raw!r} and {other[0]!r} are the same name in two Unicode forms; rename one of them"
        )
    try:
        fd = beneath.open_file(root, raw)
    except UnsafePathError as error:
        raise NotARegularFileError(f"{error}; it is not indexed") from error
    except OSError as error:
        raise _open_error(raw, error) from error
    with os.fdopen(fd, "rb") as file:
        before = os.fstat(fd)
        if before.st_size > max_bytes:
            raise NoteTooLargeError(
                f"{raw!r} has {before.st_size / 1e6:.1f} MB, more than max_note_mb = {max_bytes / 1e6:g}; "
                "split it, or raise the setting"
            )
        try:
            data = file.read(before.st_size + 1)
        except OSError as error:
            raise NoteUnreadableError(f"{raw!r} cannot be read ({error.strerror})") from error
        after = os.fstat(fd)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(
        data
    ) != after.st_size:
        raise NoteChangedError(f"{raw!r} was written to while it was read; it is read again when it is quiet")
    found = found_file(disk_key(raw), raw, after)
    return FileContent(data, hashlib.sha256(data).hexdigest(), found)


def _open_error(raw: str, error: OSError) -> Exception:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NoteVanishedError(f"{raw!r} is no longer there")
    return NoteUnreadableError(f"{raw!r} cannot be opened ({error.strerror}); check its permissions")
