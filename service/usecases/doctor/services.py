"""Checks of what runs: the port, this vault's service, others that are in its way, and systemd units."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipelines.errors import ConfigurationError, EverindexError
from queue_config.secrets import NotPrivateError, check_secrets
from service.runtime.client import running
from service.runtime.listeners import listener, service_on
from service.runtime.sockets import bind
from service.runtime.systemd import UnitPaths, unit_folder
from service.usecases.doctor.finding import Finding, Installation, cured, failure, ok, warning
from workers.vault_paths import VaultPaths, remembered
from workers.watchers import watchers


def check_port(looked_at: Installation) -> Iterator[Finding]:
    """Say who listens on the port of the settings."""
    port = looked_at.settings.port
    mine = running(looked_at.place.state) if looked_at.place else None
    if mine is not None or not port:
        return  # what runs has its port
    try:
        bind(port).close()
    except ConfigurationError:
        used = f"port {port} is used by {listener(port)}"
        if looked_at.place is None and service_on(port):
            yield ok("port", used)  # no vault was chosen, so that it is in nobody's way
        else:
            yield failure("port", used, "choose another with --port or EVERINDEX_PORT, or end that program")
    else:
        yield ok("port", f"{port} is free")


def check_service(looked_at: Installation) -> Iterator[Finding]:
    """Ask the vault's service, if one runs, for its problems. It has to prove that it knows the token first."""
    place = looked_at.place
    service = running(place.state) if place else None
    if place is None or service is None:
        return
    try:
        check_secrets(place.state)
        problems = service.call("GET", "/health")["problems"]
    except NotPrivateError:
        return  # its own check says so
    except EverindexError as error:
        yield failure("service", *cured(error))
        return
    for problem in problems:
        yield warning("service", problem, "see `everindex status`")
    if not problems:
        yield ok("service", f"{service.address} (process {service.pid})")


def check_others(looked_at: Installation) -> Iterator[Finding]:
    """Look for other state folders of this vault, and for services that use them."""
    place = looked_at.place
    if place is None:
        return
    others = others_running(place)
    for folder in sorted({*remembered(place.root), *others} - {place.state}):
        if process := others.get(folder):
            yield failure(
                "services",
                f"another Everindex (process {process}) runs on {place.root}, with its state in {folder}",
                "stop one of the two: both apply accepted tags to the same notes",
            )
        else:
            yield warning(
                "services",
                f"{folder} is another state folder of {place.root}",
                f"delete it if you do not need its history, or choose it with `--state {folder}`",
            )


def others_running(place: VaultPaths) -> dict[Path, int]:
    """Return the processes that serve or watch this vault with another state folder, by that folder."""
    serving = {folder: service.pid for folder in remembered(place.root) if (service := running(folder))}
    found = serving | watchers(place.root)
    return {folder: pid for folder, pid in found.items() if folder != place.state}


def check_units(looked_at: Installation) -> Iterator[Finding]:  # noqa: ARG001 - every check takes it
    """Look for systemd units that start what is no longer there."""
    for file in sorted(unit_folder().glob("everindex-*.service")):
        try:
            named = UnitPaths.read(file)
        except (OSError, ValueError, LookupError) as error:
            yield warning(
                "units", f"{file} cannot be read ({error})", "run `everindex service install` again"
            )
            continue
        gone = [path for path in (named.python, named.vault, named.state) if not path.exists()]
        if gone:
            yield warning(
                "units",
                f"the unit {file.name} needs {gone[0]}, which does not exist",
                f"remove it: `systemctl --user disable --now {file.name}`, then `rm {file}`; "
                "`everindex service install VAULT` makes new ones",
            )
