"""The running service of a vault: where it listens, and how a program talks to it."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pipelines.atomic import write_atomic
from pipelines.errors import NotRunningError, ServiceError
from queue_config.folders import state_home
from service.tokens import read_token
from workers.place import VAULT_FILE

SERVICE_FILE = "service.json"
_PATIENCE_SECONDS = 150.0
_FIRST_ERROR = 400


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
        """Ask and return the answer's JSON; `more` may give a parameter twice; None is not sent.

        Raises ServiceError.
        """
        params = urlencode(
            [*((name, _text(value)) for name, value in named.items() if value is not None), *more]
        )
        # The standard library's client: a richer one takes longer to load than the answer to come.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_SECONDS)
        try:
            connection.request(
                method,
                f"{path}?{params}" if params else path,
                headers={"Authorization": f"Bearer {read_token(self.state)}"},
            )
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise ServiceError(
                f"the service at {self.address} did not answer ({error}); see its logs"
            ) from error
        finally:
            connection.close()
        try:
            body = json.loads(text)
        except ValueError:
            body = {"detail": text[:200]}
        if response.status >= _FIRST_ERROR:
            raise ServiceError(f"the service at {self.address} answered {response.status}: {body['detail']}")
        return body


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
