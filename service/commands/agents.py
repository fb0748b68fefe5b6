"""The command by which agents ask: an MCP server on standard input and output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.commands.terminal import options_given, questions_of, service_of, state_option, vault_option

if TYPE_CHECKING:
    from service.runtime.client import Service

app = click.Group()


@app.group(invoke_without_command=True)
@vault_option
@state_option
@click.pass_context
def mcp(context: click.Context, vault: Path | None, state: Path | None) -> None:
    """Serve the vault to an agent: an MCP server on standard input and output."""
    if context.invoked_subcommand is None:
        given = options_given(vault, state)
        service = service_of(given)
        if service is None:
            _serve(given)
        else:
            _relay(service)


def _relay(service: Service) -> None:
    """Pass messages on to the running service, which holds the model and the index in memory."""
    from service.mcp.relay import Relay  # noqa: PLC0415
    from service.runtime.client import running  # noqa: PLC0415

    Relay(lambda: running(service.state), sys.stdout.buffer).run(sys.stdin.buffer)


def _serve(given: dict[str, Any]) -> None:
    """Answer from the caches in this process."""
    from service.mcp.factory import make_server  # noqa: PLC0415 - it loads the MCP library
    from service.mcp.library import Library  # noqa: PLC0415
    from service.mcp.stdio import serve_stdio  # noqa: PLC0415
    from service.usecases.titles import TitleSearch  # noqa: PLC0415
    from service.usecases.traversal import Traversal  # noqa: PLC0415

    questions = questions_of(given)
    serve_stdio(make_server(Library(questions, TitleSearch(questions), Traversal(questions))))
