"""watchdog's observer over a vault, and checks that it still receives events."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path

from watchdog.events import (
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer as AnyObserver

if sys.platform == "linux":
    from service.watcher.inotify import InotifyObserver as Observer
else:
    Observer = AnyObserver

PROBE_SECONDS = 30.0
PROBE_PATIENCE = 5.0
# watchdog walks by recursion (`os.walk`, before Python 3.12), as deep as a path of 4,096 bytes can lead.
_DEEPEST_WALK = 5_000
_MOUNTS = Path("/proc/self/mountinfo")
_MOUNTS_SECONDS = 2.0
# Read events are not needed. Attribute events are: for changed permissions, and for the probe.
_EVENTS: list[type[FileSystemEvent]] = [
    FileAttribEvent,
    DirAttribEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    FileClosedEvent,
    DirCreatedEvent,
    DirModifiedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]


def _mounts_in(root: Path) -> tuple[bytes, ...]:
    """Return the system's mounts at and below a folder; nothing if it does not list them (macOS)."""
    named = os.fsencode(root)
    for letter in b"\\ \t\n":  # as the system writes them
        named = named.replace(bytes([letter]), b"\\%03o" % letter)
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return ()
    return tuple(line for line in lines if (line.split(b" ", 5)[4] + b"/").startswith(named + b"/"))


class _Overflow(logging.Handler):
    """Detects in watchdog's log that it lost events, because it tells no handler."""

    def __init__(self, lost: threading.Event) -> None:
        super().__init__(logging.WARNING)
        self._lost = lost
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Record an overflow, or watches that could not be rebuilt after one."""
        if "overflow" in record.msg or "Unable to rebuild" in record.msg:
            self.count += 1
            self._lost.set()


class Observation:
    """One observer at a time. `lost` is set when events were lost.

    The probe changes the time of the vault's folder, which writes nothing into it, and expects an event.
    """

    def __init__(self, root: Path, handler: FileSystemEventHandler, lost: threading.Event) -> None:
        self._root = root
        self._handler = handler
        self._overflow = _Overflow(lost)
        self._observer = Observer()
        self._identity: tuple[int, int] | None = None
        self._mounts: tuple[bytes, ...] = ()
        self._mounts_read_at = -float("inf")
        self._asked_at: float | None = None
        self._probed_at = -float("inf")
        self.last_answer: float | None = None

    @property
    def overflows(self) -> int:
        """How often the kernel's event queue overflowed."""
        return self._overflow.count

    def start(self) -> None:
        """Start observing. Raises OSError if the system has no watches left."""
        logging.getLogger("watchdog").addHandler(self._overflow)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST_WALK))
        self._observer = Observer()
        self._observer.schedule(self._handler, str(self._root), recursive=True, event_filter=_EVENTS)
        self._observer.start()
        self._identity = self._identity_now()
        self._mounts = _mounts_in(self._root)
        self._asked_at = None

    def stop(self) -> None:
        """Stop observing."""
        logging.getLogger("watchdog").removeHandler(self._overflow)
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join()

    def _identity_now(self) -> tuple[int, int] | None:
        try:
            info = self._root.stat()
        except OSError:
            return None
        return info.st_dev, info.st_ino

    def probe(self, now: float) -> None:
        """Probe at intervals whether events arrive."""
        if self._asked_at is None and now - self._probed_at >= PROBE_SECONDS:
            self._probed_at = now
            try:
                os.utime(self._root)
            except OSError:
                return  # a read-only vault cannot be probed
            self._asked_at = now

    def answer(self, now: float) -> None:
        """Record an event on the vault's own folder."""
        self._asked_at = None
        self.last_answer = now

    def complaint(self, now: float) -> str | None:
        """Return why this observer must be replaced, or None while it works."""
        if not self._observer.is_alive() or not all(e.is_alive() for e in self._observer.emitters):
            return "an observer's thread died"
        if self._identity_now() != self._identity:
            return "the vault's folder was replaced"
        if now - self._mounts_read_at >= _MOUNTS_SECONDS:
            self._mounts_read_at = now
            if _mounts_in(self._root) != self._mounts:
                return "a file system was mounted, or unmounted, in the vault"
        if self._asked_at is not None and now - self._asked_at > PROBE_PATIENCE:
            return "a probe was not heard"
        return None
