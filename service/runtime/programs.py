"""The programs of the user in which a note or document opens: Obsidian, an editor, what the system has for it."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from pipelines.errors import ConfigurationError, UnsafePathError
from pipelines.formats import format_of
from pipelines.vault import paths
from pipelines.vault.files import path_on_disk
from pipelines.vault.obsidian import is_vault, open_link
from workers.vault_paths import not_there

# A program that cannot open a file exits within this time; one that still runs has opened it.
_PATIENCE_SECONDS = 3.0
# Most editors take `+LINE FILE`; these would open a second file named `+LINE`.
_GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf")
_COLON = ("hx", "subl", "zed")
_IN_TERMINAL = (
    "vi", "vim", "nvim", "view", "ex", "ed", "nano", "rnano", "pico", "micro", "hx", "helix", "kak", "joe", "ne",
    "mcedit", "jed", "mg", "zile", "less", "more", "most", "cat", "bat",
)  # fmt: skip
_TERMINAL_OPTIONS = {"-nw", "-t", "-tty", "--tty", "--no-window-system"}  # of Emacs
_NOT_TEXT = ("pdf", "xlsx", "pptx", "docx")
"""Formats that an editor shows as unreadable bytes."""
_RUN = ("html", "code")
"""Formats that the system's program may run instead of showing them."""


def open_note(root: Path, path: str, line: int) -> None:
    """Open the note with this key from a terminal: in Obsidian, an editor, or what the system has for it.

    Obsidian, if the vault is one of Obsidian's; else `$VISUAL` or `$EDITOR`. A document that is not text opens in the
    program that the system has for it, and so does a note where no editor is named.
    Raises VaultNotFoundError, UnsafePathError for what is no regular file of the vault, ConfigurationError where no
    program opens it, OSError.
    """
    file = _file(root, path)
    if is_vault(root) and open_address(open_link(root, path)):
        return
    words = [] if _is_in(path, _NOT_TEXT) else editor()
    if words:
        _start(words, file, line)
    elif _is_in(path, _RUN):
        raise ConfigurationError(
            f"no program is named that shows {file} as text; set EDITOR, as in EDITOR=nano"
        )
    elif not open_address(file.as_uri()):
        raise ConfigurationError(
            f"no program could be started that opens {file}; for notes, set EDITOR, as in EDITOR=nano"
        )


def editor() -> list[str]:
    """Return the words of `$VISUAL` or `$EDITOR`; none if neither names a program. Raises ConfigurationError."""
    try:
        return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError as error:
        raise ConfigurationError(f"EDITOR cannot be read ({error}); correct its quotes") from error


def opener() -> str:
    """Return the name of the system's command that opens a file or address in the program that it has for it."""
    return "open" if sys.platform == "darwin" else "xdg-open"


def open_address(address: str) -> bool:
    """Open an address with the program that the system has for it; return whether one could be started."""
    return _runs([opener(), address])


# From a page: without a terminal, and perhaps without a screen.


def window_program(path: str) -> str | None:
    """Return the name of the program in which a file opens when a page asks for it; None: none can."""
    words = _window_words(path)
    return Path(words[0]).name if words else None


def open_in_window(root: Path, path: str, line: int) -> None:
    """Open the note with this key in `window_program`.

    Raises VaultNotFoundError, UnsafePathError for what is no regular file of the vault, ConfigurationError where no
    program opens it, OSError.
    """
    file, words = _file(root, path), _window_words(path)
    place = [file.as_uri()] if words in (None, [opener()]) else _at_line(words[0], file, line)
    if words is None or not _runs([*words, *place]):
        raise ConfigurationError(f"{(words or [opener()])[0]} did not open {file}; open it from its folder")


def _window_words(path: str) -> list[str] | None:
    """Return the words that start what opens a file without a terminal; None: nothing can.

    An editor that needs a terminal has none there, so the system's program opens the file.
    """
    if not _is_in(path, _NOT_TEXT) and (words := _window_editor()):
        return words
    return None if _is_in(path, _RUN) or not shows_folders() else [opener()]


def shows_folders() -> bool:
    """Say whether the system can show a folder in a window."""
    return _has_screen() and shutil.which(opener()) is not None


def show_in_folder(root: Path, path: str) -> None:
    """Show the file with this key in its folder. Raises as `open_in_window`."""
    file = _file(root, path)
    command = ["open", "-R", str(file)] if sys.platform == "darwin" else [opener(), file.parent.as_uri()]
    if not shows_folders() or not _runs(command):
        raise ConfigurationError(f"{command[0]} did not show the folder of {file}")


def _window_editor() -> list[str] | None:
    """Return the words of the editor, if it opens a window of its own and can be found."""
    try:
        words = editor()
    except ConfigurationError:
        return None
    if not words or not _has_screen() or shutil.which(words[0]) is None:
        return None
    return None if Path(words[0]).stem in _IN_TERMINAL or _TERMINAL_OPTIONS & set(words) else words


def _has_screen() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _file(root: Path, path: str) -> Path:
    """Return the absolute path of the file with this key, which no program takes for an option.

    Raises VaultNotFoundError, UnsafePathError for what is no regular file of the vault, OSError.
    """
    if not root.is_dir():
        raise not_there(root)
    raw = path_on_disk(root, path)
    if not stat.S_ISREG(paths.look(root, raw).st_mode):
        raise UnsafePathError(f"{path!r} is not a regular file; it was not opened")
    return root.resolve() / raw


def _is_in(path: str, formats: tuple[str, ...]) -> bool:
    form = format_of(path)
    return form is not None and form.name in formats


def _start(words: list[str], file: Path, line: int) -> None:
    """Run an editor in this terminal. Raises ConfigurationError."""
    try:
        subprocess.run([*words, *_at_line(words[0], file, line)], check=True)  # noqa: S603 - the user's own editor
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it ended with status {error.returncode}"
        raise ConfigurationError(
            f"{words[0]} did not open the note ({why}); set EDITOR to another"
        ) from error


def _runs(command: list[str]) -> bool:
    """Start a program apart from this one; return whether it could be started and did not fail at once."""
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell; the user's own program, and arguments that we made
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        return process.wait(_PATIENCE_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return True


def _at_line(program: str, file: Path, line: int) -> list[str]:
    """Return an editor's arguments for opening a file at a line."""
    name = Path(program).stem
    if name in _GOTO:
        return ["--goto", f"{file}:{line}"]
    return [f"{file}:{line}"] if name in _COLON else [f"+{line}", str(file)]
