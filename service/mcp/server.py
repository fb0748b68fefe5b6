"""Make the MCP server of a vault, for every transport and both eras of the protocol."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from service.mcp.library import Library, Request, asked_by, refused
from service.mcp.notices import Notices
from service.mcp.resources import Completions, Prompts, ResourceHandlers
from service.mcp.tools import FURTHER, INSTRUCTIONS, TOOLS

_LISTS = CacheHint(ttl_ms=300_000)


def make_server(library: Library) -> Server[Any]:
    """Return a server of a vault. Between requests it keeps only who watches what."""
    has_all = library.view.resources.settings.agents_have_all_tools
    tools = (*TOOLS, *FURTHER) if has_all else TOOLS
    by_name = {tool.name: tool for tool in tools}
    entries = [tool.entry() for tool in tools]
    resources, prompts, notices = ResourceHandlers(library), Prompts(), Notices(library)

    async def list_tools(_: Request, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=entries)

    async def call_tool(request: Request, called: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(called.name)
        if tool is None:
            raise refused(f"there is no tool {called.name[:100]!r}; tools/list names them")
        return await tool.call(asked_by(library, request), called.arguments or {})

    return Server(
        "everindex",
        version=version("everindex"),
        title="Everindex",
        instructions=INSTRUCTIONS,
        # What the notes say may change at any moment; the lists of tools and prompts only with an update.
        cache_hints={"tools/list": _LISTS, "prompts/list": _LISTS, "resources/templates/list": _LISTS},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
        on_completion=Completions(library).complete,
        on_subscriptions_listen=notices.listen,
        on_subscribe_resource=notices.subscribe,
        on_unsubscribe_resource=notices.unsubscribe,
    )


# The MCP server on standard input and output, in a process that reads the caches itself.


def serve_stdio(server: Server[Any]) -> None:
    """Serve until standard input ends; whatever else is printed goes to standard error."""
    anyio.run(_serve, server)


async def _serve(server: Server[Any]) -> None:
    options = server.create_initialization_options(NotificationOptions(resources_changed=True))
    async with stdio_server() as (received, sent):
        await server.run(received, sent, options)
