"""The commands by which agents ask: an MCP server on standard input and output, and its entry in their programs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.commands.agent_clients import CLIENTS, AgentClient
from service.commands.console import out
from service.commands.terminal import (
    Commands,
    located,
    options_given,
    questions_of,
    service_of,
    state_option,
    vault_of,
    vault_option,
)

if TYPE_CHECKING:
    from service.runtime.client import Service

app = click.Group()


@app.group(cls=Commands, invoke_without_command=True)
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


@mcp.command("install")
@click.option("--client", type=click.Choice(list(CLIENTS)), help="Only for this program.")
@click.option("--name", default="everindex", help="What the program calls the server.")
@click.option("--write", is_flag=True, help="Add the entry to the program's file; other entries stay.")
@vault_option
@state_option
def install(client: str | None, name: str, vault: Path | None, state: Path | None, *, write: bool) -> None:
    """Print, or write, the entry by which a program finds the vault."""
    if write and client is None:
        raise click.UsageError("--write changes one program's file: choose it with --client")
    from workers.vault_paths import locate_vault  # noqa: PLC0415 - help has to be instant

    place = located(options_given(vault, state))
    locate_vault(vault_of(place), place.get("state"), create=False)
    arguments = ["mcp"]
    for option in ("vault", "state"):
        if option in place:
            arguments += [f"--{option}", str(place[option].resolve())]
    command = shutil.which("everindex") or str(Path(sys.executable).with_name("everindex"))
    for one in [CLIENTS[client]] if client else CLIENTS.values():
        entry = one.entry(command, arguments)
        _install(one, name, entry, write=write)


def _install(client: AgentClient, name: str, entry: dict[str, Any], *, write: bool) -> None:
    file = client.path(Path.home())
    if write:
        client.write(file, name, entry)
        out.say(f"{file}: {client.title} starts this command: {' '.join([entry['command'], *entry['args']])}")
        return
    out.say(f"{client.title}: in {file}", "cyan")
    out.say(client.shown(name, entry))
    out.print()
