"""The commands that make Everindex a service of the machine: started at login, or listening to other machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from service.commands.terminal import (
    Commands,
    folder_argument,
    json_option,
    options_given,
    out,
    port_option,
    print_json,
    settings_of,
    state_option,
    vault_option,
)

app = click.Group()
service = Commands("service", help="Start Everindex at login, or serve other machines.")
app.add_command(service)


@service.command()
@folder_argument
@vault_option
@state_option
@port_option
def install(folder: Path | None, vault: Path | None, state: Path | None, port: int | None) -> None:
    """Write systemd units for a vault, start them, and start them at every login (Linux)."""
    from pipelines.errors import AlreadyRunningError  # noqa: PLC0415
    from service import systemd  # noqa: PLC0415
    from service.client import running  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    given = options_given(folder or vault, state, port)
    resources = Resources(settings_of(given))
    resources.check_models()
    place = resources.place
    if running(place.state) and not systemd.unit_files(place.identity.vault_id):
        raise AlreadyRunningError(
            f"Everindex runs on {place.root}; stop it (Ctrl-C), then install the service"
        )
    wanted = systemd.Installed(place.identity.vault_id, place.root, place.state, resources.settings.port)
    for path in systemd.install(wanted):
        out.print(f"started, and started at login: {path}", markup=False, soft_wrap=True)
    _warn_of_environment(resources.settings, given)


def _warn_of_environment(settings: Any, given: dict[str, Any]) -> None:
    from queue_config.folders import config_file  # noqa: PLC0415
    from queue_config.settings import provenance  # noqa: PLC0415

    named = {"vault", "state", "port"}
    rows = provenance(settings, given)
    lost = [name for name, (_, origin) in rows.items() if origin == "environment" and name not in named]
    if lost:
        out.print(
            f"The service does not see this shell's environment: put {', '.join(lost)} into {config_file()}.",
            markup=False,
            soft_wrap=True,
        )


@service.command()
@vault_option
@state_option
@json_option
def status(vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Say which units of a vault run; exit code 1 where one does not."""
    from service.systemd import states  # noqa: PLC0415

    found = states(_vault_id(vault, state))
    if as_json:
        print_json(found)
    else:
        for name, said in found.items():
            out.print(f"{said:10}  {name}", markup=False, soft_wrap=True)
        if not found:
            out.print("no service is installed for this vault; `everindex service install` does")
    if set(found.values()) != {"active"}:
        sys.exit(1)


@service.command()
@vault_option
@state_option
def uninstall(vault: Path | None, state: Path | None) -> None:
    """Stop and remove the units of a vault; its notes and its state stay."""
    from service.systemd import uninstall as remove  # noqa: PLC0415

    removed = remove(_vault_id(vault, state))
    for path in removed:
        out.print(f"removed: {path}", markup=False, soft_wrap=True)
    if not removed:
        out.print("no service is installed for this vault")


def _vault_id(vault: Path | None, state: Path | None) -> str:
    from workers.place import open_place  # noqa: PLC0415

    settings = settings_of(options_given(vault, state))
    return open_place(settings.vault, settings.state).identity.vault_id


@service.command()
@click.option("--host", required=True, help="The IP address to listen on; 0.0.0.0: every IPv4 address.")
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    help="A host that clients name, with its port: notes.example:8741.",
)
@vault_option
@state_option
@port_option
def serve(
    host: str, names: tuple[str, ...], vault: Path | None, state: Path | None, port: int | None
) -> None:
    """Answer questions over HTTP on another address than 127.0.0.1: containers and other machines.

    Everybody who reaches that address needs the token, and gets it and the answers over plain HTTP.
    """
    from queue_config.logs import configure  # noqa: PLC0415
    from service.server import run_server  # noqa: PLC0415

    configure("query")
    run_server(settings_of(options_given(vault, state, port)), host, names)
