"""The user's folders (XDG, also on macOS). Imports little: every command needs it."""

from __future__ import annotations

from pathlib import Path

from platformdirs.unix import Unix

CONFIG_FILE = "config.toml"
_XDG = Unix("everindex", appauthor=False)


def config_file() -> Path:
    """Return the path of the TOML file that is read after the environment; it need not exist."""
    return Path(_XDG.user_config_dir) / CONFIG_FILE


def state_home() -> Path:
    """Return the folder that holds one state folder per vault."""
    return Path(_XDG.user_state_dir)


def is_visible_folder(path: str) -> bool:
    """Say whether a path is that of a folder within another, without hidden or empty names on the way."""
    parts = path.rstrip("/").split("/")
    return all(part.strip() and part.isprintable() and not part.startswith(".") for part in parts)
