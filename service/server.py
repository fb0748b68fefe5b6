"""The query worker's process: uvicorn on 127.0.0.1."""

from __future__ import annotations

import socket

import structlog
import uvicorn

from pipelines.errors import ConfigurationError
from queue_config.settings import Settings
from service.client import announce, withdraw
from service.query import create_app
from workers.resources import open_place

_STOP_SECONDS = 5

log = structlog.get_logger()


def bind(port: int) -> socket.socket:
    """Return a socket on 127.0.0.1. Raises ConfigurationError when the port is in use."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", port))
    except OSError as error:
        server.close()
        raise ConfigurationError(
            f"port {port} on 127.0.0.1 cannot be used ({error.strerror}); choose another with --port"
        ) from error
    return server


def run_server(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; running requests are answered first."""
    state = open_place(settings).state
    server = bind(settings.port)
    port = server.getsockname()[1]
    config = uvicorn.Config(
        create_app(settings, port), log_config=None, access_log=False, timeout_graceful_shutdown=_STOP_SECONDS
    )
    try:
        announce(state, port)
    except OSError as error:
        log.warning("the command line cannot find this service", reason=str(error))
    try:
        uvicorn.Server(config).run(sockets=[server])
    finally:
        withdraw(state)
