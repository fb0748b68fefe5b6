"""Index one note at once, and say when a search finds it.

A worker looks at the file and records its change in the ledger, as the watcher does; it is indexed like any save.
"""

from __future__ import annotations

import secrets
import threading
import time
from functools import cached_property

from pipelines.errors import WorkerTimeoutError
from pipelines.model import Domain
from pipelines.state.state import LOOKED_AT
from service.usecases.audience import OWNER, Audience
from service.usecases.health import storage_problem
from service.usecases.note_file import find_note_file
from service.usecases.schemas.changes import IndexAnswer, IndexState
from service.usecases.search import SearchService
from service.usecases.setbacks import paused_because
from service.usecases.worker_replies import wait_for_answer
from workers.tasks import RequestNote, make_request_task, make_tasks

PATIENCE_SECONDS = 30.0
"""How long a request waits for its note."""

_MOST_WAITERS = 2
"""How many requests may wait in a process: each holds a slot, and HTTP's writes and an agent's tools have few."""

_WAITERS = threading.BoundedSemaphore(_MOST_WAITERS)
_LOOK_SECONDS = 0.02
_NO_WORKER = "no worker runs; it is indexed when one does (`everindex up`)"
_QUEUED = "it waits on the queue"
_CROWDED = f"it waits on the queue; {_MOST_WAITERS} requests wait for an answer already, so this one does not"
_LATE = "a worker has not finished it yet; `GET /why/<path>` says when it has"
_WRITTEN_TO = "it is being written to; it is indexed when it is quiet"


class IndexRequests:
    """Requests to index a note. The first one opens a queue of its own."""

    def __init__(self, questions: SearchService, patience: float = PATIENCE_SECONDS) -> None:
        self._questions = questions
        self._resources = questions.resources
        self._patience = patience

    def index(self, path: str, *, wait: bool, audience: Audience = OWNER) -> IndexAnswer:
        """Have a worker index a note now; with `wait`, answer when it is findable, or after `PATIENCE_SECONDS`.

        A request beyond `_MOST_WAITERS` is answered at once. Raises NoteNotFoundError for a path that is no note or
        that the asker does not see, VaultNotFoundError, QueueUnavailableError.
        """
        began = time.monotonic()
        file = find_note_file(self._questions, path, audience)
        domain, key = file.domain, file.key
        state, reason = self._requested(domain, key, audience, began + self._patience if wait else None)
        if state in ("indexed", "parked") and not audience.sees(domain.slug, key):
            raise self._questions.no_such_note(key, audience)
        return IndexAnswer(
            path=key,
            domain=domain.slug,
            state=state,
            findable=state == "indexed" and key not in domain.configuration,
            reason=reason,
            took_ms=round((time.monotonic() - began) * 1000, 1),
        )

    def _requested(
        self, domain: Domain, key: str, audience: Audience, until: float | None
    ) -> tuple[IndexState, str | None]:
        """Enqueue a request; wait for its outcome until a moment of the monotonic clock, or (None) not at all."""
        if until is None or not _WAITERS.acquire(blocking=False):
            self._enqueue(key, None)
            return "queued", self._held_up(domain) or (_QUEUED if until is None else _CROWDED)
        try:
            request = secrets.token_hex(8)
            self._enqueue(key, request)
            return self._outcome(domain, key, request, audience, until)
        finally:
            _WAITERS.release()

    @cached_property
    def _enqueue(self) -> RequestNote:
        queue = self._resources.queue()
        tasks = make_tasks(queue, self._resources)
        return make_request_task(queue, self._resources, tasks.index_notes)

    def _outcome(
        self, domain: Domain, key: str, request: str, audience: Audience, until: float
    ) -> tuple[IndexState, str | None]:
        """Wait for a worker until a moment of the monotonic clock; return how far the note is, and why no further."""
        if held_up := self._held_up(domain):
            return "queued", held_up
        try:
            is_quiet = wait_for_answer(self._resources.state(), LOOKED_AT, request, until)
        except WorkerTimeoutError:
            return "queued", _LATE
        while True:
            row = self._resources.reader(domain).ledger.row(key)
            if row is None or row.wanted_hash is None:
                raise self._questions.no_such_note(key, audience)
            if row.parked:
                return "parked", row.error
            if not is_quiet:
                return "pending", _WRITTEN_TO
            if not row.pending:
                return "indexed", "its vectors are pending" if row.vectors_pending else None
            if time.monotonic() >= until:
                # The error may be of a version that this asker must not see.
                known = row.error if audience.sees(domain.slug, key) else None
                return "pending", known or self._held_up(domain) or _LATE
            time.sleep(_LOOK_SECONDS)

    def _held_up(self, domain: Domain) -> str | None:
        """Return why no worker takes the note now, or None."""
        resources = self._resources
        if paused := paused_because(resources, domain.slug):
            return paused
        return storage_problem(resources.place.state) or (
            None if any(resources.workers().values()) else _NO_WORKER
        )
