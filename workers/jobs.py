"""Common parts of all jobs: log what a job did, and postpone work on a paused domain."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from huey.api import Task

from pipelines.errors import DomainPausedError, EverindexError
from queue_config.logs import Trouble
from queue_config.queue import QUEUE_ERRORS
from workers.resources import Resources

SLICE_SECONDS = 1.0
"""About how long a job works before it hints at the rest, so that a save does not wait longer."""

log = structlog.get_logger()
_put_off = Trouble("work is postponed")


def is_paused(resources: Resources, slug: str) -> bool:
    """Say whether a domain is paused, so that its notes wait."""
    return resources.state().decisions.paused_since(slug) is not None


def require_running(resources: Resources, slug: str) -> None:
    """Raise DomainPausedError for a paused domain; the ledger keeps its pending work."""
    if is_paused(resources, slug):
        raise DomainPausedError(f"the domain {slug} is paused; its notes are indexed when it is resumed")


@contextmanager
def job(task: Task, domain: str, **fields: Any) -> Iterator[dict[str, Any]]:
    """Log one line per job: what it did, how long it took, or why it failed; `workers.signals` records the same."""
    started = time.monotonic()
    result: dict[str, Any] = dict(fields)
    task.doing = result
    with structlog.contextvars.bound_contextvars(task=task.name, task_id=task.id, domain=domain):
        try:
            yield result
        except (EverindexError, *QUEUE_ERRORS) as error:
            # These messages explain themselves, and the sweep finds the pending work within two seconds.
            result["postponed"] = str(error)
            _put_off.met(str(error))
        except Exception:
            log.exception("job failed", ms=round((time.monotonic() - started) * 1000), **result)
            raise
        else:
            _put_off.over()
            log.info("job done", ms=round((time.monotonic() - started) * 1000), **result)
