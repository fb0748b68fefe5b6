"""The query worker's socket, and this machine's address in its network.

Imports little: `up` binds the port before it loads anything.
"""

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


# A packet to this address (of the block that is reserved for examples) would leave by the usual way; none is sent.
_ELSEWHERE = ("198.51.100.1", 9)


def lan_address() -> str:
    """Return this machine's IPv4 address in its local network. Raises ConfigurationError if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
            found = str(probe.getsockname()[0])
        except OSError:
            raise ConfigurationError(
                "this machine is in no network just now: connect it to the one that the phone is in, and try again"
            ) from None
    check_local(found)
    return found


def check_local(address: str) -> None:
    """Raise ConfigurationError unless this is an IPv4 address of a private network, such as 192.168.0.7."""
    try:
        ip = ipaddress.IPv4Address(address)
    except ValueError:
        raise ConfigurationError(f"{address!r} is no IPv4 address") from None
    if ip.is_loopback or ip.is_link_local or ip.is_unspecified or not ip.is_private:
        raise ConfigurationError(
            f"{address} is not an address of a private network, so the page is not opened there"
        )


def _listener(port: int) -> str:
    from service.runtime.listeners import listener  # noqa: PLC0415 - only an error needs it

    return listener(port)
