"""The watcher: watchdog marks paths, the debouncer waits, the ledger records changes, the queue gets a hint."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import structlog
from redis.exceptions import RedisError
from watchdog.events import DirModifiedEvent, FileSystemEvent, FileSystemEventHandler

from pipelines.domains import DOMAINS_FILE
from pipelines.errors import EverindexError
from pipelines.formats import format_of
from pipelines.indexing.reconcile import check_paths
from pipelines.state.state import WATCHER, WatcherFacts
from pipelines.vault import files as vault
from pipelines.vault.ignore import RULE_FILES
from pipelines.vault.obsidian import OBSIDIAN_SETTINGS
from queue_config.settings import Settings
from service.runtime.lock import only_one
from service.runtime.watch_limits import why_poll
from service.watcher.observer import Observation
from workers.complaints import Complaint
from workers.heartbeat import heartbeat
from workers.resources import Resources
from workers.tasks import Tasks, announce, make_tasks, reconcile_now, rehash_share
from workers.vault_paths import on_another_host

# Decide which paths are quiet enough to be read; the clock is an argument.


@dataclass(slots=True)
class _Marked:
    first: float
    last: float


class Debouncer:
    """Paths that may have changed, each held until quiet for `quiet` seconds, but at most `longest`.

    `mark` may be called from any thread.
    """

    def __init__(self, quiet: float, longest: float) -> None:
        self._quiet = quiet
        self._longest = longest
        self._lock = threading.Lock()
        self._marked: dict[str, _Marked] = {}

    def mark(self, path: str, now: float) -> None:
        """Record an event on a path."""
        with self._lock:
            marked = self._marked.setdefault(path, _Marked(now, now))
            marked.last = now

    def settled(self, now: float) -> set[str]:
        """Take the paths that are due."""
        with self._lock:
            due = {
                path
                for path, marked in self._marked.items()
                if now - marked.last >= self._quiet or now - marked.first >= self._longest
            }
            for path in due:
                del self._marked[path]
        return due

    def next_due(self, now: float) -> float | None:
        """Return the seconds until the next path is due, or None if there is none."""
        with self._lock:
            return min(
                (
                    max(0.0, min(m.last + self._quiet, m.first + self._longest) - now)
                    for m in self._marked.values()
                ),
                default=None,
            )


_LONGEST_SETTLE = 3.0
_IDLE_SECONDS = 0.1
_RETRY_SECONDS = 2.0

# A comparison of an unchanged vault takes about 5 ms per thousand notes.
_POLL_SECONDS = 2.0
_SAY_SECONDS = 5.0
# While deletions are held, a note that came back without an event must not be reported missing for long, and a
# folder that is gone must not be reported as a problem.
_SOON_SECONDS = 30.0
_VANISHED_SECONDS = 1.0

log = structlog.get_logger()


class Marker(FileSystemEventHandler):
    """Marks the paths of an event as possibly changed, and nothing else, because event kinds are unreliable."""

    def __init__(self, root: Path, debouncer: Debouncer, compare: threading.Event) -> None:
        self._root = str(root)
        self._debouncer = debouncer
        self._compare = compare
        self.last_event: float | None = None
        self.root_changed = threading.Event()

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Mark the event's paths. Never raises, because an error would end watchdog's dispatcher thread."""
        try:
            for path in {os.fsdecode(event.src_path), os.fsdecode(event.dest_path)}:
                if path == self._root:
                    self.root_changed.set()
                elif path.startswith(self._root + os.sep) and not isinstance(event, DirModifiedEvent):
                    self._mark(path[len(self._root) + 1 :], folder=event.is_directory)
        except Exception:
            log.exception("an event could not be marked; comparing everything finds what it named")
            self._compare.set()

    def _mark(self, path: str, *, folder: bool) -> None:
        name = path.rpartition("/")[2]
        if name in RULE_FILES or path in (DOMAINS_FILE, OBSIDIAN_SETTINGS):
            self._compare.set()
        elif any(part.startswith(".") for part in path.split("/")[:-1]) or (
            name.startswith(".") and (folder or not vault.is_note(name))
        ):
            return
        else:
            # Any kind of file, because a link may point to any file.
            self.last_event = time.monotonic()
            self._debouncer.mark(path, self.last_event)


class Watcher:
    """Keeps the ledger equal to the disk, until `stop` is set."""

    def __init__(self, settings: Settings, stop: threading.Event) -> None:
        self._resources = Resources(settings)
        self._stop = stop
        self._debouncer = Debouncer(settings.settle_seconds, _LONGEST_SETTLE)
        self._compare = threading.Event()
        self._marker = Marker(self._resources.root, self._debouncer, self._compare)
        self._observation: Observation | None = None
        self._polling: str | None = None
        self._complaints: set[str] = set()
        self._compared_at = -float("inf")
        self._said_at = -float("inf")
        self._looked_at_vanished_at = -float("inf")
        self._soon = False
        self._others: set[str] = set()
        self._trouble = Complaint(self._resources, "the watcher")
        self._queue = self._resources.queue()
        self._tasks: Tasks = make_tasks(self._queue, self._resources)

    def run(self) -> None:
        """Watch, then scan, so that changes during the scan cause events; then follow events."""
        if self._resources.is_elsewhere:
            raise on_another_host(self._resources.root)
        state = self._resources.place.state
        with only_one(state), heartbeat(self._resources.store, "watcher", version("everindex")):
            self._resources.check_models()
            try:
                while not self._stop.is_set():
                    self._turn()
                    due = self._debouncer.next_due(time.monotonic())
                    self._stop.wait(_IDLE_SECONDS if due is None else min(_IDLE_SECONDS, due))
            finally:
                self._stop_observing()
                with suppress(EverindexError):  # a full disk: the last report stays, and its age shows
                    self._resources.state().delete(WATCHER)
                log.info("watcher stopped")

    def _turn(self) -> None:
        try:
            now = time.monotonic()
            self._look_after_observer(now)
            if self._compare.is_set() or now - self._compared_at >= self._interval():
                self._compare.clear()
                self._compare_all()
            self._check(self._debouncer.settled(time.monotonic()))
            self._look_at_vanished(now)
            self._say(now)
            self._trouble.over()
        except (EverindexError, OSError, RedisError) as error:
            self._try_later(str(error))
        except Exception as error:
            log.exception("the watcher could not work; it tries again")
            self._try_later(repr(error))

    def _try_later(self, reason: str) -> None:
        self._trouble.met(reason)
        # Paths already taken from the debouncer are found by comparing everything.
        self._compare.set()
        self._stop.wait(_RETRY_SECONDS)

    def _interval(self) -> float:
        if self._polling:
            return _POLL_SECONDS
        seconds = self._resources.settings.reconcile_seconds
        return min(seconds, _SOON_SECONDS) if self._soon else seconds

    # Hearing

    def _look_after_observer(self, now: float) -> None:
        """Start an observer if there is none, or replace one that stopped working; then compare everything."""
        self._resources.require_present()
        if self._marker.root_changed.is_set():
            self._marker.root_changed.clear()
            if self._observation:
                self._observation.answer(now)
        if self._observation:
            complaint = self._observation.complaint(now)
            if complaint is None:
                self._observation.probe(now)
                return
            log.warning("the observer is started again", reason=complaint)
            self._stop_observing()
        elif self._polling:
            return
        self._start_observing()
        self._compare.set()

    def _start_observing(self) -> None:
        root = self._resources.root
        self._polling = why_poll(root)
        if self._polling is None:
            observation = Observation(root, self._marker, self._compare)
            try:
                observation.start()
                self._observation = observation
            except OSError as error:
                observation.stop()
                self._polling = f"the system cannot watch it ({error})"
        if self._polling:
            log.warning("the vault is polled", reason=self._polling, every_s=_POLL_SECONDS)
        else:
            log.info("watching", vault=str(root))

    def _stop_observing(self) -> None:
        if self._observation:
            self._observation.stop()
            self._observation = None

    def _say(self, now: float) -> None:
        """Report the watcher's state for `status`, every few seconds."""
        if now - self._said_at < _SAY_SECONDS:
            return
        self._said_at = now
        heard = self._marker.last_event
        answered = self._observation.last_answer if self._observation else None
        self._resources.state().put(
            WATCHER,
            WatcherFacts(
                mode="polling" if self._polling else "events",
                polling_because=self._polling,
                last_event_s=None if heard is None else round(now - heard, 1),
                last_probe_s=None if answered is None else round(now - answered, 1),
                overflows=self._observation.overflows if self._observation else 0,
                process=os.getpid(),
            ),
        )

    # Comparing

    def _compare_all(self) -> None:
        reports = reconcile_now(self._queue, self._tasks, self._resources, settle=True)
        self._compared_at = time.monotonic()
        self._soon = any(report.held for report in reports.values())
        found = {slug: report.plain() for slug, report in reports.items()}
        if any(report.events or report.held for report in reports.values()) or not self._polling:
            log.info("compared", found=found)
        self._complaints = {said for report in reports.values() for said in report.complaints}
        for report in reports.values():
            self._mark_again(report.unsettled)
        rehash_share(self._queue, self._tasks, self._resources, self._interval())

    def _check(self, paths: set[str]) -> None:
        if not paths:
            return
        resources = self._resources
        caches = resources.caches()
        reports = check_paths(
            resources.root,
            resources.registry(),
            caches,
            paths,
            max_bytes=resources.settings.max_note_bytes,
            brake=resources.brake(),
        )
        for domain in resources.domains():
            report = reports[domain.slug]
            announce(self._queue, self._tasks, domain, caches[domain.slug], report.events)
            self._mark_again(report.unsettled)
            if report.held:
                self._soon = True
            if report.held or not self._complaints.issuperset(report.complaints):
                # If a folder is moved again while its first move settles, only a full comparison finds its notes.
                # Problems are reported by the full comparison.
                self._compare.set()
            self._complaints.update(report.complaints)
        if self._complaints and any(vault.look(resources.root, path) is None for path in paths):
            self._soon = True
        self._count_others(paths)

    def _count_others(self, paths: set[str]) -> None:
        """Compare soon if a file came or went whose format is not asked for: only a full comparison counts these.

        A save of one that is known changes no count, and programs save some every few seconds.
        """
        registry = self._resources.registry()
        for path in paths:
            form, asked = format_of(path), registry.formats_of(path)
            is_other = form is not None and bool(asked) and form.name not in asked
            if not is_other or (path in self._others) == (vault.look(self._resources.root, path) is not None):
                continue
            self._soon = True
            self._others ^= {path}

    def _look_at_vanished(self, now: float) -> None:
        """Check notes that vanished a while ago and are not held: remove them, or record that they are back."""
        if now - self._looked_at_vanished_at < _VANISHED_SECONDS:
            return
        self._looked_at_vanished_at = now
        resources = self._resources
        replaced = resources.stores.replaced
        resources.caches()
        if resources.stores.replaced > replaced:
            self._compare.set()  # the new one is empty
        brake = resources.brake()
        for domain in resources.domains():
            if due := brake.due(domain.slug):
                files = resources.cache(domain).ledger.stat_of(list(due))
                resources.vanished().drop(domain.slug, due - files.keys())
                self._check({raw for raw, *_ in files.values()})

    def _mark_again(self, raws: list[str]) -> None:
        for raw in raws:
            self._debouncer.mark(raw, time.monotonic())
