"""The running service of a vault: where it listens, and how a program talks to it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from pipelines.errors import NotRunningError, ServiceError
from pipelines.vault import write_atomic
from queue_config.settings import state_home
from service.security import read_token
from workers.resources import VAULT_FILE

SERVICE_FILE = "service.json"
_TIMEOUT = httpx.Timeout(150.0, connect=2.0)


@dataclass(frozen=True, slots=True)
class Service:
    """A running query worker: its vault, state folder, port and process."""

    root: Path
    state: Path
    port: int
    pid: int

    @property
    def address(self) -> str:
        """The address of its page."""
        return f"http://127.0.0.1:{self.port}"

    def call(self, method: str, path: str, more: Sequence[tuple[str, str]] = (), /, **named: Any) -> Any:
        """Ask and return the answer's JSON; `more` may give a parameter twice. Raises ServiceError."""
        params = [*named.items(), *more]
        headers = {"Authorization": f"Bearer {read_token(self.state)}"}
        try:
            # No proxy stands between this machine and itself, and no TLS: reading its certificates takes 20 ms.
            with httpx.Client(timeout=_TIMEOUT, trust_env=False, verify=False) as client:  # noqa: S501 - plain HTTP
                response = client.request(method, self.address + path, params=params, headers=headers)
        except httpx.HTTPError as error:
            raise ServiceError(
                f"the service at {self.address} did not answer ({error}); see its logs"
            ) from error
        try:
            body = response.json()
        except ValueError:
            body = {"detail": response.text[:200]}
        if response.is_error:
            raise ServiceError(
                f"the service at {self.address} answered {response.status_code}: {body['detail']}"
            )
        return body


def announce(state: Path, port: int) -> None:
    """Write down where this process serves the vault. Raises OSError."""
    write_atomic(state / SERVICE_FILE, json.dumps({"port": port, "pid": os.getpid()}).encode())


def withdraw(state: Path) -> None:
    """Take the note of `announce` back."""
    (state / SERVICE_FILE).unlink(missing_ok=True)


def running(state: Path) -> Service | None:
    """Return the service of a state folder, if one runs."""
    try:
        said = json.loads((state / SERVICE_FILE).read_text())
        root = Path(json.loads((state / VAULT_FILE).read_text())["root"])
        os.kill(said["pid"], 0)
    except (OSError, ValueError, KeyError):
        return None
    return Service(root, state, said["port"], said["pid"])


def only_running() -> Service:
    """Return the one service that runs on this machine. Raises NotRunningError where there is none, or several."""
    home = state_home()
    found = [s for folder in sorted(home.iterdir()) if (s := running(folder))] if home.is_dir() else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotRunningError(
            "no vault was given and none is running; name one with --vault, or start `everindex up`"
        )
    vaults = ", ".join(str(service.root) for service in found)
    raise NotRunningError(f"several vaults are running; choose one with --vault: {vaults}")
