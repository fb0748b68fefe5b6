"""What one process of a run makes for all of them, because each would need seconds."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder of a run; the first process that asks makes its content, which no test changes.

    What has databases is made by a process of its own: as long as one holds them open, a copy may be torn.
    """
    own = factory.getbasetemp()
    base = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, done = base / name, base / f"{name}.done"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # an attempt that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
