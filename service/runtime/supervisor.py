"""One command for one machine: the watcher, a worker and the query worker as child processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import structlog

from pipelines.errors import EverindexError
from pipelines.vault.atomic import USERS_UMASK
from service.runtime.client import Service, is_complete, running
from workers.vault_paths import cannot_be_written

_COMMANDS = {"watcher": "watch", "worker": "work", "query": "serve"}
LOG_FOLDER = "logs"
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.2
# Each check costs the workers a little CPU time.
_PROGRESS_SECONDS = 1.0
_LONGEST_RESTART_PAUSE = 30.0
_STEADY_SECONDS = 60.0
_LARGEST_LOG = 10_000_000
_MANY_DEATHS = 3
_LAST_BYTES = 20_000
_LONGEST_WORDS = 300
_ORPHAN_SECONDS = 15.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    started: float
    log_begin: int
    pause: float = 1.0
    restart_at: float | None = None
    deaths: int = 0
    is_steady: bool = False


@dataclass(slots=True)
class Supervisor:
    """Starts the three processes of a vault, restarts any that dies, and stops them together.

    `arguments` are the command line's settings, passed to each child.
    """

    state: Path
    arguments: list[str]
    _children: dict[str, _Child] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        """Start some of the processes; each writes its log in the state folder. Raises StateError."""
        try:
            (self.state / LOG_FOLDER).mkdir(exist_ok=True)
            for name in names:
                self._children[name] = self._spawn(name)
        except OSError as error:
            raise cannot_be_written(self.state, error) from error

    def _spawn(self, name: str) -> _Child:
        # -P: the current folder may be a vault, and nothing in a vault may run as code.
        command = [
            sys.executable,
            "-P",
            "-m",
            "everindex",
            _COMMANDS[name],
            *self.arguments,
            "--supervised",
        ]
        with self._log_file(name) as file:
            begin = file.tell()  # the child shares the position
            process = subprocess.Popen(  # noqa: S603 - our own module, with settings that were checked
                command,
                # The pipe closes when the supervisor ends, however it dies.
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
                umask=USERS_UMASK,  # a child takes it for the user's, and changes it itself
            )
        return _Child(name, process, time.monotonic(), begin)

    def log_path(self, name: str) -> Path:
        """Return the path of a process's log."""
        return self.state / LOG_FOLDER / f"{name}.log"

    def _log_file(self, name: str) -> IO[bytes]:
        path = self.log_path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the state folder may have been deleted
        if path.exists() and path.stat().st_size > _LARGEST_LOG:
            path.replace(path.with_suffix(".old.log"))
        return path.open("ab")

    def check(self) -> None:
        """Restart dead processes, after a pause that grows while they keep dying."""
        now = time.monotonic()
        for child in list(self._children.values()):
            if child.process.poll() is None:
                if now - child.started > _STEADY_SECONDS and not child.is_steady:
                    child.pause, child.deaths, child.is_steady = 1.0, 0, True
                    self._report(child, None)
                continue
            if child.restart_at is None:
                child.restart_at = now + child.pause
                self._tell_of_death(child)
            elif now >= child.restart_at:
                child.pause = min(child.pause * 2, _LONGEST_RESTART_PAUSE)
                self._restart(child)

    def _restart(self, child: _Child) -> None:
        try:
            again = self._spawn(child.name)
        except OSError as error:
            # The state folder or its disk is unavailable, or there are too many processes: that may pass.
            log.warning("a process cannot be started; trying again", name=child.name, error=str(error))
            child.restart_at = time.monotonic() + child.pause
            return
        again.pause, again.deaths = child.pause, child.deaths
        self._children[child.name] = again

    def _tell_of_death(self, child: _Child) -> None:
        child.deaths += 1
        if child.process.stdin:
            child.process.stdin.close()
        path = self.log_path(child.name)
        reason = last_words(path, child.log_begin)
        log.error(
            "a process died; restarting it",
            name=child.name,
            code=child.process.returncode,
            reason=reason or _how_it_ended(child.process.returncode),
            log=str(path),
        )
        if child.deaths >= _MANY_DEATHS:
            said = f"its last words: {reason}" if reason else "it logged no reason"
            self._report(
                child,
                f"the {child.name} died {child.deaths} times in a row ({said}; its log: {path}); it is started again,"
                f" every {_LONGEST_RESTART_PAUSE:.0f} s in the end",
            )

    def _report(self, child: _Child, message: str | None) -> None:
        """Report the problem of a process; None: there is none."""
        from pipelines.state.health import Problems  # noqa: PLC0415

        # A full disk is reported elsewhere.
        with suppress(EverindexError), closing(Problems(self.state)) as problems:
            if message:
                problems.report("deaths", child.name, message)
            else:
                problems.clear("deaths", child.name)

    def stop(self) -> None:
        """Ask every process to stop, and kill those still running after some seconds."""
        for child in self._children.values():
            if child.process.poll() is None:
                child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for child in self._children.values():
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            if child.process.stdin:
                child.process.stdin.close()

    def wait_for_service(self, stop: threading.Event) -> Service | None:
        """Return the query worker once it answers, or None when `stop` comes first."""
        while not stop.wait(_POLL_SECONDS):
            self.check()
            service = running(self.state)
            if service and _answers(service):
                return service
        return None

    def follow(
        self, service: Service, stop: threading.Event, progress: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any] | None:
        """Report `GET /health` until everything is indexed, and return the last; None if `stop` comes first."""
        while not stop.wait(_PROGRESS_SECONDS):
            self.check()
            try:
                health = service.call("GET", "/health")
            except EverindexError:
                continue  # it is being restarted, or the state folder was deleted
            progress(health)
            if is_complete(health):
                return dict(health)
        return None

    def keep(self, stop: threading.Event) -> None:
        """Keep the processes alive until `stop`."""
        while not stop.wait(1.0):
            self.check()


def _how_it_ended(code: int) -> str:
    return f"ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else "it logged no reason"


def last_words(log_path: Path, begin: int) -> str:
    """Return the reason that a dead process logged last, or ""; what is before byte `begin` is of earlier ones."""
    try:
        with log_path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = begin if begin <= size else 0  # 0: the log was emptied meanwhile
            start = max(begin, size - _LAST_BYTES)
            file.seek(start)
            lines = file.read().decode(errors="replace").splitlines()[start > begin :]  # the first one is cut
    except OSError:
        return ""
    for line in reversed(lines):
        try:
            said = json.loads(line)
        except ValueError:
            words = line.strip()  # a traceback's end, or a message for people
        else:
            if said.get("level") not in ("error", "critical"):
                continue
            trace = str(said.get("exception", "")).splitlines()
            words = " ".join(str(said[k]) for k in ("event", "reason", "error") if said.get(k)) + (
                f": {trace[-1]}" if trace else ""
            )
        if words:
            return words[:_LONGEST_WORDS]
    return ""


def wait_for_orphans(state: Path) -> None:
    """Wait until the processes of a killed supervisor have noticed and ended."""
    deadline = time.monotonic() + _ORPHAN_SECONDS
    while time.monotonic() < deadline and any(_is_orphan(pid) for pid in _pids(state)):
        time.sleep(_POLL_SECONDS)


def _pids(state: Path) -> list[int]:
    """Return the ids of this machine's processes that the state folder records."""
    from pipelines.state.health import Processes  # noqa: PLC0415
    from pipelines.state.state import STATE_FILE  # noqa: PLC0415
    from workers.heartbeat import lives  # noqa: PLC0415

    if not (state / STATE_FILE).exists():
        return []
    with suppress(EverindexError), closing(Processes(state)) as processes:
        names = [one.name for one, _ in processes.recent() if lives(one.name, None)]
        return [int(name.partition("/")[0].rpartition(":")[2]) for name in names]
    return []


def _is_orphan(pid: int) -> bool:
    """Return whether a process was started by a supervisor that has ended."""
    import psutil  # noqa: PLC0415

    try:
        process = psutil.Process(pid)
        parent = process.parent()
        return "--supervised" in process.cmdline() and (parent is None or "up" not in parent.cmdline())
    except psutil.Error:
        return False


def _answers(service: Service) -> bool:
    try:
        service.call("GET", "/health")
    except EverindexError:
        return False
    return True


def stop_with_supervisor(stop: Callable[[], None]) -> None:
    """In a child: call `stop` when the supervisor's end of standard input closes."""

    def wait() -> None:
        # Not through sys.stdin: a thread that blocks in its buffer makes the interpreter crash at exit.
        while os.read(0, 1024):
            pass
        stop()

    threading.Thread(target=wait, name="supervisor", daemon=True).start()
