"""Workers' replies to requests, passed through `state.db`."""

from __future__ import annotations

import time
from typing import TypeVar

from pipelines.errors import WorkerTimeoutError
from pipelines.state.state import State, Subject

T = TypeVar("T")
_LOOK_SECONDS = 0.02


def wait_for_answer(state: State, subject: Subject[T], request: str, deadline: float) -> T:
    """Return a worker's reply to a request, and delete it.

    Raises WorkerTimeoutError if no worker has replied by the deadline (monotonic clock).
    """
    while time.monotonic() < deadline:
        answer = state.get(subject, request)
        if answer:
            state.delete(subject, request)
            return answer.value
        time.sleep(_LOOK_SECONDS)
    raise WorkerTimeoutError("no worker took it; it waits on the queue (is a worker running?)")
