"""The commands by which agents ask: an MCP server on standard input and output, and its entry in their programs."""

from __future__ import annotations

import json
import re
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.errors import AlreadyThereError, ConfigurationError
from pipelines.vault.atomic import write_atomic
from service.cli.console import out
from service.cli.options import (
    Commands,
    located,
    options_given,
    service_of,
    state_option,
    vault_of,
    vault_option,
    view_of,
)

# The programs in which agents run: where each keeps its MCP servers, and the entry for a vault.


@dataclass(frozen=True, slots=True)
class AgentClient:
    """A program: its files of settings on Linux and macOS below the home folder, and the table of servers in them.

    `kind` is what its entry says besides the command. The form is JSON, or TOML for a file that ends so. `again` is
    how the program comes to read the file.
    """

    name: str
    title: str
    file: str
    table: str
    macos: str | None = None
    kind: tuple[tuple[str, Any], ...] = ()
    again: str = "restart"

    def path(self, home: Path) -> Path:
        """Return where the program keeps its servers."""
        return home / (self.macos if self.macos and sys.platform == "darwin" else self.file)

    @property
    def next_step(self) -> str:
        """Return what to do once the entry is in the file."""
        return f"Next: {self.again} {self.title}, then ask it to search your notes."

    def entry(self, command: str, arguments: list[str]) -> dict[str, Any]:
        """Return what the program needs to know of a server."""
        return {**dict(self.kind), "command": command, "args": arguments}

    def shown(self, server: str, entry: Mapping[str, Any]) -> str:
        """Return the entry as the file contains it."""
        if self.file.endswith(".toml"):
            return _toml(self.table, server, entry)
        return json.dumps({self.table: {server: dict(entry)}}, indent=2, ensure_ascii=False)

    def write(self, file: Path, server: str, entry: Mapping[str, Any]) -> None:
        """Add the entry to the file, and leave everything else as it is.

        Raises AlreadyThereError if there is a server of that name, ConfigurationError if the file cannot be changed
        without a risk to what it holds, OSError.
        """
        file = file.resolve()  # it may be a symbolic link
        there = file.exists()
        text = file.read_text(encoding="utf-8") if there else ""
        add = _with_toml if self.file.endswith(".toml") else _with_json
        changed = add(file, text, self.table, server, dict(entry))
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(file.stat().st_mode) if there else 0o600
        write_atomic(file, changed.encode())
        file.chmod(mode)


_TYPED = (("type", "stdio"),)
_IN_A_TERMINAL = "start a new session of"

CLIENTS = {
    one.name: one
    for one in (
        AgentClient(
            "claude-desktop",
            "Claude Desktop",
            ".config/Claude/claude_desktop_config.json",
            "mcpServers",
            macos="Library/Application Support/Claude/claude_desktop_config.json",
        ),
        AgentClient(
            "claude-code", "Claude Code", ".claude.json", "mcpServers", kind=_TYPED, again=_IN_A_TERMINAL
        ),
        AgentClient("cursor", "Cursor", ".cursor/mcp.json", "mcpServers"),
        AgentClient(
            "vscode",
            "VS Code",
            ".config/Code/User/mcp.json",
            "servers",
            macos="Library/Application Support/Code/User/mcp.json",
            kind=_TYPED,
        ),
        AgentClient("zed", "Zed", ".config/zed/settings.json", "context_servers"),
        AgentClient("codex", "Codex", ".codex/config.toml", "mcp_servers", again=_IN_A_TERMINAL),
        AgentClient("gemini", "Gemini CLI", ".gemini/settings.json", "mcpServers", again=_IN_A_TERMINAL),
        AgentClient("windsurf", "Windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"),
    )
}


def _with_json(file: Path, text: str, table: str, server: str, entry: dict[str, Any]) -> str:
    try:
        settings = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigurationError(
            f"{file} is not plain JSON ({error}), perhaps because of comments; add the entry by hand"
        ) from error
    servers = settings.setdefault(table, {}) if isinstance(settings, dict) else None
    if not isinstance(servers, dict):
        raise ConfigurationError(f"{file} has another form than expected; add the entry by hand")
    if server in servers:
        raise _there(file, server)
    servers[server] = entry
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _with_toml(file: Path, text: str, table: str, server: str, entry: dict[str, Any]) -> str:
    import tomllib  # noqa: PLC0415 - only this form needs it

    try:
        servers = tomllib.loads(text).get(table, {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} cannot be read as TOML ({error}); add the entry by hand") from error
    if not isinstance(servers, dict):
        raise ConfigurationError(f"{file} has another form than expected; add the entry by hand")
    if server in servers:
        raise _there(file, server)
    # A table at the end of a file leaves everything before it as it is, comments included.
    changed = "\n\n".join(filter(None, (text.rstrip(), _toml(table, server, entry)))) + "\n"
    try:
        tomllib.loads(changed)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"{file} cannot take a table at its end ({error}); add the entry by hand"
        ) from error
    return changed


def _there(file: Path, server: str) -> AlreadyThereError:
    return AlreadyThereError(
        f"{file} has a server called {server} already; change it there, or choose another --name"
    )


def _toml(table: str, server: str, entry: Mapping[str, Any]) -> str:
    # A JSON string or list of strings is one in TOML, too.
    key = server if re.fullmatch(r"[A-Za-z0-9_-]+", server) else json.dumps(server)
    lines = [f"{name} = {json.dumps(value)}" for name, value in entry.items()]
    return "\n".join([f"[{table}.{key}]", *lines])


if TYPE_CHECKING:
    from service.runtime.client import Service

app = click.Group()


@app.group(cls=Commands, invoke_without_command=True)
@vault_option
@state_option
@click.pass_context
def mcp(context: click.Context, vault: Path | None, state: Path | None) -> None:
    """Serve the vault to an agent: an MCP server on standard streams."""
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
    from service.mcp.library import Library  # noqa: PLC0415
    from service.mcp.server import make_server, serve_stdio  # noqa: PLC0415 - it loads the MCP library

    view = view_of(given)
    serve_stdio(make_server(Library(view)))


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
        out.say(client.next_step)
        return
    out.say(f"{client.title}: in {file}", "cyan")
    out.say(client.shown(name, entry))
    out.say(
        f"Nothing was written: paste it there, or add `--client {client.name} --write`."
        f" Then {client.again} {client.title}."
    )
    out.print()
