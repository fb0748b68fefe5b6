"""The commands that start Everindex at login."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from service.cli.console import out, print_json
from service.cli.options import (
    Commands,
    folder_argument,
    json_option,
    located,
    options_given,
    port_option,
    resources_of,
    settings_of,
    state_option,
    vault_option,
)

app = click.Group()
service = Commands("service", help="Start Everindex at login (Linux).")
app.add_command(service)


@service.command()
@folder_argument
@vault_option
@state_option
@port_option
def install(folder: Path | None, vault: Path | None, state: Path | None, port: int | None) -> None:
    """Write systemd units for a vault, start them, and start them at every login."""
    from pipelines.errors import AlreadyRunningError  # noqa: PLC0415
    from service.runtime import systemd  # noqa: PLC0415
    from service.runtime.client import running  # noqa: PLC0415

    given = options_given(folder or vault, state, port)
    resources = resources_of(given, create=True)
    resources.check_models()
    place = resources.place
    if running(place.state) and not systemd.unit_files(place.identity.vault_id):
        raise AlreadyRunningError(
            f"Everindex runs on {place.root}; stop it (Ctrl-C), then install the service"
        )
    wanted = systemd.Installed(place.identity.vault_id, place.root, place.state, resources.settings.port)
    for path in systemd.install(wanted):
        out.say(f"started now and at every login: {path}")
    units = systemd.unit_name(wanted.vault_id, "*")
    out.say(f"to stop, start or restart them, for example: systemctl --user restart '{units}'")
    _warn_of_environment(resources.settings, given)


def _warn_of_environment(settings: Any, given: dict[str, Any]) -> None:
    from queue_config.folders import config_file  # noqa: PLC0415
    from queue_config.settings import provenance  # noqa: PLC0415

    named = {"vault", "state", "port"}
    rows = provenance(settings, given)
    lost = [name for name, (_, origin) in rows.items() if origin == "environment" and name not in named]
    if lost:
        out.say(
            f"The service does not see this shell's environment: put {', '.join(lost)} into {config_file()}.",
        )


@service.command()
@folder_argument
@vault_option
@state_option
@json_option
def status(folder: Path | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Show which units of a vault run.

    Exit code 1 if one does not.
    """
    from service.runtime.systemd import states  # noqa: PLC0415

    found = states(_vault_id(folder or vault, state))
    if as_json:
        print_json(found)
    else:
        for name, said in found.items():
            out.say(f"{said:10}  {name}")
        if not found:
            out.print("no service is installed for this vault; `everindex service install` installs one")
    if set(found.values()) != {"active"}:
        sys.exit(1)


@service.command()
@folder_argument
@vault_option
@state_option
def uninstall(folder: Path | None, vault: Path | None, state: Path | None) -> None:
    """Stop and remove the units of a vault. Notes and index stay."""
    from service.runtime.systemd import uninstall as remove  # noqa: PLC0415

    removed = remove(_vault_id(folder or vault, state))
    for path in removed:
        out.say(f"removed: {path}")
    if not removed:
        out.print("no service is installed for this vault")


def _vault_id(vault: Path | None, state: Path | None) -> str:
    from workers.vault_paths import locate_vault  # noqa: PLC0415

    settings = settings_of(located(options_given(vault, state)))
    return locate_vault(settings.vault, settings.state, create=False).identity.vault_id
