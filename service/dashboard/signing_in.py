"""The routes that sign a browser in and out."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.requests import Request
from starlette.responses import Response

from service.http.errors import problem
from service.http.message_pages import SIGNED_IN, message_page, wants_page
from service.http.sessions import CODE_SECONDS, SESSION_SECONDS, Sessions

_PAGES = ("/", "/graph", "/ops")


def add_signing_in(app: FastAPI, sessions: Sessions) -> None:
    """Add the routes."""

    @app.post("/session", include_in_schema=False, response_model=None)
    def session(request: Request, to: str = "/", *, page: bool = False) -> dict[str, str] | Response:
        """Give a program that has the token a one-time code, or the file of a page that opens with one."""
        if not sessions.knows_program(request.headers):
            return problem(request.scope, 403, "a code is given to programs that show the token")
        return {"page": str(sessions.new_page(_page_named(to)))} if page else {"code": sessions.new_code()}

    @app.get("/open/{code}", include_in_schema=False)
    def open_browser(request: Request, code: str, to: str = "/") -> Response:
        """Sign a browser in with a one-time code, and show it one of our pages.

        The page goes on by itself. A redirect would belong to the site or file that led here, and a browser sends a
        strict cookie only where our own page leads to the next.
        """
        cookie = sessions.redeem(code)
        if cookie is None:
            return _no_code(request)
        text = message_page("Signed in", "Everindex opens.", signed_in=False, goes_to=_page_named(to))
        response = HTMLResponse(text)
        response.set_cookie(
            sessions.cookie, cookie, max_age=SESSION_SECONDS, httponly=True, samesite="strict"
        )
        return response

    @app.post("/sign-out", include_in_schema=False)
    def sign_out(request: Request, response: Response) -> dict[str, bool]:
        """End the session of the browser that asks."""
        sessions.sign_out(request.headers)
        response.delete_cookie(sessions.cookie, httponly=True, samesite="strict")
        return {"signed_in": False}


def _no_code(request: Request) -> Response:
    """Answer a link that was used or is too old: its user needs another link."""
    why = f"A link signs in once, within {CODE_SECONDS:.0f} seconds. Run `everindex open` for a new one."
    if not wants_page(request.scope):
        return problem(request.scope, 401, f"this link was used, or is too old. {why}")
    signed_in = bool(request.scope.get("state", {}).get(SIGNED_IN))
    page = message_page("This link was used, or is too old", why, signed_in=signed_in)
    return HTMLResponse(page, 401, {"Vary": "Accept"})


def _page_named(path: str) -> str:
    return path if path in _PAGES else "/"
