"""Work folders of backups and restores, and the removal of those left behind by killed runs."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.store.state import State

_PREFIXES = (".backup-", ".restore-", ".salvage-")
_OUTSIDE = "outside"
# Upper bound on the time between creating a folder and locking it.
_YOUNG_SECONDS = 10.0
# How long an interrupted rebuild can be resumed.
_INTERRUPTED_SECONDS = 24 * 3600.0
_CACHE = re.compile(r"cache-(?P<domain>[\w-]+)\.(?P<number>\d+)\.db")
_BESIDE = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")


@contextmanager
def work_folder(state: Path, purpose: str) -> Iterator[Path]:
    """Create a folder in the state folder for one run of `backup`, `restore` or `salvage`; delete it at the end.

    It is locked while the run lives.
    """
    folder = Path(tempfile.mkdtemp(dir=state, prefix=f".{purpose}-"))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def claim(folder: Path, *outside: Path) -> None:
    """Record files outside a run's folder that are useless without the run, before they are created."""
    file = folder / _OUTSIDE
    with file.open("ab") as out:
        out.write(b"".join(os.fsencode(path.absolute()) + b"\0" for path in outside))
        out.flush()
        os.fsync(out.fileno())


def sweep_leftovers(folder: Path, state: State) -> list[str]:
    """Delete what killed runs left in a state folder and beside backups; return the names of what was deleted.

    Locked folders are in use. A cache is deleted only if it is newer than its domain's current one, and came from a
    killed restore or from a rebuild interrupted a day ago. Raises CacheError.
    """
    gone = []
    for dead in filter(_is_dead, _folders(folder)):
        for file in _claimed(dead):
            if _BESIDE.fullmatch(file.name) or (file.parent == folder and _is_ahead(state, file)):
                gone += _delete(file)
        shutil.rmtree(dead, ignore_errors=True)
        gone.append(dead.name)
    for file in folder.glob("cache-*.db"):
        if _is_ahead(state, file) and _age(file) > _INTERRUPTED_SECONDS:
            gone += _delete(file)
    return gone


def _folders(state: Path) -> list[Path]:
    return [path for path in state.iterdir() if path.name.startswith(_PREFIXES)]


def _is_dead(folder: Path) -> bool:
    """Say whether a folder's run is over: nothing locks it, and it was not just created."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return abs(time.time() - os.fstat(lock).st_mtime) > _YOUNG_SECONDS
    except OSError:
        return False
    finally:
        os.close(lock)


def _claimed(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [Path(os.fsdecode(name)) for name in (folder / _OUTSIDE).read_bytes().split(b"\0") if name]
    return []


def _is_ahead(state: State, file: Path) -> bool:
    """Say whether a cache is newer than its domain's current one."""
    match = _CACHE.fullmatch(file.name)
    return match is not None and int(match["number"]) > state.cache_number(match["domain"])


def _age(file: Path) -> float:
    """Return how many seconds ago a cache, or its log, was written to."""
    written = []
    for part in _parts(file):
        with suppress(FileNotFoundError):
            written.append(part.stat().st_mtime)
    return abs(time.time() - max(written, default=time.time()))


def _parts(file: Path) -> list[Path]:
    return [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]


def _delete(file: Path) -> list[str]:
    if not file.is_file() or file.is_symlink():
        return []
    for part in _parts(file):
        part.unlink(missing_ok=True)
    return [file.name]
