"""The commands of attention: list the notes that were chosen, and delete what was recorded."""

from __future__ import annotations

from pathlib import Path

import click

from service.commands.console import out, print_json
from service.commands.naming import in_vault
from service.commands.terminal import (
    Commands,
    json_option,
    options_given,
    resources_of,
    state_option,
    vault_option,
)
from service.usecases.phrases import counted

app = click.Group()


@app.group(cls=Commands, invoke_without_command=True)
@vault_option
@state_option
@json_option
@click.pass_context
def attention(context: click.Context, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Which notes you and your agents chose, if that is recorded; without a command, list them."""
    if context.invoked_subcommand is None:
        context.invoke(list_attended, vault=vault, state=state, as_json=as_json)
    elif vault or state or as_json:
        raise click.UsageError(f"options follow the command: attention {context.invoked_subcommand} ...")


@attention.command("list")
@vault_option
@state_option
@json_option
def list_attended(vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the notes that were chosen, those with the most attention first."""
    from dataclasses import asdict  # noqa: PLC0415 - help has to be instant
    from datetime import UTC, datetime  # noqa: PLC0415 - likewise

    from service.usecases.attention import attended_notes  # noqa: PLC0415 - likewise

    resources = resources_of(options_given(vault, state))
    notes = attended_notes(resources, datetime.now(UTC))
    if as_json:
        print_json({"recording": resources.settings.attention, "notes": [asdict(note) for note in notes]})
        return
    for note in notes:
        times = ", ".join(f"{how} {count}" for how, count in note.times.items())
        out.say(f"{note.attention:6.2f}  {note.path}  ({times}; last {note.last})")
    state_of = "on" if resources.settings.attention else "off: the setting `attention` turns it on"
    out.say(f"{counted(len(notes), 'note')}; recording is {state_of}", "dim")


@attention.command("delete")
@click.argument("path", metavar="[NOTE]", required=False, help="A note's path in the vault.")
@click.option("--all", "every", is_flag=True, help="Delete what was recorded of all notes.")
@vault_option
@state_option
def delete(path: str | None, vault: Path | None, state: Path | None, *, every: bool) -> None:
    """Delete what was recorded of a note, or of all notes."""
    if (path is None) != every:
        raise click.UsageError("name a note, or give --all for all notes")
    from service.usecases.attention import forget  # noqa: PLC0415 - help has to be instant

    given = options_given(vault, state)
    deleted = forget(resources_of(given), in_vault(given, path) if path else None)
    out.say(f"deleted {counted(deleted, 'choice')}")
