"""Find what was written to files after they were displaced, and what a crash left beside notes."""

from __future__ import annotations

import base64
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from pipelines.disk import beneath, in_folder
from pipelines.disk.durable_files import write_atomic
from pipelines.disk.identity import DOT_FOLDER
from pipelines.disk.safe_replace import BESIDE, TMP, Record, opened
from pipelines.errors import NoteError, UnsafePathError

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
    for raw, folder, names in chain(beneath.walk(root), beneath.walk(root, DOT_FOLDER)):
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
