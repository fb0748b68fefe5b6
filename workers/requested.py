"""The task that indexes one note at once, because someone waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from huey.api import Task

from pipelines.indexing.reconcile import check_paths
from pipelines.model import REQUEST_PRIORITY, SAVE_PRIORITY
from pipelines.state.state import LOOKED_AT
from pipelines.vault import files
from queue_config.inspect import is_among_next, waits
from queue_config.queue import Queue
from workers.jobs import job
from workers.resources import Resources

RequestNote = Callable[[str, str | None], None]
"""Enqueues the task: takes the note's path (its key), and the request's id, or None if no reply is awaited."""


def make_request_task(huey: Queue, resources: Resources, index_notes: Callable[..., Any]) -> RequestNote:
    """Register the task on a queue; `index_notes` enqueues the task of that name."""

    # It may run twice or late: it only compares a file with the ledger.
    @huey.task(name="index_note", priority=REQUEST_PRIORITY, context=True)  # type: ignore[untyped-decorator]
    def index_note(path: str, request: str | None, task: Task) -> None:
        with job(task, "*", path=path) as doing:
            quiet = _look_at(huey, resources, index_notes, path)
            doing.update(settled=quiet)
            if request is not None:
                resources.state().put(LOOKED_AT, quiet, request)

    def enqueue(path: str, request: str | None) -> None:
        huey.reopen_if_replaced()
        if request is not None or not is_among_next(huey, "index_note", REQUEST_PRIORITY, path):
            index_note(path, request)

    return enqueue


def _look_at(huey: Queue, resources: Resources, index_notes: Callable[..., Any], path: str) -> bool:
    """Record a note's change in the ledger, and enqueue it as a save; say whether the file was quiet.

    Raises VaultNotFoundError, CacheError.
    """
    resources.require_present()
    caches = resources.caches()
    reports = check_paths(
        resources.root,
        resources.registry(),
        caches,
        {files.path_on_disk(resources.root, path)},
        max_bytes=resources.settings.max_note_bytes,
        brake=resources.brake(),
    )
    huey.reopen_if_replaced()
    for slug, report in reports.items():
        ledger = caches[slug].ledger
        ledger.retry(path)
        # It may be one of many that a scan found, and one that is parked is tried again.
        if ledger.hasten(path) and not waits(huey, "index_notes", SAVE_PRIORITY, slug):
            index_notes(slug, [asdict(event) for event in report.events])
    return not any(report.unsettled for report in reports.values())
