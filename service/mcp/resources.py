"""The notes as resources: listed page by page, and read by address."""

from __future__ import annotations

import anyio.to_thread
from mcp_types import (
    Annotations,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from pipelines.errors import CursorError, EverindexError
from service.mcp.arguments import Paged, Status
from service.mcp.browsing import status
from service.mcp.library import Library
from service.mcp.reading import whole_text
from service.mcp.requests import Request, asked_by, refused
from service.mcp.uris import SECTION_TEMPLATE, STATUS, TEMPLATE, parse_uri, uri_of
from service.usecases.contents import recently_changed

_PAGE = 500
_MARKDOWN = "text/markdown"

_STATUS = Resource(
    name="status",
    title="State of the index",
    uri=STATUS,
    description="How far the index is behind the files, and the parts of the vault.",
    mime_type="application/json",
    annotations=Annotations(audience=["assistant"], priority=0.2),
)
_TEMPLATES = [
    ResourceTemplate(
        name="note",
        title="A note",
        uri_template=TEMPLATE,
        description="A note of the vault by its path, as the file is now; `#L3-L9` at the end means these lines.",
        mime_type=_MARKDOWN,
    ),
    ResourceTemplate(
        name="section",
        title="A section of a note",
        uri_template=SECTION_TEMPLATE,
        description="The text under a heading of a note.",
        mime_type=_MARKDOWN,
    ),
]


class Resources:
    """The handlers of resources."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def templates(self, _: Request, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        """List the forms of addresses."""
        return ListResourceTemplatesResult(resource_templates=_TEMPLATES)

    async def list(self, request: Request, page: PaginatedRequestParams | None) -> ListResourcesResult:
        """List the state of the index and the notes, those that changed last first. Raises MCPError."""
        asked = Paged(cursor=page.cursor if page else None)
        library = asked_by(self._library, request)
        try:
            return await anyio.to_thread.run_sync(_listed, library, asked)
        except CursorError as error:
            raise refused(str(error)) from error

    async def read(self, request: Request, asked: ReadResourceRequestParams) -> ReadResourceResult:
        """Return a note, lines or a section of it, or the state of the index. Raises MCPError."""
        uri = str(asked.uri)
        library = asked_by(self._library, request)
        try:
            text, kind = await anyio.to_thread.run_sync(_contents, library, uri)
        except (EverindexError, ValueError) as error:
            # What is hidden, outside, ignored or missing gets the same words.
            raise refused("there is no such resource", uri=uri) from error
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)])


def _listed(library: Library, asked: Paged) -> ListResourcesResult:
    turn = library.turn("resources/list", asked)
    notes = recently_changed(library.questions, turn.offset + _PAGE + 1, audience=library.audience)
    freshness, _ = library.freshness()
    shown, cursor = turn.cut(notes, _PAGE, freshness.generation)
    listed = [
        Resource(
            name=note.path,
            title=note.title,
            uri=uri_of(note.path),
            mime_type=_MARKDOWN,
            annotations=Annotations(audience=["user", "assistant"], priority=0.5, last_modified=note.at),
        )
        for note in shown
    ]
    return ListResourcesResult(resources=listed if turn.offset else [_STATUS, *listed], next_cursor=cursor)


def _contents(library: Library, uri: str) -> tuple[str, str]:
    """Return the text of a resource and its kind. Raises EverindexError, ValueError."""
    if uri == STATUS:
        return status(library, Status()).model_dump_json(), "application/json"
    if parse_uri(uri) is None:
        raise ValueError("this is not the address of a note")
    return whole_text(library, uri), _MARKDOWN
