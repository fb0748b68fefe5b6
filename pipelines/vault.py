"""The disk: which files are notes, and safe reads that hash exactly what they read."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import unicodedata
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines.atomic import write_once
from pipelines.errors import (
    NameCollisionError,
    NotARegularFileError,
    NoteChangedError,
    NoteTooLargeError,
    NoteUnreadableError,
    NoteVanishedError,
    VaultNotFoundError,
)
from pipelines.identity import DOT_FOLDER, ID_FILE, Identity
from pipelines.ignore import IgnoreRules
from pipelines.model import FileContent, FoundFile

MARKDOWN_SUFFIXES = (".md", ".markdown")


def note_key(raw: str) -> str:
    """Return the key of a relative path: POSIX, valid Unicode, composed form (NFC)."""
    return unicodedata.normalize("NFC", own_key(raw))


def own_key(raw: str) -> str:
    """Return a relative path as valid Unicode in the form that it has on disk: the key of a name that collides."""
    return raw if raw.isascii() else os.fsencode(raw).decode("utf-8", "backslashreplace")


def is_note(name: str) -> bool:
    """Say whether a file's name is a Markdown note's."""
    return name.lower().endswith(MARKDOWN_SUFFIXES)


def is_hidden(raw: str) -> bool:
    """Say whether a path lies in a folder, or has a name, that begins with a dot: no link means it."""
    return raw.startswith(".") or "/." in raw


def is_present(root: Path, identity: Identity) -> bool:
    """Say whether the vault is really there: an empty mount point or a missing folder is not the vault.

    A folder that took its place and has notes, but no id, is taken for the vault and gets its id.
    """
    try:
        info = root.stat()
    except OSError:
        return False
    if not identity.marked:
        return (info.st_dev, info.st_ino) == (identity.device, identity.inode)
    marker = root / DOT_FOLDER / ID_FILE
    try:
        if marker.exists():
            return marker.read_text(encoding="ascii").strip() == identity.vault_id
        if not any(is_note(name) for _, _, names in os.walk(root) for name in names):
            return False
        marker.parent.mkdir(exist_ok=True)
        write_once(marker, f"{identity.vault_id}\n".encode())
    except (OSError, UnicodeDecodeError):
        return False
    return True


@dataclass(slots=True)
class Scan:
    """Every Markdown file below a folder: the notes, those ignored and by which rule, colliding names.

    `files` are the keys of all files that a link may mean, whatever their kind; `unreadable` are folders that
    could not be listed: nobody knows what is in them.
    """

    notes: dict[str, FoundFile] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    collisions: dict[str, list[str]] = field(default_factory=dict)
    colliding: set[str] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)


def scan(root: Path, rules: IgnoreRules, folder: str = "") -> Scan:
    """Walk a folder of the vault (`""`: all of it) with `os.scandir`, following no links.

    Folders that are ignored are walked too, for names only, so that every Markdown file is accounted for.
    Raises VaultNotFoundError when the vault's own folder cannot be listed.
    """
    result = Scan()
    rule = rules.for_folder(folder)
    _scan_folder(root, folder, rules, rule, result)
    for key, raws in result.collisions.items():
        first = result.notes.pop(key)
        for raw in raws:
            # Each keeps the form it has on disk as its key, so that neither hides the other.
            result.notes[own_key(raw)] = replace(look(root, raw) or first, path=own_key(raw))
            result.colliding.add(own_key(raw))
    return result


def _scan_folder(root: Path, folder: str, rules: IgnoreRules, inherited: str | None, out: Scan) -> None:
    try:
        entries = list(os.scandir(root / folder))
    except OSError as error:
        if not folder:
            raise VaultNotFoundError(
                f"the vault {root} cannot be listed ({error.strerror}); check that it is mounted and readable"
            ) from error
        out.unreadable.append(note_key(folder))
        return
    rules.enter(folder, (entry.name for entry in entries))
    prefix = f"{folder}/" if folder else ""
    hidden = is_hidden(folder)
    for entry in entries:
        raw = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            _scan_folder(root, raw, rules, inherited or rules.match(raw, is_folder=True), out)
            continue
        if not hidden and not is_hidden(entry.name):
            out.files.add(note_key(raw))
        if is_note(entry.name):
            rule = inherited or (rules.SYMLINK if entry.is_symlink() else rules.match(raw))
            if rule:
                out.ignored[note_key(raw)] = rule
            else:
                _add(entry, raw, out)


def _add(entry: os.DirEntry[str], raw: str, out: Scan) -> None:
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return  # vanished since the folder was listed
    key = note_key(raw)
    if key in out.notes:
        out.collisions.setdefault(key, [out.notes[key].raw]).append(raw)
    else:
        out.notes[key] = FoundFile(key, raw, info.st_size, info.st_mtime_ns, info.st_ino)


def look(root: Path, raw: str) -> FoundFile | None:
    """Return what `stat` says of one file (not followed), or None where there is none."""
    try:
        info = (root / raw).lstat()
    except OSError:
        return None
    return FoundFile(note_key(raw), raw, info.st_size, info.st_mtime_ns, info.st_ino)


def twins(root: Path, raw: str) -> list[str]:
    """Return the other files whose names have the same composed form (NFC) as this one."""
    if not may_have_twin(raw):
        return []
    own = look(root, raw)
    candidates = [""]
    for part in raw.split("/"):
        candidates = [f"{c}/{name}" if c else name for c in candidates for name in _forms(root / c, part)]
    found = ((other, look(root, other)) for other in candidates if other != raw)
    # A file system that normalises names shows one file under both.
    return [other for other, file in found if file and (own is None or file.inode != own.inode)]


def may_have_twin(raw: str) -> bool:
    """Say whether a name has a second Unicode form: then only its folders tell which files exist."""
    return unicodedata.normalize("NFD", raw) != unicodedata.normalize("NFC", raw)


def _forms(folder: Path, name: str) -> list[str]:
    """Return the names in a folder that have the same composed form as this one."""
    if not may_have_twin(name):
        return [name]
    try:
        names = os.listdir(folder)  # noqa: PTH208 - `iterdir` makes a path of each name, five times slower
    except OSError:
        return [name]
    key = note_key(name)
    return [other for other in names if not other.isascii() and note_key(other) == key]


def read(root: Path, raw: str, max_bytes: int) -> FileContent:
    """Read one note and hash exactly the bytes that were read; `root` is resolved already.

    Raises NoteVanishedError, NotARegularFileError, NoteTooLargeError, NoteUnreadableError,
    NoteChangedError (it was written to meanwhile), NameCollisionError.
    """
    other = twins(root, raw)
    if other:
        raise NameCollisionError(
            f"{raw!r} and {other[0]!r} are the same name in two Unicode forms; rename one of them"
        )
    try:
        fd = os.open(root / raw, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _open_error(raw, error) from error
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        os.close(fd)
        raise NotARegularFileError(f"{raw!r} is not a regular file; it is not indexed")
    with os.fdopen(fd, "rb") as file:
        if not Path(os.path.realpath(root / raw)).is_relative_to(root):
            raise NotARegularFileError(f"{raw!r} lies behind a link that leaves the vault; it is not indexed")
        if before.st_size > max_bytes:
            raise NoteTooLargeError(
                f"{raw!r} has {before.st_size / 1e6:.1f} MB, more than max_note_mb = {max_bytes / 1e6:g}; "
                "split it, or raise the setting"
            )
        try:
            data = file.read(max_bytes + 1)
        except OSError as error:
            raise NoteUnreadableError(f"{raw!r} cannot be read ({error.strerror})") from error
        after = os.fstat(fd)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(
        data
    ) != after.st_size:
        raise NoteChangedError(f"{raw!r} was written to while it was read; it is read again when it is quiet")
    found = FoundFile(note_key(raw), raw, after.st_size, after.st_mtime_ns, after.st_ino)
    return FileContent(data, hashlib.sha256(data).hexdigest(), found)


def _open_error(raw: str, error: OSError) -> Exception:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NoteVanishedError(f"{raw!r} is no longer there")
    if error.errno == errno.ELOOP:
        return NotARegularFileError(f"{raw!r} is a symbolic link; links are not followed")
    if error.errno == errno.ENXIO:
        return NotARegularFileError(f"{raw!r} is not a regular file; it is not indexed")
    return NoteUnreadableError(f"{raw!r} cannot be opened ({error.strerror}); check its permissions")
