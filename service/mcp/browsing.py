"""The tools that list: folders, tags, recent changes, similar notes, backlinks; and the state of the index."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from pipelines.errors import FilterError
from pipelines.vault.files import is_note
from service.mcp.answers import Browsed, Group, Listed, NoteState, PartState, VaultState, place
from service.mcp.arguments import Browse, Status
from service.mcp.library import Library, Turn
from service.mcp.naming import known_path, meant_by, no_such_note
from service.mcp.uris import is_within
from service.usecases.contents import Contents, in_folder, links_to, recently_changed, with_tag
from service.usecases.schemas.titles import MOST_SIMILAR

_Entries = list[Group | Listed]


def browse(library: Library, asked: Browse) -> Browsed:
    """List a part of the vault. Raises CursorError, FilterError, NotFoundError."""
    turn = library.turn("browse", asked)
    found = _LISTS[asked.by](library, asked, turn)
    freshness, warnings = library.freshness()
    shown, cursor = turn.cut(found, asked.limit, freshness.generation)
    return Browsed(
        freshness=freshness,
        truncated=cursor is not None,
        cursor=cursor,
        warnings=[*warnings, *turn.warnings(freshness.generation)],
        groups=[one for one in shown if isinstance(one, Group)],
        notes=[one for one in shown if isinstance(one, Listed)],
        count=len(found),
    )


def _entries(contents: Contents) -> _Entries:
    groups = [Group(name=name, notes=count) for name, count in contents.groups]
    return [
        *groups,
        *(
            Listed.model_validate({**place(note.path, note.title, note.domain), "date": note.date})
            for note in contents.notes
        ),
    ]


def _folder(library: Library, asked: Browse, _: Turn) -> _Entries:
    return _entries(in_folder(library.questions, asked.of, library.filters(asked), audience=library.audience))


def _tag(library: Library, asked: Browse, _: Turn) -> _Entries:
    return _entries(with_tag(library.questions, asked.of, library.filters(asked), audience=library.audience))


def _recent(library: Library, asked: Browse, turn: Turn) -> _Entries:
    if asked.of is not None:
        raise FilterError("a list of recent changes is of the whole vault; leave out `of`")
    most = turn.offset + asked.limit + 1
    found = recently_changed(library.questions, most, library.filters(asked), audience=library.audience)
    return [
        Listed.model_validate({**place(note.path, note.title, note.domain), "date": note.at})
        for note in found
    ]


def _similar(library: Library, asked: Browse, _: Turn) -> _Entries:
    note, filters = _note(library, asked), library.filters(asked)
    found = library.names.similar(note, MOST_SIMILAR, filters, audience=library.audience)
    if found.reason:
        raise FilterError(found.reason)
    return [
        Listed.model_validate({**place(one.path, one.title, one.domain, one.lines), "similarity": one.cosine})
        for one in found.results
    ]


def _backlinks(library: Library, asked: Browse, _: Turn) -> _Entries:
    note, filters = _note(library, asked), library.filters(asked)
    return [
        Listed.model_validate(
            {**place(one.path, one.title, one.domain, (one.line, one.line)), "link": one.text}
        )
        for one in links_to(library.questions, note, filters, audience=library.audience)
    ]


def _note(library: Library, asked: Browse) -> str:
    if asked.of is None:
        raise FilterError(f"browsing by {asked.by} needs a note; name it in `of`")
    return meant_by(library, asked.of).path


_LISTS: dict[str, Callable[[Library, Browse, Turn], _Entries]] = {
    "folder": _folder,
    "tag": _tag,
    "recent": _recent,
    "similar": _similar,
    "backlinks": _backlinks,
}


def status(library: Library, asked: Status) -> VaultState:
    """Say how far the index is, and whether a note is in it."""
    freshness, warnings = library.freshness()
    resources = library.questions.resources
    health = library.questions.health(resources.queue())
    return VaultState(
        freshness=freshness,
        warnings=warnings,
        ok=not health.problems,
        version=version("everindex"),
        parts=[PartState(domain=slug, notes=len(paths)) for slug, paths in library.by_domain().items()],
        note=_note_state(library, asked.note) if asked.note else None,
    )


def _note_state(library: Library, name: str) -> NoteState:
    if not is_within(name):
        raise no_such_note(name)
    # Of a folder or another kind of file it says no more than of what there is not.
    asked = name if is_note(name) else known_path(library, name) or f"{name}.md"
    known = library.questions.why(asked, audience=library.audience)
    return NoteState(
        path=known["path"],
        state=known["state"],
        reason=known.get("reason"),
        indexed_at=known.get("indexed_at"),
        dates=dates["said"] if (dates := known.get("dates")) else None,
    )
