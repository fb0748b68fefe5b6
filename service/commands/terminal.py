"""What every command takes from the terminal and gives back: options, what these lead to, and the consoles."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from pipelines.errors import ConfigurationError

if TYPE_CHECKING:
    from queue_config.settings import Settings
    from service.client import Service
    from service.questions import Questions

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

PATH = click.Path(path_type=Path)

folder_argument = click.argument(
    "folder", required=False, type=PATH, metavar="[VAULT]", help="The folder of notes."
)
vault_option = click.option("--vault", type=PATH, help="The folder of notes.")
state_option = click.option("--state", type=PATH, help="The folder for caches, queue and logs.")
domain_option = click.option("--domain", help="Ask this domain alone.")
port_option = click.option("--port", type=int, help="The port on 127.0.0.1.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
supervised_option = click.option("--supervised", is_flag=True, hidden=True)


class Commands(click.Group):
    """A group whose help lists its commands as they were defined, each with all that it says of itself."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click passes it
        """Write the list; click's own is sorted by name, and cut where the line ends."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, (one.help or "").partition("\n\n")[0]) for name, one in self.commands.items()]
            )


def options_given(vault: Path | None, state: Path | None, port: int | None = None) -> dict[str, Any]:
    """Return the settings that options named; the others keep their other sources."""
    named = {"vault": vault, "state": state, "port": port}
    return {name: value for name, value in named.items() if value is not None}


def settings_of(given: dict[str, Any]) -> Settings:
    """Return the settings; a state folder alone knows its vault. Raises ConfigurationError."""
    from pydantic import ValidationError  # noqa: PLC0415

    from queue_config.settings import Settings, SettingsFileError, explain  # noqa: PLC0415
    from workers.place import VAULT_FILE  # noqa: PLC0415

    try:
        settings = Settings(**given)
        if settings.vault is None and settings.state is not None and (settings.state / VAULT_FILE).exists():
            root = json.loads((settings.state / VAULT_FILE).read_text())["root"]
            return Settings(**given, vault=Path(root))
    except ValidationError as error:
        raise ConfigurationError(f"settings: {explain(error)}") from error
    except SettingsFileError as error:
        raise ConfigurationError(str(error)) from error
    return settings


def service_of(given: dict[str, Any]) -> Service | None:
    """Return the running service of the named vault, or the only one that runs; None: the vault has none."""
    from service.client import only_running, running  # noqa: PLC0415
    from workers.place import open_place  # noqa: PLC0415

    vault, state = _place_given(given)
    return only_running() if vault is None else running(open_place(vault, state).state)


def _place_given(given: dict[str, Any]) -> tuple[Path | None, Path | None]:
    """Return the vault and the state folder that are named; reading the settings takes longer than a search."""
    from queue_config.folders import config_file  # noqa: PLC0415

    vault, state = given.get("vault"), given.get("state")
    if vault is None or state is None:
        says_more = config_file().exists() or any(
            name.upper().startswith("EVERINDEX_") for name in os.environ
        )
        if says_more or (state is not None and vault is None):
            settings = settings_of(given)
            return settings.vault, settings.state
    return vault, state


def need_service(given: dict[str, Any]) -> Service:
    """Return the running service, or raise the error that says how to start it."""
    from pipelines.errors import NotRunningError  # noqa: PLC0415

    service = service_of(given)
    if service is None:
        raise NotRunningError("Everindex does not run on this vault; start it with `everindex up VAULT`")
    return service


def questions_of(given: dict[str, Any]) -> Questions:
    """Answer without a service: open the caches here."""
    from service.questions import Questions  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    return Questions(Resources(settings_of(given)), wait_for_model=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, for programs."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
