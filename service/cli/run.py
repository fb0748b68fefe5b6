"""The commands that run or show the long-running processes: up, watch, work, serve, open and token."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from pipelines.errors import AlreadyRunningError, ApartStoppedError, ConfigurationError, NotRunningError
from service.cli.console import err, out
from service.cli.options import (
    folder_argument,
    link,
    located,
    need_service,
    options_given,
    port_option,
    settings_of,
    show_page,
    state_option,
    supervised_option,
    vault_of,
    vault_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queue_config.settings import Settings
    from service.runtime.client import Service
    from workers.vault_paths import VaultPaths

app = click.Group()
# Until the watcher has looked, the worker has nothing to do, and would take the cores from the other two.
_WORKER_AFTER_SECONDS = 0.8
_REBUILD = "everindex index --rebuild"
"""What the message of every damaged index names."""


@app.command()
@folder_argument
@vault_option
@port_option
@state_option
def up(folder: Path | None, vault: Path | None, port: int | None, state: Path | None) -> None:
    """Index a vault, watch it and serve it, until Ctrl-C."""
    from pipelines.child import Child  # noqa: PLC0415
    from queue_config.logs import configure  # noqa: PLC0415
    from service.runtime.client import running  # noqa: PLC0415
    from service.runtime.supervisor import Supervisor, wait_for_orphans  # noqa: PLC0415

    configure("up")
    given = options_given(folder or vault, state, port)
    settings = settings_of(located(given, or_running=False))
    place = _locate(settings)
    try:
        try:
            _claim(place, settings)
        except (AlreadyRunningError, ConfigurationError):
            # Only then, because looking for them loads SQLite.
            wait_for_orphans(place.state)
            _claim(place, settings)
    except AlreadyRunningError:
        service = running(place.state)
        where = f"at {service.address} (process {service.pid})" if service else f"with state in {place.state}"
        out.say(f"Everindex is already running on {place.root}, {where}")
        return
    arguments = ["--vault", str(place.root), "--state", str(place.state), "--port", str(settings.port)]
    supervisor = Supervisor(place.state, arguments)
    stop, checking = threading.Event(), Child()

    def end(*_: object) -> None:
        stop.set()
        checking.stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    try:
        supervisor.start("query", "watcher")
        stop.wait(_WORKER_AFTER_SECONDS)
        supervisor.start("worker")
        with suppress(ApartStoppedError):  # by a signal
            models, others = checking.call(_checked, settings)
            for line in models:
                out.say(line)
            named = given.get("vault", place.root)
            out.say(f"Everindex on {place.root if named.name in {'', '..'} else named}")
            for line in others:
                out.say(line, "yellow")
            _follow_first_index(supervisor, stop)
            supervisor.keep(stop)
        out.print("Stopping …")
    finally:
        supervisor.stop()


def _claim(place: VaultPaths, settings: Settings) -> None:
    """Raise AlreadyRunningError if a service watches the vault, ConfigurationError if its port is in use."""
    from service.runtime.lock import only_one  # noqa: PLC0415
    from service.runtime.sockets import bind  # noqa: PLC0415

    with only_one(place.state):
        bind(settings.port).close()


def _locate(settings: Settings) -> VaultPaths:
    """Find a vault and its state, or create both; nothing is created for a service whose port is in use."""
    from service.runtime.sockets import bind  # noqa: PLC0415
    from workers.vault_paths import find_vault, locate_vault  # noqa: PLC0415

    if not find_vault(settings.vault, settings.state).state.exists():
        bind(settings.port).close()
    return locate_vault(settings.vault, settings.state)


def _checked(settings: Settings) -> tuple[list[str], list[str]]:
    """Return lines about the vault's models, and about other services on this vault.

    Raises here, not in a child's log, if the models or caches cannot be used. `up` has a process of its own call it,
    because what it imports would stay in the supervisor's memory.
    """
    from queue_config.logs import configure  # noqa: PLC0415
    from service.usecases.doctor import others_running  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    configure("up")
    resources = Resources(settings)
    refused = resources.refused_models()
    resources.check_models()
    return [*refused, *resources.chosen_by_language()], [
        f"Another Everindex (process {process}) runs on this vault, with its state in {folder}."
        " Stop one of the two: both apply accepted tags to the same notes."
        for folder, process in others_running(resources.place).items()
    ]


def _follow_first_index(supervisor: Any, stop: threading.Event) -> None:
    from service.cli.progress import IndexProgress  # noqa: PLC0415

    service = supervisor.wait_for_service(stop)
    if service is None:
        return
    with IndexProgress(out) as bar:
        health = supervisor.follow(service, stop, bar.show_health)
    if health:
        print_findable(health, service)


def print_findable(health: dict[str, Any], service: Service) -> None:
    """Print how many notes the first index has, and the commands that use it; or that an index is damaged."""
    from rich.text import Text  # noqa: PLC0415

    from service.usecases.text import not_asked_for  # noqa: PLC0415

    damaged = [problem for problem in health["problems"] if _REBUILD in problem]
    for problem in damaged:
        out.say(problem, "yellow")
    parked = sum(domain["parked"] for domain in health["domains"].values())
    notes = sum(domain["notes"] for domain in health["domains"].values())
    if notes and not damaged:
        count = f"{notes:,} {'note is' if notes == 1 else 'notes are'} findable."
        out.print(Text(count, "green"), "Save another, and it will be too.")
    elif not damaged:
        out.print("No note is findable yet. Save one, and it will be.")
    for line in not_asked_for(health["other_files"], health.get("to_index_other_files", [])):
        out.say(line)
    chosen = vault_choice(service)
    if parked:
        why = f"`{this_command()} status{chosen}` says why."
        out.print(Text(f"{parked} could not be indexed:", "yellow"), Text(why), soft_wrap=True)
    out.say(f'  {this_command()} search{chosen} "your question"')
    out.say(f"  {this_command()} open{chosen}  (the page on {service.address}, signed in)")
    out.print("Ctrl-C stops it.")


def vault_choice(service: Service) -> str:
    """Return the option with which a command in any folder asks this service: none if no other vault runs.

    A state folder that is not in the usual place must be named; it knows its vault.
    """
    from queue_config.folders import state_home  # noqa: PLC0415
    from service.runtime.client import only_running  # noqa: PLC0415

    if service.state.parent != state_home():
        return f" --state {shlex.quote(str(service.state))}"
    try:
        only_running()
    except NotRunningError:
        return f" --vault {shlex.quote(str(service.root))}"
    return ""


def this_command() -> str:
    """Return the command in a form that works in any terminal."""
    import shutil  # noqa: PLC0415

    here = Path(sys.argv[0])
    if here.name != "everindex":
        return "everindex"
    found = shutil.which("everindex")
    return (
        "everindex"
        if found and Path(found).resolve() == here.resolve()
        else shlex.quote(str(here.absolute()))
    )


@app.command()
@vault_option
@state_option
@port_option
@supervised_option
def watch(vault: Path | None, state: Path | None, port: int | None, *, supervised: bool) -> None:
    """Watch a vault and put its changes on the queue (one process)."""
    from queue_config.logs import configure  # noqa: PLC0415
    from service.runtime.supervisor import stop_with_supervisor  # noqa: PLC0415
    from service.watcher.watcher import Watcher  # noqa: PLC0415

    configure("watcher")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if supervised:
        stop_with_supervisor(stop.set)
    settings = settings_of(located(options_given(vault, state, port), or_running=False))
    _end_with_state(settings)
    Watcher(settings, stop).run()


@app.command()
@vault_option
@state_option
@port_option
@click.option(
    "--only", type=click.Choice(["vectors"]), help="Make vectors alone, with a store in PostgreSQL."
)
@supervised_option
def work(
    vault: Path | None, state: Path | None, port: int | None, *, only: str | None, supervised: bool
) -> None:
    """Work the queue: index what changed (any number of processes).

    On a host without the vault it needs the setting `store`, and indexes what the host of the vault hands out.
    """
    from queue_config.logs import configure  # noqa: PLC0415
    from service.runtime.supervisor import stop_with_supervisor  # noqa: PLC0415
    from workers.run import run_worker  # noqa: PLC0415

    configure("worker")
    if supervised:
        stop_with_supervisor(lambda: os.kill(os.getpid(), signal.SIGTERM))
    settings = settings_of(located(options_given(vault, state, port), or_running=False))
    _end_with_state(settings)
    run_worker(settings, only_vectors=only == "vectors")


@app.command()
@vault_option
@state_option
@port_option
@click.option(
    "--host",
    help="The IP address to listen on; default: 127.0.0.1, for this machine alone; 0.0.0.0: every IPv4 address.",
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    help="A host name that clients may use, with its port: notes.example:8741.",
)
@supervised_option
def serve(
    vault: Path | None,
    state: Path | None,
    port: int | None,
    host: str | None,
    names: tuple[str, ...],
    *,
    supervised: bool,
) -> None:
    """Answer questions over HTTP (one process, or one per domain).

    Every client needs the token. On another address than 127.0.0.1, token and answers travel unencrypted.
    """
    from queue_config.logs import configure  # noqa: PLC0415
    from service.app import run_server  # noqa: PLC0415
    from service.runtime.client import LOOPBACK  # noqa: PLC0415
    from service.runtime.supervisor import stop_with_supervisor  # noqa: PLC0415

    configure("query")
    if supervised:
        stop_with_supervisor(lambda: os.kill(os.getpid(), signal.SIGTERM))
    settings = settings_of(located(options_given(vault, state, port), or_running=False))
    _end_with_state(settings)
    run_server(settings, LOOPBACK if host is None else host, names)


def _end_with_state(settings: Settings) -> None:
    from workers.heartbeat import end_with_state  # noqa: PLC0415
    from workers.vault_paths import locate_vault  # noqa: PLC0415

    if settings.store is None:
        end_with_state(locate_vault(settings.vault, settings.state).state)


@app.command("open")
@vault_option
@state_option
@click.option(
    "--print", "only_print", is_flag=True, help="Open nothing; print the address and a link that signs in."
)
@click.option(
    "--phone", is_flag=True, help="Open it on a phone in the same network, by a QR code, until Ctrl-C."
)
def open_page(vault: Path | None, state: Path | None, *, only_print: bool, phone: bool) -> None:
    """Open the page in the browser, signed in."""
    service = need_service(options_given(vault, state))
    if phone:
        open_on_phone(service)
        return
    if not only_print:
        show_page(service)
        return
    out.say(service.address)
    out.say(link(service))
    err.say("The link signs a browser in, once within a minute.", "dim")


# Open the page on a phone: what that opens and to whom, a QR code, and what happens until Ctrl-C.


_SQUARES = " ▄▀█"
# The service itself listens, and not a relay in this process: so it knows which requests came from the network, and
# can refuse the token, the other names of this machine and the sessions of its own browsers there.


def open_on_phone(service: Service) -> None:
    """Let a phone in until Ctrl-C, or until the service ends it.

    Raises ConfigurationError without a private network, or if its address cannot be used; ServiceError.
    """
    from service.runtime.sockets import lan_address  # noqa: PLC0415

    host = lan_address()
    out.say(f"Until this command ends, Everindex listens at http://{host}:{service.port}, too.")
    out.say(
        "Anyone in this network who has the code below within two minutes can read and change the notes of"
        f" {service.root}."
    )
    out.say("The connection is not encrypted: do this only in a network that you trust.", "yellow")
    try:
        for event in service.events("/phone", host=host):
            if "code" in event:
                _show_code(f"http://{host}:{service.port}/open/{event['code']}")
            elif "signed_in" in event:
                out.say(
                    "A phone is signed in, and the code is used up. It stays signed in until Ctrl-C, or until it asks"
                    f" for no page in {event['signed_in']}; then the address is closed."
                )
            else:
                out.say(f"Closed: {event['over']}.")
                return
    except KeyboardInterrupt:
        out.say("Closed. The phone is signed out.")


def _show_code(address: str) -> None:
    from rich.text import Text  # noqa: PLC0415

    try:
        _SQUARES.encode(out.encoding)
    except UnicodeEncodeError:
        out.say("Type this address into the phone's browser, within two minutes:")
    else:
        out.print()
        for line in _drawn(address):
            # In any terminal a camera needs dark on light.
            out.print(Text(line, "black on white"), soft_wrap=True)
        out.print()
        out.say("Scan it with the phone's camera, or type this address there, within two minutes:")
    out.say(f"  {address}", "bold")


def _drawn(address: str) -> Iterator[str]:
    """Yield the lines of a QR code; each character is two of its squares, one above the other."""
    import segno  # noqa: PLC0415 - only this needs it

    rows = [list(row) for row in segno.make_qr(address).matrix_iter(border=4)]
    rows += [[0] * len(rows[0])] * (len(rows) % 2)
    for upper, lower in zip(rows[::2], rows[1::2], strict=True):
        yield "".join(
            _SQUARES[2 * bool(above) + bool(below)] for above, below in zip(upper, lower, strict=True)
        )


@app.command()
@vault_option
@state_option
def token(vault: Path | None, state: Path | None) -> None:
    """Print the token that programs send to the service."""
    from service.runtime.client import LOOPBACK, read_token, running  # noqa: PLC0415
    from workers.vault_paths import locate_vault  # noqa: PLC0415

    given = located(options_given(vault, state))
    folder = locate_vault(vault_of(given), given.get("state"), create=False).state
    out.say(read_token(folder))
    if out.is_terminal:
        service = running(folder)
        address = service.address if service else f"http://{LOOPBACK}:{settings_of(given).port}"
        out.say(
            f'For example: curl -H "Authorization: Bearer $(everindex token)" "{address}/search?q=soil"',
            "dim",
        )


# The command that prints what makes a shell complete `everindex`.


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell."""
    made_by = get_completion_class(shell)
    if made_by is None:
        raise click.BadParameter(f"{shell} cannot be completed")
    out.say(made_by(context.find_root().command, {}, "everindex", "_EVERINDEX_COMPLETE").source())


# The command that shows what Everindex does, on a vault that is not the user's.


_PACKAGED = Path(__file__).parents[1] / "example_vault"
_CHECKOUT = Path(__file__).parents[2] / "examples" / "vault"


@app.command()
@port_option
@click.pass_context
def demo(context: click.Context, port: int | None) -> None:
    """Serve an example vault from a temporary folder, until Ctrl-C.

    The folder is removed then.
    """
    from workers.vault_paths import find_vault  # noqa: PLC0415 - help has to be instant

    wanted = _free_port(port)
    with tempfile.TemporaryDirectory(prefix="everindex-demo-") as folder:
        root = Path(folder).resolve() / "vault"
        copy_example(root)
        state = find_vault(root, None, create=True).state
        out.say(f"An example vault is in {root}; change its notes as you like. It is removed at the end.")
        try:
            context.invoke(up, folder=root, vault=None, port=wanted, state=state)
        finally:
            shutil.rmtree(state, ignore_errors=True)


def copy_example(root: Path) -> None:
    """Copy the example vault, without the id of the original. Raises OSError."""
    original = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    shutil.copytree(original, root, ignore=shutil.ignore_patterns(".everindex"))


def _free_port(wanted: int | None) -> int:
    """Return the port given, or else the one of the settings if it is free, or else 0, which is any.

    Raises ConfigurationError if the port given is in use.
    """
    from service.runtime.sockets import bind  # noqa: PLC0415 - help has to be instant

    if wanted is not None:
        bind(wanted).close()
        return wanted
    port = settings_of({}).port
    try:
        bind(port).close()
    except ConfigurationError:
        return 0
    return port
