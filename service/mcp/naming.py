"""Which note an agent means: by path, title, alias, wikilink or address, with a section or lines."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.errors import NotFoundError
from pipelines.notes.links import NOTE_SUFFIXES
from pipelines.vault import files
from service.mcp.library import Library
from service.mcp.schemas import SCHEME, is_within, parse_uri
from service.usecases.naming import notes_called, shown_name

_SUGGESTED = 5
_LONGEST_TITLE = 500


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


def known_path(library: Library, name: str) -> str | None:
    """Return the path of a note, given with or without the suffix of its file; None if there is no such note."""
    if not is_within(name):
        return None
    tried = [files.note_key(name + end) for end in ("", *NOTE_SUFFIXES)]
    there = {
        path
        for domain, cache in library.view.readers()
        for path in cache.ledger.hashes_of(tried).keys() - library.view.audience.hidden(domain.slug)
    }
    return next((path for path in tried if path in there), None)


def _path_of(library: Library, name: str) -> str:
    """Return the path of the one note of this name. Raises NotFoundError."""
    known = known_path(library, name)
    if known:
        return known
    same, alike = notes_called(name, library.titles)
    if len(same) == 1:
        return same[0].path
    if same:
        paths = ", ".join(hit.path for hit in same[:_SUGGESTED])
        raise NotFoundError(
            f"several notes are called {shown_name(name)}: {paths}; give the path of one of them"
        )
    raise no_such_note(name, [hit.path for hit in alike])


def _is_known(library: Library, name: str) -> bool:
    return bool(known_path(library, name) or notes_called(name, library.titles)[0])


def no_such_note(name: str, alike: list[str] | None = None) -> NotFoundError:
    """Return the error for a name that no note has, with the paths of notes of similar names."""
    meant = (
        f"; did you mean {' or '.join(alike[:_SUGGESTED])}?" if alike else "; `search` or `browse` find notes"
    )
    return NotFoundError(f"there is no note {name[:_LONGEST_TITLE]}{meant}")
