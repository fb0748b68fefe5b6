"""A line in the vault's `.everindexignore` that ignores exactly one file or folder."""

from __future__ import annotations

import codecs
import re
import stat
import unicodedata
from collections.abc import Callable
from pathlib import Path

from pipelines.disk import beneath, in_folder
from pipelines.disk.ignore import MOST_BYTES
from pipelines.disk.safe_replace import remove_if_unchanged, replace_if_unchanged
from pipelines.errors import (
    AlreadyThereError,
    NoteChangedError,
    NoteError,
    NotFoundError,
    OverruledError,
    UnsafePathError,
)

IGNORE_FILE = ".everindexignore"
HEAD = "# Kept out of the index, in the syntax of .gitignore."
"""The first line of a file that Everindex made."""

_CR = "\r"  # the end of a line that an editor on Windows wrote, before its line feed
_MOST_TRIES = 3
_SPECIAL = re.compile(r"[\\*?\[]")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ENCODING = ("utf-8", "surrogateescape")  # a file's name may be any bytes


def ignore(root: Path, path: str, displaced: Path) -> str:
    """Add the line that ignores a file or folder of the vault, and return the line.

    The file that is replaced is kept in the folder `displaced` for a while. Raises NotFoundError where there is no
    such path, UnsafePathError for a path outside of the vault, AlreadyThereError where the line is there,
    OverruledError, NoteError where the file cannot be read or is being written, StateError, OSError.
    """
    try:
        is_folder = stat.S_ISDIR(beneath.look(root, path).st_mode)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"there is no {path} in {root}; give its path as it is in the vault") from error
    line = line_for(path, is_folder=is_folder)

    def added(lines: list[str] | None) -> list[str]:
        if lines is None:
            return [HEAD, line]
        if line in map(_bare, lines):
            raise AlreadyThereError(f"{path} is ignored already, by {line} in {IGNORE_FILE}")
        return [*lines, line + (_CR if lines and all(one.endswith(_CR) for one in lines) else "")]

    _edit(root, added, displaced)
    return line


def stop_ignoring(root: Path, path: str, displaced: Path) -> str:
    """Remove the line that `ignore` added, whether or not the file is still there, and return the line.

    A file that Everindex made goes with its last line.
    Raises NotFoundError where there is no such line, UnsafePathError, OverruledError, NoteError, StateError, OSError.
    """
    wanted = {line_for(path, is_folder=is_folder) for is_folder in (False, True)}
    removed: list[str] = []

    def left(lines: list[str] | None) -> list[str] | None:
        removed[:] = [line for line in map(_bare, lines or []) if line in wanted]
        if not (lines and removed):
            raise NotFoundError(
                f"no line of {IGNORE_FILE} ignores exactly {path}; `everindex why` names the rule that does"
            )
        rest = [line for line in lines if _bare(line) not in wanted]
        return None if rest == [HEAD] else rest

    _edit(root, left, displaced)
    return removed[0]


def _bare(line: str) -> str:
    return line.removesuffix(_CR)


def line_for(path: str, *, is_folder: bool) -> str:
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


def _edit(root: Path, change: Callable[[list[str] | None], list[str] | None], displaced: Path) -> None:
    """Change the lines of the file; None stands for no file. Lines that an editor saves meanwhile stay.

    Raises OverruledError, NoteError, StateError.
    """
    with beneath.folder(root) as folder:
        found = in_folder.look(folder, IGNORE_FILE)
    for _ in range(_MOST_TRIES):
        if isinstance(found, NoteError):
            raise found
        lines = change(None if found is None else _lines_of(found))
        if lines is None and found is not None:
            found = remove_if_unchanged(root, IGNORE_FILE, found, displaced)
        else:
            new = "".join(f"{line}\n" for line in lines or []).encode(*_ENCODING)
            if len(new) > max(MOST_BYTES, len(found or b"")):
                raise OverruledError(
                    f"{IGNORE_FILE} would have more than {MOST_BYTES:,} bytes, and none of its rules would apply; "
                    "shorten it"
                )
            found = replace_if_unchanged(root, IGNORE_FILE, found, new, displaced)
        if found is None:
            return
    raise NoteChangedError(f"{IGNORE_FILE} is being written to; try again when it is saved")


def _lines_of(data: bytes) -> list[str]:
    """Return the lines of a rule file. Raises OverruledError for one in UTF-16, which no rule is read from."""
    if data.startswith(_UTF_16) or b"\0" in data:
        raise OverruledError(
            f"{IGNORE_FILE} is not in UTF-8, so none of its rules are applied; save it as UTF-8"
        )
    text = data.decode(*_ENCODING)
    return text.removesuffix("\n").split("\n") if text else []
