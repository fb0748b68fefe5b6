"""Report every few seconds that a process lives, and tell from such reports which processes live."""

from __future__ import annotations

import os
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import psutil
import structlog

from pipelines.errors import EverindexError
from pipelines.model import Place, as_iso
from pipelines.sqlite import file_id
from pipelines.state.health import SILENT_SECONDS, Problems, Process, Processes, Role
from pipelines.state.state import STATE_FILE

# Raise the limit of open files per process as far as allowed, and report it if it is too low.


PROBLEM = "open-files"
# About two dozen threads, each with a few databases of three files.
_ENOUGH = 512
_NEARLY_ALL = 0.8


def raise_limit() -> None:
    """Let this process open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def report_limit(problems: Problems, role: str) -> None:
    """Report a limit that is too low or nearly used up; otherwise clear the report. Raises CacheError."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = psutil.Process().num_fds()
    if limit != resource.RLIM_INFINITY and (limit < _ENOUGH or used > _NEARLY_ALL * limit):
        problems.report(
            PROBLEM,
            role,
            f"the {role} may open at most {limit} files: questions and saves will fail when these are used"
            " up; raise the limit (`ulimit -n`, or LimitNOFILE of systemd) and restart it",
        )
    else:
        problems.clear(PROBLEM, role)


log = structlog.get_logger()

_SAY_SECONDS = 5.0
_LOOK_SECONDS = 2.0
_STATE_REPLACED = 75  # EX_TEMPFAIL
# A process's start time is derived from the boot time, which moves when the clock is set.
_SAME_BEGINNING_SECONDS = 5.0
_NAME = re.compile(r"(.+):(\d+)/(\d+(?:\.\d+)?)")


@lru_cache(maxsize=1)
def host() -> str:
    """Return a name for this host, which another host of the same name does not have: with a part of its boot id."""
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        booted = ""  # not Linux
    return f"{socket.gethostname()}~{booted[:4]}" if booted else socket.gethostname()


def process_name() -> str:
    """Return a name for this process that is never reused: host:pid/start time in seconds since 1970."""
    return _named(os.getpid())


@lru_cache(maxsize=1)
def _named(pid: int) -> str:
    return f"{host()}:{pid}/{psutil.Process(pid).create_time():.2f}"


def lives(name: str, age_s: float | None) -> bool:
    """Say whether the process named by `process_name` lives; it last reported `age_s` seconds ago, None: never.

    On this machine the operating system knows; a process in another container or machine lives while it reports.
    """
    named = _NAME.fullmatch(name)
    if named is None:
        return False  # written by an earlier version
    on, pid, began = named.groups()
    if on != host():
        return age_s is not None and age_s < SILENT_SECONDS
    if int(pid) == os.getpid():
        return name == process_name()  # a container's processes have the same id at every start
    try:
        process = psutil.Process(int(pid))
        # A killed process stays a zombie until its parent reaps it.
        ended = process.status() == psutil.STATUS_ZOMBIE
        return not ended and abs(process.create_time() - float(began)) < _SAME_BEGINNING_SECONDS
    except psutil.Error:
        return False


def end_with_state(folder: Path) -> None:
    """End this process when `state.db` is deleted or replaced: it would keep using a file that others cannot see.

    Its supervisor starts it again with the new file.
    """

    def watch() -> None:
        opened = None
        while True:
            there = file_id(folder / STATE_FILE)
            if opened is not None and there != opened:
                log.error("the state folder was deleted or replaced; this process ends", folder=str(folder))
                os._exit(_STATE_REPLACED)
            opened = there
            time.sleep(_LOOK_SECONDS)

    threading.Thread(target=watch, name="state", daemon=True).start()


def _outlived(processes: Processes, role: Role) -> list[str]:
    """Return the dead processes of this machine and role: once their successor ends normally, none is missed."""
    here = f"{host()}:"
    return [
        one.name
        for one, age in processes.recent()
        if one.role == role and one.name.startswith(here) and not lives(one.name, age)
    ]


@contextmanager
def heartbeat(place: Place, role: Role, version: str) -> Iterator[None]:
    """Report from a separate thread that this process lives, while the context is active."""
    raise_limit()
    stopped = threading.Event()
    started = as_iso(datetime.fromtimestamp(psutil.Process().create_time(), UTC))

    def say() -> None:
        processes: Processes | None = None
        while True:
            with suppress(EverindexError):  # others report a full disk
                if processes is None:
                    processes = Processes(place)
                    problems = Problems(place)
                rss = psutil.Process().memory_info().rss
                processes.put(Process(process_name(), role, version, started, rss))
                report_limit(problems, role)
            if stopped.wait(_SAY_SECONDS):
                break
        if processes:
            with suppress(EverindexError):
                for name in (*_outlived(processes, role), process_name()):
                    processes.delete(name)
            processes.close()
            problems.close()

    thread = threading.Thread(target=say, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(1.0)
