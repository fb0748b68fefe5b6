"""The commands that need no service: index, reembed, caches, verify, backup, restore and config."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pipelines.errors import EverindexError
from service.cli.console import out, print_json
from service.cli.options import (
    PATH,
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


@app.command()
@folder_argument
@vault_option
@state_option
@click.option("--rebuild", is_flag=True, help="Build new indexes beside the current ones, which are kept.")
def index(folder: Path | None, vault: Path | None, state: Path | None, *, rebuild: bool) -> None:
    """Index a vault once, and exit."""
    from service.cli.progress import IndexProgress  # noqa: PLC0415
    from service.runtime.lock import only_one  # noqa: PLC0415
    from service.usecases.maintenance import (  # noqa: PLC0415
        index_once,
        mend_state,
        rebuild_caches,
    )

    resources = resources_of(options_given(folder or vault, state), create=True)
    for line in mend_state(resources.place.state) if rebuild else ():
        out.say(line)
    for line in resources.refused_models():  # before drawing a progress bar
        out.say(line, "yellow")
    if rebuild:
        with IndexProgress(out) as bar:
            done = rebuild_caches(resources, bar.show)
    else:
        with only_one(resources.place.state), IndexProgress(out) as bar:
            done = index_once(resources, bar.show)
    for line in done:
        out.say(line)


@app.command()
@vault_option
@state_option
@click.option("--older", is_flag=True, help="Instead index the notes of earlier pipelines again.")
@click.option(
    "--version", metavar="PIPELINE", help="Instead index the notes of a pipeline again: 5, or its name."
)
def reembed(vault: Path | None, state: Path | None, version: str | None, *, older: bool) -> None:
    """Switch to the configured model, passages and context: build new indexes beside the old ones, then use them.

    `everindex status` says whether that would change anything, and what it would cost. A pipeline is how notes are
    split, as a version and its settings; `everindex log` names the one that indexed a note. A text whose vector is
    known is not embedded again.
    """
    from service.cli.progress import IndexProgress  # noqa: PLC0415
    from service.usecases.maintenance import index_again, rebuild_caches  # noqa: PLC0415

    if older and version is not None:
        raise click.UsageError("give either --older or --version")
    resources = resources_of(options_given(vault, state))
    with IndexProgress(out) as bar:
        if older or version is not None:
            done = index_again(resources, bar.show, version)
        else:
            done = rebuild_caches(resources, bar.show, only_other_models=True)
    for line in done or ["every index is already as the settings say"]:
        out.say(line)


@app.command()
@vault_option
@state_option
@click.option("--repair", is_flag=True, help="Index notes that differ again.")
def verify(vault: Path | None, state: Path | None, *, repair: bool) -> None:
    """Compare the index with the notes and with itself; exit code 1 if they differ."""
    from service.cli.progress import IndexProgress  # noqa: PLC0415
    from service.usecases.maintenance import describe, repair_caches, verify_caches  # noqa: PLC0415

    resources = resources_of(options_given(vault, state))
    verdicts = verify_caches(resources)
    _print_plain(describe(verdicts))
    if repair and any(verdict.differences for verdict in verdicts.values()):
        with IndexProgress(out) as bar:
            verdicts = repair_caches(resources, verdicts, bar.show)
        _print_plain(["after the repair:", *describe(verdicts)])
        if any(verdict.differences for verdict in verdicts.values()):
            _print_plain(
                [
                    "`everindex index --rebuild` fixes the remaining differences with a new index beside this one"
                ]
            )
    if any(verdict.differences for verdict in verdicts.values()):
        sys.exit(1)


@app.command()
@vault_option
@state_option
@click.option("--remove", is_flag=True, help="Delete them.")
@json_option
def caches(vault: Path | None, state: Path | None, *, remove: bool, as_json: bool) -> None:
    """List the indexes that are no longer in use, which `reembed` and `index --rebuild` keep.

    Switching back to the model and context of one of them embeds nothing.
    """
    from service.usecases.maintenance import kept_caches, remove_kept_caches  # noqa: PLC0415

    resources = resources_of(options_given(vault, state))
    kept = remove_kept_caches(resources) if remove else kept_caches(resources)
    if as_json:
        print_json([asdict(one) | {"path": str(one.path)} for one in kept])
        return
    for one in kept:
        what = f"{one.model}, context {one.context or 'off'}" if one.model else "cannot be read"
        out.say(f"{one.size / 1e6:>9,.1f} MB  {one.path.name}  {what}")
    total = f"{sum(one.size for one in kept) / 1e6:,.1f} MB"
    if not kept:
        out.say("every index is in use")
    elif remove:
        out.say(f"{total} freed")
    else:
        out.say(f"{total} in all; `everindex caches --remove` deletes them")


@app.command()
@click.argument("file", type=PATH, help="The file to write.")
@click.option("--attention", is_flag=True, help="Also write which notes were chosen.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@vault_option
@state_option
def backup(file: Path, vault: Path | None, state: Path | None, *, attention: bool, force: bool) -> None:
    """Write decisions, history and indexes into one file. Everindex may be running."""
    from service.usecases.maintenance import back_up  # noqa: PLC0415

    resources = resources_of(options_given(vault, state))
    _print_plain([back_up(resources, file, attention=attention, replaces=force)])


@app.command()
@click.argument("file", type=PATH, help="A file that `everindex backup` wrote.")
@click.option("--same-notes", is_flag=True, help="Also a backup of another vault id: these are its notes.")
@vault_option
@state_option
def restore(file: Path, vault: Path | None, state: Path | None, *, same_notes: bool) -> None:
    """Restore a backup. Everindex must not be running."""
    from service.usecases.maintenance import restore as put_in_force  # noqa: PLC0415

    resources = resources_of(options_given(vault, state), create=True)
    _print_plain(put_in_force(resources, file, same_notes=same_notes))


def _print_plain(lines: list[str]) -> None:
    for line in lines:
        out.say(line)


@app.command()
@vault_option
@state_option
@port_option
@json_option
def config(vault: Path | None, state: Path | None, port: int | None, *, as_json: bool) -> None:
    """Print each setting, its value and where it came from."""
    from queue_config.settings import provenance  # noqa: PLC0415
    from service.cli.render import print_config  # noqa: PLC0415

    given = options_given(vault, state, port)
    rows = provenance(settings_of(given), given)
    rows |= _place_in_force(given, rows)
    if as_json:
        print_json({name: {"value": value, "from": origin} for name, (value, origin) in rows.items()})
    else:
        print_config(out, rows)


def _place_in_force(given: dict[str, Any], rows: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the vault and the state folder that a command would use now, or nothing if there is none."""
    from workers.vault_paths import locate_vault, vault_around  # noqa: PLC0415

    try:
        meant = located(given)
        place = locate_vault(meant.get("vault"), meant.get("state"), create=False)
    except EverindexError:
        return {}
    origin = rows["vault"][1]
    if origin == "default":
        origin = "current folder" if vault_around(Path.cwd()) == place.root else "running"
    return {"vault": (str(place.root), origin), "state": (str(place.state), rows["state"][1])}
