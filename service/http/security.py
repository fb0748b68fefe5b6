"""Access control: a token for programs, a cookie for browsers, and no foreign Host, Origin or site."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.errors import problem
from service.http.message_pages import SIGNED_IN
from service.http.sessions import Sessions
from service.runtime.proof import PROOF_PATH

_LOOPBACK_NAMES = ("127.0.0.1", "localhost")
_DEFAULT_PORT = 80
# The style sheet and icon of the page that says how to sign in; neither is secret.
_OPEN = frozenset({"/health", "/static/style.css", "/static/icon.svg"})
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


class Guard:
    """ASGI middleware: Host and Origin must be the server's own; all but `/health` needs the token or cookie.

    The server's own are the loopback names with its port, and `names`: hosts exactly as a client sends them. The
    request's state has `signed_in`: whether the request had the token or cookie.
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
        signed_in = scope.setdefault("state", {})[SIGNED_IN] = self._sessions.knows(headers)
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            response: ASGIApp = problem(scope, 403, "this Host is not served")
        elif not self._origins.issuperset(headers.getlist("origin")):
            response = problem(scope, 403, "requests from this Origin are refused")
        elif not _from_here(scope["method"], headers):
            response = problem(scope, 403, "requests from another site are refused")
        elif scope["path"].startswith(PROOF_PATH):
            response = self._prove(scope)
        elif not (signed_in or _is_open(scope["path"])):
            response = _unauthorised(scope)
        elif scope["method"] not in _SAFE:
            response = self._refused_write(scope, headers) or self._app
        else:
            response = self._app
        await response(scope, receive, _with_headers(send))

    def _prove(self, scope: Scope) -> ASGIApp:
        """Prove to a program, before it sends the token, that this is its vault's service."""
        host, port = scope["server"]
        proven = self._sessions.prove(scope["path"].removeprefix(PROOF_PATH), host, port)
        if proven is None or scope["method"] != "GET":
            return problem(scope, 404, "a proof is asked for with GET, and a number of 32 hexadecimal digits")
        return PlainTextResponse(proven)

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
    return problem(scope, 401, detail, {"WWW-Authenticate": "Bearer"})


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
