"""Locks of a state folder: one watcher, one writer of notes. Imports little: `up` checks before it loads anything."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from pipelines.errors import AlreadyRunningError
from workers.vault_paths import cannot_be_written

_LOCK_FILE = "watch.lock"
_LOOK_SECONDS = 0.05
_WRITERS_FILE = "notes.lock"


def is_watched(state: Path) -> bool:
    """Say whether a watcher holds the lock of a state folder."""
    try:
        with (state / _LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # there is no such file
    return False


@contextmanager
def only_one(state: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of a state folder's watcher. Raises AlreadyRunningError after `patience` seconds, StateError."""
    until = time.monotonic() + patience
    with _opened(state, _LOCK_FILE) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise AlreadyRunningError(
                        f"this vault is already being watched (state folder {state}), so what is saved is indexed by "
                        "itself; `everindex status --wait` returns when all of it is"
                    ) from None
            time.sleep(_LOOK_SECONDS)
        yield


@contextmanager
def one_writer(state: Path) -> Iterator[None]:
    """Wait for the lock under which programs write notes, and hold it. Raises StateError."""
    with _opened(state, _WRITERS_FILE) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(state: Path, name: str) -> TextIO:
    try:
        return (state / name).open("a")
    except OSError as error:
        raise cannot_be_written(state, error) from error
