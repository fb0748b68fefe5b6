"""The `everindex` command. Heavy imports wait inside the commands, so that help is there at once."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from pipelines.errors import AlreadyRunningError, ConfigurationError, EverindexError

if TYPE_CHECKING:
    from queue_config.settings import Settings
    from service.client import Service
    from service.questions import Questions

app = typer.Typer(
    help="Save a note, and find it a second later: by meaning and by exact word.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

VaultOption = Annotated[Path | None, typer.Option("--vault", help="The folder of notes.")]
StateOption = Annotated[Path | None, typer.Option("--state", help="The folder for caches, queue and logs.")]
PortOption = Annotated[int | None, typer.Option("--port", help="The port on 127.0.0.1.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Supervised = Annotated[bool, typer.Option("--supervised", hidden=True)]


def main() -> NoReturn:
    """Run the command line: exit code 0 ok, 1 failed, 2 usage."""
    from pydantic import ValidationError  # noqa: PLC0415 - see the module's first line

    from queue_config.settings import SettingsFileError, explain  # noqa: PLC0415

    try:
        app()
    except ValidationError as error:
        err.print(f"[red]error:[/] settings: {explain(error)}", soft_wrap=True)
        sys.exit(2)
    except (ConfigurationError, SettingsFileError) as error:
        _complain(error)
        sys.exit(2)
    except EverindexError as error:
        _complain(error)
        sys.exit(1)
    sys.exit(0)


def _complain(error: Exception) -> None:
    err.print("[red]error:[/] ", end="")
    err.print(str(error), markup=False, soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def _given(vault: Path | None, state: Path | None, port: int | None = None) -> dict[str, Any]:
    named = {"vault": vault, "state": state, "port": port}
    return {name: value for name, value in named.items() if value is not None}


def _settings(given: dict[str, Any]) -> Settings:
    """Return the settings; a state folder alone knows its vault."""
    from queue_config.settings import Settings  # noqa: PLC0415
    from workers.resources import VAULT_FILE  # noqa: PLC0415

    settings = Settings(**given)
    if settings.vault is None and settings.state is not None and (settings.state / VAULT_FILE).exists():
        root = json.loads((settings.state / VAULT_FILE).read_text())["root"]
        return Settings(**given, vault=Path(root))
    return settings


def _service(given: dict[str, Any]) -> Service | None:
    """Return the running service of the named vault, or the only one that runs; None: the vault has none."""
    from service.client import only_running, running  # noqa: PLC0415
    from workers.resources import open_place  # noqa: PLC0415

    settings = _settings(given)
    return only_running() if settings.vault is None else running(open_place(settings).state)


def _questions(given: dict[str, Any]) -> Questions:
    """Answer without a service: open the caches here."""
    from service.questions import Questions  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    return Questions(Resources(_settings(given)), wait_for_model=True)


# Services


@app.command()
def up(
    folder: Annotated[Path | None, typer.Argument(metavar="VAULT", help="The folder of notes.")] = None,
    vault: VaultOption = None,
    port: PortOption = None,
    state: StateOption = None,
) -> None:
    """Index a vault, watch it and serve it, until Ctrl-C."""
    from service.client import running  # noqa: PLC0415
    from service.server import bind  # noqa: PLC0415
    from service.up import Supervisor  # noqa: PLC0415
    from service.watch import only_one  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    given = _given(folder or vault, state, port)
    resources = Resources(_settings(given))
    place = resources.place
    try:
        with only_one(place.state):
            resources.check_models()
            resources.caches()
            # Whatever cannot work is said here, not in a child's log.
            bind(resources.settings.port).close()
    except AlreadyRunningError:
        service = running(place.state)
        where = f"at {service.address} (process {service.pid})" if service else f"with state in {place.state}"
        out.print(f"Everindex is already running on {place.root}, {where}", soft_wrap=True)
        return
    arguments = ["--vault", str(place.root), "--state", str(place.state)]
    arguments += ["--port", str(resources.settings.port)]
    supervisor = Supervisor(place.state, arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    out.print(f"Everindex on {given.get('vault', place.root)}", soft_wrap=True, markup=False)
    supervisor.start()
    try:
        _follow_first_index(supervisor, stop)
        supervisor.keep(stop)
    finally:
        out.print("Stopping …")
        supervisor.stop()


def _follow_first_index(supervisor: Any, stop: threading.Event) -> None:
    from service.progress import IndexProgress  # noqa: PLC0415

    service = supervisor.wait_for_service(stop)
    if service is None:
        return
    with IndexProgress(out) as bar:
        done = supervisor.follow(service, stop, bar.show_health)
    if done:
        health = service.call("GET", "/health")
        parked = sum(domain["parked"] for domain in health["domains"].values())
        code = service.call("POST", "/session")["code"]
        notes = sum(domain["notes"] for domain in health["domains"].values())
        out.print(
            f"[green]{notes:,} {'note is' if notes == 1 else 'notes are'} findable.[/] Save one, and it is, too."
        )
        if parked:
            out.print(f"[yellow]{parked} could not be indexed:[/] `{_me()} status` says why.")
        out.print(f'  {_me()} search "your question"', soft_wrap=True)
        out.print(
            f"  {service.address}/open/{code}  (the page; this link works once, `{_me()} open` makes another)",
            soft_wrap=True,
        )
        out.print("Ctrl-C stops it.")


def _me() -> str:
    """Return the command as the user can type it here."""
    import shutil  # noqa: PLC0415

    here = Path(sys.argv[0])
    if here.name != "everindex":
        return "everindex"
    found = shutil.which("everindex")
    if found and Path(found).resolve() == here.resolve():
        return "everindex"
    return os.path.relpath(here) if here.resolve().is_relative_to(Path.cwd()) else str(here)


@app.command()
def watch(
    vault: VaultOption = None,
    state: StateOption = None,
    port: PortOption = None,
    *,
    supervised: Supervised = False,
) -> None:
    """Watch a vault and put its changes on the queue (one process)."""
    from queue_config.logs import configure  # noqa: PLC0415
    from service.up import stop_with_supervisor  # noqa: PLC0415
    from service.watch import Watcher  # noqa: PLC0415

    configure("watcher")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if supervised:
        stop_with_supervisor(stop.set)
    Watcher(_settings(_given(vault, state, port)), stop).run()


@app.command()
def work(
    vault: VaultOption = None,
    state: StateOption = None,
    port: PortOption = None,
    *,
    supervised: Supervised = False,
) -> None:
    """Work the queue: index what changed (any number of processes)."""
    from queue_config.logs import configure  # noqa: PLC0415
    from service.up import stop_with_supervisor  # noqa: PLC0415
    from workers.run import run_worker  # noqa: PLC0415

    configure("worker")
    if supervised:
        stop_with_supervisor(lambda: os.kill(os.getpid(), signal.SIGTERM))
    run_worker(_settings(_given(vault, state, port)))


@app.command()
def serve(
    vault: VaultOption = None,
    state: StateOption = None,
    port: PortOption = None,
    *,
    supervised: Supervised = False,
) -> None:
    """Answer questions over HTTP on 127.0.0.1 (one process, or one a domain)."""
    from queue_config.logs import configure  # noqa: PLC0415
    from service.server import run_server  # noqa: PLC0415
    from service.up import stop_with_supervisor  # noqa: PLC0415

    configure("query")
    if supervised:
        stop_with_supervisor(lambda: os.kill(os.getpid(), signal.SIGTERM))
    run_server(_settings(_given(vault, state, port)))


@app.command("open")
def open_page(vault: VaultOption = None, state: StateOption = None) -> None:
    """Open the page in the browser, signed in."""
    service = _need_service(_given(vault, state))
    code = service.call("POST", "/session")["code"]
    address = f"{service.address}/open/{code}"
    out.print(address, soft_wrap=True)
    typer.launch(address)


def _need_service(given: dict[str, Any]) -> Service:
    from pipelines.errors import NotRunningError  # noqa: PLC0415

    service = _service(given)
    if service is None:
        raise NotRunningError("Everindex does not run on this vault; start it with `everindex up VAULT`")
    return service


# Questions


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="A question, or exact words.")],
    k: Annotated[int, typer.Option("-k", min=1, max=200, help="How many notes.")] = 10,
    domain: Annotated[str | None, typer.Option(help="Search this domain alone.")] = None,
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Find notes."""
    from service.render import print_search  # noqa: PLC0415

    given = _given(vault, state)
    service = _service(given)
    if service:
        named = {"domain": domain} if domain else {}
        answer = service.call("GET", "/search", q=query, k=k, **named)
    else:
        answer = _questions(given).search(query, k, domain).model_dump(mode="json")
    if as_json:
        _print_json(answer)
    else:
        print_search(out, answer)


@app.command()
def node(
    path: str, vault: VaultOption = None, state: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Show a note as it is indexed: its row, links and chunks."""
    from service.render import print_node  # noqa: PLC0415

    given = _given(vault, state)
    service = _service(given)
    answer = (
        service.call("GET", f"/node/{_in_url(path)}")
        if service
        else _questions(given).node(path).model_dump(mode="json")
    )
    if as_json:
        _print_json(answer)
    else:
        print_node(out, answer)


@app.command()
def why(
    path: str, vault: VaultOption = None, state: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Say whether a note is indexed, pending, parked, ignored or unknown, and why."""
    given = _given(vault, state)
    service = _service(given)
    answer = service.call("GET", f"/why/{_in_url(path)}") if service else _questions(given).why(path)
    if as_json:
        _print_json(answer)
    else:
        reason = f": {answer['reason']}" if answer["reason"] else ""
        out.print(f"{answer['path']} is {answer['state']}{reason}", markup=False, soft_wrap=True)


def _in_url(path: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415

    return quote(path)


@app.command()
def status(
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    as_json: JsonOption = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when nothing is owed.")] = False,
) -> None:
    """Say how the vault's index stands."""
    import time  # noqa: PLC0415

    from service.render import print_status  # noqa: PLC0415

    given = _given(vault, state)

    def ask() -> dict[str, Any]:
        service = _service(given)
        facts: dict[str, Any] = (
            service.call("GET", "/health") if service else _questions(given).health().model_dump(mode="json")
        )
        return facts | {"running": service is not None}

    facts = ask()
    while wait and (facts["pending"] or facts["vectors_pending"] or not facts["last_reconcile"]):
        time.sleep(0.2)
        facts = ask()
    if as_json:
        _print_json(facts | {"parked_notes": _parked(given)})
    else:
        print_status(out, facts, _parked(given))


def _parked(given: dict[str, Any]) -> list[dict[str, str]]:
    from workers.resources import Resources  # noqa: PLC0415

    service = _service(given)
    named = {"vault": service.root, "state": service.state} if service else given
    resources = Resources(_settings(named))
    return [
        {"path": path, "domain": domain.slug, "kind": kind, "reason": reason}
        for domain in resources.domains()
        if resources.state().cache_path(domain.slug).exists()
        for path, kind, reason in resources.reader(domain).ledger.parked_rows()
    ]


@app.command()
def reload(vault: VaultOption = None, state: StateOption = None, *, as_json: JsonOption = False) -> None:
    """Compare the whole vault with the index now."""
    answer = _need_service(_given(vault, state)).call("POST", "/reload")
    if as_json:
        _print_json(answer)
        return
    for slug, found in answer["found"].items():
        out.print(f"{slug}: " + ", ".join(f"{count} {what}" for what, count in found.items()))


@app.command("confirm-deletions")
def confirm_deletions(vault: VaultOption = None, state: StateOption = None) -> None:
    """Apply deletions that were held because so many notes vanished at once."""
    from service.oneshot import index_once  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from service.watch import only_one  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    given = _given(vault, state)
    service = _service(given)
    if service:
        for slug, found in service.call("POST", "/confirm-deletions")["found"].items():
            out.print(f"{slug}: {found['removed']} removed")
        return
    resources = Resources(_settings(given))
    with only_one(resources.place.state), IndexProgress(out) as bar:
        lines = index_once(resources, bar.show, confirmed=True)
    for line in lines:
        out.print(line, soft_wrap=True)


# Work without a service


@app.command()
def index(
    folder: Annotated[Path | None, typer.Argument(metavar="VAULT", help="The folder of notes.")] = None,
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build new caches beside the present ones, which are kept.")
    ] = False,
) -> None:
    """Index a vault once, and exit."""
    from service.oneshot import index_once, rebuild_caches  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from service.watch import only_one  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    resources = Resources(_settings(_given(folder or vault, state)))
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
def reembed(vault: VaultOption = None, state: StateOption = None) -> None:
    """Change over to the model that the settings name: a new cache beside each old one, then a switch."""
    from service.oneshot import rebuild_caches  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    given = _given(vault, state)
    service = _service(given)
    named = {"vault": service.root, "state": service.state} if service else given
    resources = Resources(_settings(named))
    with IndexProgress(out) as bar:
        done = rebuild_caches(resources, bar.show, only_other_models=True)
    for line in done or ["every cache has the settings' model already"]:
        out.print(line, soft_wrap=True)


@app.command()
def verify(
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Index again what differs.")] = False,
) -> None:
    """Compare the index with the notes and with itself; exit code 1 where they differ."""
    from service.maintenance import describe, repair_caches, verify_caches  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    resources = Resources(_settings(_given(vault, state)))
    verdicts = verify_caches(resources)
    _print_plain(describe(verdicts))
    if repair and any(verdict.differences for verdict in verdicts.values()):
        with IndexProgress(out) as bar:
            verdicts = repair_caches(resources, verdicts, bar.show)
        _print_plain(["after the repair:", *describe(verdicts)])
    if any(verdict.differences for verdict in verdicts.values()):
        raise typer.Exit(1)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    vault: VaultOption = None,
    state: StateOption = None,
) -> None:
    """Write decisions, history and indexes into one file, also while Everindex runs."""
    from service.maintenance import back_up  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    _print_plain([back_up(Resources(_settings(_given(vault, state))), file)])


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `everindex backup` wrote.")],
    vault: VaultOption = None,
    state: StateOption = None,
) -> None:
    """Put a backup in force. Everindex must not run."""
    from service.maintenance import restore as put_in_force  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    _print_plain(put_in_force(Resources(_settings(_given(vault, state))), file))


def _print_plain(lines: list[str]) -> None:
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


@app.command()
def config(
    vault: VaultOption = None,
    state: StateOption = None,
    port: PortOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Print each setting, its value and where it came from."""
    from queue_config.settings import provenance  # noqa: PLC0415
    from service.render import print_config  # noqa: PLC0415

    given = _given(vault, state, port)
    rows = provenance(_settings(given), given)
    if as_json:
        _print_json({name: {"value": value, "from": origin} for name, (value, origin) in rows.items()})
    else:
        print_config(out, rows)


if __name__ == "__main__":
    main()
