"""Notes as users name them: by path, or by a name that only one note has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pipelines.errors import NO_NOTE, NoteNotFoundError, NotFoundError
from service.cli.options import located, questions_of, service_of

Answer = TypeVar("Answer")

_NOTE_SUFFIXES = (
    ".md",
    ".markdown",
)  # `pipelines.notes.links` has them, but takes longer to load than the answer takes
_LONGEST_NAME = 500
_LOOKED_AT = 20
_SUGGESTED = 3


def about_note(given: dict[str, Any], name: str, ask: Callable[[str], Answer]) -> Answer:
    """Ask about the note with a path, or with a title, alias or file name that only one note has.

    Raises NoteNotFoundError with suggestions.
    """
    name = in_vault(given, name)
    try:
        return ask(name)
    except NoteNotFoundError as error:
        if is_of_file(name, error.why):
            return ask(error.why["path"])
        if error.why["state"] not in NO_NOTE or error.why.get("renamed_to"):
            raise
        same, alike = notes_named(given, name)
        if len(same) == 1 and same[0] != name:
            return ask(same[0])
        if len(same) > 1:
            raise ambiguous(name, same, error.why) from None
        if error.why["state"] == "folder":
            raise
        said = str(error) if is_path(name) else f"no note is called {name}"
        raise NoteNotFoundError(said + suggestion(name, alike), error.why) from None


def state_of(given: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the state of a path, with the reason, as `GET /why/<path>` does."""
    from urllib.parse import quote  # noqa: PLC0415 - help has to be instant

    service = service_of(given)
    if service:
        known: dict[str, Any] = service.call("GET", f"/why/{quote(path)}")
        return known
    return questions_of(given).why(path)


def node_at(given: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the row, links and passages of a note, as `GET /node/<path>` does. Raises NoteNotFoundError."""
    from urllib.parse import quote  # noqa: PLC0415 - help has to be instant

    service = service_of(given)
    if service:
        node: dict[str, Any] = service.call("GET", f"/node/{quote(path)}")
        return node
    return questions_of(given).node(path).model_dump(mode="json")


def ambiguous(name: str, paths: Sequence[str], why: Mapping[str, Any]) -> NoteNotFoundError:
    """Return the error about a name that several notes have; `why` is the state of the name as a path."""
    return NoteNotFoundError(
        f"{name} is the name of several notes: {', '.join(paths[:_SUGGESTED])}; give a path", why
    )


def in_vault(given: dict[str, Any], name: str) -> str:
    """Return an absolute path in the vault as a path relative to the vault, and any other name unchanged.

    Raises NotFoundError for a name without a character.
    """
    if not name.strip():
        raise NotFoundError("the name is empty; give the path of a note, or its title")
    vault = located(given).get("vault") if name.startswith("/") else None
    if vault is None:
        return name
    file = Path(name)
    try:
        return (file.parent.resolve() / file.name).relative_to(vault.resolve()).as_posix()
    except (ValueError, OSError):
        return name


def is_path(name: str) -> bool:
    """Return whether a name is written like the path of a note, not like a title."""
    return name.lower().endswith(_NOTE_SUFFIXES)


def is_of_file(name: str, known: Mapping[str, Any]) -> bool:
    """Return whether `why` answered a name with the only unindexed file that has it."""
    return is_path(known["path"]) and known["path"] != name


def suggestion(name: str, alike: Sequence[str]) -> str:
    """Return the end of a sentence with suggestions, or an empty string."""
    meant = " or ".join(path for path in alike[:_SUGGESTED] if path != name)
    return f"; did you mean {meant}?" if meant else ""


def notes_named(given: dict[str, Any], name: str) -> tuple[list[str], list[str]]:
    """Return the paths of the notes that have this name, and of those with a name like it."""
    from pipelines.search.names import fold_name  # noqa: PLC0415 - most paths are right

    name = next((name[: -len(end)] for end in _NOTE_SUFFIXES if name.lower().endswith(end)), name)
    wanted = fold_name(name)
    if not wanted:
        return [], []
    hits = _titles(given, (PurePosixPath(name).name or name)[:_LONGEST_NAME])
    same = [
        hit["path"]
        for hit in hits
        if wanted in {fold_name(text) for text in (hit["name"], hit["title"], *_names_of_file(hit["path"]))}
    ]
    return same, [hit["path"] for hit in hits]


def _names_of_file(path: str) -> tuple[str, str, str]:
    file = PurePosixPath(path)
    return file.name, file.stem, str(file.with_suffix(""))


def _titles(given: dict[str, Any], name: str) -> list[dict[str, Any]]:
    service = service_of(given)
    if service:
        found: list[dict[str, Any]] = service.call("GET", "/titles", q=name, limit=_LOOKED_AT)["results"]
        return found
    from service.usecases.titles import TitleSearch  # noqa: PLC0415

    return [hit.model_dump() for hit in TitleSearch(questions_of(given)).titles(name, _LOOKED_AT).results]
