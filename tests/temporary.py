"""Where tests put their files: in memory if there is room, because a disk's syncs take longer than all the rest."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import psutil

_MEMORY = Path("/dev/shm")  # noqa: S108 - what is put there has a random name
_DISK = Path("/var/tmp")  # noqa: S108 - likewise


def in_memory(room: int) -> Path | None:
    """Return a folder in memory if it has `room` bytes free, and may hold programs that run."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    system = os.statvfs(_MEMORY)
    free = min(system.f_bavail * system.f_frsize, psutil.virtual_memory().available)
    return _MEMORY if free > room and not system.f_flag & os.ST_NOEXEC else None


def folder_of_a_run(room: int) -> tempfile.TemporaryDirectory[str] | None:
    """Return a new folder in memory for all files of a run; those of runs that were killed go."""
    memory = in_memory(room)
    if memory is None:
        return None
    for old in memory.glob("ei-*-*"):
        if not psutil.pid_exists(int(old.name.split("-")[1])):
            # Not shutil.rmtree, which recurses: some tests make folders below each other by the thousand.
            subprocess.run(["rm", "-rf", str(old)], check=False, stderr=subprocess.DEVNULL)
    return tempfile.TemporaryDirectory(prefix=f"ei-{os.getpid()}-", dir=memory, ignore_cleanup_errors=True)


def on_another_system(folder: Path) -> Path | None:
    """Return a folder that lies on another file system than this one, if the machine has one."""
    others = (one for one in (_MEMORY, _DISK) if os.access(one, os.W_OK))
    return next((one for one in others if one.stat().st_dev != folder.stat().st_dev), None)
