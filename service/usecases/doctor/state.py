"""Checks of the state folder: whose it is, who may read it, its secrets, its databases, its disk."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress

from pipelines import domains
from pipelines.errors import DomainsFileError, ModelUnavailableError
from pipelines.indexing.ingest import chunking_of
from pipelines.maintenance.databases import current_caches, damage, meta_of
from pipelines.state.state import STATE_FILE
from queue_config.secrets import SECRETS, NotPrivateError, check_owner, check_secrets
from service.usecases.doctor.finding import Finding, Installation, cured, failure, ok, warning
from service.usecases.domain_state import describe_change
from service.usecases.health import storage_problem
from workers.resources import chosen_chunking, recorded_model
from workers.vault_paths import was_indexed, why_not_indexed

_LITTLE_SPACE = 1_000_000_000
_OTHERS = 0o077


def check_state(looked_at: Installation) -> Iterator[Finding]:
    """Say whether the vault has a state folder that its user alone may read."""
    place = looked_at.place
    if place is None:
        return
    if not place.state.is_dir() or not was_indexed(place, named=looked_at.settings.state is not None):
        yield warning("state", *why_not_indexed(place))
        return
    try:
        check_owner(place.state, vault=place.root)
    except NotPrivateError as error:
        yield failure("state", *cured(error))
        return
    mode = stat.S_IMODE(place.state.stat().st_mode)
    if mode & _OTHERS:
        yield failure(
            "state",
            f"other users may open the state folder {place.state} (mode {mode:o})",
            f"close it: `chmod 700 {place.state}`",
        )
    else:
        yield ok("state", str(place.state))


def check_private_files(looked_at: Installation) -> Iterator[Finding]:
    """Check the token and the queue's key, where they are made."""
    place = looked_at.place
    if place is None or not place.state.is_dir():
        return
    for secret in SECRETS:
        try:
            check_secrets(place.state, [secret])
        except NotPrivateError as error:
            yield failure("secrets", *cured(error))


def check_database(looked_at: Installation) -> Iterator[Finding]:
    """Read the database of decisions and history."""
    place = looked_at.place
    if place is not None and (problem := damage(place.state / STATE_FILE)):
        yield failure(
            "database",
            f"{place.state / STATE_FILE} is damaged ({problem})",
            "stop Everindex, then `everindex restore FILE`; without a backup `everindex index --rebuild`",
        )


def check_indexes(looked_at: Installation) -> Iterator[Finding]:
    """Read the index of each domain."""
    place = looked_at.place
    if place is None:
        return
    try:
        slugs = [domain.slug for domain in domains.load(place.root).domains]
    except DomainsFileError:
        return  # its own check says so
    for file in current_caches(place.state, slugs):
        if problem := damage(file):
            yield failure(
                "index",
                f"{file} is damaged ({problem})",
                "run `everindex index --rebuild`, which builds a new one from the notes",
            )


def check_passages(looked_at: Installation) -> Iterator[Finding]:
    """Compare how each domain's index splits and embeds notes with the settings."""
    place = looked_at.place
    if place is None:
        return
    try:
        known = domains.load(place.root).domains
    except DomainsFileError:
        return  # its own check says so
    for domain, file in zip(known, current_caches(place.state, [one.slug for one in known]), strict=True):
        meta = meta_of(file)
        if meta is None:
            continue  # never indexed, or damaged, which another check says
        with suppress(ModelUnavailableError):  # likewise
            info = recorded_model(looked_at.settings, meta.model, place.root)
            wanted = chosen_chunking(looked_at.settings, info, domain)
            if change := describe_change(chunking_of(meta.pipeline), wanted):
                yield warning(
                    "passages",
                    f"{domain.slug}: {change}",
                    "run `everindex reembed`; `everindex status` says what it costs",
                )


def check_disk(looked_at: Installation) -> Iterator[Finding]:
    """Say whether the state folder can be written, and how much space its disk has."""
    place = looked_at.place
    if place is None or not place.state.is_dir():
        return
    free = shutil.disk_usage(place.state).free
    if problem := storage_problem(place.state):
        yield failure("disk", problem, "free some space, or make the folder writable")
    elif free < _LITTLE_SPACE:
        yield warning("disk", f"{free / 1e6:.0f} MB are free on the disk of {place.state}", "free some space")
    else:
        yield ok("disk", f"{free / 1e9:.0f} GB free")
