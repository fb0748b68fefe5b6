"""The commands that need no service: index, reembed, caches, verify, backup, restore and config."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pipelines.errors import EverindexError, NotFoundError
from service.cli.console import complain, out, print_json
from service.cli.naming import about_note, in_vault
from service.cli.options import (
    PATH,
    client_of,
    json_option,
    located,
    options_given,
    port_option,
    resources_of,
    settings_of,
    state_option,
    vault_option,
)
from service.usecases.text import counted

app = click.Group()


@app.command()
@click.argument(
    "paths",
    nargs=-1,
    type=PATH,
    metavar="[VAULT | FILE...]",
    help="The folder of notes; or files of a vault, to index only these.",
)
@vault_option
@state_option
@click.option("--rebuild", is_flag=True, help="Build new indexes beside the current ones, which are kept.")
@click.option(
    "--force",
    is_flag=True,
    help="Read, split and write FILE again although it did not change. Texts with a known vector keep it.",
)
def index(
    paths: tuple[Path, ...], vault: Path | None, state: Path | None, *, rebuild: bool, force: bool
) -> None:
    """Index a vault once, or single files of it, and exit."""
    named = _files_among(paths, vault)
    if named and rebuild:
        raise click.UsageError("--rebuild is for a whole vault; leave out the files")
    if force and not named:
        raise click.UsageError("--force is for files; name some, or use --rebuild for a whole vault")
    if not named and paths:
        _refuse_part_of_a_vault(paths[0])
    if named:
        _index_files(named, options_given(vault, state), force=force)
    else:
        _index_vault(options_given(paths[0] if paths else vault, state), rebuild=rebuild)


def _files_among(paths: Sequence[Path], vault: Path | None) -> Sequence[Path]:
    """Return the paths that are files of a vault: all but a single one that is the vault itself."""
    from pipelines.vault.files import is_note  # noqa: PLC0415 - help has to be instant

    if len(paths) == 1 and (paths[0].is_dir() or (vault is None and not is_note(paths[0].name))):
        return ()
    return paths


def _refuse_part_of_a_vault(folder: Path) -> None:
    """Raise UsageError for a folder within a vault: as a vault of its own it would hide that one from commands."""
    from workers.vault_paths import vault_around  # noqa: PLC0415 - help has to be instant

    around = vault_around(folder.absolute())
    if folder.is_dir() and around is not None and around.resolve() != folder.resolve():
        raise click.UsageError(
            f"{folder} is a folder of the vault {around}; name files of it, or index the vault:"
            f" everindex index {around}"
        )


def _index_files(paths: Sequence[Path], given: dict[str, Any], *, force: bool) -> None:
    """Index files of a vault now, print how long each took, and exit with 1 if one cannot be indexed."""
    client = client_of(located(given, near=paths[0]))
    failed = False
    for path in paths:

        def ask(found: str) -> Any:
            return client.call("POST", "/index", path=found, wait=1, force=int(force))

        try:
            name, exists = _name_of(client.root, path)
            answer = ask(name) if exists else about_note(client, name, ask)
        except NotFoundError as error:
            complain(str(error))
            failed = True
            continue
        failed |= answer["state"] != "indexed"
        out.say(_indexed_line(answer), None if answer["state"] == "indexed" else "yellow")
    if failed:
        sys.exit(1)


def _name_of(root: Path, path: Path) -> tuple[str, bool]:
    """Return a file as its vault names it, and whether it exists: as a shell completes it, or below the vault.

    Raises NotFoundError if it is outside the vault.
    """
    from pipelines.vault.files import note_key  # noqa: PLC0415 - help has to be instant

    name = in_vault(root, str(path.absolute() if path.exists() else path))
    if name.startswith("/") or ".." in name.split("/"):
        raise NotFoundError(f"{path} is outside the vault {root}; name its vault with --vault")
    return note_key(name), (root / name).exists()


def _indexed_line(answer: dict[str, Any]) -> str:
    if answer["state"] != "indexed":
        return f"{answer['path']} is {answer['state']}: {answer['reason']}"
    more = f"; {answer['reason']}" if answer["reason"] else ""
    passages = answer.get("passages")  # a service that was started before an upgrade does not say
    what = "indexed" if passages is None else counted(passages, "passage")
    return f"{answer['path']}: {what}, {answer['took_ms']:,.0f} ms{more}"


def _index_vault(given: dict[str, Any], *, rebuild: bool) -> None:
    from service.cli.progress import IndexProgress  # noqa: PLC0415
    from service.runtime.lock import only_one  # noqa: PLC0415
    from service.usecases.maintenance import (  # noqa: PLC0415
        index_once,
        mend_state,
        rebuild_caches,
    )

    resources = resources_of(given, create=True)
    for line in mend_state(resources.place.state) if rebuild else ():
        out.say(line)
    for line in resources.refused_models():  # before drawing a progress bar
        out.say(line, "yellow")
    if rebuild:
        with IndexProgress(out) as bar:
            done = rebuild_caches(resources, bar.show)
    else:
        for line in resources.chosen_by_language():
            out.say(line)
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
