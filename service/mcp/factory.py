"""Make the MCP server of a vault, for every transport and both eras of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from service.mcp.catalogue import INSTRUCTIONS, TOOLS
from service.mcp.library import Library
from service.mcp.tools import Tool

_LISTS_MS = 300_000

Request = ServerRequestContext[Any]


def make_server(library: Library, tools: Sequence[Tool] = TOOLS) -> Server[Any]:
    """Return a server of these tools; it keeps nothing between requests."""
    by_name = {tool.name: tool for tool in tools}
    entries = [tool.entry() for tool in tools]

    async def list_tools(_: Request, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=entries)

    async def call_tool(request: Request, called: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(called.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"there is no tool {called.name[:100]!r}; tools/list names them")
        return await tool.call(library.for_client(client_of(request)), called.arguments or {})

    return Server(
        "everindex",
        version=version("everindex"),
        title="Everindex",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=_LISTS_MS)},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def client_of(request: Request) -> str | None:
    """Return the name of the client that sends a request, from its envelope or from the session's handshake."""
    said = request.session.client_params
    return said.client_info.name if said and said.client_info else None
