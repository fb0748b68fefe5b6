"""Where a vault and its state lie. Light: every command needs it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pipelines.atomic import write_atomic
from pipelines.errors import ConfigurationError, StateError
from pipelines.identity import DOT_FOLDER, ID_FILE, Identity, identify, identify_anew
from queue_config.folders import state_home

VAULT_FILE = "vault.json"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a vault and its state lie."""

    root: Path
    state: Path
    identity: Identity


def open_place(vault: Path | None, state: Path | None) -> Place:
    """Find a vault and make its state folder, the one that its id names unless another is given.

    Raises VaultNotFoundError, StateError, ConfigurationError.
    """
    if vault is None:
        raise ConfigurationError("no vault was given; name its folder (--vault, or EVERINDEX_VAULT)")
    root = vault.expanduser().resolve()
    identity = identify(root)
    if state is None and _is_copy(root, identity):
        identity = identify_anew(root)
    folder = (state or state_home() / identity.vault_id).expanduser().resolve()
    if folder.is_relative_to(root):
        raise StateError(f"the state folder {folder} lies in the vault; choose one outside it (--state)")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        said = json.dumps({"root": str(root), "id": identity.vault_id}).encode()
        file = folder / VAULT_FILE
        # Nothing is written that is there: a process must start on a full disk, too.
        if not file.exists() or file.read_bytes() != said:
            write_atomic(file, said)
    except OSError as error:
        raise StateError(
            f"the state folder {folder} cannot be written ({error.strerror}); choose another with --state"
        ) from error
    return Place(root, folder, identity)


def _is_copy(root: Path, identity: Identity) -> bool:
    """Say whether this vault is a copy, its id file included, of one that is still where it was."""
    try:
        original = Path(json.loads((state_home() / identity.vault_id / VAULT_FILE).read_text())["root"])
    except (OSError, ValueError, KeyError, TypeError):
        return False  # never seen before
    if original == root or not original.is_dir():
        return False
    marker = original / DOT_FOLDER / ID_FILE
    return identity.marked and marker.is_file() and marker.read_text().strip() == identity.vault_id
