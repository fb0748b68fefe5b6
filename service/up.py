"""One command for one machine: the watcher, a worker and the query worker as child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import structlog

from pipelines.errors import ServiceError
from service.client import Service, running

_COMMANDS = {"watcher": "watch", "worker": "work", "query": "serve"}
LOG_FOLDER = "logs"
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.2
# Each look takes a little of what the workers could use.
_PROGRESS_SECONDS = 1.0
_LONGEST_RESTART_PAUSE = 30.0
_STEADY_SECONDS = 60.0
_LARGEST_LOG = 10_000_000

log = structlog.get_logger()


@dataclass(slots=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    started: float
    pause: float = 1.0
    restart_at: float | None = None


@dataclass(slots=True)
class Supervisor:
    """Starts the three processes of a vault, starts again what dies, and stops them together.

    `arguments` are the command line's settings, handed to each child.
    """

    state: Path
    arguments: list[str]
    _children: dict[str, _Child] = field(default_factory=dict)
    _logs: ExitStack = field(default_factory=ExitStack)

    def start(self, *names: str) -> None:
        """Start some of the processes; each writes its log in the state folder."""
        (self.state / LOG_FOLDER).mkdir(exist_ok=True)
        for name in names:
            self._children[name] = self._spawn(name)

    def _spawn(self, name: str) -> _Child:
        command = [sys.executable, "-m", "service.cli", _COMMANDS[name], *self.arguments, "--supervised"]
        process = subprocess.Popen(  # noqa: S603 - our own module, with settings that were checked
            command,
            # The pipe's end tells a child that its supervisor is gone, however it died.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log_file(name),
            start_new_session=True,
        )
        return _Child(name, process, time.monotonic())

    def log_path(self, name: str) -> Path:
        """Return where a process's log lies."""
        return self.state / LOG_FOLDER / f"{name}.log"

    def _log_file(self, name: str) -> IO[bytes]:
        path = self.log_path(name)
        if path.exists() and path.stat().st_size > _LARGEST_LOG:
            path.replace(path.with_suffix(".old.log"))
        return self._logs.enter_context(path.open("ab"))

    def check(self) -> None:
        """Start again what died, after a pause that grows while it keeps dying."""
        now = time.monotonic()
        for name, child in self._children.items():
            if child.process.poll() is None:
                if now - child.started > _STEADY_SECONDS:
                    child.pause = 1.0
                continue
            if child.restart_at is None:
                child.restart_at = now + child.pause
                log.error(
                    "a process died; it is started again",
                    name=name,
                    code=child.process.returncode,
                    log=str(self.log_path(name)),
                )
            elif now >= child.restart_at:
                pause = min(child.pause * 2, _LONGEST_RESTART_PAUSE)
                self._children[name] = self._spawn(name)
                self._children[name].pause = pause

    def stop(self) -> None:
        """Ask every process to stop, and kill what has not after some seconds."""
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
        self._logs.close()

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
    ) -> bool:
        """Report `GET /health` until everything is indexed; say whether that came before `stop`."""
        while not stop.wait(_PROGRESS_SECONDS):
            self.check()
            try:
                health = service.call("GET", "/health")
            except ServiceError:
                continue  # it is being started again
            progress(health)
            if health["last_reconcile"] and not health["pending"] and not health["vectors_pending"]:
                return True
        return False

    def keep(self, stop: threading.Event) -> None:
        """Keep the processes alive until `stop`."""
        while not stop.wait(1.0):
            self.check()


def _answers(service: Service) -> bool:
    try:
        service.call("GET", "/health")
    except ServiceError:
        return False
    return True


def stop_with_supervisor(stop: Callable[[], None]) -> None:
    """In a child: call `stop` when the supervisor's end of standard input closes."""

    def wait() -> None:
        # Not through sys.stdin: a thread that waits inside its buffer makes the interpreter's end a fatal error.
        while os.read(0, 1024):
            pass
        stop()

    threading.Thread(target=wait, name="supervisor", daemon=True).start()
