"""Which program listens on a port. Loaded only where a port cannot be had."""

from __future__ import annotations

from contextlib import suppress

import psutil

from queue_config.folders import state_home
from service.runtime.client import Service, running


def service_on(port: int) -> Service | None:
    """Return the user's Everindex that listens on a port of this machine."""
    home = state_home()
    services = (running(folder) for folder in home.iterdir()) if home.is_dir() else ()
    return next((service for service in services if service and service.port == port), None)


def listener(port: int) -> str:
    """Name the program that listens on a TCP port of this machine, as far as the system tells."""
    if service := service_on(port):
        return f"Everindex on {service.root}"
    with suppress(psutil.Error):  # not every system lets a user ask
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
                return f"another program ({psutil.Process(one.pid).name()}, process {one.pid})"
    return "another program"
