"""The command that lists notes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from service.commands.console import out, print_json
from service.commands.filtering import Pairs, filter_options
from service.commands.terminal import json_option, options_given, questions_of, state_option, vault_option
from service.usecases.phrases import counted

if TYPE_CHECKING:
    from service.usecases.listing import Order

app = click.Group()
_ORDERS = ("path", "date")
_NAMED = 5


@app.command("list")
@filter_options
@click.option(
    "--sort", "order", type=click.Choice(_ORDERS), default="path", help="By path, or the newest first."
)
@vault_option
@state_option
@json_option
def list_notes(
    filters: Pairs, order: Order, vault: Path | None, state: Path | None, *, as_json: bool
) -> None:
    """List the notes of the index, with date, kind and number of passages."""
    from pipelines.search.scopes import filters_of  # noqa: PLC0415 - likewise
    from service.usecases.listing import list_notes as find  # noqa: PLC0415 - likewise

    questions = questions_of(options_given(vault, state))
    answer = find(questions, filters_of(questions.resources.root, filters), order)
    if as_json:
        print_json(answer.model_dump(mode="json"))
        return
    for note in answer.notes:
        facts = ", ".join(filter(None, (note.kind, counted(note.chunks, "passage"))))
        out.say(f"{note.date}  {note.path}  ({facts})")
        for warning in note.warnings:
            out.say(f"            warning: {warning}", "yellow")
    reason = f": {answer.reason}" if answer.reason else ""
    out.say(counted(answer.count, "note") + reason + _besides(answer.configuration), "dim")


def _besides(configuration: Sequence[str]) -> str:
    """Say which files of the index are not listed because they configure a domain."""
    if not configuration:
        return ""
    files = counted(len(configuration), "vocabulary is", "vocabularies are")
    more = ", …" if len(configuration) > _NAMED else ""
    return f"; {files} indexed, too: {', '.join(configuration[:_NAMED])}{more}"
