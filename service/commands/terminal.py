"""What every command takes from the terminal and gives back: options, what these lead to, and the consoles."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from queue_config.settings import Settings
    from service.client import Service
    from service.questions import Questions

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

VaultOption = Annotated[Path | None, typer.Option("--vault", help="The folder of notes.")]
StateOption = Annotated[Path | None, typer.Option("--state", help="The folder for caches, queue and logs.")]
PortOption = Annotated[int | None, typer.Option("--port", help="The port on 127.0.0.1.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Supervised = Annotated[bool, typer.Option("--supervised", hidden=True)]


def options_given(vault: Path | None, state: Path | None, port: int | None = None) -> dict[str, Any]:
    """Return the settings that options named; the others keep their other sources."""
    named = {"vault": vault, "state": state, "port": port}
    return {name: value for name, value in named.items() if value is not None}


def settings_of(given: dict[str, Any]) -> Settings:
    """Return the settings; a state folder alone knows its vault."""
    from queue_config.settings import Settings  # noqa: PLC0415
    from workers.resources import VAULT_FILE  # noqa: PLC0415

    settings = Settings(**given)
    if settings.vault is None and settings.state is not None and (settings.state / VAULT_FILE).exists():
        root = json.loads((settings.state / VAULT_FILE).read_text())["root"]
        return Settings(**given, vault=Path(root))
    return settings


def service_of(given: dict[str, Any]) -> Service | None:
    """Return the running service of the named vault, or the only one that runs; None: the vault has none."""
    from service.client import only_running, running  # noqa: PLC0415
    from workers.resources import open_place  # noqa: PLC0415

    settings = settings_of(given)
    return only_running() if settings.vault is None else running(open_place(settings).state)


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
