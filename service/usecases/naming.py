"""Which note a person or an agent means by a name: by its title, an alias, or its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.errors import NO_NOTE, NotFoundError
from pipelines.notes.lexical import fold_name
from pipelines.notes.links import NOTE_SUFFIXES
from pipelines.vault.files import note_key

if TYPE_CHECKING:
    # Commands load this module, and these libraries take longer to load than the service to answer.
    from pipelines.model import NoteName
    from service.schemas.search import TitleHit
    from service.usecases.search import View

Hit = TypeVar("Hit", "NoteName", "TitleHit")
_LONGEST_NAME = 500
_SUGGESTED = 5
_LONGEST_PATH = 4_096  # bytes: no file's name is longer (PATH_MAX)
_LOOKED_AT = 20


def notes_called(
    name: str, titles: Callable[[str, int], Sequence[Hit]]
) -> tuple[Sequence[Hit], Sequence[Hit]]:
    """Return the notes whose title, alias or file is called exactly so, whatever the case, and all of names like it.

    `titles` finds at most a number of notes by their names, as `TitleSearch` does.
    """
    wanted = fold_name(_without_suffix(name))
    if not wanted:
        return [], []
    alike = titles(shown_name(name)[:_LONGEST_NAME], _LOOKED_AT)
    return [hit for hit in alike if wanted in set(map(fold_name, _names(hit)))], alike


def is_within(path: str) -> bool:
    """Return whether a text can be the path of a note: looking up another may read the disk elsewhere."""
    return (
        0 < len(path.encode(errors="replace")) <= _LONGEST_PATH
        and not path.startswith("/")
        and "//" not in path
        and not {"..", "."} & set(path.split("/"))
        and path.isprintable()
    )


def known_path(view: View, name: str) -> str | None:
    """Return the path of a note, given with or without the suffix of its file; None if there is no such note."""
    if not is_within(name):
        return None
    tried = [note_key(name + end) for end in ("", *NOTE_SUFFIXES)]
    there = {
        path
        for domain, cache in view.readers()
        for path in cache.ledger.hashes_of(tried).keys() - view.audience.hidden(domain.slug)
    }
    return next((path for path in tried if path in there), None)


def note_named(view: View, titles: Callable[[str, int], Sequence[TitleHit]], name: str) -> str:
    """Return the path of the one note of this name, which is a path, a title or an alias.

    `titles` as `notes_called` takes it. Raises NotFoundError.
    """
    known = known_path(view, name)
    if known:
        return known
    same, alike = notes_called(name, titles)
    if len(same) == 1:
        return same[0].path
    if same:
        paths = ", ".join(hit.path for hit in same[:_SUGGESTED])
        raise NotFoundError(
            f"several notes are called {shown_name(name)}: {paths}; give the path of one of them"
        )
    raise no_such_note(name, [hit.path for hit in alike])


def no_such_note(name: str, alike: Sequence[str] = ()) -> NotFoundError:
    """Return the error for a name that no note has, with the paths of notes of similar names."""
    meant = (
        f"; did you mean {' or '.join(alike[:_SUGGESTED])}?" if alike else "; `search` or `browse` find notes"
    )
    return NotFoundError(f"there is no note {name[:_LONGEST_NAME]}{meant}")


def shown_name(name: str) -> str:
    """Return a name, or the last part of a path, without the suffix of a note's file."""
    bare = _without_suffix(name)
    return PurePosixPath(bare).name.strip() or bare.strip()


def _without_suffix(name: str) -> str:
    return next((name[: -len(end)] for end in NOTE_SUFFIXES if name.lower().endswith(end)), name)


def is_path(name: str) -> bool:
    """Return whether a name is written like the path of a note, not like a title."""
    return name.lower().endswith(NOTE_SUFFIXES)


def may_be_a_title(name: str, known: Mapping[str, Any]) -> bool:
    """Return whether `why` knows nothing of a name as a path, so that a note may be called so."""
    return known["state"] in NO_NOTE and not known.get("renamed_to") and not is_of_file(name, known)


def is_of_file(name: str, known: Mapping[str, Any]) -> bool:
    """Return whether `why` answered a name with the only unindexed file that has it."""
    return is_path(known["path"]) and known["path"] != name


def _names(hit: NoteName | TitleHit) -> tuple[str, ...]:
    file = PurePosixPath(hit.path)
    return hit.name, hit.title, file.name, file.stem, str(file.with_suffix(""))
