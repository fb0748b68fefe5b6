"""The pages about notes: whether a note is indexed and why not, where its links lead, which notes belong together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse

from pipelines.errors import NO_NOTE, NotComparableError, NoteNotFoundError
from pipelines.search.names import fold_name
from pipelines.search.walk import MOST_HOPS
from pipelines.vault import files
from service.dashboard.rendering import Pages
from service.usecases.links import Graph
from service.usecases.note_log import log_entries
from service.usecases.schemas.notes import NodeAnswer
from service.usecases.schemas.titles import TitleHit
from service.usecases.search import SearchService
from service.usecases.tags import Tags
from service.usecases.titles import TitleSearch
from service.usecases.traversal import Traversal
from service.usecases.walk_phrases import nearest_first, way_to, why_kept, why_left_out

_LONGEST_NAME = 1_000
_MOST_NAMES = 20
_MOST_ENTRIES = 100


class NotePages:
    """What these pages ask."""

    def __init__(
        self,
        pages: Pages,
        *,
        questions: SearchService,
        names: TitleSearch,
        tags: Tags,
        graph: Graph,
        traversal: Traversal,
    ) -> None:
        self._pages = pages
        self._questions = questions
        self._names = names
        self._tags = tags
        self._graph = graph
        self._traversal = traversal

    def note(self, q: str, status: int = 200) -> HTMLResponse:
        """Show the state of a note, given by its path or a name that only it has; else list the notes so named."""
        standing = self._questions.why(q) if q else None
        found: list[TitleHit] = []
        called: list[TitleHit] = []
        if standing and standing["state"] in NO_NOTE and not _is_of_file(standing, q):
            # A path like "Soil" has no known format and is ignored: the user means the note of that title.
            found = self._names.titles(q, _MOST_NAMES).results
            called = [hit for hit in found if _is_called(hit, q)]
            if len(called) == 1:
                standing, found = self._questions.why(called[0].path), []
            elif found and standing["state"] != "folder":
                standing = None
        node = self._node(standing)
        return self._pages.show(
            "notes",
            status,
            q=q,
            standing=standing,
            node=node,
            names=called or found,
            same=bool(called),
            log=log_entries(self._questions, standing["path"], _MOST_ENTRIES) if standing else [],
            proposals=self._tags.context.proposals().of_note(node.domain, node.path) if node else [],
        )

    def _node(self, standing: dict[str, Any] | None) -> NodeAnswer | None:
        if standing is None:
            return None
        try:
            return self._questions.node(standing["path"])
        except NoteNotFoundError:
            return None  # nothing of it is indexed

    def walk(self, path: str, q: str, depth: int) -> HTMLResponse:
        """Show what a walk from a note keeps and leaves out, or why the note is not indexed."""
        try:
            walk = self._traversal.traverse(files.note_key(path), depth, q.strip() or None)
        except (NoteNotFoundError, NotComparableError):
            return self.note(path, 404)
        return self._pages.show(
            "walk",
            walk=walk,
            kept=nearest_first(node.model_dump() for node in walk.nodes),
            left_out=nearest_first(node.model_dump() for node in walk.dropped),
            way_to=way_to,
            why_kept=why_kept,
            why_left_out=why_left_out,
            most=MOST_HOPS,
        )

    def communities(self, domain: str | None) -> HTMLResponse:
        """Show the communities, largest first. Raises DomainNotFoundError."""
        return self._pages.show("communities", found=self._graph.communities(domain))


def _is_of_file(standing: Mapping[str, Any], name: str) -> bool:
    """Return whether a state belongs to the only unindexed file with this name."""
    return files.is_markdown(standing["path"]) and standing["path"] != files.note_key(name)


def _is_called(hit: TitleHit, name: str) -> bool:
    """Say whether a name is exactly the title, an alias or the file name of a note."""
    path = PurePosixPath(hit.path)
    return fold_name(name) in map(fold_name, (hit.name, hit.title, path.stem, str(path.with_suffix(""))))


def add_note_pages(app: FastAPI, pages: NotePages) -> None:
    """Add the routes."""

    @app.get("/ops/notes", response_class=HTMLResponse, include_in_schema=False)
    def notes(q: Annotated[str, Query(max_length=_LONGEST_NAME)] = "") -> HTMLResponse:
        """Say whether a note is indexed, and if not, why."""
        return pages.note(q.strip())

    @app.get("/ops/walk", response_class=HTMLResponse, include_in_schema=False)
    def walk(
        path: Annotated[str, Query(max_length=_LONGEST_NAME)],
        q: Annotated[str, Query(max_length=4_000)] = "",
        depth: Annotated[int, Query(ge=1, le=MOST_HOPS)] = 2,
    ) -> HTMLResponse:
        """Walk from a note along its links."""
        return pages.walk(path, q, depth)

    @app.get("/ops/communities", response_class=HTMLResponse, include_in_schema=False)
    def communities(domain: str | None = None) -> HTMLResponse:
        """List the communities."""
        return pages.communities(domain or None)
