"""A line in the vault's `.everindexignore` that ignores exactly one file or folder."""

from __future__ import annotations

import re
import secrets
import stat
import unicodedata
from pathlib import Path

from pipelines import beneath, in_folder
from pipelines.errors import AlreadyThereError, NoteError, NotFoundError, UnsafePathError

IGNORE_FILE = ".everindexignore"
_SPECIAL = re.compile(r"[\\*?\[]")
_ENCODING = ("utf-8", "surrogateescape")  # a file's name may be any bytes


def ignore(root: Path, path: str) -> str:
    """Add the line that ignores a file or folder of the vault, and return the line.

    Raises NotFoundError where there is none, UnsafePathError for a path outside of the vault, AlreadyThereError where
    the line is there, NoteError where the file cannot be read, OSError.
    """
    try:
        is_folder = stat.S_ISDIR(beneath.look(root, path).st_mode)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"there is no {path} in {root}; give its path as it is in the vault") from error
    line = _line_for(path, is_folder=is_folder)
    lines = _read(root)
    if line in lines:
        raise AlreadyThereError(f"{path} is ignored already, by {line} in {IGNORE_FILE}")
    _write(root, [*lines, line])
    return line


def stop_ignoring(root: Path, path: str) -> str:
    """Remove the line that `ignore` added, whether or not the file is still there, and return the line.

    Raises NotFoundError where there is no such line, UnsafePathError, NoteError, OSError.
    """
    lines = _read(root)
    wanted = {_line_for(path, is_folder=is_folder) for is_folder in (False, True)}
    found = next((line for line in lines if line in wanted), None)
    if found is None:
        raise NotFoundError(
            f"no line of {IGNORE_FILE} ignores exactly {path}; `everindex why` names the rule that does"
        )
    _write(root, [line for line in lines if line != found])
    return found


def _line_for(path: str, *, is_folder: bool) -> str:
    """Return the pattern that names one path and no other. Raises UnsafePathError."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or not parts:
        raise UnsafePathError(f"{path!r} is not a path in the vault; only what is in it can be ignored")
    if set("\0\r\n") & set(path):
        raise UnsafePathError(f"{path!r} has a line break, which no line can name; rename it")
    pattern = _SPECIAL.sub(r"\\\g<0>", unicodedata.normalize("NFC", "/" + "/".join(parts)))
    if is_folder:
        return f"{pattern}/"
    name = pattern.rstrip(" ")
    return name + "\\ " * (len(pattern) - len(name))


def _read(root: Path) -> list[str]:
    with beneath.folder(root) as folder:
        found = in_folder.look(folder, IGNORE_FILE)
    if isinstance(found, NoteError):
        raise found
    text = (found or b"").decode(*_ENCODING)
    return text.removesuffix("\n").split("\n") if text else []


def _write(root: Path, lines: list[str]) -> None:
    """Replace the file at once; its mode and owner stay."""
    data = "".join(f"{line}\n" for line in lines).encode(*_ENCODING)
    with beneath.folder(root) as folder:
        beside = f".everindex-{secrets.token_hex(8)}.tmp"
        like = IGNORE_FILE if in_folder.exists(folder, IGNORE_FILE) else None
        try:
            in_folder.write_new(folder, beside, data, like=like)
            in_folder.move(folder, beside, IGNORE_FILE)
        finally:
            in_folder.unlink(folder, beside)
        in_folder.sync(folder)
