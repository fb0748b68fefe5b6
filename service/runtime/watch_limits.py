"""Whether a vault can be watched: its file system, and what the kernel allows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from pipelines.vault.paths import subfolders

LIMITS = Path("/proc/sys/fs/inotify")
_PROCESSES = Path("/proc")
_INOTIFY = "anon_inode:inotify"
# Their changes on other machines reach no observer here.
_NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb",
    "smb2",
    "smb3",
    "smbfs",
    "afpfs",
    "webdav",
    "davfs",
    "9p",
    "fuse.sshfs",
}


def why_poll(root: Path) -> str | None:
    """Say why a folder cannot be observed and must be polled, or None where it can."""
    if kind := network_file_system(root):
        return f"it lies on a network file system ({kind})"
    limit = read_limit("max_user_watches")
    if limit is not None and (folders := count_folders(root)) > limit:
        return f"it has {folders} folders, more than fs.inotify.max_user_watches = {limit}"
    return None


def network_file_system(root: Path) -> str | None:
    """Return the kind of network file system that a folder lies on, or None where it lies on a local one."""
    mounts = [p for p in psutil.disk_partitions(all=True) if root.is_relative_to(p.mountpoint)]
    kind = max(mounts, key=lambda p: len(p.mountpoint)).fstype if mounts else ""
    return kind if kind in _NETWORK else None


def read_limit(name: str) -> int | None:
    """Return one of inotify's limits by its name, or None where the system has none (not Linux)."""
    try:
        return int((LIMITS / name).read_text())
    except (OSError, ValueError):
        return None


def count_folders(root: Path) -> int:
    """Return how many folders a vault has, its own included: the watcher needs a watch for each."""
    count, waiting = 0, [""]
    while waiting:
        count += 1
        waiting += subfolders(root, waiting.pop())
    return count


def inotify_in_use() -> tuple[int, int]:
    """Return how many inotify instances and watches this user's processes hold, as far as they can be seen."""
    instances = watches = 0
    for descriptor in _inotify_descriptors():
        instances += 1
        with suppress(OSError):
            info = descriptor.parent.parent / "fdinfo" / descriptor.name
            watches += info.read_text().count("inotify wd:")
    return instances, watches


def _inotify_descriptors() -> Iterator[Path]:
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # a process of another user, or one that has ended
            if process.stat().st_uid != os.geteuid():
                continue
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if str(descriptor.readlink()) == _INOTIFY:
                        yield descriptor
