"""The MCP server over streamable HTTP, at `/mcp` of the query worker.

The server starts with the first request: the library takes a second to load, and most vaults are never asked by an
agent. Who may ask is decided before, by the same guard as for every other address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.types import Message, Receive, Scope, Send

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"


class Endpoint:
    """ASGI application that makes its server at the first request.

    `stopping` names the event, in the state of each request, that is set when the process is asked to stop.
    """

    def __init__(self, make: Callable[[], Server[Any]], stopping: str) -> None:
        self._make = make
        self._stopping = stopping
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._host: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a stream ends when the process is asked to stop."""
        manager = await self._started()
        stopping = scope.get("state", {}).get(self._stopping)
        answer = _ResponseStream(send)
        await manager.handle_request(scope, _until(stopping, receive) if stopping else receive, answer.send)
        await answer.end()

    async def _started(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                manager = await anyio.to_thread.run_sync(self._made)
                ready = asyncio.Event()
                self._host = asyncio.create_task(self._run(manager, ready))
                await ready.wait()
                self._manager = manager
        return self._manager

    def _made(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415 - see the module
        from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415

        # The guard has checked Host and Origin, with the names that the operator allows.
        checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        return StreamableHTTPSessionManager(self._make(), security_settings=checked)

    async def _run(self, manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
        async with manager.run():
            ready.set()
            await self._ending.wait()

    async def close(self) -> None:
        """End all sessions."""
        self._ending.set()
        if self._host:
            await self._host


class _ResponseStream:
    """An answer under way, which is ended in form: the library leaves a stream without an end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open = False

    async def send(self, message: Message) -> None:
        """Pass a message on."""
        self._open = bool(message["type"] == "http.response.start" or message.get("more_body"))
        await self._send(message)

    async def end(self) -> None:
        """Send the end of an answer that has none."""
        if self._open:
            await self._send({"type": "http.response.body", "body": b""})


def _until(stopping: asyncio.Event, receive: Receive) -> Receive:
    """Return what tells a request that its client left, also when the process is asked to stop."""

    async def either() -> Message:
        came, stops = asyncio.ensure_future(receive()), asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({came, stops}, return_when=asyncio.FIRST_COMPLETED)
            return came.result() if came.done() else {"type": "http.disconnect"}
        finally:
            came.cancel()
            stops.cancel()

    return either
