"""A request of a client: who sends it, in which session."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from service.mcp.library import Library

Request = ServerRequestContext[Any]
_SESSION = "mcp-session-id"


def asked_by(library: Library, request: Request) -> Library:
    """Return the library as the client of a request sees it, by the name in its envelope or handshake."""
    said = request.session.client_params
    return library.for_client(said.client_info.name if said and said.client_info else None)


def session_of(request: Request) -> str:
    """Return the name of the session of the earlier era in which a request came; standard streams have one."""
    headers = getattr(request.request, "headers", {})
    return str(headers.get(_SESSION, ""))


def refused(text: str, **data: str) -> MCPError:
    """Return the error for a request that cannot be answered as it is."""
    return MCPError(INVALID_PARAMS, text, data or None)
