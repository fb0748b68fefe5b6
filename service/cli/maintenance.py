"""The commands that need no service: index, reembed, models, verify, backup, restore, migrate and config."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.errors import NO_NOTE, EverindexError, NoteNotFoundError, NotFoundError, NotRunningError
from service.cli.console import complain, err, out, print_json
from service.cli.naming import about_note, in_vault
from service.cli.options import (
    PATH,
    client_of,
    json_option,
    located,
    need_service,
    options_given,
    port_option,
    resources_of,
    settings_of,
    state_option,
    vault_option,
)
from service.usecases.text import counted

if TYPE_CHECKING:
    from service.runtime.client import Service
    from service.usecases.maintenance import StoredIndex

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
@click.option("--retry", is_flag=True, help="Try parked notes again: each FILE, or all of the vault.")
@click.option(
    "--confirm-deletions",
    "confirmed",
    is_flag=True,
    help="Apply deletions that were held because many notes vanished at once.",
)
def index(
    paths: tuple[Path, ...],
    vault: Path | None,
    state: Path | None,
    *,
    rebuild: bool,
    force: bool,
    retry: bool,
    confirmed: bool,
) -> None:
    """Index a vault once, or single files of it, and exit.

    Where Everindex runs on the vault, it compares the whole vault with the index, and indexes what differs.
    """
    if sum((rebuild, force, retry, confirmed)) > 1:
        raise click.UsageError("give one of --rebuild, --force, --retry and --confirm-deletions")
    named = _files_among(paths, vault, by_title=retry)
    if named and (rebuild or confirmed):
        raise click.UsageError("--rebuild and --confirm-deletions are for a whole vault; leave out the files")
    if force and not named:
        raise click.UsageError("--force is for files; name some, or use --rebuild for a whole vault")
    if not named and paths:
        _refuse_part_of_a_vault(paths[0])
    given = options_given(vault if named or not paths else paths[0], state)
    if retry:
        _retry(named, given)
    elif named:
        _index_files(named, given, force=force)
    else:
        _index_vault(given, rebuild=rebuild, confirmed=confirmed)


def _files_among(paths: Sequence[Path], vault: Path | None, *, by_title: bool) -> Sequence[Path]:
    """Return the paths that are files of a vault, or titles: all but a single one that is the vault itself."""
    from pipelines.vault.files import is_note  # noqa: PLC0415 - help has to be instant

    alone = vault is None and not by_title
    if len(paths) == 1 and (paths[0].is_dir() or (alone and not is_note(paths[0].name))):
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


def _retry(paths: Sequence[Path], given: dict[str, Any]) -> None:
    """Have the running service try parked notes again: those that are named, or all."""
    service = need_service(located(given, near=paths[0] if paths else None))

    def ask(found: str | None) -> Any:
        return service.call("POST", "/retry", path=found)

    try:
        answers = [about_note(service, _name_of(service.root, path)[0], ask) for path in paths] or [ask(None)]
    except NoteNotFoundError as error:
        if error.why["state"] in NO_NOTE:
            raise
        raise NoteNotFoundError(f"{error}; only a parked note can be tried again", error.why) from None
    tried = [one for answer in answers for one in answer["paths"]]
    for one in tried:
        out.say(f"{one} is tried again")
    if not tried:
        out.print("No note is parked.")


def _index_vault(given: dict[str, Any], *, rebuild: bool, confirmed: bool) -> None:
    from service.cli.progress import IndexProgress  # noqa: PLC0415
    from service.runtime.client import running  # noqa: PLC0415
    from service.runtime.lock import only_one  # noqa: PLC0415
    from service.usecases.maintenance import (  # noqa: PLC0415
        index_once,
        mend_state,
        rebuild_caches,
    )

    resources = resources_of(given, create=not confirmed)
    if not rebuild and (service := running(resources.place.state)):
        _compare_now(service, confirmed=confirmed)
        return
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
            done = index_once(resources, bar.show, confirmed=confirmed)
    for line in done:
        out.say(line)


def _compare_now(service: Service, *, confirmed: bool) -> None:
    """Have a running service compare its whole vault with the index, and say what it found."""
    answer = service.call("POST", "/confirm-deletions" if confirmed else "/reload")
    for slug, found in answer["found"].items():
        counts = {"removed": found["removed"]} if confirmed else found
        out.say(f"{slug}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))


@app.command()
@vault_option
@state_option
@click.option("--older", is_flag=True, help="Instead index the notes of earlier pipelines again.")
@click.option(
    "--version", metavar="PIPELINE", help="Instead index the notes of a pipeline again: 5, or its name."
)
def reembed(vault: Path | None, state: Path | None, version: str | None, *, older: bool) -> None:
    """Switch to the configured model, passages and context.

    New indexes are built beside the old ones, and then used. `everindex status` says whether that would change
    anything, and what it would cost. A pipeline is how notes are split, as a version and its settings; `everindex
    log` names the one that indexed a note. A text whose vector is known is not embedded again.
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
    """Compare the index with the notes and with itself.

    Exit code 1 if they differ.
    """
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
@click.argument("model", metavar="[FOLDER | MODEL]", required=False, help="Load this model, and time it.")
@vault_option
@state_option
@click.option("--remove", is_flag=True, help="Delete the indexes that are not in use.")
@json_option
def models(model: str | None, vault: Path | None, state: Path | None, *, remove: bool, as_json: bool) -> None:
    """List the indexes and known models, or check a model.

    `reembed` and `index --rebuild` keep the index that they replace: switching back to its model and context embeds
    nothing. A model that is named here and is not on this machine is downloaded.
    """
    given = options_given(vault, state)
    if model is not None:
        if remove or given:
            raise click.UsageError("a model is checked by itself; leave out the other options")
        _check_model(model, as_json=as_json)
    elif remove:
        _remove_kept(given, as_json=as_json)
    else:
        _list_models(given, as_json=as_json)


def _list_models(given: dict[str, Any], *, as_json: bool) -> None:
    from pipelines.embedding.models import KNOWN_MODELS, is_installed, prefixes_of  # noqa: PLC0415
    from service.usecases.maintenance import stored_indexes  # noqa: PLC0415

    try:
        stored = stored_indexes(resources_of(given))
    except NotRunningError:
        stored = []  # no vault is meant: the models that work are the same for all
    if as_json:
        known = [
            asdict(one) | {"prefixes": prefixes_of(one.name), "installed": is_installed(one.name)}
            for one in KNOWN_MODELS
        ]
        print_json({"stored": list(map(_as_json, stored)), "known": known})
        return
    _print_stored(stored)
    if size := sum(one.size for one in stored if not one.in_use):
        out.say(f"{_megabytes(size)} are not in use; `everindex models --remove` deletes them")
    if stored:
        out.say("")
    _print_known()


def _remove_kept(given: dict[str, Any], *, as_json: bool) -> None:
    from service.usecases.maintenance import remove_kept  # noqa: PLC0415

    removed = remove_kept(resources_of(given))
    if as_json:
        print_json({"removed": list(map(_as_json, removed))})
        return
    _print_stored(removed)
    freed = _megabytes(sum(one.size for one in removed))
    out.say(f"{freed} freed" if removed else "every index is in use")


def _as_json(one: StoredIndex) -> dict[str, Any]:
    return asdict(one) | {"path": str(one.path)}


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _print_stored(stored: Sequence[StoredIndex]) -> None:
    """Print a line per index: size, whether it is in use, vectors, file, model and context."""
    width = max((len(one.path.name) for one in stored), default=0)
    for one in stored:
        use = "in use" if one.in_use else "kept"
        vectors = "" if one.vectors is None else counted(one.vectors, "vector")
        what = one.model or "cannot be read"
        if one.context not in (None, "off"):
            what += f", context {one.context}"
        out.say(f"{_megabytes(one.size):>11}  {use:<6}  {vectors:>15}  {one.path.name:<{width}}  {what}")


def _print_known() -> None:
    """Print a line per known model, with its name last so that it is never cut, and what the columns mean."""
    from pipelines.embedding.models import KNOWN_MODELS, NO_MODEL, is_installed, prefixes_of  # noqa: PLC0415

    prefixes: dict[tuple[str, str], int] = {}
    out.say(
        f"{'BEIR':>5} {'size':>8} {'vector':>6} {'tokens':>6}  {'licence':<10}  {'languages':<13}  model",
        "bold",
    )
    for one in KNOWN_MODELS:
        size = f"{one.megabytes:,} MB" if one.megabytes else ""
        figures = f"{one.ndcg or '':>5} {size:>8} {one.dimension or '':>6} {one.window or '':>6}"
        name = one.name
        if any(pair := prefixes_of(one.name)):
            name += f" [{prefixes.setdefault(pair, len(prefixes) + 1)}]"
        if is_installed(one.name):
            name += " (words alone)" if one.name == NO_MODEL else " (installed)"
        out.say(f"{figures}  {one.licence:<10}  {one.languages:<13}  {name}")
    for pair, number in prefixes.items():
        out.say(f"[{number}] Everindex writes {_described(*pair)}", "dim")
    sources = ", ".join(dict.fromkeys(one.source for one in KNOWN_MODELS if one.source))
    out.say(
        f"BEIR: mean nDCG@10 in percent over its English sets, published at {sources}; that of multilingual-e5-small"
        " is measured with weights of 32 bits, and here they have 4",
        "dim",
    )
    out.say("vector: its length; tokens: how many of a text a model reads", "dim")
    out.say("`everindex models MODEL`, or a folder instead of its name, checks a model and times it", "dim")


def _described(question: str, passage: str) -> str:
    """Return the prefixes of a model in words."""
    both = (question, "question"), (passage, "passage")
    return ", ".join(f"{prefix!r} before a {text}" for prefix, text in both if prefix) or "none"


def _check_model(model: str, *, as_json: bool) -> None:
    from pipelines.embedding.check import check_model  # noqa: PLC0415
    from pipelines.embedding.models import find_model  # noqa: PLC0415

    with err.status(f"Timing {model} ..."):
        found = check_model(find_model(model), os.cpu_count() or 1)
    info = found.info
    if as_json:
        print_json(asdict(found) | {"info": asdict(info) | {"folder": str(info.folder)}})
        return
    out.say(f"{info.name} in {info.folder}")
    out.say(
        f"  vectors of length {info.dimension:,}, all finite; reads {counted(info.window, 'token')} of a text"
    )
    out.say(f"  prefixes: {_described(info.query_prefix, info.passage_prefix)}")
    for one in found.speeds:
        how = f"{one.library}, {one.precision}, {one.device}"
        out.say(f"  {how}: {one.texts_per_s:.3g} texts/s, {one.ms_per_question:.3g} ms for a question")
    if found.agreement is not None:
        out.say(f"  both give the same vectors (lowest cosine {found.agreement:.5f})")
    out.say(
        f"`everindex eval --compare embedding={model}` measures what it is worth on your own questions", "dim"
    )


@app.command()
@click.argument("file", type=PATH, help="The file to write.")
@click.option("--attention", is_flag=True, help="Also write which notes were chosen.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@vault_option
@state_option
def backup(file: Path, vault: Path | None, state: Path | None, *, attention: bool, force: bool) -> None:
    """Write decisions, history and indexes into one file.

    Everindex may be running.
    """
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


@app.command()
@click.option(
    "--to", "store", required=True, metavar="STORE", help="`postgresql://USER@HOST/DATABASE`, or `files`."
)
@vault_option
@state_option
def migrate(store: str, vault: Path | None, state: Path | None) -> None:
    """Copy decisions, history and indexes to PostgreSQL, or back to files.

    Everindex must not be running. The store that the settings name is only read; both are compared at the end, and no
    text is embedded. What was interrupted continues where it stopped. A password is best kept in `~/.pgpass`.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    from service.usecases.maintenance import migrate as copy_to  # noqa: PLC0415

    resources = resources_of(options_given(vault, state))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("")

        def show(doing: str, done: int, every: int) -> None:
            bar.update(task, description=doing, completed=done, total=every)

        lines = copy_to(resources, store, show)
    _print_plain(lines)


def _print_plain(lines: list[str]) -> None:
    for line in lines:
        out.say(line)


@app.command()
@vault_option
@state_option
@port_option
@json_option
def config(vault: Path | None, state: Path | None, port: int | None, *, as_json: bool) -> None:
    """Print the settings, their values and where these came from.

    Rare ones are shown where they are set. `*.KEY` holds for each domain that does not state the key.
    """
    from queue_config.settings import provenance  # noqa: PLC0415
    from service.cli.render import print_config  # noqa: PLC0415

    given = options_given(vault, state, port)
    rows = provenance(settings_of(given), given)
    rows |= _in_force(given, rows)
    rows |= _of_domains(Path(rows["vault"][0]) if rows["vault"][1] != "default" else None)
    if as_json:
        print_json({name: {"value": value, "from": origin} for name, (value, origin) in rows.items()})
    else:
        print_config(out, rows)


def _in_force(given: dict[str, Any], rows: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return vault, state folder and port that a command would use now, or nothing if no vault is meant."""
    from service.runtime.client import running  # noqa: PLC0415
    from workers.vault_paths import locate_vault, vault_around  # noqa: PLC0415

    try:
        meant = located(given)
        place = locate_vault(meant.get("vault"), meant.get("state"), create=False)
    except EverindexError:
        return {}
    origin = rows["vault"][1]
    if origin == "default":
        origin = "current folder" if vault_around(Path.cwd()) == place.root else "running"
    service = running(place.state)
    port = {"port": (str(service.port), "running")} if service and "port" not in given else {}
    return {"vault": (str(place.root), origin), "state": (str(place.state), rows["state"][1])} | port


def _of_domains(root: Path | None) -> dict[str, tuple[str, str]]:
    """Return the keys of a vault's domains: the defaults, and what `_domains.yaml` states."""
    from pipelines import domains  # noqa: PLC0415 - help has to be instant

    rows = {f"*.{key}": (value, "default") for key, value in domains.defaults().items()}
    try:
        registry = domains.load(root.expanduser()) if root else None
    except EverindexError as error:
        err.say(f"warning: {error}", "yellow")
        return rows
    if registry is None:
        return rows
    origin = domains.DOMAINS_FILE if registry.source else "default"
    return rows | {name: (value, origin) for name, value in domains.stated(registry).items()}
