"""The HTTP server: uvicorn, which also ends event streams, and disconnects slow and ambiguous clients."""

from __future__ import annotations

import asyncio
import math
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.http.limits import LARGEST_HEAD

STOPPING = "stopping"
"""In the state that the server shares with its requests: an asyncio.Event, set when it is asked to stop."""
LISTEN = "listen"
"""Likewise: serves one more bound socket, as a context manager (`StreamEndingServer.listening`)."""
HEAD_SECONDS = 10.0
_LENGTH = re.compile(rb"^content-length[ \t]*:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_ENCODING = re.compile(rb"^transfer-encoding[ \t]*:", re.IGNORECASE | re.MULTILINE)
_FOLDED = re.compile(rb"^[ \t]+[^ \t\r\n]", re.MULTILINE)
_STOP_SECONDS = 5
_IDLE_SECONDS = 5
# Below the usual limit of 1,024 open files per process.
_MOST_CONNECTIONS = 500


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application on a listening socket until SIGTERM or SIGINT; running requests are answered first."""
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # Do not trust X-Forwarded-… headers.
        proxy_headers=False,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    StreamEndingServer(config).run(sockets=[listener])


class StreamEndingServer(uvicorn.Server):
    """Uvicorn's server, which ends event streams on a stop: uvicorn waits for them, and they never end.

    It can also serve another address for a while.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Share the event that signals a stop, and what opens another address, with every request."""
        self._stopping = self.lifespan.state[STOPPING] = asyncio.Event()
        self.lifespan.state[LISTEN] = self.listening
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, and wait for the other answers."""
        self._stopping.set()
        await super().shutdown(sockets)

    @asynccontextmanager
    async def listening(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve a bound socket, too; at the end its connections are cut, whatever they are in the middle of."""
        address = listener.getsockname()
        protocol = partial(
            ImpatientProtocol,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        server = await asyncio.get_running_loop().create_server(protocol, sock=listener)
        self.servers.append(server)
        try:
            yield
        finally:
            self.servers.remove(server)
            server.close()
            for one in list(self.server_state.connections):
                if isinstance(one, ImpatientProtocol) and one.server == address:
                    one.transport.abort()


class UnambiguousConnection(h11.Connection):
    """h11's connection, which refuses a request whose end a proxy in front of us could interpret differently.

    Such a request is answered with an error, and the connection is closed
    (https://www.rfc-editor.org/rfc/rfc9112#section-6.1). h11 itself chooses one interpretation and goes on.
    """

    def next_event(self) -> Any:
        """Return the next event. Raises RemoteProtocolError."""
        before = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            head = before[: len(before) - len(self.trailing_data[0])]
            if _is_ambiguous(head):
                raise h11.RemoteProtocolError("the length of the body is ambiguous or malformed")
        return event


def _is_ambiguous(head: bytes) -> bool:
    lengths = _LENGTH.findall(head)
    odd = len(lengths) > 1 or (lengths and not lengths[0].strip().isdigit())
    both = lengths and _ENCODING.search(head)
    return bool(odd or both or _FOLDED.search(head))


class ImpatientProtocol(H11Protocol):
    """Uvicorn's protocol, which also disconnects clients that send a request's head slowly or do not read the answer.

    Uvicorn itself only closes idle connections. A request that is being processed has no time limit here.
    """

    _timer: asyncio.TimerHandle | None = None
    _unread: float = math.inf

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = UnambiguousConnection(h11.SERVER, LARGEST_HEAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the time limit for a request."""
        super().connection_made(transport)
        self._expect()

    def on_response_complete(self) -> None:
        """Start the time limits for the next request and for reading the answer."""
        super().on_response_complete()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limits."""
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def _expect(self, unread: float = math.inf) -> None:
        if self._timer:
            self._timer.cancel()
        self._unread = unread
        self._timer = self.loop.call_later(HEAD_SECONDS, self._look)

    def _look(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            return  # its end sets the next timer
        unread = self.transport.get_write_buffer_size()
        if 0 < unread < self._unread:
            self._expect(unread)
        else:
            self.transport.abort()
