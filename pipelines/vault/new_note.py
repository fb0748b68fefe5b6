"""Write a new note into a folder of the vault, under a name that is safe on every system; nothing is overwritten."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import yaml

from pipelines.errors import AlreadyThereError, NoteTooLargeError
from pipelines.notes.frontmatter import LARGEST_BLOCK, as_written
from pipelines.vault import in_folder, paths
from pipelines.vault.atomic import give_users_mode
from pipelines.vault.write import BESIDE, TMP

LONGEST_STEM = 120
"""In bytes: room for a number, a suffix, and what sync programs add, within the 255 bytes of any file system."""

_MOST_TRIES = 10_000
_UNNAMED = "Untitled"
# What Windows, macOS or Linux refuse in a name, and what has a meaning in a wikilink.
_UNSAFE = re.compile(r'[<>:"/\\|?*\[\]#^]')
_SYNC_CONFLICT = re.compile(r"\.(?=sync-conflict-)", re.IGNORECASE)
_EDGES = " ._~$-"
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?:[ .]|$)", re.IGNORECASE
)
_NOT_ON_ONE_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def stem_of(title: str) -> str:
    """Return the name without suffix of a note with this title: one part of a path, in NFC, on every system."""
    visible = "".join(" " if unicodedata.category(c).startswith(("C", "Z")) else c for c in title)
    plain = _SYNC_CONFLICT.sub(" ", _UNSAFE.sub(" ", unicodedata.normalize("NFC", visible)))
    stem = " ".join(plain.split()).strip(_EDGES)
    if _RESERVED.match(stem):
        stem = f"Note {stem}"
    cut = stem.encode()[:LONGEST_STEM].decode("utf-8", "ignore").rstrip(_EDGES)
    return cut or _UNNAMED


def content_of(properties: Mapping[str, object], text: str) -> bytes:
    """Return the bytes of a note: properties as YAML that no value can end or add to, and the text as it is.

    Raises NoteTooLargeError if the properties are more than a note's frontmatter can have.
    """
    # Values on one line each: a break within a value would have to be indented to not end the block.
    block = yaml.dump(
        dict(properties),
        Dumper=_Dumper,
        allow_unicode=True,
        default_flow_style=False,
        sort_keys=False,
        width=float("inf"),
    )
    if len(block.encode()) > LARGEST_BLOCK:
        raise NoteTooLargeError(
            f"the properties have more than {LARGEST_BLOCK:,} bytes; move some into the text"
        )
    return f"---\n{block}---\n\n{text}{'' if text.endswith(chr(10)) else chr(10)}".encode()


class _Dumper(yaml.SafeDumper):
    """Writes a text with a line break or an invisible sign in quotes, on one line, and repeats values in full."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the base class names it
        """Never write an alias, because frontmatter with aliases is not read."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    is_quoted = _NOT_ON_ONE_LINE.search(text) or as_written(text) != text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_quoted else None)


def _represent_number(dumper: _Dumper, number: float) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", str(number))


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_number)


def write_new(root: Path, folder: str, stem: str, data: bytes, taken: Collection[str] = ()) -> str:
    """Write a new note to a folder of the vault, which is created if it is missing; return the note's path.

    If the name exists in any case, or is among the paths `taken`, a number is added to it. Raises UnsafePathError for
    a link on the way, AlreadyThereError, OSError.
    """
    fd = _open_or_make(root, folder)
    beside = f"{BESIDE}{secrets.token_hex(8)}{TMP}"
    try:
        present = {_same(name) for name in os.listdir(fd)}  # noqa: PTH208 - a descriptor has no Path
        present |= {_same(path.removeprefix(f"{folder}/")) for path in taken}
        in_folder.write_new(fd, beside, data, like=None)
        for number in range(1, _MOST_TRIES):
            name = f"{stem}.md" if number == 1 else f"{stem} {number}.md"
            if _same(name) not in present and _give_name(fd, beside, name):
                in_folder.sync(fd)
                return f"{folder}/{name}"
    finally:
        in_folder.unlink(fd, beside)
        os.close(fd)
    raise AlreadyThereError(f"{folder} has {_MOST_TRIES:,} notes called {stem!r}; give another title")


def _same(name: str) -> str:
    """Return what two names have in common that are one file on some system."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _give_name(folder: int, beside: str, name: str) -> bool:
    """Give a file its name in one step; return False if the name appeared meanwhile. Raises OSError."""
    with suppress(FileExistsError):
        if not in_folder.rename(folder, beside, name, swap=False):
            in_folder.link(folder, beside, name)
        return True
    return False


def _open_or_make(root: Path, folder: str) -> int:
    """Return a descriptor of a folder, and make what is missing of it. Raises UnsafePathError, OSError."""
    with suppress(FileNotFoundError):
        return paths.open_folder(root, folder)
    parent, _, name = folder.rpartition("/")
    above = _open_or_make(root, parent) if parent else paths.open_folder(root)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o777, dir_fd=above)
            made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            give_users_mode(made, 0o777)
            os.close(made)
    finally:
        os.close(above)
    return paths.open_folder(root, folder)
