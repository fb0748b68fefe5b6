"""The MCP server on standard input and output, in a process that reads the caches itself."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server


def serve_stdio(server: Server[Any]) -> None:
    """Serve until standard input ends; whatever else is printed goes to standard error."""
    anyio.run(_serve, server)


async def _serve(server: Server[Any]) -> None:
    options = server.create_initialization_options(NotificationOptions(resources_changed=True))
    async with stdio_server() as (received, sent):
        await server.run(received, sent, options)
