"""Make the MCP server of a vault, for every transport and both eras of the protocol."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from service.mcp.catalogue import FURTHER, INSTRUCTIONS, TOOLS
from service.mcp.completion import Completions
from service.mcp.library import Library
from service.mcp.notices import Notices
from service.mcp.prompts import Prompts
from service.mcp.requests import Request, asked_by, refused
from service.mcp.resources import Resources

_LISTS = CacheHint(ttl_ms=300_000)


def make_server(library: Library) -> Server[Any]:
    """Return a server of a vault. Between requests it keeps only who watches what."""
    has_all = library.questions.resources.settings.agents_have_all_tools
    tools = (*TOOLS, *FURTHER) if has_all else TOOLS
    by_name = {tool.name: tool for tool in tools}
    entries = [tool.entry() for tool in tools]
    resources, prompts, notices = Resources(library), Prompts(), Notices(library)

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
