"""Limits on requests: size, time, and how many are processed at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.errors import problem

LARGEST_BODY = 1_000_000
# The longest question, with twelve bytes per character in a URL, plus a browser's other headers.
LARGEST_HEAD = 65_536
BODY_SECONDS = 10.0
# Of a body that is too large at most this much is read, so that most clients can still read the answer.
_LARGEST_DRAINED = 16_000_000
_MOST_PARAMETERS = 1_000
_LONGEST_PATH = 4_096  # bytes: no file's name is longer (PATH_MAX)
_RETRY_AFTER = "2"

_FACTS = frozenset({"/health", "/ready", "/metrics"})
_AGENTS = "/mcp"
_CONTROL = frozenset(map(chr, [*range(0x20), 0x7F]))
_BREAKS = frozenset("\t\n\r")


@dataclass(slots=True)
class Lane:
    """Limits for one kind of requests: slots, queue length, waiting time. Kinds do not block each other."""

    slots: asyncio.Semaphore
    most_waiting: int
    patience: float
    waiting: int = 0

    async def enter(self) -> None:
        """Take a slot, which the caller has to release. Raises HTTPException 503."""
        if self.slots.locked() and self.waiting >= self.most_waiting:
            raise _busy()
        self.waiting += 1
        try:
            async with asyncio.timeout(self.patience):
                await self.slots.acquire()
        except TimeoutError:
            raise _busy() from None
        finally:
            self.waiting -= 1


_FACT_SLOTS, _READ_SLOTS, _WRITE_SLOTS, _AGENT_SLOTS = 4, 8, 4, 8
# Files and event streams take a thread for a moment while they hold no slot.
THREADS = _FACT_SLOTS + _READ_SLOTS + _WRITE_SLOTS + _AGENT_SLOTS + 4


class Limits:
    """ASGI middleware that answers 400, 408, 413, 431 or 503 itself, and reads the body before it passes it on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._facts = Lane(asyncio.Semaphore(_FACT_SLOTS), 64, 10.0)
        self._reads = Lane(asyncio.Semaphore(_READ_SLOTS), 64, 10.0)
        # Most of them wait for a worker, up to two minutes, and must not block searches.
        self._writes = Lane(asyncio.Semaphore(_WRITE_SLOTS), 64, 10.0)
        # Agents send every question as a write, and a client may begin with a hundred at once.
        self._agents = Lane(asyncio.Semaphore(_AGENT_SLOTS), 128, 10.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or process it when a slot is free."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            _check_head(scope)
            body = await _read_body(receive)
            if body is None:
                return  # the client is gone
            lane = self._lane(scope)
            await lane.enter()
        except HTTPException as refusal:
            answer = problem(scope, refusal.status_code, refusal.detail, refusal.headers)
            await answer(scope, receive, send)
            return
        await self._work(lane, scope, _replayed(body, receive), send)

    def _lane(self, scope: Scope) -> Lane:
        if scope["path"] in _FACTS:
            return self._facts
        if scope["path"] == _AGENTS:
            return self._agents
        return self._reads if scope["method"] in ("GET", "HEAD", "OPTIONS") else self._writes

    async def _work(self, lane: Lane, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application. Release the slot when the answer begins, because an event stream may last for days."""
        held = True

        def release() -> None:
            nonlocal held
            if held:
                held = False
                lane.slots.release()

        async def releasing(message: Message) -> None:
            if message["type"] == "http.response.start":
                release()
            await send(message)

        try:
            await self._app(scope, receive, releasing)
        finally:
            release()


def _busy() -> HTTPException:
    return HTTPException(503, "too many requests at once; try again soon", {"Retry-After": _RETRY_AFTER})


def _check_head(scope: Scope) -> None:
    size = len(scope.get("raw_path", b"")) + len(scope["query_string"])
    # The colon, blank and line end of each header.
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size > LARGEST_HEAD:
        raise HTTPException(431, f"the address and headers have more than {LARGEST_HEAD:,} bytes; send less")
    if not _CONTROL.isdisjoint(scope["path"]):
        raise HTTPException(
            400,
            "the path has a control character; remove it, or rename the file if its name has it: searches find such a"
            " file, but no address leads to it",
        )
    _check_path(scope["path"].removeprefix("/"))
    try:
        given = parse_qsl(
            scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS
        )
    except ValueError:
        raise HTTPException(
            400, f"the query has more than {_MOST_PARAMETERS:,} parameters; send fewer"
        ) from None
    for name, value in given:
        if not _CONTROL.isdisjoint(name) or not (_CONTROL - _BREAKS).isdisjoint(value):
            raise HTTPException(400, "a parameter has a control character; remove it")
        if name == "path":
            _check_path(value)


def _check_path(path: str) -> None:
    """Refuse a path that no note can have, because looking up a path may also read the disk."""
    if len(path.encode(errors="replace")) > _LONGEST_PATH:
        raise HTTPException(414, f"the path has more than {_LONGEST_PATH:,} bytes; no file's has")
    if path.startswith("/") or "//" in path or ".." in path.split("/"):
        raise HTTPException(
            400, "the path is not one within the vault; give it relative to the vault, without .."
        )


async def _read_body(receive: Receive) -> bytes | None:
    """Return the whole body, or None if the client left. Raises HTTPException 408 and 413."""
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                part = message.get("body", b"")
                size += len(part)
                if size <= LARGEST_BODY:
                    body += part
                if not message.get("more_body", False) or size > _LARGEST_DRAINED:
                    break
    except TimeoutError:
        raise HTTPException(
            408,
            f"the body did not come within {BODY_SECONDS:.0f} s; send it at once",
            {"Connection": "close"},
        ) from None
    if size > LARGEST_BODY:
        raise HTTPException(
            413, f"the body has more than {LARGEST_BODY:,} bytes; send less at once", {"Connection": "close"}
        )
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what gives the body once, and then whatever else comes: that the client left."""
    first = True

    async def replay() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay
