"""A process says every few seconds that it lives, and others tell from it who does not."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import psutil

from pipelines.errors import EverindexError
from pipelines.store.processes import SILENT_SECONDS, Process, Processes, Role
from pipelines.store.state import State

_SAY_SECONDS = 5.0
# A process's beginning is reckoned from the boot's, which moves when the clock is set.
_SAME_BEGINNING_SECONDS = 5.0


def process_name() -> str:
    """Name this process so that no other one ever is taken for it: host:pid/when it began, seconds since 1970."""
    return _named(os.getpid())


@lru_cache(maxsize=1)
def _named(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}/{psutil.Process(pid).create_time():.2f}"


def lives(name: str, age_s: float | None) -> bool:
    """Say whether the process that `process_name` named lives; it last spoke `age_s` ago, None: never.

    On this machine the system tells; one in another container, or on another machine, is believed while it speaks.
    """
    place, _, began = name.partition("/")
    host, _, pid = place.rpartition(":")
    if host != socket.gethostname():
        return age_s is not None and age_s < SILENT_SECONDS
    if int(pid) == os.getpid():
        return name == process_name()  # a container's processes have the same id at every start
    try:
        process = psutil.Process(int(pid))
        # One that was killed stays a zombie until its parent looks.
        ended = process.status() == psutil.STATUS_ZOMBIE
        return not ended and abs(process.create_time() - float(began)) < _SAME_BEGINNING_SECONDS
    except psutil.Error:
        return False


@contextmanager
def heartbeat(folder: Path, role: Role, version: str) -> Iterator[None]:
    """Say that this process lives, in a thread of its own, for as long as the context is entered."""
    stopped = threading.Event()
    started = datetime.fromtimestamp(psutil.Process().create_time(), UTC).isoformat(timespec="milliseconds")

    def say() -> None:
        processes: Processes | None = None
        while True:
            with suppress(EverindexError):  # a full disk is said by those who need it more
                if processes is None:
                    State(folder).close()  # makes the tables
                    processes = Processes(folder)
                rss = psutil.Process().memory_info().rss
                processes.say(Process(process_name(), role, version, started, rss))
            if stopped.wait(_SAY_SECONDS):
                break
        if processes:
            with suppress(EverindexError):
                processes.forget(process_name())
            processes.close()

    thread = threading.Thread(target=say, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(1.0)
