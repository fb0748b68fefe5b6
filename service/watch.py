"""The watcher: watchdog marks paths, the debouncer waits, the ledger is told, the queue gets a hint."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from pipelines import vault
from pipelines.domains import DOMAINS_FILE
from pipelines.errors import AlreadyRunningError, EverindexError
from pipelines.ignore import OBSIDIAN_SETTINGS, RULE_FILES
from pipelines.reconcile import check_paths
from queue_config.settings import Settings
from service.debounce import Debouncer
from workers.resources import Resources
from workers.tasks import Tasks, announce, make_tasks, reconcile_now

LOCK_FILE = "watch.lock"
_LONGEST_SETTLE = 3.0
_IDLE_SECONDS = 0.1
_RETRY_SECONDS = 2.0

# Reading a file is an event, too; and a folder's own change only says that something in it changed.
_EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    FileClosedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]

log = structlog.get_logger()


@contextmanager
def only_one(state: Path) -> Iterator[None]:
    """Hold the lock of a state folder's watcher. Raises AlreadyRunningError."""
    with (state / LOCK_FILE).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunningError(
                f"this vault is already being watched (state folder {state}), so what is saved is indexed by "
                "itself; `everindex status --wait` returns when all of it is"
            ) from None
        yield


class Marker(FileSystemEventHandler):
    """Marks what an event names as maybe changed, and nothing else: an event's kind is not to be trusted."""

    def __init__(self, root: Path, debouncer: Debouncer, rules_changed: threading.Event) -> None:
        self._root = str(root)
        self._debouncer = debouncer
        self._rules_changed = rules_changed

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Mark the event's paths. It cannot raise: a handler that raises kills watchdog's dispatcher."""
        try:
            for path in {os.fsdecode(event.src_path), os.fsdecode(event.dest_path)}:
                if path.startswith(self._root + os.sep):
                    self._mark(path[len(self._root) + 1 :], folder=event.is_directory)
        except Exception:
            log.exception("an event could not be marked; the next reconcile finds what it named")
            self._rules_changed.set()

    def _mark(self, path: str, *, folder: bool) -> None:
        name = path.rpartition("/")[2]
        if name in RULE_FILES or path in (DOMAINS_FILE, OBSIDIAN_SETTINGS):
            self._rules_changed.set()
        elif any(part.startswith(".") for part in path.split("/")[:-1]) or (folder and name.startswith(".")):
            return
        elif folder or vault.is_note(name):
            self._debouncer.mark(path, time.monotonic())


class Watcher:
    """Keeps the ledger equal to the disk, until `stop` is set."""

    def __init__(self, settings: Settings, stop: threading.Event) -> None:
        self._resources = Resources(settings)
        self._stop = stop
        self._debouncer = Debouncer(settings.settle_seconds, _LONGEST_SETTLE)
        self._reconcile_due = threading.Event()
        self._queue = self._resources.queue()
        self._tasks: Tasks = make_tasks(self._queue, self._resources)

    def run(self) -> None:
        """Watch, then scan: what changes during the scan is heard. Then follow events."""
        resources = self._resources
        with only_one(resources.place.state):
            resources.check_models()
            observer = Observer()
            observer.schedule(
                Marker(resources.root, self._debouncer, self._reconcile_due),
                str(resources.root),
                recursive=True,
                event_filter=_EVENTS,
            )
            observer.start()
            log.info("watching", vault=str(resources.root))
            try:
                self._follow()
            finally:
                observer.stop()
                observer.join()
                log.info("watcher stopped")

    def _follow(self) -> None:
        reconciled = -float("inf")
        while not self._stop.is_set():
            try:
                now = time.monotonic()
                if (
                    self._reconcile_due.is_set()
                    or now - reconciled >= self._resources.settings.reconcile_seconds
                ):
                    self._reconcile_due.clear()
                    self._reconcile()
                    reconciled = now
                self._check(self._debouncer.settled(time.monotonic()))
            except (EverindexError, OSError) as error:
                log.warning("the watcher could not work; it tries again", reason=str(error))
                self._try_later()
            except Exception:
                log.exception("the watcher could not work; it tries again")
                self._try_later()
            self._stop.wait(min(_IDLE_SECONDS, self._debouncer.next_due(time.monotonic()) or _IDLE_SECONDS))

    def _try_later(self) -> None:
        # What was taken from the debouncer is found by comparing everything.
        self._reconcile_due.set()
        self._stop.wait(_RETRY_SECONDS)

    def _reconcile(self) -> None:
        reports = reconcile_now(self._queue, self._tasks, self._resources)
        found = {slug: report.plain() for slug, report in reports.items()}
        log.info("reconciled", found=found)
        for report in reports.values():
            self._mark_again(report.unsettled)

    def _check(self, paths: set[str]) -> None:
        if not paths:
            return
        resources = self._resources
        resources.require_present()
        caches = resources.caches()
        reports = check_paths(
            resources.root, resources.registry(), caches, paths, max_bytes=resources.settings.max_note_bytes
        )
        for domain in resources.domains():
            report = reports[domain.slug]
            announce(self._queue, self._tasks, domain, caches[domain.slug], report.events)
            self._mark_again(report.unsettled)

    def _mark_again(self, raws: list[str]) -> None:
        for raw in raws:
            self._debouncer.mark(raw, time.monotonic())
