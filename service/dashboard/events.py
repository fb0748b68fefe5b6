"""Updates for open pages, as server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import anyio.to_thread
import structlog
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.http.errors import problem

EVERY_SECONDS = 2.0
MOST_LISTENERS = 16

log = structlog.get_logger()


class Pulse:
    """Facts that are computed at most once per `EVERY_SECONDS`, however many clients ask; thread-safe."""

    def __init__(
        self, find: Callable[[], dict[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._until = -1.0

    def now(self) -> dict[str, Any]:
        """Return the facts, never older than `EVERY_SECONDS`."""
        with self._lock:
            if self._clock() >= self._until:
                self._found = self._find()
                self._until = self._clock() + EVERY_SECONDS
            return self._found


class Listeners:
    """The pages that listen; beyond `MOST_LISTENERS`, a page is asked to retry."""

    def __init__(self, pulse: Pulse, every: float = EVERY_SECONDS) -> None:
        self.pulse = pulse
        self.count = 0
        self._every = every

    async def messages(self, stopping: asyncio.Event) -> AsyncIterator[str]:
        """Yield the facts as events, until the server stops: it waits for the answers that are under way."""
        yield f"retry: {EVERY_SECONDS * 1000:.0f}\n\n"
        while not stopping.is_set():
            try:
                facts = await anyio.to_thread.run_sync(self.pulse.now)
                yield f"data: {json.dumps(facts)}\n\n"
            except Exception:
                # The page goes on showing what it has; a comment keeps the connection, and finds one that is gone.
                log.exception("the dashboard's facts cannot be found just now")
                yield ": nothing new\n\n"
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), self._every)


class EventStream(StreamingResponse):
    """The answer to one listener, counted for as long as it is sent."""

    def __init__(self, listeners: Listeners, stopping: asyncio.Event) -> None:
        super().__init__(listeners.messages(stopping), media_type="text/event-stream")
        self._listeners = listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the listener disconnects or the server stops; 503 if too many listen."""
        if self._listeners.count >= MOST_LISTENERS:
            refused = problem(
                scope, 503, "too many pages listen; reload to see what is new", {"Retry-After": "10"}
            )
            await refused(scope, receive, send)
            return
        self._listeners.count += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listeners.count -= 1
