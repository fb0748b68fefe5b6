"""The query worker's socket. Imports little: `up` binds the port before it loads anything."""

from __future__ import annotations

import errno
import ipaddress
import socket

from pipelines.errors import ConfigurationError
from service.runtime.client import LOOPBACK


def bind(port: int, host: str = LOOPBACK) -> socket.socket:
    """Return a socket on an IP address. Raises ConfigurationError when the port is in use, or it is no address."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET  # noqa: PLR2004
    except ValueError:
        raise ConfigurationError(
            f"{host!r} is no IP address to listen on; 0.0.0.0 means all of IPv4"
        ) from None
    # asyncio disables Nagle's algorithm only if the protocol is given; else each answer waits 40 ms.
    server = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((host, port))
    except OSError as error:
        server.close()
        reason = f"used by {_listener(port)}" if error.errno == errno.EADDRINUSE else error.strerror
        raise ConfigurationError(
            f"port {port} on {host} cannot be used ({reason}); choose another with --port"
        ) from error
    return server


def _listener(port: int) -> str:
    from service.runtime.listeners import listener  # noqa: PLC0415 - only an error needs it

    return listener(port)
