"""Who may ask: a token for programs, a cookie for a browser, and no foreign Host or Origin."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from queue_config.queue import write_secret

TOKEN_FILE = "token"  # noqa: S105 - the file's name
COOKIE = "everindex"
_CODE_SECONDS = 3600.0
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# For the one page that runs scripts: our own files, which ask only us.
SCRIPTED_POLICY = f"{_POLICY}; script-src 'self'; worker-src 'self'; connect-src 'self'"
# A worker obeys the policy that came with its script, not the page's: this lets it load our other scripts.
WORKER_POLICY = "default-src 'none'; script-src 'self'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def read_token(state: Path) -> str:
    """Return the vault's token, made at the first call (mode 0600)."""
    path = state / TOKEN_FILE
    if not path.exists():
        write_secret(path, secrets.token_urlsafe(32))
    return path.read_text().strip()


class Sessions:
    """The token that programs show, the cookie that a browser shows, and the one-time codes that give it."""

    def __init__(self, token: str) -> None:
        self._token = token
        # The cookie is not the token: a browser's store leaks more easily than a file of mode 0600.
        self._cookie = hmac.new(token.encode(), b"browser", hashlib.sha256).hexdigest()
        self._codes: dict[str, float] = {}

    def new_code(self) -> str:
        """Return a one-time code for `/open/<code>`, good for an hour."""
        code = secrets.token_urlsafe(16)
        now = time.monotonic()
        self._codes = {c: at for c, at in self._codes.items() if now - at < _CODE_SECONDS}
        self._codes[code] = now
        return code

    def redeem(self, code: str) -> str | None:
        """Take a one-time code and return the cookie's value, or None."""
        at = self._codes.pop(code, None)
        return self._cookie if at is not None and time.monotonic() - at < _CODE_SECONDS else None

    def knows(self, headers: Headers) -> bool:
        """Say whether a request shows the token or the cookie; compared in constant time."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        by_token = scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), self._token.encode())
        return by_token or hmac.compare_digest(cookie.encode(), self._cookie.encode())


class Guard:
    """ASGI middleware: Host and Origin must be the server's own; all but `/health` needs the token or cookie."""

    def __init__(self, app: ASGIApp, *, sessions: Sessions, port: int) -> None:
        self._app = app
        self._sessions = sessions
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 or 401, or pass the request on with our headers on its answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # there are none to serve
            return
        headers = Headers(scope=scope)
        if headers.get("host") not in self._hosts:
            response: ASGIApp = JSONResponse({"detail": "this Host is not served"}, 403)
        elif headers.get("origin", next(iter(self._origins))) not in self._origins:
            response = JSONResponse({"detail": "requests from this Origin are refused"}, 403)
        elif not (_is_open(scope["path"]) or self._sessions.knows(headers)):
            response = _unauthorised(headers)
        else:
            response = self._app
        await response(scope, receive, _with_headers(send))


def _is_open(path: str) -> bool:
    return path == "/health" or path.startswith("/open/")


def _unauthorised(headers: Headers) -> ASGIApp:
    if "text/html" in headers.get("accept", ""):
        return PlainTextResponse("Run `everindex open` to sign this browser in.\n", 401)
    return JSONResponse(
        {"detail": "a token is needed: Authorization: Bearer <the file `token` in the state folder>"},
        401,
        {"WWW-Authenticate": "Bearer"},
    )


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
