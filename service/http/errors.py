"""Every error as a problem document (RFC 9457): `application/problem+json`."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from pipelines.errors import (
    CannotUndoError,
    ContextsFileError,
    DomainPausedError,
    EverindexError,
    FilterError,
    NotARegularFileError,
    NotComparableError,
    NoteNotFoundError,
    NoteTooLargeError,
    NotFoundError,
    OverruledError,
    ScopesFileError,
    UnsafePathError,
    WorkerTimeoutError,
)
from queue_config.queue import QueueUnavailableError
from service.http.message_pages import error_page, wants_page

MEDIA_TYPE = "application/problem+json"
_RETRY = {"Retry-After": "2"}
_STATUS: dict[type[EverindexError], int] = {
    NotFoundError: 404,
    CannotUndoError: 409,
    NotComparableError: 409,
    ContextsFileError: 409,
    ScopesFileError: 409,
    DomainPausedError: 409,
    OverruledError: 409,
    NotARegularFileError: 409,
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
    if error.retry_helps:
        return problem(request.scope, 503, str(error), _RETRY)
    return problem(request.scope, 500, str(error))


async def _as_its_status(request: Request, error: EverindexError) -> Response:
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    return problem(request.scope, status, str(error))


async def _no_such_note(request: Request, error: NoteNotFoundError) -> Response:
    return problem(request.scope, 404, dict(error.why))


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
