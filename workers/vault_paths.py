"""Find a vault and its state folder. Imports nothing heavy, because every command needs it."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import (
    AlreadyRunningError,
    ConfigurationError,
    NotFoundError,
    StateError,
    VaultIdError,
    VaultNotFoundError,
)
from pipelines.vault.atomic import write_atomic
from pipelines.vault.identity import (
    DOT_FOLDER,
    ID_FILE,
    Identity,
    Seen,
    id_by_path,
    identify,
    identify_anew,
    read_id,
)
from queue_config.folders import state_home
from queue_config.secrets import NotPrivateError, check_secrets, secure_folder

VAULT_FILE = "vault.json"


@dataclass(frozen=True, slots=True)
class VaultPaths:
    """The folders of a vault and of its state, and the vault's identity."""

    root: Path
    state: Path
    identity: Identity

    @property
    def displaced(self) -> Path:
        """The folder for files that an exchange displaced."""
        return self.state / "displaced"


def locate_vault(
    vault: Path | None,
    state: Path | None,
    *,
    create: bool = True,
    stored_id: Callable[[Path], str | None] = lambda _: None,
) -> VaultPaths:
    """Find a vault and its state folder, by default the one named after the vault's id.

    Both are created at first use. Without `create` nothing is written, a vault that was never indexed raises
    NotFoundError, and one whose folder is moved away or not mounted is found by its state folder. `stored_id` returns
    the id of a vault that is on another host, by the path that its folder would have here. Raises
    VaultNotFoundError, VaultIdError, StateError, ConfigurationError, AlreadyRunningError.
    """
    place = (
        (None if create else _unavailable(vault, state))
        or _elsewhere(vault, state, stored_id)
        or find_vault(vault, state, create=create)
    )
    root, identity, folder = place.root, place.identity, place.state
    if not create and not was_indexed(place, named=state is not None):
        raise NotFoundError("; ".join(why_not_indexed(place)))
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_secrets(folder)  # first, because secure_folder removes the evidence: others' permissions
        secure_folder(folder, VAULT_FILE, vault=root)
        if create:
            _write_down(folder, root, identity)
    except NotPrivateError as error:
        raise StateError(str(error)) from error
    except OSError as error:
        raise cannot_be_written(folder, error) from error
    return place


def find_vault(vault: Path | None, state: Path | None, *, create: bool = False) -> VaultPaths:
    """Return the paths of a vault and its state folder, whether or not the state folder exists.

    Writes the vault's id if `create` is true, and nothing else. Raises VaultNotFoundError, VaultIdError,
    ConfigurationError, StateError if the state folder is inside the vault, and AlreadyRunningError for a copy that is
    watched with another state folder: a new id would take it from that one.
    """
    if vault is None:
        raise ConfigurationError(
            "no vault was given, and the current folder is not in one; name the folder of your notes, as in"
            " `everindex up ~/Notes`, with --vault or with EVERINDEX_VAULT"
        )
    root = vault.expanduser().resolve()
    identity = identify(root, lambda: _seen(root, state), create=create)
    if state is None and create and _is_copy(root, identity):
        if running := _running_elsewhere(root, state_home() / identity.vault_id):
            raise AlreadyRunningError(f"{root} is in use: {running}, or stop it first")
        identity = identify_anew(root)
    folder = (state or state_home() / identity.vault_id).expanduser().resolve()
    if folder.is_relative_to(root):
        raise StateError(f"the state folder {folder} is inside the vault; choose one outside it (--state)")
    return VaultPaths(root, folder, identity)


def not_there(root: Path) -> VaultNotFoundError:
    """Return the error about a vault that is moved away or not mounted."""
    return VaultNotFoundError(
        f"the vault {root} is not there (moved away, or not mounted?); mount it or move it back. Its index is kept"
    )


def on_another_host(root: Path) -> VaultNotFoundError:
    """Return the error about what only the host can do that has the vault."""
    return VaultNotFoundError(f"{root} is on another host; do this there")


def _unavailable(vault: Path | None, state: Path | None) -> VaultPaths | None:
    """Return the paths of a vault that is moved away or not mounted, as its state folder remembers it, or None."""
    root = vault.expanduser().resolve() if vault else None
    if root is None or not _is_missing(root):
        return None
    seen = next(iter(_seen(root, state)), None)
    if seen is None:
        return None
    folder = (state or state_home() / seen.vault_id).expanduser().resolve()
    marked = seen.vault_id != id_by_path(root)
    return VaultPaths(root, folder, Identity(seen.vault_id, marked=marked, device=0, inode=seen.inode or 0))


def _elsewhere(
    vault: Path | None, state: Path | None, stored_id: Callable[[Path], str | None]
) -> VaultPaths | None:
    """Return the paths of a vault that is on another host, or None."""
    root = vault.expanduser().resolve() if vault else None
    if root is None or not _is_missing(root) or (known := stored_id(root)) is None:
        return None
    folder = (state or state_home() / known).expanduser().resolve()
    return VaultPaths(root, folder, Identity(known, marked=True, device=0, inode=0))


def _is_missing(root: Path) -> bool:
    """Say whether nothing is at a path, or an empty folder: a mount point without its disk."""
    try:
        return next(root.iterdir(), None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False


def was_indexed(place: VaultPaths, *, named: bool) -> bool:
    """Say whether a state folder belongs to its vault; `named`: it was chosen with --state, not by the vault's id."""
    return _is_of(place.state, place.root, place.identity) and (
        named or not _is_copy(place.root, place.identity)
    )


def why_not_indexed(place: VaultPaths) -> tuple[str, str]:
    """Return what is wrong with a vault for which `was_indexed` is false, and the cure."""
    root, state = place.root, place.state
    if running := _running_elsewhere(root, state):
        return f"{root} has no index in {state}", running
    if place.identity.marked and not state.exists():
        cure = (
            f"put it back, restore a backup (`everindex restore FILE`), or run `everindex up {root}`, which indexes"
            " the notes again and knows no earlier decisions"
        )
        return f"the state folder {state} of {root} is not there", cure
    return f"{root} was never indexed", f"run `everindex up {root}`"


def _running_elsewhere(root: Path, state: Path) -> str | None:
    """Say which Everindex watches a vault with another state folder, and how to choose it; None: none does."""
    from workers.watchers import watchers  # noqa: PLC0415 - only errors need it

    for folder, process in watchers(root).items():
        if folder != state:
            chosen = shlex.quote(str(folder))
            return f"Everindex (process {process}) runs on it; choose that one with `--state {chosen}`"
    return None


def remembered(root: Path) -> list[Path]:
    """Return the state folders, among those named after ids, that were created for the vault at a path."""
    return sorted(
        file.parent
        for file in state_home().glob(f"*/{VAULT_FILE}")
        if _said(file.parent).get("root") == str(root)
    )


def vault_around(folder: Path) -> Path | None:
    """Return the nearest vault that contains a folder: the one with an id that belongs to this user.

    Another user may leave an id anywhere above, for instance in `/tmp`; such a vault has to be named explicitly.
    """
    return next((one for one in (folder, *folder.parents) if _has_own_id(one)), None)


def _has_own_id(folder: Path) -> bool:
    with suppress(OSError):
        found = (folder / DOT_FOLDER / ID_FILE).lstat()
        return stat.S_ISREG(found.st_mode) and found.st_uid in (os.geteuid(), 0)
    return False


def cannot_be_written(state: Path, error: OSError) -> StateError:
    """Return the error for a state folder that cannot be written."""
    return StateError(
        f"the state folder {state} cannot be written ({error.strerror}); make it writable, or choose another with "
        "--state"
    )


def _write_down(folder: Path, root: Path, identity: Identity) -> None:
    said = json.dumps({"root": str(root), "id": identity.vault_id, "inode": identity.inode}).encode()
    file = folder / VAULT_FILE
    # Write only changes, because a process must be able to start on a full disk.
    if not file.exists() or file.read_bytes() != said:
        write_atomic(file, said)


def _said(folder: Path) -> dict[str, Any]:
    """Return what a state folder records about its vault; empty if the folder is missing or damaged."""
    try:
        said = json.loads((folder / VAULT_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _seen(root: Path, state: Path | None) -> list[Seen]:
    """Return what state folders remember of the vault at a path, newest first.

    Folders from when the vault could not be given an id come last.
    """
    folders = (
        [state.expanduser()] if state else [file.parent for file in state_home().glob(f"*/{VAULT_FILE}")]
    )
    found = []
    for folder in folders:
        said = _said(folder)
        if said.get("root") == str(root) and isinstance(said.get("id"), str):
            found.append(
                (said["id"] != id_by_path(root), _changed(folder), Seen(said["id"], said.get("inode")))
            )
    return [seen for *_, seen in sorted(found, key=lambda one: one[:2], reverse=True)]


def _changed(folder: Path) -> float:
    try:
        return (folder / VAULT_FILE).stat().st_mtime
    except OSError:
        return 0.0


def _is_of(folder: Path, root: Path, identity: Identity) -> bool:
    """Say whether a state folder belongs to a vault."""
    said = _said(folder)
    return bool(said) and (said.get("root") == str(root) or said.get("id") == identity.vault_id)


def _is_copy(root: Path, identity: Identity) -> bool:
    """Say whether this vault is a copy, including its id file, of a vault that is still in its place."""
    original = _said(state_home() / identity.vault_id).get("root")
    if not identity.marked or not isinstance(original, str) or original == str(root):
        return False
    try:
        return read_id(Path(original)) == identity.vault_id
    except VaultIdError:
        return False
