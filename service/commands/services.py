"""The commands that run or show the long-running processes: up, watch, work, serve and open."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.errors import AlreadyRunningError
from service.commands.terminal import (
    folder_argument,
    need_service,
    options_given,
    out,
    port_option,
    settings_of,
    state_option,
    supervised_option,
    vault_option,
)

if TYPE_CHECKING:
    from queue_config.settings import Settings

app = click.Group()


@app.command()
@folder_argument
@vault_option
@port_option
@state_option
def up(folder: Path | None, vault: Path | None, port: int | None, state: Path | None) -> None:
    """Index a vault, watch it and serve it, until Ctrl-C."""
    from service.client import running  # noqa: PLC0415
    from service.listen import bind  # noqa: PLC0415
    from service.lock import only_one  # noqa: PLC0415
    from service.up import Supervisor  # noqa: PLC0415
    from workers.place import open_place  # noqa: PLC0415

    given = options_given(folder or vault, state, port)
    settings = settings_of(given)
    place = open_place(settings.vault, settings.state)
    try:
        with only_one(place.state):
            bind(settings.port).close()
    except AlreadyRunningError:
        service = running(place.state)
        where = f"at {service.address} (process {service.pid})" if service else f"with state in {place.state}"
        out.print(f"Everindex is already running on {place.root}, {where}", soft_wrap=True)
        return
    arguments = ["--vault", str(place.root), "--state", str(place.state), "--port", str(settings.port)]
    supervisor = Supervisor(place.state, arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    try:
        # These two load while it is looked whether they can work: whoever waits for the service, waits for them.
        supervisor.start("query", "watcher")
        _check(settings)
        out.print(f"Everindex on {given.get('vault', place.root)}", soft_wrap=True, markup=False)
        supervisor.start("worker")
        _follow_first_index(supervisor, stop)
        supervisor.keep(stop)
        out.print("Stopping …")
    finally:
        supervisor.stop()


def _check(settings: Settings) -> None:
    """Raise here, not in a child's log, what keeps the models and caches from being used."""
    from workers.resources import Resources  # noqa: PLC0415

    resources = Resources(settings)
    resources.check_models()
    resources.caches()


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
@vault_option
@state_option
@port_option
@supervised_option
def watch(vault: Path | None, state: Path | None, port: int | None, *, supervised: bool) -> None:
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
    Watcher(settings_of(options_given(vault, state, port)), stop).run()


@app.command()
@vault_option
@state_option
@port_option
@supervised_option
def work(vault: Path | None, state: Path | None, port: int | None, *, supervised: bool) -> None:
    """Work the queue: index what changed (any number of processes)."""
    from queue_config.logs import configure  # noqa: PLC0415
    from service.up import stop_with_supervisor  # noqa: PLC0415
    from workers.run import run_worker  # noqa: PLC0415

    configure("worker")
    if supervised:
        stop_with_supervisor(lambda: os.kill(os.getpid(), signal.SIGTERM))
    run_worker(settings_of(options_given(vault, state, port)))


@app.command()
@vault_option
@state_option
@port_option
@supervised_option
def serve(vault: Path | None, state: Path | None, port: int | None, *, supervised: bool) -> None:
    """Answer questions over HTTP on 127.0.0.1 (one process, or one a domain)."""
    from queue_config.logs import configure  # noqa: PLC0415
    from service.server import run_server  # noqa: PLC0415
    from service.up import stop_with_supervisor  # noqa: PLC0415

    configure("query")
    if supervised:
        stop_with_supervisor(lambda: os.kill(os.getpid(), signal.SIGTERM))
    run_server(settings_of(options_given(vault, state, port)))


@app.command("open")
@vault_option
@state_option
def open_page(vault: Path | None, state: Path | None) -> None:
    """Open the page in the browser, signed in."""
    service = need_service(options_given(vault, state))
    code = service.call("POST", "/session")["code"]
    address = f"{service.address}/open/{code}"
    out.print(address, soft_wrap=True)
    click.launch(address)
