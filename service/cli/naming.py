"""Notes as users name them: by path, or by a name that only one note has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pipelines.errors import NoteNotFoundError, NotFoundError

if TYPE_CHECKING:
    from service.cli.options import Client

Answer = TypeVar("Answer")
_SUGGESTED = 3


def about_note(client: Client, name: str, ask: Callable[[str], Answer]) -> Answer:
    """Ask about the note with a path, or with a title, alias or file name that only one note has.

    Raises NoteNotFoundError with suggestions.
    """
    name = in_vault(client.root, name)
    try:
        return ask(name)
    except NoteNotFoundError as error:
        from service.usecases.naming import is_of_file, is_path, may_be_a_title  # noqa: PLC0415 - most paths are right

        if is_of_file(name, error.why):
            return ask(error.why["path"])
        if not may_be_a_title(name, error.why):
            raise
        same, alike = paths_called(client, name)
        if len(same) == 1 and same[0] != name:
            return ask(same[0])
        if len(same) > 1:
            raise ambiguous(name, same, error.why) from None
        if error.why["state"] == "folder":
            raise
        said = str(error) if is_path(name) else f"no note is called {name}"
        raise NoteNotFoundError(said + suggestion(name, alike), error.why) from None


def paths_called(client: Client, name: str) -> tuple[list[str], list[str]]:
    """Return the paths of the notes that are called so, and of those with a name like it."""
    from pipelines.model import NoteName  # noqa: PLC0415 - most paths are right
    from service.usecases.naming import notes_called  # noqa: PLC0415 - likewise

    def titles(typed: str, most: int) -> list[NoteName]:
        found = client.call("GET", "/titles", q=typed, limit=most)
        return [NoteName(**hit) for hit in found["results"]]

    same, alike = notes_called(name, titles)
    return [hit.path for hit in same], [hit.path for hit in alike]


def state_of(client: Client, path: str) -> dict[str, Any]:
    """Return the state of a path, with the reason."""
    known: dict[str, Any] = client.call("GET", f"/why/{quote(path)}")
    return known


def node_at(client: Client, path: str) -> dict[str, Any]:
    """Return the row, links and passages of a note. Raises NoteNotFoundError."""
    node: dict[str, Any] = client.call("GET", f"/node/{quote(path)}")
    return node


def ambiguous(name: str, paths: Sequence[str], why: Mapping[str, Any]) -> NoteNotFoundError:
    """Return the error about a name that several notes have; `why` is the state of the name as a path."""
    return NoteNotFoundError(
        f"{name} is the name of several notes: {', '.join(paths[:_SUGGESTED])}; give a path", why
    )


def in_vault(root: Path, name: str) -> str:
    """Return an absolute path in a vault as a path relative to the vault, and any other name unchanged.

    Raises NotFoundError for a name without a character.
    """
    if not name.strip():
        raise NotFoundError("the name is empty; give the path of a note, or its title")
    if not name.startswith("/"):
        return name
    file = Path(name)
    try:
        return (file.parent.resolve() / file.name).relative_to(root.resolve()).as_posix()
    except (ValueError, OSError):
        return name


def suggestion(name: str, alike: Sequence[str]) -> str:
    """Return the end of a sentence with suggestions, or an empty string."""
    meant = " or ".join(path for path in alike[:_SUGGESTED] if path != name)
    return f"; did you mean {meant}?" if meant else ""
