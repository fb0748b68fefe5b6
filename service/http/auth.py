"""Access control: a token for programs, a cookie for browsers, and no foreign Host, Origin or site."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from pipelines.vault.atomic import write_atomic
from queue_config.secrets import write_secret
from service.http.errors import AT_PHONE, SIGNED_IN, problem
from service.runtime.client import PROOF_PATH, proof
from workers.vault_paths import cannot_be_written

# Authentication state: the token, the sessions of browsers, and the one-time codes that start a session.


SESSION_SECONDS = 7 * 24 * 3600
CODE_SECONDS = 60.0
PHONE_CODE_SECONDS = 120.0
# A code for a phone may have to be typed: no letter that resembles a digit, and 49 bits, of which a network can try
# some millions in two minutes.
_TYPED = "abcdefghjkmnpqrstuvwxyz23456789"
_TYPED_LENGTH = 10
_MOST_SESSIONS = 1_000
# Of wrong tokens typed into the sign-in page: more are refused unread until the first is a minute old.
MOST_TRIES = 5
TRIES_SECONDS = 60.0
# The browser opens a file, so that the process list shows the file's path but not the code.
_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Everindex</title>
<meta http-equiv="refresh" content="0; url={address}">
<p><a href="{address}">Open Everindex</a></p>
</html>"""


@dataclass(frozen=True, slots=True)
class Code:
    """A one-time code: when it was created (`time.monotonic`), and the file that opens it in a browser."""

    made_at: float
    page: Path | None


class Phone:
    """Lets phones in at one more address of this machine, while `everindex open --phone` runs.

    Only a session that began at this address counts there, it counts nowhere else, and it ends with the command. The
    network is not encrypted: what was overheard on it must be worth nothing afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: set[str] = set()
        self._code = ""
        self._code_until = 0.0
        self.address: tuple[str, int] | None = None
        self.last_seen = 0.0
        """When a signed-in request came last, or the address was opened (`time.monotonic`)."""

    def open(self, address: tuple[str, int]) -> str:
        """Let phones in at an address; return the code for `/open/<code>`, valid once, for two minutes."""
        with self._lock:
            self.address, self.last_seen = address, time.monotonic()
            self._code = "".join(secrets.choice(_TYPED) for _ in range(_TYPED_LENGTH))
            self._code_until = self.last_seen + PHONE_CODE_SECONDS
            return self._code

    def close(self) -> None:
        """Let no phone in, and end the sessions of those that were."""
        with self._lock:
            self.address, self._code = None, ""
            self._sessions.clear()

    def waits(self) -> bool:
        """Return whether the code can still be used."""
        return bool(self._code) and time.monotonic() < self._code_until

    def has_sessions(self) -> bool:
        """Return whether a phone is signed in."""
        return bool(self._sessions)

    def redeem(self, code: str, hashed: str) -> bool:
        """Take the code, and remember the session with this HMAC; return whether the code was right."""
        with self._lock:
            if not (self.waits() and hmac.compare_digest(code.encode(), self._code.encode())):
                return False
            self._code, self.last_seen = "", time.monotonic()
            self._sessions.add(hashed)
        return True

    def knows(self, shown: set[str]) -> bool:
        """Return whether one of these is the HMAC of a session that began here."""
        with self._lock:
            if not shown & self._sessions:
                return False
            self.last_seen = time.monotonic()
        return True

    def sign_out(self, shown: set[str]) -> None:
        """End sessions."""
        with self._lock:
            self._sessions -= shown


class Sessions:
    """The token, sessions and codes of a vault's service on a port.

    A session is a random number in a cookie. The file `sessions-<port>.json` in the state folder holds its HMAC under
    the token, and when the session ends. The file is reread when it changes.
    """

    def __init__(self, token: str, state: Path, vault_id: str, port: int) -> None:
        self._token = token
        self._state = state
        self._address = f"http://127.0.0.1:{port}"
        # Browsers send a cookie to every port of a host: the name keeps the sessions of two vaults apart.
        self.cookie = f"everindex-{vault_id}-{port}"
        self._file = state / f"sessions-{port}.json"
        self._pages = f"open-{port}-"
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, int], dict[str, float]] | None = None
        self._codes: dict[str, Code] = {}
        self._wrong: deque[float] = deque(maxlen=MOST_TRIES)
        self.phone = Phone()
        for page in state.glob(f"{self._pages}*.html"):  # left by a process that was killed
            page.unlink(missing_ok=True)

    def new_code(self) -> str:
        """Return a one-time code for `/open/<code>`, valid for a minute."""
        code = secrets.token_urlsafe(16)
        with self._lock:
            self._codes[code] = Code(time.monotonic(), None)
        return code

    def new_page(self, path: str = "/") -> Path:
        """Return a file that opens one of our pages in a browser, signed in, once within a minute.

        Raises StateError.
        """
        code, page = secrets.token_urlsafe(16), self._state / f"{self._pages}{secrets.token_hex(8)}.html"
        try:
            write_secret(page, _PAGE.format(address=f"{self._address}/open/{code}?to={path}"))
        except OSError as error:
            raise cannot_be_written(self._state, error) from error
        with self._lock:
            self._codes[code] = Code(time.monotonic(), page)
        timer = threading.Timer(CODE_SECONDS, self._forget_codes)
        timer.daemon = True
        timer.start()
        return page

    def redeem(self, code: str) -> str | None:
        """Take a one-time code and return the value of a new session's cookie, or None. Raises StateError."""
        self._forget_codes()
        with self._lock:
            found = self._codes.pop(code, None)
        if found is None:
            return None
        if found.page:
            found.page.unlink(missing_ok=True)
        return self._new_session()

    def redeem_at_phone(self, code: str) -> str | None:
        """Take the code of a phone and return the value of a new session's cookie, or None."""
        value = secrets.token_urlsafe(32)
        return value if self.phone.redeem(code, self._hashed(value)) else None

    def redeem_token(self, given: str) -> str | None:
        """Return the value of a new session's cookie for the token, or None for another, or while it is slowed down.

        Raises StateError.
        """
        with self._lock:
            if self._is_slowed():
                return None
            if not hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
                self._wrong.append(time.monotonic())
                return None
        return self._new_session()

    def is_slowed(self) -> bool:
        """Return whether the next token is refused unread, because the last ones were wrong."""
        with self._lock:
            return self._is_slowed()

    def _is_slowed(self) -> bool:
        return len(self._wrong) == MOST_TRIES and time.monotonic() - self._wrong[0] < TRIES_SECONDS

    def _new_session(self) -> str:
        value = secrets.token_urlsafe(32)
        with self._lock:
            self._write(self._read() | {self._hashed(value): time.time() + SESSION_SECONDS})
        return value

    def _forget_codes(self) -> None:
        """Delete expired codes and their files."""
        now = time.monotonic()
        with self._lock:
            old = [code for code, made in self._codes.items() if now - made.made_at >= CODE_SECONDS]
            for code in old:
                page = self._codes.pop(code).page
                if page:
                    page.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete the files of unused codes; the sessions stay."""
        with self._lock:
            for code in self._codes.values():
                if code.page:
                    code.page.unlink(missing_ok=True)
            self._codes.clear()

    def sign_out(self, headers: Headers) -> None:
        """End the session of a request; its cookie is no longer valid. Raises StateError."""
        self.phone.sign_out(self._shown(headers))
        with self._lock:
            known = self._read()
            lasting = {one: end for one, end in known.items() if one not in self._shown(headers)}
            if lasting != known:
                self._write(lasting)

    def knows(self, headers: Headers) -> bool:
        """Return whether a request has the token or the cookie of a session."""
        return self.knows_program(headers) or self._knows_browser(headers)

    def knows_phone(self, headers: Headers) -> bool:
        """Return whether a request has the cookie of a session that began at the address of phones."""
        return self.phone.knows(self._shown(headers))

    def _knows_browser(self, headers: Headers) -> bool:
        shown = self._shown(headers)
        if not shown:
            return False
        now = time.time()
        with self._lock:
            known = self._read()
        return any(known.get(one, 0.0) > now for one in shown)

    def knows_program(self, headers: Headers) -> bool:
        """Return whether a request has the token, compared in constant time."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), self._token.encode())

    def prove(self, nonce: str, host: str, port: int) -> str | None:
        """Return the proof that this service knows the token, or None for an invalid nonce."""
        return proof(self._token, nonce, host, port)

    def _shown(self, headers: Headers) -> set[str]:
        """Return the HMAC of each cookie with our name; a server on another port may have set one, too."""
        cookies = (one.partition("=") for header in headers.getlist("cookie") for one in header.split(";"))
        return {self._hashed(value.strip()) for name, _, value in cookies if name.strip() == self.cookie}

    def _hashed(self, value: str) -> str:
        # Keyed with the token, so that a new token ends every session.
        return hmac.new(self._token.encode(), b"session " + value.encode(), hashlib.sha256).hexdigest()

    def _read(self) -> dict[str, float]:
        """Return when each session ends (seconds since 1970); an unreadable file ends all."""
        try:
            info = self._file.stat()
            version = info.st_ino, info.st_mtime_ns
            if self._known is None or self._known[0] != version:
                said = json.loads(self._file.read_bytes())
                self._known = version, {str(name): float(end) for name, end in said.items()}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return {}
        return dict(self._known[1])

    def _write(self, sessions: dict[str, float]) -> None:
        now = time.time()
        lasting = sorted((end, name) for name, end in sessions.items() if end > now)[-_MOST_SESSIONS:]
        try:
            write_atomic(self._file, json.dumps({name: end for end, name in lasting}).encode())
        except OSError as error:
            raise cannot_be_written(self._state, error) from error


_LOOPBACK_NAMES = ("127.0.0.1", "localhost")
_DEFAULT_PORT = 80
# The style sheet and icon of the page that says how to sign in; neither is secret.
_OPEN = frozenset({"/health", "/static/style.css", "/static/icon.svg"})
SIGN_IN = "/sign-in"
"""Takes the form of the sign-in page, the only write that is no JSON: no script runs there."""
_SITE = "sec-fetch-site"
_SAFE = ("GET", "HEAD", "OPTIONS")
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# For pages that run scripts: only our own files, which may only connect to this server.
SCRIPTED_POLICY = f"{_POLICY}; script-src 'self'; worker-src 'self'; connect-src 'self'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


# With "no-referrer" a browser sends the form with `Origin: null`, which says nothing about where it comes from.
FORM_HEADERS = {"Referrer-Policy": "same-origin"}


class Guard:
    """ASGI middleware: Host and Origin must be the server's own; all but `/health` needs the token or cookie.

    The server's own are the loopback names with its port, and `names`: hosts exactly as a client sends them. At the
    address of phones it is that address alone, and only a phone's cookie counts there. The request's state has
    `signed_in`: whether the request had the token or cookie; and `at_phone`: whether it came to that address.
    """

    def __init__(self, app: ASGIApp, *, sessions: Sessions, port: int, names: Sequence[str] = ()) -> None:
        self._app = app
        self._sessions = sessions
        own = {f"{name}:{port}" for name in _LOOPBACK_NAMES}
        if port == _DEFAULT_PORT:  # clients leave it out
            own |= set(_LOOPBACK_NAMES)
        self._hosts = own | set(names)
        # A service with other host names may be behind a TLS proxy.
        self._origins = {f"http://{host}" for host in self._hosts} | {f"https://{name}" for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 403 or 415, or pass the request on with our headers on its answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # there are no web sockets to serve
            return
        headers = Headers(scope=scope)
        hosts, origins = self._own_names(scope, headers)
        signed_in = scope["state"][SIGNED_IN]
        if headers.getlist("host") not in [[host] for host in hosts]:
            response: ASGIApp = problem(scope, 403, "this Host is not served")
        elif not origins.issuperset(headers.getlist("origin")):
            response = problem(scope, 403, "requests from this Origin are refused")
        elif not _from_here(scope["method"], headers):
            response = problem(scope, 403, "requests from another site are refused")
        elif scope["path"].startswith(PROOF_PATH):
            response = self._prove(scope)
        elif scope["path"] == SIGN_IN:
            response = self._refused_token(scope, headers) or self._app
        elif not (signed_in or _is_open(scope["path"])):
            response = _unauthorised(scope)
        elif scope["method"] not in _SAFE:
            response = self._refused_write(scope, headers) or self._app
        else:
            response = self._app
        await response(scope, receive, _with_headers(send))

    def _own_names(self, scope: Scope, headers: Headers) -> tuple[set[str], set[str]]:
        """Return the Host and Origin that a request may have; note in its state where it came, and if signed in."""
        phone = self._sessions.phone.address
        at_phone = phone is not None and tuple(scope["server"]) == phone
        signed_in = self._sessions.knows_phone(headers) if at_phone else self._sessions.knows(headers)
        scope.setdefault("state", {}).update({SIGNED_IN: signed_in, AT_PHONE: at_phone})
        if phone is None or not at_phone:
            return self._hosts, self._origins
        address, port = phone
        hosts = {f"{address}:{port}", *([address] if port == _DEFAULT_PORT else [])}
        return hosts, {f"http://{host}" for host in hosts}

    def _prove(self, scope: Scope) -> ASGIApp:
        """Prove to a program, before it sends the token, that this is its vault's service."""
        host, port = scope["server"]
        proven = self._sessions.prove(scope["path"].removeprefix(PROOF_PATH), host, port)
        if proven is None or scope["method"] != "GET":
            return problem(scope, 404, "a proof is asked for with GET, and a number of 32 hexadecimal digits")
        return PlainTextResponse(proven)

    def _refused_token(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        """Return a refusal for a token that a form sends, else None: it comes from our own page, by a browser."""
        if scope["state"][AT_PHONE]:
            return problem(
                scope, 403, "the token is not taken here: what is sent to this address is not encrypted"
            )
        if scope["method"] != "POST":
            return problem(scope, 405, "the token is sent with POST", {"Allow": "POST"})
        if "origin" not in headers:
            return problem(
                scope, 403, "the token is taken from this service's own page; its Origin is missing"
            )
        return None

    def _refused_write(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        """Return a refusal for a write that another site could have made the browser send, else None.

        Another site's page cannot send JSON without a CORS preflight, which we never answer.
        """
        by_browser = _SITE in headers or "origin" in headers or not self._sessions.knows_program(headers)
        if by_browser and _SITE not in headers and "origin" not in headers:
            return problem(scope, 403, "a write with the cookie needs Sec-Fetch-Site or Origin")
        if (by_browser or _has_body(headers)) and not _is_json(headers):
            return problem(scope, 415, "a write is sent as JSON; set Content-Type: application/json")
        return None


def _from_here(method: str, headers: Headers) -> bool:
    """Return whether a request comes from our own page, from a program, or from a user who opens a URL."""
    if {"same-origin", "none"}.issuperset(headers.getlist(_SITE)):
        return True
    return (
        method == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _is_json(headers: Headers) -> bool:
    kinds = [kind.partition(";")[0].strip().lower() for kind in headers.getlist("content-type")]
    return kinds == ["application/json"]


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith("/open/")


def _unauthorised(scope: Scope) -> ASGIApp:
    detail = "a token is needed: Authorization: Bearer <the file `token` in the state folder>"
    return problem(scope, 401, detail, {"WWW-Authenticate": "Bearer", **FORM_HEADERS})


def _with_headers(send: Send) -> Send:
    async def wrapped(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}  # type: ignore[attr-defined]
            message["headers"] = [
                *message["headers"],  # type: ignore[misc]
                *(
                    (name.lower().encode(), value.encode())
                    for name, value in _HEADERS.items()
                    if name.lower().encode() not in present
                ),
            ]
        await send(message)

    return wrapped  # type: ignore[return-value]  # starlette types a message as a mutable mapping
