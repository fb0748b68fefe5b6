"""What a worker answers to a request, by way of `state.db`."""

from __future__ import annotations

import time
from typing import Any

from fastapi import HTTPException

from pipelines.store.state import State

_LOOK_SECONDS = 0.02


def wait_for_answer(state: State, key: str, deadline: float) -> Any:
    """Return the fact that a worker says under a key, and forget it.

    Raises HTTPException 504 where none has said it by then (on the monotonic clock).
    """
    while time.monotonic() < deadline:
        answer = state.heard(key)
        if answer:
            state.forget(key)
            return answer.value
        time.sleep(_LOOK_SECONDS)
    raise HTTPException(504, "no worker took it; it waits on the queue (is a worker running?)")
