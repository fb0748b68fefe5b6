"""The command that shows what happened to a note."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from service.commands.console import out, print_json
from service.commands.naming import about_note
from service.commands.terminal import (
    json_option,
    options_given,
    questions_of,
    service_of,
    state_option,
    vault_option,
)
from service.usecases.phrases import second, what_happened

app = click.Group()
_HEADINGS = ("when", "what", "passages", "embedded", "ms", "model", "pipeline", "error")
_NUMBERS = ("passages", "embedded", "ms")


@app.command("log")
@click.argument("path", metavar="NOTE", help="A note's path in the vault, or its title.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, help="How many entries, newest first.")
@vault_option
@state_option
@json_option
def show_log(path: str, limit: int, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Show what happened to a note: indexed, embedded, renamed, removed, parked."""
    given = options_given(vault, state)
    answer = about_note(given, path, lambda found: _log(given, found, limit))
    if as_json:
        print_json(answer)
        return
    if not answer["entries"]:
        out.say("nothing happened to it since the log begins", "dim")
        return
    for line in _table([_HEADINGS, *map(_cells, answer["entries"])]):
        out.say(line)
    if any(entry["vectors_pending"] for entry in answer["entries"]):
        out.say("+ more of its texts are embedded later", "dim")


def _log(given: dict[str, Any], path: str, limit: int) -> Any:
    service = service_of(given)
    if service:
        return service.call("GET", f"/log/{quote(path)}", limit=limit)
    from service.usecases.note_log import log_of_note  # noqa: PLC0415 - help has to be instant

    return log_of_note(questions_of(given), path, limit).model_dump(mode="json")


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    passages = "" if entry["passages"] is None else f"{entry['passages']:,}"
    # A service that was started before an upgrade gives no reasons.
    what = what_happened(entry["action"], entry["renamed_to"], entry["renamed_from"], entry.get("reason"))
    embedded = f"{entry['texts_embedded']:,}" + ("+" if entry["vectors_pending"] else "")
    return (
        *(second(entry["at"]), what, passages, embedded, f"{entry['ms']:,.0f}"),
        *(entry["model"], entry["pipeline"], entry["error"] or ""),
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines with aligned columns: a line is not wrapped, so that programs can search it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [str.rjust if name in _NUMBERS else str.ljust for name in _HEADINGS]
    return [
        "  ".join(
            align(cell, width) for align, cell, width in zip(aligned, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
