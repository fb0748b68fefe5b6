"""The command that looks for what is wrong with an installation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.errors import NotRunningError, VaultIdError
from service.commands.console import out, print_json
from service.commands.terminal import (
    folder_argument,
    json_option,
    located,
    options_given,
    port_option,
    settings_of,
    state_option,
    vault_option,
)
from service.usecases.phrases import counted

if TYPE_CHECKING:
    from service.usecases.doctor.finding import Finding, Installation

app = click.Group()
_STYLES = {"ok": "green", "warning": "yellow", "failure": "red"}


@app.command()
@folder_argument
@vault_option
@state_option
@port_option
@json_option
def doctor(
    folder: Path | None, vault: Path | None, state: Path | None, port: int | None, *, as_json: bool
) -> None:
    """Check the machine and a vault, and say how to fix each problem; exit code 1 if something fails."""
    from service.usecases.doctor.examination import examine  # noqa: PLC0415

    findings = examine(_installation(options_given(folder or vault, state, port)))
    found = list(findings) if as_json else _print_each(findings)
    failed = any(one.level == "failure" for one in found)
    if as_json:
        print_json({"ok": not failed, "findings": [asdict(one) for one in found]})
    if failed:
        sys.exit(1)


def _installation(given: dict[str, Any]) -> Installation:
    """Return what is to be examined; without a vault, that is the machine."""
    from service.usecases.doctor.finding import Installation  # noqa: PLC0415
    from workers.vault_paths import find_vault  # noqa: PLC0415

    try:
        settings = settings_of(located(given))
    except NotRunningError:
        return Installation(settings_of(given))
    try:
        place = find_vault(settings.vault, settings.state)
    except VaultIdError:
        return Installation(settings, settings.vault.expanduser().resolve() if settings.vault else None)
    return Installation(settings, place.root, place)


def _print_each(findings: Iterable[Finding]) -> list[Finding]:
    """Print each finding as soon as it is known, then how many there are; return them."""
    found = []
    for one in findings:
        found.append(one)
        said = f"{one.message}; {one.cure}" if one.cure else one.message
        out.print(f"{one.level:<8}", style=_STYLES[one.level], end="")
        out.say(f"{one.check:<9} {said}")
    counts = [sum(one.level == level for one in found) for level in ("failure", "warning")]
    out.say(f"{counted(counts[0], 'failure')}, {counted(counts[1], 'warning')}")
    return found
