"""Every error as a problem document (RFC 9457): `application/problem+json`."""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic import BaseModel, Field
from redis.exceptions import RedisError
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from pipelines.errors import (
    CannotUndoError,
    ChatOffError,
    ContextsFileError,
    DomainPausedError,
    EverindexError,
    FilterError,
    NotARegularFileError,
    NotComparableError,
    NoteNotFoundError,
    NoteTagsError,
    NoteTooLargeError,
    NotFoundError,
    OverruledError,
    ScopesFileError,
    TaxonomyError,
    UnsafePathError,
    WorkerTimeoutError,
)
from queue_config.queue import QueueUnavailableError

# Style sheets, scripts and the icon: their addresses change with their bytes, so that a browser may keep them.


FILES = Path(__file__).parents[1] / "web" / "static"
"""The folder of the files that pages load."""
_WORKER = "graph-layout.js"
# A web worker follows the policy of its script, not of the page: this lets it load our other scripts.
_WORKER_POLICY = "default-src 'none'; script-src 'self'"
_DIGITS = 12


def static_address(name: str) -> str:
    """Return the address of a file, with a digest of its bytes."""
    return f"/static/{name}?v={_digest(name)}"


class Static(StaticFiles):
    """Serves the files. A browser may keep one that it asked for by its present digest for a year."""

    def __init__(self) -> None:
        super().__init__(directory=FILES)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file; the map's worker with the policy that it needs."""
        response = await super().get_response(path, scope)
        if path == _WORKER:
            response.headers["Content-Security-Policy"] = _WORKER_POLICY
        if QueryParams(scope["query_string"]).get("v") == _digest(path):
            response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
        return response


def _digest(name: str) -> str:
    path = FILES / name
    stat = path.stat()
    return _digest_of(path, stat.st_mtime_ns, stat.st_size)


@lru_cache
def _digest_of(path: Path, _modified: int, _size: int) -> str:
    """Return the digest of a file's bytes. The other arguments make a changed file another one."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]


# Pages with a single message: an error, or that this browser is signed in.


SIGNED_IN = "signed_in"
"""In a request's state: whether the request had the token or a session's cookie."""
AT_PHONE = "at_phone"
"""Likewise: whether it came to the address at which `everindex open --phone` lets phones in."""

LOADER = PackageLoader(__package__)
"""Finds the templates of this folder."""

_NOT_SIGNED_IN = "Run `everindex open` in a terminal on this machine: it opens this page, signed in."
NEW_PHONE_CODE = (
    "End `everindex open --phone` on the machine with the notes, run it again, and scan the new code."
)
_TITLES = {
    401: "This browser is not signed in",
    404: "Not found",
    500: "Something went wrong",
    503: "Not available just now",
}
_UNINDEXED = "Not in the index"
_NO_PAGE = "There is no page at this address."
_COMMAND = re.compile(r"`([^`]+)`")


def wants_page(scope: Scope) -> bool:
    """Say whether a request was made by a browser, for a person."""
    return "text/html" in Headers(scope=scope).get("accept", "")


def error_page(scope: Scope, status: int, detail: Any) -> str:
    """Return an error as a page; `detail` is a sentence, or the answer of `why` for a path."""
    signed_in, at_phone = (bool(scope.get("state", {}).get(name)) for name in (SIGNED_IN, AT_PHONE))
    note, is_known = None, False
    if status == HTTPStatus.UNAUTHORIZED:
        detail = NEW_PHONE_CODE if at_phone else _NOT_SIGNED_IN
    elif isinstance(detail, Mapping):
        reason, note = detail.get("reason"), detail.get("renamed_to")
        is_known = detail.get("state") != "unknown"
        detail = f"{detail.get('path')} is {detail.get('state')}{f': {reason}' if reason else ''}"
    elif status == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = _NO_PAGE  # no route: the framework says no more
    title = _UNINDEXED if is_known else _TITLES.get(status, HTTPStatus(status).phrase)
    takes_token = status == HTTPStatus.UNAUTHORIZED and not at_phone
    return message_page(title, _shown(str(detail)), signed_in=signed_in, note=note, takes_token=takes_token)


def message_page(
    title: str,
    text: str,
    *,
    signed_in: bool,
    goes_to: str | None = None,
    note: str | None = None,
    takes_token: bool = False,
) -> str:
    """Return a page of a title and a sentence; the browser goes on to `goes_to` at once.

    Where the sentence ends with the path of `note`, the path is a link to the note's page. With `takes_token`, the
    page has a field for the token.
    """
    before = text.removesuffix(note) if note else text
    facts = {"text": before, "note": note if before != text else None}
    template = _templates().get_template("message.html")
    return template.render(
        title=title, signed_in=signed_in, goes_to=goes_to, takes_token=takes_token, **facts
    )


def _shown(text: str) -> str:
    # A URL may hold a lone surrogate, which is not valid UTF-8.
    return text.encode("utf-8", "replace").decode()


def _with_commands(text: str) -> Markup:
    """Return a text as HTML, with text between backticks as code."""
    parts = _COMMAND.split(text)
    return Markup().join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


@lru_cache(maxsize=1)
def _templates() -> Environment:
    templates = Environment(loader=LOADER, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    templates.filters |= {"commands": _with_commands, "quote": quote}
    templates.globals["static"] = static_address
    return templates


MEDIA_TYPE = "application/problem+json"
_RETRY = {"Retry-After": "2"}
_STATUS: dict[type[EverindexError], int] = {
    NotFoundError: 404,
    ChatOffError: 409,
    CannotUndoError: 409,
    NotComparableError: 409,
    ContextsFileError: 409,
    ScopesFileError: 409,
    DomainPausedError: 409,
    OverruledError: 409,
    NotARegularFileError: 409,
    NoteTagsError: 409,
    TaxonomyError: 409,
    UnsafePathError: 409,
    NoteTooLargeError: 413,
    FilterError: 422,
    WorkerTimeoutError: 504,
}
"""The HTTP status of each use case error; any other error is a server error (500, 503)."""


class FieldProblem(BaseModel):
    """The problem with one part of a request."""

    field: str = Field(description="the part of the request", examples=["query.k"])
    message: str


class Problem(BaseModel):
    """An error: what happened, to what, and what to do."""

    type: str = Field(description="always `about:blank`: `status` says which kind of problem it is")
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str | dict[str, Any] = Field(
        description="what happened and what to do, as text; for an unknown path, the answer of `GET /why/<path>`"
    )
    instance: str = Field(description="the requested path", examples=["/node/no/such.md"])
    error: str | None = Field(
        None,
        description="the class of the error in Everindex's Python library",
        examples=["NoteNotFoundError"],
    )
    errors: list[FieldProblem] | None = Field(None, description="one entry per invalid part of the request")


def problem(
    scope: Scope, status: int, detail: Any, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """Return the answer to a failed request, as a page for browsers; `more` are its additional members."""
    if wants_page(scope):
        return HTMLResponse(error_page(scope, status, detail), status, {**(headers or {}), "Vary": "Accept"})
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": quote(scope["path"], errors="replace"),
        **more,
    }
    # In ASCII: a body may hold a lone surrogate, which is repeated here and is not valid UTF-8.
    return Response(json.dumps(body), status, headers, media_type=MEDIA_TYPE)


def add_problems(app: FastAPI) -> None:
    """Answer every error of the application with a problem document. Call this after the routes are added."""
    for error, handler in {
        HTTPException: _refused,
        RequestValidationError: _not_understood,
        EverindexError: _failed,
        **dict.fromkeys(_STATUS, _as_its_status),
        NoteNotFoundError: _no_such_note,
        QueueUnavailableError: _no_queue,
        RedisError: _no_queue,
        OSError: _by_the_system,
        OverflowError: _too_large,
        Exception: _unexpected,
    }.items():
        app.add_exception_handler(error, handler)  # type: ignore[arg-type]  # each takes the error it is for


async def _refused(request: Request, error: HTTPException) -> Response:
    return problem(request.scope, error.status_code, error.detail, error.headers)


async def _not_understood(request: Request, error: RequestValidationError) -> Response:
    errors = [{"field": ".".join(map(str, one["loc"])), "message": str(one["msg"])} for one in error.errors()]
    detail = "; ".join(f"{one['field']}: {one['message']}" for one in errors)
    return problem(request.scope, 422, detail, errors=errors)


async def _failed(request: Request, error: EverindexError) -> Response:
    named = type(error).__name__
    if error.retry_helps:
        return problem(request.scope, 503, str(error), _RETRY, error=named)
    return problem(request.scope, 500, str(error), error=named)


async def _as_its_status(request: Request, error: EverindexError) -> Response:
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    return problem(request.scope, status, str(error), error=type(error).__name__)


async def _no_such_note(request: Request, error: NoteNotFoundError) -> Response:
    return problem(request.scope, 404, dict(error.why), error=type(error).__name__)


async def _no_queue(request: Request, error: Exception) -> Response:
    return problem(
        request.scope, 503, f"the queue cannot be reached ({error}); try again when it can", _RETRY
    )


async def _too_large(request: Request, _: OverflowError) -> Response:
    # SQLite's integers have 64 bits; a client may send any.
    return problem(request.scope, 422, "a number is too large; numbers have at most 64 bits")


async def _by_the_system(request: Request, error: OSError) -> Response:
    if error.errno == errno.ENAMETOOLONG:
        return problem(request.scope, 414, "a part of the path is longer than a file's name can be")
    raise error


async def _unexpected(request: Request, _: Exception) -> Response:
    # The error may contain a path or a note's text, so it is only logged.
    return problem(request.scope, 500, "an unexpected error; the query worker's log says which")
