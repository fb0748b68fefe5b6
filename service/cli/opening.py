"""Open a note where its user reads and writes: in Obsidian, or in an editor."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigurationError, UnsafePathError
from pipelines.formats import format_of
from pipelines.vault import paths
from pipelines.vault.files import path_on_disk
from pipelines.vault.obsidian import is_vault, open_link
from service.cli.options import open_address, resources_of, settings_of
from workers.vault_paths import not_there

# Most editors take `+LINE FILE`; these would open a second file named `+LINE`.
_GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf")
_COLON = ("hx", "subl", "zed")
_NOT_TEXT = ("pdf", "xlsx", "pptx", "docx")
"""Formats that an editor shows as unreadable bytes."""


def open_hit(given: dict[str, Any], root: Path, path: str, line: int) -> None:
    """Record that the user chose a note, and open it like `open_note`, with the same errors."""
    if settings_of(given).attention:
        from workers.attention import chosen  # noqa: PLC0415 - most users record nothing

        chosen(resources_of(given), [path], "opened")
    open_note(root, path, line)


def open_note(root: Path, path: str, line: int) -> None:
    """Open the note with this key: in Obsidian if the vault is one of Obsidian's, else in `$VISUAL` or `$EDITOR`.

    A document that is not text opens in the program that the system has for it.
    Raises VaultNotFoundError, UnsafePathError for what is no regular file of the vault, ConfigurationError where no
    program opens it, OSError.
    """
    if not root.is_dir():
        raise not_there(root)
    raw = path_on_disk(root, path)
    if not stat.S_ISREG(paths.look(root, raw).st_mode):
        raise UnsafePathError(f"{path!r} is not a regular file; it was not opened")
    file = root.resolve() / raw
    if is_vault(root) and open_address(open_link(root, path)):
        return
    form = format_of(path)
    if form and form.name in _NOT_TEXT:
        if not open_address(file.as_uri()):
            raise ConfigurationError(f"no program could be started that opens {file}")
        return
    try:
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError as error:
        raise ConfigurationError(f"EDITOR cannot be read ({error}); correct its quotes") from error
    if not editor:
        raise ConfigurationError("no program is named that opens notes; set EDITOR, as in EDITOR=nano")
    try:
        # No shell, and an absolute path is never taken for an option.
        subprocess.run([*editor, *_at_line(editor[0], file, line)], check=True)  # noqa: S603 - the user's own editor
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it ended with status {error.returncode}"
        raise ConfigurationError(
            f"{editor[0]} did not open the note ({why}); set EDITOR to another"
        ) from error


def _at_line(program: str, file: Path, line: int) -> list[str]:
    """Return an editor's arguments for opening a file at a line."""
    name = Path(program).stem
    if name in _GOTO:
        return ["--goto", f"{file}:{line}"]
    return [f"{file}:{line}"] if name in _COLON else [f"+{line}", str(file)]
