"""Scan a vault's folders: which files are notes, which are ignored and by which rule, and which names collide."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines.errors import UnsafePathError, VaultNotFoundError
from pipelines.model import FoundFile
from pipelines.vault import paths
from pipelines.vault.files import disk_key, found_file, is_hidden, is_note, look, own_key
from pipelines.vault.ignore import DEEPEST_FOLDER, IgnoreRules, Scope, is_of_other_format

_LONGEST_PATH = 4095  # bytes; the longest path that Linux opens
_LONG_PATH = f"its path is longer than {_LONGEST_PATH:,} bytes"


@dataclass(slots=True)
class Scan:
    """All files below a folder that may be notes: notes, ignored files with their rules, colliding names.

    `others` are readable files whose format is not indexed where they are, with the reason. `files` are the keys of
    all files that a link may mean, of any kind; `unreadable` are folders whose files could not be listed or examined,
    so that their contents are unknown.
    """

    notes: dict[str, FoundFile] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    collisions: dict[str, list[str]] = field(default_factory=dict)
    colliding: set[str] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)


def scan_vault(root: Path, rules: IgnoreRules, folder: str = "") -> Scan:
    """Walk a folder of the vault (`""`: all of it) with `os.scandir`, without following links.

    Ignored folders are walked for names only, so that every note is accounted for; for folders nested too
    deep, the folder itself is listed. Raises VaultNotFoundError if the vault's own folder cannot be listed.
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
    """Record the files of one folder; return its subfolders, each with its inherited rule and rule files."""
    if folder.count("/") >= DEEPEST_FOLDER:
        out.ignored[disk_key(folder)] = inherited or rules.TOO_DEEP
        return []
    folders: list[_Folder] = []
    hidden = is_hidden(folder)
    try:
        with paths.folder(root, folder) as fd, os.scandir(fd) as listed:
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
                    _add_note(entry, raw, key, rules, inherited or rule, out)
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


def _add_note(
    entry: os.DirEntry[str], raw: str, key: str, rules: IgnoreRules, rule: str | None, out: Scan
) -> None:
    # No character has more than four bytes.
    if rule is None and 4 * len(raw) > _LONGEST_PATH and len(os.fsencode(raw)) > _LONGEST_PATH:
        rule = _LONG_PATH
    if rule:
        if is_of_other_format(rule):
            out.others[key] = rule
        elif rules.lists(key, rule):
            out.ignored[key] = rule
        return
    try:
        info = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return  # vanished since the folder was listed
    except OSError:
        # The folder may be listed but not entered, so the state of its notes is unknown.
        folder = disk_key(raw.rpartition("/")[0])
        if folder not in out.unreadable:
            out.unreadable.append(folder)
        return
    if key in out.notes:
        out.collisions.setdefault(key, [out.notes[key].raw]).append(raw)
    else:
        out.notes[key] = found_file(key, raw, info)
