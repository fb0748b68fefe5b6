"""The query worker's process: uvicorn on 127.0.0.1, or on the address that somebody named."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Sequence

import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from queue_config.settings import Settings
from service.client import announce, withdraw
from service.limits import LARGEST_HEAD
from service.listen import LOOPBACK, bind
from service.ops.events import STOPPING
from service.query import create_app
from workers.place import open_place

HEAD_SECONDS = 10.0
_STOP_SECONDS = 5
_IDLE_SECONDS = 5
# Below the 1,024 files that a process may usually open.
_MOST_CONNECTIONS = 500

log = structlog.get_logger()


def run_server(settings: Settings, host: str = LOOPBACK, names: Sequence[str] = ()) -> None:
    """Serve until SIGTERM or SIGINT; running requests are answered first.

    `names` are the hosts that it answers to besides the loopback ones, as clients send them: `notes.example:8741`.
    """
    state = open_place(settings.vault, settings.state).state
    server = bind(settings.port, host)
    port = server.getsockname()[1]
    config = uvicorn.Config(
        create_app(settings, port, names),
        http=ImpatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # What a client says of itself in X-Forwarded-… is not believed.
        proxy_headers=False,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    try:
        announce(state, port)
    except OSError as error:
        log.warning("the command line cannot find this service", reason=str(error))
    try:
        StreamEndingServer(config).run(sockets=[server])
    finally:
        withdraw(state)


class StreamEndingServer(uvicorn.Server):
    """Uvicorn's server, which tells event streams when it is asked to stop: it waits for them, and they never end."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Share with every request what says that the server stops."""
        self._stopping = self.lifespan.state[STOPPING] = asyncio.Event()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, and wait for the other answers."""
        self._stopping.set()
        await super().shutdown(sockets)


class ImpatientProtocol(H11Protocol):
    """Uvicorn's protocol, and an end for clients that dribble a request's head or do not take their answer.

    Uvicorn itself ends idle connections alone. A request that is being worked on has all the time that it needs.
    """

    _timer: asyncio.TimerHandle | None = None
    _unread: float = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Expect a request."""
        super().connection_made(transport)
        self._expect()

    def on_response_complete(self) -> None:
        """Expect the next request, and that the answer is taken."""
        super().on_response_complete()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
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
