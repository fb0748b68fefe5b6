"""Completion: paths, folders, tags and headings for the arguments of prompts and addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio.to_thread
from mcp_types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ResourceTemplateReference,
)

from pipelines.errors import EverindexError
from pipelines.filters import fold
from service.mcp.library import Library
from service.mcp.naming import meant_by
from service.mcp.requests import Request, asked_by
from service.usecases.contents import folders, with_tag
from service.usecases.note_text import read_note

_MOST = 100  # the protocol's own limit
_LONGEST = 500


class Completions:
    """The handler of completion."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def complete(self, request: Request, asked: CompleteRequestParams) -> CompleteResult:
        """Return values for an argument that is being typed; none where nothing is known of it."""
        library = asked_by(self._library, request)
        known = dict(asked.context.arguments or {}) if asked.context else {}
        name = asked.argument.name
        if isinstance(asked.ref, ResourceTemplateReference) and name not in ("path", "section"):
            return _result([])
        found = await anyio.to_thread.run_sync(_values, library, name, asked.argument.value[:_LONGEST], known)
        return _result(found)


def _result(values: list[str]) -> CompleteResult:
    more = len(values) > _MOST
    return CompleteResult(completion=Completion(values=values[:_MOST], total=len(values), has_more=more))


def _values(library: Library, name: str, typed: str, known: dict[str, str]) -> list[str]:
    complete = _BY_NAME.get(name)
    try:
        return complete(library, typed, known) if complete else []
    except EverindexError:
        return []


def _paths(library: Library, typed: str, _: dict[str, str]) -> list[str]:
    return [hit.path for hit in library.titles(typed, _MOST)] if typed.strip() else []


def _folders(library: Library, typed: str, _: dict[str, str]) -> list[str]:
    return _beginning(typed, folders(library.questions, audience=library.audience))


def _tags(library: Library, typed: str, _: dict[str, str]) -> list[str]:
    return _beginning(
        typed.removeprefix("#"),
        (name for name, _ in with_tag(library.questions, None, audience=library.audience).groups),
    )


def _sections(library: Library, typed: str, known: dict[str, str]) -> list[str]:
    note = known.get("path") or known.get("note")
    if not note:
        return []
    sections = read_note(library.questions, meant_by(library, note).path, library.audience).sections
    return _beginning(typed, dict.fromkeys(one.headings[-1] for one in sections if one.headings))


def _beginning(typed: str, values: Iterable[str]) -> list[str]:
    """Return the values that begin with what was typed, then those that contain it."""
    wanted = fold(typed)
    first, others = [], []
    for value in values:
        if fold(value).startswith(wanted):
            first.append(value)
        elif wanted in fold(value):
            others.append(value)
    return first + others


_BY_NAME: dict[str, Callable[[Library, str, dict[str, str]], list[str]]] = {
    "path": _paths,
    "note": _paths,
    "folder": _folders,
    "tag": _tags,
    "section": _sections,
}
