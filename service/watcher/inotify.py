"""watchdog's observer on Linux, limited to the depth of a scan, so that deeply nested folders cannot stop it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.events import DirCreatedEvent, DirMovedEvent, FileMovedEvent
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyEmitter, InotifyWatchGroup
from watchdog.observers.inotify_c import InotifyEvent, InotifyFD
from watchdog.observers.inotify_move_event_grouper import GroupedInotifyEvent, PathedInotifyEvent

from pipelines.vault.ignore import DEEPEST_FOLDER
from pipelines.vault.paths import subfolders


@dataclass
class _Watches(InotifyWatchGroup):
    """The watches on a folder and its subfolders. watchdog's own walk is quadratic in the depth of the tree."""

    _folders: dict[bytes, tuple[int, int]] = field(default_factory=dict, init=False)

    def _add_all_callbacks(self, path: bytes) -> None:
        root = Path(os.fsdecode(self.path))
        waiting = [os.fsdecode(path[len(self.path) :]).lstrip("/")]
        while waiting:
            folder = waiting.pop()
            if folder.count("/") >= DEEPEST_FOLDER:
                continue
            # Add the watch first, so that files created after the listing cause events.
            self._add_callback(self.path + b"/" + os.fsencode(folder) if folder else self.path)
            waiting += subfolders(root, folder)

    def _add_callback(self, path: bytes) -> None:
        with suppress(OSError):
            info = os.lstat(path)
            folder = info.st_dev, info.st_ino
            if path in self._active_callbacks_by_path and self._folders.get(path) == folder:
                return  # watchdog would log a warning that contains all its watches
            self._folders[path] = folder
        super()._add_callback(path)

    def _recursive_simulate(self, src_path: bytes) -> list[InotifyEvent]:  # noqa: ARG002 - watchdog's name
        return []  # a new folder is scanned, so its contents need no events


class _Emitter(InotifyEmitter):
    def on_thread_start(self) -> None:
        """Watch the folder and its subfolders."""
        self._inotify = _Watches(
            self._inotify_fd,
            os.fsencode(self.watch.path),
            is_recursive=self.watch.is_recursive,
            event_mask=self.get_event_mask_from_filter(),
            follow_symlink=self.watch.follow_symlink,
        )

    def build_and_queue_event(self, event: GroupedInotifyEvent, *, full_events: bool = False) -> None:
        """Queue the paths of an event. The contents of a moved folder are found by scanning it, not listed here."""
        if not isinstance(event, PathedInotifyEvent):
            source, target = event
            moved = DirMovedEvent if source.ev.is_directory else FileMovedEvent
            self.queue_event(moved(self._decode_path(source.path), self._decode_path(target.path)))
        elif event.ev.is_moved_to and event.ev.is_directory:
            self.queue_event(DirCreatedEvent(self._decode_path(event.path)))
        else:
            super().build_and_queue_event(event, full_events=full_events)


class InotifyObserver(BaseObserver):
    """The same as `watchdog.observers.Observer` on Linux, with these watches."""

    def __init__(self) -> None:
        self._inotify_fd = InotifyFD()
        self._inotify_fd.start()
        super().__init__(_Emitter, inotify_fd=self._inotify_fd)

    def on_thread_stop(self) -> None:
        """Stop the thread that reads events, too."""
        super().on_thread_stop()
        self._inotify_fd.stop()
        self._inotify_fd.join()
