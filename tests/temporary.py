"""Where tests put their files: in memory if there is room, because a disk's syncs take longer than all the rest."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

_MEMORY = Path("/dev/shm")  # noqa: S108 - whoever puts something there gives it a random name
_DISK = Path("/var/tmp")  # noqa: S108 - likewise


def in_memory(room: int) -> Path | None:
    """Return a folder in memory if it has so many bytes of room, and may hold programs that run."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    system = os.statvfs(_MEMORY)
    free = min(system.f_bavail * system.f_frsize, psutil.virtual_memory().available)
    return _MEMORY if free > room and not system.f_flag & os.ST_NOEXEC else None


def on_another_system(folder: Path) -> Path | None:
    """Return a folder that lies on another file system than this one, if the machine has one."""
    others = (one for one in (_MEMORY, _DISK) if os.access(one, os.W_OK))
    return next((one for one in others if one.stat().st_dev != folder.stat().st_dev), None)
