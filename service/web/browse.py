"""The page to browse the vault: its folders, its tags, the kinds of its notes, and what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from starlette.requests import Request

from pipelines.errors import DomainNotFoundError, FilterError, ScopesFileError
from pipelines.filters import Filters, is_filter
from pipelines.search.scopes import filters_of
from service.http.auth import SCRIPTED_POLICY
from service.usecases.browsing import (
    Changed,
    Entry,
    FolderView,
    newest_notes,
    notes_directly_in,
    part_of,
    recently_changed,
)
from service.usecases.search import View

_A_PAGE = 200
_FEW = 24  # tags beside the notes; all of them have their own list
_CHANGED = 8
_FARTHEST = 10_000_000


@dataclass(frozen=True, slots=True)
class _BrowseParameters:
    """The parameters in the address: a folder, further filters, what is listed, and from which entry on."""

    folder: str
    filters: tuple[tuple[str, str], ...]
    all_tags: bool = False
    offset: int = 0

    def address(
        self,
        *more: tuple[str, str],
        folder: str | None = None,
        without: tuple[str, str] | None = None,
        **changed: object,
    ) -> str:
        """Return the address of another folder, with more filters or without one, from its first page."""
        chosen = self.folder if folder is None else folder
        kept = [pair for pair in self.filters if pair != without and pair not in more]
        given = [*([("folder", chosen)] if chosen else []), *kept, *more, *changed.items()]
        return f"/browse?{urlencode(given)}" if given else "/browse"

    def unused(self, name: str, values: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return the values of a filter, with their numbers of notes, that are not in use."""
        used = {value.casefold() for other, value in self.filters if other == name}
        return [(value, number) for value, number in values if value.casefold() not in used]

    @property
    def above(self) -> list[tuple[str, str]]:
        """Return name and path of the folder and of each that holds it, the outermost first."""
        parts = self.folder.split("/") if self.folder else []
        return [(name, "/".join(parts[: at + 1])) for at, name in enumerate(parts)]


def add_browsing(app: FastAPI, view: View, templates: Environment) -> None:
    """Add the route."""

    @app.get("/browse", response_class=HTMLResponse, include_in_schema=False)
    def browse(
        request: Request,
        folder: Annotated[str, Query(max_length=500)] = "",
        by: str = "",
        offset: Annotated[int, Query(ge=0, le=_FARTHEST)] = 0,
    ) -> HTMLResponse:
        """Show a folder, or all notes in it that pass further filters."""
        filters = dict.fromkeys(
            (name, value.strip())
            for name, value in request.query_params.multi_items()
            if name != "folder" and is_filter(name) and value.strip()
        )
        return _page(
            view, templates, _BrowseParameters(folder.strip("/"), tuple(filters), by == "tag", offset)
        )


def _page(view: View, templates: Environment, asked: _BrowseParameters) -> HTMLResponse:
    part, problem = FolderView(), None
    notes: list[Entry] = []
    changed: list[Changed] = []
    try:
        filters = filters_of(view.resources.root, asked.filters)
        part = part_of(view, asked.folder, filters)
        notes = _notes(view, part, asked, filters)
        if not (asked.folder or asked.filters or asked.all_tags):
            changed = recently_changed(view, _CHANGED)
    except (FilterError, DomainNotFoundError, ScopesFileError) as error:
        problem = str(error)
    folders, here = _counted(part, asked)
    tags = part.tags if asked.all_tags else []
    count = len(folders) + here + len(tags)
    end = asked.offset + _A_PAGE
    text = templates.get_template("browse.html").render(
        asked=asked,
        folders=folders[asked.offset : end],
        notes=notes,
        tags=tags[asked.offset : end],
        few=part.tags[:_FEW],
        more_tags=len(part.tags) > _FEW,
        formats=part.formats,
        kinds=part.kinds[:_FEW],
        changed=changed,
        below=part.below,
        count=count,
        first=asked.offset + 1,
        last=min(end, count),
        before=max(0, asked.offset - _A_PAGE) if asked.offset else None,
        further=end if end < count else None,
        problem=problem,
        divided=len(view.resources.domains()) > 1,
    )
    return HTMLResponse(text, 422 if problem else 200, {"Content-Security-Policy": SCRIPTED_POLICY})


def _counted(part: FolderView, asked: _BrowseParameters) -> tuple[list[tuple[str, int]], int]:
    """Return the folders that are listed, and how many notes follow them."""
    if asked.all_tags:
        return [], 0
    # Filters choose notes from all folders below; otherwise a folder is shown one level at a time.
    return ([], part.below) if asked.filters else (part.groups, part.here)


def _notes(view: View, part: FolderView, asked: _BrowseParameters, filters: Filters) -> list[Entry]:
    """Return the notes of the page, which follow the folders."""
    folders, here = _counted(part, asked)
    first = max(0, asked.offset - len(folders))
    most = min(here, asked.offset + _A_PAGE - len(folders)) - first
    if most <= 0:
        return []
    if asked.filters:
        return newest_notes(view, asked.folder, filters, first, most)
    return notes_directly_in(view, part, first, most)
