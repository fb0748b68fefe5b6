"""The commands that need no service: index, reembed, verify, backup, restore and config."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from service.commands.terminal import (
    PATH,
    folder_argument,
    json_option,
    options_given,
    out,
    port_option,
    print_json,
    service_of,
    settings_of,
    state_option,
    vault_option,
)

app = click.Group()


@app.command()
@folder_argument
@vault_option
@state_option
@click.option("--rebuild", is_flag=True, help="Build new caches beside the present ones, which are kept.")
def index(folder: Path | None, vault: Path | None, state: Path | None, *, rebuild: bool) -> None:
    """Index a vault once, and exit."""
    from service.lock import only_one  # noqa: PLC0415
    from service.oneshot import index_once, rebuild_caches  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    resources = Resources(settings_of(options_given(folder or vault, state)))
    for domain in resources.domains():
        resources.model_of(domain)  # a model that cannot be had is said before a bar is drawn
    if rebuild:
        with IndexProgress(out) as bar:
            done = rebuild_caches(resources, bar.show)
    else:
        with only_one(resources.place.state), IndexProgress(out) as bar:
            done = index_once(resources, bar.show)
    for line in done:
        out.print(line, soft_wrap=True)


@app.command()
@vault_option
@state_option
def reembed(vault: Path | None, state: Path | None) -> None:
    """Change over to the model that the settings name: a new cache beside each old one, then a switch."""
    from service.oneshot import rebuild_caches  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    given = options_given(vault, state)
    service = service_of(given)
    named = {"vault": service.root, "state": service.state} if service else given
    resources = Resources(settings_of(named))
    with IndexProgress(out) as bar:
        done = rebuild_caches(resources, bar.show, only_other_models=True)
    for line in done or ["every cache has the settings' model already"]:
        out.print(line, soft_wrap=True)


@app.command()
@vault_option
@state_option
@click.option("--repair", is_flag=True, help="Index again what differs.")
def verify(vault: Path | None, state: Path | None, *, repair: bool) -> None:
    """Compare the index with the notes and with itself; exit code 1 where they differ."""
    from service.maintenance import describe, repair_caches, verify_caches  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    resources = Resources(settings_of(options_given(vault, state)))
    verdicts = verify_caches(resources)
    _print_plain(describe(verdicts))
    if repair and any(verdict.differences for verdict in verdicts.values()):
        with IndexProgress(out) as bar:
            verdicts = repair_caches(resources, verdicts, bar.show)
        _print_plain(["after the repair:", *describe(verdicts)])
    if any(verdict.differences for verdict in verdicts.values()):
        sys.exit(1)


@app.command()
@click.argument("file", type=PATH, help="The file to write.")
@vault_option
@state_option
def backup(file: Path, vault: Path | None, state: Path | None) -> None:
    """Write decisions, history and indexes into one file, also while Everindex runs."""
    from service.maintenance import back_up  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    _print_plain([back_up(Resources(settings_of(options_given(vault, state))), file)])


@app.command()
@click.argument("file", type=PATH, help="A file that `everindex backup` wrote.")
@vault_option
@state_option
def restore(file: Path, vault: Path | None, state: Path | None) -> None:
    """Put a backup in force. Everindex must not run."""
    from service.maintenance import restore as put_in_force  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    _print_plain(put_in_force(Resources(settings_of(options_given(vault, state))), file))


def _print_plain(lines: list[str]) -> None:
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


@app.command()
@vault_option
@state_option
@port_option
@json_option
def config(vault: Path | None, state: Path | None, port: int | None, *, as_json: bool) -> None:
    """Print each setting, its value and where it came from."""
    from queue_config.settings import provenance  # noqa: PLC0415
    from service.render import print_config  # noqa: PLC0415

    given = options_given(vault, state, port)
    rows = provenance(settings_of(given), given)
    if as_json:
        print_json({name: {"value": value, "from": origin} for name, (value, origin) in rows.items()})
    else:
        print_config(out, rows)
