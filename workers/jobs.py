"""Common parts of all jobs: log what a job did, and postpone work on a paused domain."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import structlog
from huey.api import Task

from pipelines.errors import DomainPausedError, EverindexError
from pipelines.state.health import Problems
from queue_config.logs import Trouble
from queue_config.queue import QUEUE_ERRORS
from workers.resources import Resources

SLICE_SECONDS = 1.0
"""About how long a job works before it hints at the rest, so that a save does not wait longer."""

log = structlog.get_logger()
_postponed = Trouble("work is postponed")


def is_paused(resources: Resources, slug: str) -> bool:
    """Say whether a domain is paused, so that its notes wait."""
    return resources.state().decisions.paused_since(slug) is not None


def require_running(resources: Resources, slug: str) -> None:
    """Raise DomainPausedError for a paused domain; the ledger keeps its pending work."""
    if is_paused(resources, slug):
        raise DomainPausedError(f"the domain {slug} is paused; its notes are indexed when it is resumed")


@contextmanager
def job(task: Task, domain: str, **fields: Any) -> Iterator[dict[str, Any]]:
    """Log one line per job: what it did, how long it took, or why it failed; `workers.run` records the same."""
    started = time.monotonic()
    result: dict[str, Any] = dict(fields)
    task.doing = result
    with structlog.contextvars.bound_contextvars(task=task.name, task_id=task.id, domain=domain):
        try:
            yield result
        except (EverindexError, *QUEUE_ERRORS) as error:
            # These messages explain themselves, and the sweep finds the pending work within two seconds.
            result["postponed"] = str(error)
            _postponed.met(str(error))
        except Exception:
            log.exception("job failed", ms=round((time.monotonic() - started) * 1000), **result)
            raise
        else:
            _postponed.over()
            log.info("job done", ms=round((time.monotonic() - started) * 1000), **result)


# Report a note among the problems while its parsing takes long.


PARSING = "parsing"
"""The kind of these problems."""

REPORTED_SECONDS = 30.0
"""After how many seconds of parsing a note is reported."""


@contextmanager
def reports_of_parsing(problems: Problems) -> Iterator[Callable[[str, float], None]]:
    """Yield a function that takes a note's path and its seconds of parsing so far; reports end with the context."""
    reported: set[str] = set()

    def said(path: str, seconds: float) -> None:
        if seconds >= REPORTED_SECONDS and path not in reported:
            reported.add(path)
            problems.report(
                PARSING,
                path,
                f"{path!r} has taken more than {REPORTED_SECONDS:.0f} s to parse: it is found when that is done, and"
                " other notes do not wait for it; thousands of brackets take longest, so check whether it is a note",
            )

    try:
        yield said
    finally:
        for path in reported:
            problems.clear(PARSING, path)


def forget_reports(problems: Problems) -> None:
    """Clear the reports of a worker that died before it could do so."""
    for problem in problems.reported():
        if problem.kind == PARSING:
            problems.clear(PARSING, problem.subject)


# The memory of the worker process.


_M_ARENA_MAX = -8
"""As glibc's malloc.h calls it."""
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads that start from now on allocate from two arenas of glibc's, not from up to eight per core.

    An arena keeps much of the most that it ever held, and the threads that embed and read come and go.
    """
    with suppress(AttributeError, OSError):  # other C libraries have no arenas
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def return_memory() -> None:
    """Return to the system what is free but kept, in milliseconds; for the end of work that needed much."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
