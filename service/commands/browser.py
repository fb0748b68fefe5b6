"""Open a file in the user's browser, without output from the program that finds the browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from service.runtime.client import Service

# A program that finds no browser exits within this time; one that still runs has found one.
_PATIENCE_SECONDS = 3.0


def open_signed_in(service: Service, page: str = "/") -> bool:
    """Open one of our pages, signed in; return whether a browser could be started. Raises ServiceError.

    The code is passed in a file that only its owner can read, because every user can read the list of processes.
    """
    return open_file(Path(service.call("POST", "/session", page=True, to=page)["page"]))


def link(service: Service, page: str = "/") -> str:
    """Return a link to one of our pages that signs a browser in, once within a minute. Raises ServiceError."""
    code = service.call("POST", "/session")["code"]
    return f"{service.address}/open/{code}?to={page}" if page != "/" else f"{service.address}/open/{code}"


def open_file(file: Path) -> bool:
    """Open a file in the browser; return whether one could be started."""
    return open_address(file.as_uri())


def open_address(address: str) -> bool:
    """Open an address with the program that the system has for it; return whether one could be started."""
    opener = "open" if sys.platform == "darwin" else "xdg-open"
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell, and an address that we made
            [opener, address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        return process.wait(_PATIENCE_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return True
