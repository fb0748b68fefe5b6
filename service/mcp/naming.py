"""Which note an agent means: by path, title, alias, wikilink or address, with a section or lines."""

from __future__ import annotations

from dataclasses import dataclass

from service.mcp.library import Library
from service.mcp.schemas import SCHEME, parse_uri
from service.usecases.naming import known_path, no_such_note, note_named, notes_called


@dataclass(frozen=True, slots=True)
class Meant:
    """A note, and the section or lines of it that its name gives."""

    path: str
    section: str | None = None
    lines: tuple[int, int] | None = None


def meant_by(library: Library, name: str) -> Meant:
    """Return the note that a name means. Raises NotFoundError with suggestions."""
    if name.startswith(SCHEME):
        found = parse_uri(name)
        if found is None:
            raise no_such_note(name)
        return Meant(_path_of(library, found.path), found.section, found.lines)
    link = name.strip().removeprefix("!")
    if link.startswith("[[") and link.endswith("]]"):
        name = link[2:-2].partition("|")[0].strip()
    target, mark, section = name.partition("#")
    if not mark or _is_known(library, name):  # a name may have a `#` in it
        return Meant(_path_of(library, name))
    return Meant(_path_of(library, target.strip()), section.strip() or None)


def _path_of(library: Library, name: str) -> str:
    return note_named(library.view, library.titles, name)


def _is_known(library: Library, name: str) -> bool:
    return bool(known_path(library.view, name) or notes_called(name, library.titles)[0])
