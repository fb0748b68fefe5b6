"""Checks of the vault: its id, its own files, what can be watched, and the times of its notes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pipelines import domains
from pipelines.context.recipes import CONTEXTS_FILE, read_recipes
from pipelines.domains import DOMAINS_FILE
from pipelines.errors import (
    ContextsFileError,
    DomainsFileError,
    JudgedQueriesError,
    ScopesFileError,
    VaultIdError,
)
from pipelines.formats import FORMATS, SCANNED, install_command
from pipelines.search.evaluate import QUERIES_FILE, read_judged
from pipelines.search.scopes import SCOPES_FILE, read_scopes
from pipelines.tagging import vocabulary
from pipelines.vault.files import is_note, path_on_disk
from pipelines.vault.identity import DOT_FOLDER, ID_FILE, read_id
from pipelines.vault.paths import walk
from service.runtime.watch_limits import count_folders, inotify_in_use, network_file_system, read_limit
from service.usecases.doctor.finding import Finding, Installation, failure, ok, warning
from service.usecases.phrases import counted
from workers.resources import GOOD_DOMAINS_FILE
from workers.vault_paths import was_indexed

_A_DAY = 86_400.0


def check_id(looked_at: Installation) -> Iterator[Finding]:
    """Read the id that ties the vault to its state folder."""
    root, place = looked_at.root, looked_at.place
    if root is None:
        yield warning("vault", "no vault was examined", "name one: `everindex doctor VAULT`")
        return
    file = root / DOT_FOLDER / ID_FILE
    try:
        found = read_id(root)
    except VaultIdError:
        if place is not None:
            yield warning(
                "id",
                f"{file} is damaged",
                f"run `everindex up {root}`, which writes {place.identity.vault_id} again",
            )
        else:
            yield failure(
                "id",
                f"{file} is damaged, and no state folder remembers what was in it",
                "write the name of the vault's state folder into it, or delete it to index the vault from scratch",
            )
        return
    if found:
        yield ok("id", f"{root} is {found}")
    elif not os.access(root, os.W_OK):
        yield warning(
            "id",
            f"{root} cannot be written: the vault is known by its path alone, and no tag can be accepted",
            "make the folder writable, or leave it: searching needs nothing more",
        )
    elif place is not None and was_indexed(place, named=looked_at.settings.state is not None):
        yield warning("id", f"{file} is lost", f"run `everindex up {root}`, which writes it again")


def check_files(looked_at: Installation) -> Iterator[Finding]:
    """Read the files with which a vault configures Everindex, as the services would."""
    root = looked_at.root
    if root is None:
        return
    try:
        known = domains.load(root).domains
        yield ok("domains", ", ".join(domain.slug for domain in known))
    except DomainsFileError as error:
        place = looked_at.place
        is_remembered = place is not None and (place.state / GOOD_DOMAINS_FILE).is_file()
        until = "the last valid one is in force" if is_remembered else "Everindex does not start again"
        yield failure("domains", str(error), f"correct {DOMAINS_FILE}; until then {until}")
        known = ()
    for domain in known:
        if problem := vocabulary.load(root, path_on_disk(root, domain.within(domain.taxonomy))).error:
            yield failure(
                "taxonomy",
                "; ".join(problem.splitlines()),
                "correct the file; until then the last good vocabulary is in force",
            )
    if os.path.lexists(root / QUERIES_FILE):
        try:
            read_judged(root)
        except JudgedQueriesError as error:
            yield failure("queries", str(error), f"correct {QUERIES_FILE}; `everindex eval` needs it")
    try:
        read_scopes(root)
    except ScopesFileError as error:
        yield failure("scopes", str(error), f"correct {SCOPES_FILE}; until then no scope can be used")
    try:
        read_recipes(root)
    except ContextsFileError as error:
        yield failure("contexts", str(error), f"correct {CONTEXTS_FILE}; until then no recipe can be used")


def check_readers(looked_at: Installation) -> Iterator[Finding]:
    """Look for the libraries that read the formats that the vault's domains name."""
    if looked_at.root is None:
        return
    try:
        named = {name for domain in domains.load(looked_at.root).domains for name in domain.formats or ()}
    except DomainsFileError:
        return  # `check_files` says what is wrong with the file
    missing: dict[str, list[str]] = {}
    for form in FORMATS:
        if form.name in named and (extra := form.lacks):
            missing.setdefault(extra, []).append(form.name)
    for extra, names in missing.items():
        yield warning(
            "readers",
            f"{DOMAINS_FILE} names {', '.join(names)}, but no reader is installed, so such files are ignored",
            f"run: {install_command(extra)}",
        )
    if SCANNED.name in named and not missing and (extra := SCANNED.lacks):
        cure = f"to read them: {install_command(extra)}"
        yield ok("readers", f"scanned pages of {SCANNED.name} files are not read; {cure}")


def check_watching(looked_at: Installation) -> Iterator[Finding]:
    """Compare the vault with what can be watched."""
    root = looked_at.root
    if root is None:
        return
    if kind := network_file_system(root):
        yield warning(
            "watcher",
            f"{root} lies on a network file system ({kind}), so it is compared every two seconds instead of watched",
            "to have saves found at once, keep the vault on a local disk",
        )
        return
    folders, watches, instances = (
        count_folders(root),
        read_limit("max_user_watches"),
        read_limit("max_user_instances"),
    )
    instances_used, watches_used = inotify_in_use()
    if watches is not None and folders > watches:
        yield _raise_limit(
            "max_user_watches", watches, f"{root} has {counted(folders, 'folder')}", 2 * folders
        )
    elif watches is not None and watches_used >= watches:
        yield _raise_limit("max_user_watches", watches, "your programs use all watches", 2 * watches)
    if instances is not None and instances_used >= instances:
        yield _raise_limit("max_user_instances", instances, "your programs use all instances", 2 * instances)


def _raise_limit(name: str, limit: int, why: str, wanted: int) -> Finding:
    return warning(
        "watcher",
        f"{why}, and fs.inotify.{name} is {limit}",
        f"raise it: `sudo sysctl fs.inotify.{name}={wanted}`, and write that line into /etc/sysctl.d/90-inotify.conf",
    )


def check_times(looked_at: Installation) -> Iterator[Finding]:
    """Look for notes that were saved in the future: the clock, or they, are wrong."""
    if looked_at.root is None:
        return
    late = sorted(_from_the_future(looked_at.root, time.time() + _A_DAY), reverse=True)
    if late:
        latest, path = late[0]
        try:
            day = datetime.fromtimestamp(latest).astimezone().strftime("%Y-%m-%d")
        except (ValueError, OverflowError, OSError):  # no calendar has it
            day = "an impossible day"
        yield warning(
            "clock",
            f"{counted(len(late), 'note was', 'notes were')} saved in the future, the latest on {day} ({path})",
            "set the clock (`timedatectl set-ntp true`); if it is right, `touch` these notes",
        )


def _from_the_future(root: Path, now: float) -> Iterator[tuple[float, str]]:
    for folder, descriptor, names in walk(root):
        for name in filter(is_note, names):
            with suppress(OSError):  # deleted meanwhile
                changed = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mtime
                if changed > now:
                    yield changed, f"{folder}/{name}" if folder else name
