"""The running service of a vault: its address, and a client for it."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import http.client
import json
import os
import re
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from pipelines.errors import NotRunningError, ServiceError, StateError
from pipelines.vault.atomic import write_atomic
from queue_config.folders import state_home
from queue_config.secrets import TOKEN, NotPrivateError, read_secret
from service.runtime.refusals import refusal
from workers.vault_paths import VAULT_FILE, cannot_be_written

if TYPE_CHECKING:
    from pydantic import BaseModel

# How a service proves to a program that it is the vault's own, before the program sends it the token.
#
# Once a service has ended, any user's program can take its port. So the program first sends a random number, and
# the service answers with its HMAC under the token, which both know. The HMAC covers the address that the
# connection reached, so an attacker who listens elsewhere and relays the number to the service gets a useless
# proof.


LOOPBACK = "127.0.0.1"
"""The address at which a program reaches the service of its machine."""
PROOF_PATH = "/proof/"
_NONCE = re.compile(r"[0-9a-f]{32}")


def new_nonce() -> str:
    """Return a new random number."""
    return secrets.token_hex(16)


def proof(token: str, nonce: str, host: str, port: int) -> str | None:
    """Return the proof for a number by a service that knows the token, or None if the number is malformed."""
    if not _NONCE.fullmatch(nonce):
        return None
    text = f"everindex service {host}:{port} {nonce}"
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


# The token that programs show: a file of mode 0600 in the state folder, made at the first start.


def read_token(state: Path) -> str:
    """Return the vault's token, made at the first call (mode 0600). Raises StateError."""
    try:
        return read_secret(state, TOKEN)
    except NotPrivateError as error:
        raise StateError(str(error)) from error
    except OSError as error:
        raise cannot_be_written(state, error) from error


SERVICE_FILE = "service.json"
_PATIENCE_SECONDS = 150.0
_PROOF_SECONDS = 20.0
_LARGEST_PROOF = 4_096
_FIRST_ERROR = 400


@dataclass(frozen=True, slots=True)
class Service:
    """A running query worker: its vault, state folder, port and process."""

    root: Path
    state: Path
    port: int
    pid: int
    behind: ClassVar[None] = None
    """Why answers may lack what was saved last: with a service, that is for its answers to say."""

    @property
    def address(self) -> str:
        """The address of its page."""
        return f"http://{LOOPBACK}:{self.port}"

    def call(
        self,
        method: str,
        path: str,
        more: Sequence[tuple[str, str]] = (),
        body: BaseModel | None = None,
        /,
        **named: Any,
    ) -> Any:
        """Send a request and return the answer's JSON; `more` may repeat a parameter, and so does a tuple of values.

        None values are not sent. Raises ServiceError, or the error that `refusal` returns.
        """
        own = (
            (name, _text(one))
            for name, value in named.items()
            for one in (value if isinstance(value, tuple) else (value,))
            if one is not None
        )
        params = urlencode([*own, *more])
        connection, authorized = self.connect()
        try:
            connection.request(
                method,
                f"{path}?{params}" if params else path,
                *_sent(body, authorized),
            )
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()
        return self._understood(response.status, text)

    def events(self, path: str, body: BaseModel | None = None, /, **named: str) -> Iterator[dict[str, Any]]:
        """Send a POST request and yield what the service answers, one JSON object per line, for as long as it does.

        Raises ServiceError, or the error that `refusal` returns.
        """
        connection, authorized = self.connect()
        try:
            connection.request(
                "POST", f"{path}?{urlencode(named)}" if named else path, *_sent(body, authorized)
            )
            response = connection.getresponse()
            if response.status >= _FIRST_ERROR:
                self._understood(response.status, response.read().decode("utf-8", "replace"))
            while line := response.readline():
                if line.strip():
                    yield json.loads(line)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()

    def connect(self) -> tuple[http.client.HTTPConnection, dict[str, str]]:
        """Return a connection to the service, which has proved what it is, and the header with the token.

        Raises ServiceError.
        """
        if not os.path.lexists(self.state / TOKEN.name):
            raise ServiceError(
                f"the token of {self.address} is gone, so nothing can ask it; stop Everindex and start it again:"
                " that creates a new one"
            )
        token = read_token(self.state)
        # The standard library's client: any other takes longer to load than the answer takes.
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_PATIENCE_SECONDS)
        try:
            connection.connect()
            connection.auto_open = 0  # another connection may reach another server
            self._demand_proof(connection, token)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._silent(error) from error
        except ServiceError:
            connection.close()
            raise
        return connection, {"Authorization": f"Bearer {token}"}

    def _silent(self, error: Exception) -> ServiceError:
        return ServiceError(f"the service at {self.address} did not answer ({error}); see its logs")

    def _demand_proof(self, connection: http.client.HTTPConnection, token: str) -> None:
        """Raise ServiceError unless the server proves that it knows the token. Nothing else was sent before."""
        nonce = new_nonce()
        with _ended_after(_PROOF_SECONDS, connection):
            connection.request("GET", f"{PROOF_PATH}{nonce}")
            said = connection.getresponse().read(_LARGEST_PROOF)
        wanted = proof(token, nonce, LOOPBACK, self.port) or ""
        if not hmac.compare_digest(said, wanted.encode()):
            raise ServiceError(
                f"what listens at {self.address} is not the service of {self.root}, or the token was changed since "
                "it started; it was sent nothing. Stop Everindex and start it again, with another --port if this one"
                " cannot be had"
            )

    def _understood(self, status: int, text: str) -> Any:
        """Return the JSON of an answer. Raises ServiceError, or the error that `refusal` returns."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            if status < _FIRST_ERROR:
                raise ServiceError(f"the service at {self.address} did not answer with JSON") from None
            body = None
        if status >= _FIRST_ERROR:
            detail = body["detail"] if isinstance(body, dict) and "detail" in body else text[:200]
            raise refusal(self.address, status, detail, body.get("error") if isinstance(body, dict) else None)
        return body


@contextmanager
def _ended_after(seconds: float, connection: http.client.HTTPConnection) -> Iterator[None]:
    """Abort a connection that takes longer, even if it keeps sending slowly."""

    def end() -> None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _sent(body: BaseModel | None, authorized: dict[str, str]) -> tuple[bytes | None, dict[str, str]]:
    """Return the body of a request as it is sent, and its headers."""
    if body is None:
        return None, authorized
    return body.model_dump_json().encode(), authorized | {"Content-Type": "application/json"}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_complete(health: Mapping[str, Any]) -> bool:
    """Say whether an answer of `GET /health` means that every domain was compared with the disk and is indexed."""
    compared = health["last_reconcile"]
    if not compared or not health["domains"].keys() <= compared["found"].keys():
        return False  # a domain that is new has nothing pending yet
    return not health["pending"] and not health["vectors_pending"]


@contextmanager
def announced(state: Path, port: int, process: str) -> Iterator[None]:
    """Record where this process serves the vault, until the end of the context. Raises OSError.

    `process` is its `process_name`. The file is locked as long as the process lives.
    """
    path = state / SERVICE_FILE
    write_atomic(path, json.dumps({"port": port, "process": process}).encode())
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with suppress(OSError):  # another process may have written its own
                if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    path.unlink()


def running(state: Path) -> Service | None:
    """Return the service of a state folder, if one runs."""
    try:
        with (state / SERVICE_FILE).open("rb") as file:
            said = json.load(file)
            if not _is_locked(file):
                return None  # left by a process that was killed
        root = Path(json.loads((state / VAULT_FILE).read_text())["root"])
        pid = int(said["process"].rpartition(":")[2].partition("/")[0])
        return Service(root, state, int(said["port"]), pid)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _is_locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def only_running() -> Service:
    """Return the only service running on this machine. Raises NotRunningError if there is none or several."""
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
