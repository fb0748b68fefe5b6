"""The command that keeps a file or folder out of the index."""

from __future__ import annotations

from pathlib import Path

import click

from service.commands.console import out
from service.commands.naming import ambiguous, in_vault, notes_named, state_of
from service.commands.terminal import (
    located,
    options_given,
    service_of,
    state_option,
    vault_of,
    vault_option,
)

app = click.Group()


@app.command()
@click.argument("path", help="A file or folder of the vault, or a note by its title, alias or id.")
@click.option("--undo", is_flag=True, help="Remove the line again.")
@vault_option
@state_option
def ignore(path: str, vault: Path | None, state: Path | None, *, undo: bool) -> None:
    """Keep a file or folder out of the index, by a line in .everindexignore; the file itself stays."""
    from pipelines.vault import files as notes  # noqa: PLC0415 - likewise
    from pipelines.vault import ignore as ignore_file  # noqa: PLC0415 - help has to be instant
    from workers.vault_paths import locate_vault, not_there  # noqa: PLC0415 - likewise

    given = located(options_given(vault, state))
    place = locate_vault(vault_of(given), given.get("state"), create=False)
    if notes.find(place.root, place.identity) is None:
        raise not_there(place.root)
    key = notes.note_key(in_vault(given, path))
    raw = notes.path_on_disk(place.root, key)
    if notes.look(place.root, raw) is None and not notes.is_folder(place.root, raw):
        same, _ = notes_named(given, key)
        if len(same) > 1:
            raise ambiguous(key, same, state_of(given, key))
        key = same[0] if same else key
        raw = notes.path_on_disk(place.root, key)
    later = "" if service_of(given) else "; Everindex is not running, and does so when it is started"
    if undo:
        line = ignore_file.stop_ignoring(place.root, raw, place.displaced)
        known = state_of(given, key)
        so = (
            f"it is still ignored: {known['reason']}"
            if known["state"] == "ignored"
            else "it is indexed again"
        )
        out.say(f"{notes.note_key(line)} was removed from {ignore_file.IGNORE_FILE}; {so}{later}")
    else:
        line = notes.note_key(ignore_file.ignore(place.root, raw, place.displaced))
        out.say(f"{key} is ignored: {line} was added to {ignore_file.IGNORE_FILE}; --undo removes it{later}")
