"""The addresses of notes: `vault://Folder/Note.md`, `...#L3-L9` for lines, `...#Heading` for a section."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

SCHEME = "vault://"
STATUS = "vault://status"
TEMPLATE = "vault://{+path}"
SECTION_TEMPLATE = "vault://{+path}{#section}"
_LINES = re.compile(r"#L(\d{1,9})(?:-L?(\d{1,9}))?\Z")
_SUFFIXES = (".md", ".markdown")
_LONGEST = 4_096  # bytes: no file's name is longer (PATH_MAX)


def uri_of(path: str, lines: tuple[int, int] | None = None) -> str:
    """Return the address of a note, or of its lines from the first to the last."""
    address = SCHEME + quote(path, safe="/")
    return f"{address}#L{lines[0]}-L{lines[1]}" if lines else address


@dataclass(frozen=True, slots=True)
class Address:
    """A note, and the lines or the section of it that its address names."""

    path: str
    lines: tuple[int, int] | None = None
    section: str | None = None


def parse_uri(uri: str) -> Address | None:
    """Return what an address names; None if it is not the address of a note."""
    if not uri.startswith(SCHEME) or uri == STATUS:
        return None
    found = _LINES.search(uri)
    written, _, section = uri[len(SCHEME) : found.start() if found else None].partition("#")
    # A client may leave the hash of a file's name as it is, but then the suffix follows it.
    if section.lower().endswith(_SUFFIXES):
        written, section = f"{written}#{section}", ""
    path = unquote(written, errors="surrogateescape").removeprefix("/")
    if not is_within(path):
        return None
    lines = (int(found[1]), int(found[2] or found[1])) if found else None
    return Address(path, lines, unquote(section) or None)


def is_within(path: str) -> bool:
    """Return whether a text can be the path of a note: looking up another may read the disk elsewhere."""
    return (
        0 < len(path.encode(errors="replace")) <= _LONGEST
        and not path.startswith("/")
        and "//" not in path
        and not {"..", "."} & set(path.split("/"))
        and path.isprintable()
    )
