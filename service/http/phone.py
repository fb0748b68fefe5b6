"""One more address, in the local network, for as long as `everindex open --phone` asks for it."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import time
from contextlib import suppress

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pipelines.errors import ConfigurationError
from service.http.auth import Phone, Sessions
from service.http.errors import problem
from service.http.server import LISTEN, STOPPING
from service.runtime.sockets import bind, check_local

IDLE_SECONDS = 1_800.0
_LOOK_SECONDS = 0.5
# The command stops waiting for a service that is silent for longer.
_SIGN_OF_LIFE_SECONDS = 20.0


def add_phone(app: FastAPI, sessions: Sessions) -> None:
    """Add the route."""

    @app.post("/phone", include_in_schema=False, response_model=None)
    async def phone(request: Request, host: str) -> Response:
        """Listen at `host`, too, until the program that asked is gone; the answer says what happens, line by line.

        The address is open only as long as this answer is being sent: however the command ends, the system closes
        its connection, and nothing is left that would have to be taken back.
        """
        if not sessions.knows_program(request.headers):
            return problem(request.scope, 403, "a phone is let in by a program that shows the token")
        if sessions.phone.address:
            return problem(
                request.scope,
                409,
                "a phone is being let in already: end that `everindex open --phone` with Ctrl-C, and try again",
            )
        check_local(host)
        return _Open(sessions.phone, _bind(request.scope["server"][1], host))


def _bind(port: int, host: str) -> socket.socket:
    """Return a socket. Raises ConfigurationError."""
    try:
        return bind(port, host)
    except ConfigurationError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"something listens at {host}:{port} already. If the service was started with --host, open its page"
                " on the phone, and sign in there with what `everindex token` prints"
            ) from error
        raise


class _Open(Response):
    """The answer: a line of JSON for each event, an empty one as a sign of life, and last why it ended."""

    media_type = "application/x-ndjson"

    def __init__(self, phone: Phone, listener: socket.socket) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._phone, self._listener = phone, listener
        # Already here, so that a second command is refused.
        self._code = phone.open(listener.getsockname())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Listen, and send what happens."""
        try:
            async with scope["state"][LISTEN](self._listener):
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )
                await self._follow(scope["state"][STOPPING], receive, send)
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._phone.close()
            self._listener.close()

    async def _follow(self, stopping: asyncio.Event, receive: Receive, send: Send) -> None:
        async def say(**event: str) -> None:
            line = json.dumps(event) if event else ""
            await send({"type": "http.response.body", "body": f"{line}\n".encode(), "more_body": True})

        await say(code=self._code)
        gone = asyncio.create_task(_left(receive))
        said, signed_in = time.monotonic(), False
        try:
            while not gone.done() and not (why := self._why_over(stopping)):
                if time.monotonic() - said > _SIGN_OF_LIFE_SECONDS:
                    said = time.monotonic()
                    await say()
                if not signed_in and self._phone.has_sessions():
                    signed_in = True
                    await say(signed_in=f"{IDLE_SECONDS / 60:.0f} minutes")
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(gone), _LOOK_SECONDS)
            if not gone.done():
                await say(over=why)
        finally:
            gone.cancel()

    def _why_over(self, stopping: asyncio.Event) -> str:
        """Return why the address is closed now, or nothing."""
        if stopping.is_set():
            return "Everindex stops"
        if not self._phone.waits() and not self._phone.has_sessions():
            return "no phone is signed in, and the code is no longer valid"
        if time.monotonic() - self._phone.last_seen > IDLE_SECONDS:
            return f"no page was asked for in {IDLE_SECONDS / 60:.0f} minutes"
        return ""


async def _left(receive: Receive) -> None:
    """Wait until the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
