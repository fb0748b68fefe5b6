"""The tools that agents get where the operator's setting says so: index a note now, and list similar notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from pipelines.errors import NotComparableError, NoteNotFoundError
from service.mcp.answers import Answer, Place, place
from service.mcp.arguments import Arguments, Filtered, Name, Paged
from service.mcp.library import Library
from service.mcp.naming import meant_by, no_such_note
from service.mcp.uris import SCHEME, Address, is_within, parse_uri
from service.usecases.schemas.changes import IndexAnswer, IndexState
from service.usecases.schemas.titles import MOST_SIMILAR


class Index(Arguments):
    """The arguments of `index`."""

    path: Annotated[Name, Field(description="the note's path in the vault, or its vault:// address")]
    wait: Annotated[bool, Field(description="answer when it is findable, or after half a minute")] = True


class Indexed(Answer):
    """The answer of `index`."""

    path: str
    state: IndexState = Field(
        description="queued: a worker will look at it; pending: it is recorded; parked: it cannot be indexed"
    )
    findable: bool = Field(description="whether a search finds the version that is on the disk now")
    reason: str | None = Field(description="why it is not findable yet, or not by meaning; null: it is")


def index(library: Library, asked: Index) -> Indexed:
    """Have a note indexed now. Raises NotFoundError, VaultNotFoundError, QueueUnavailableError."""
    answer = _indexed(library, asked)
    freshness, warnings = library.freshness()
    return Indexed(
        freshness=freshness,
        warnings=warnings,
        path=answer.path,
        state=answer.state,
        findable=answer.findable,
        reason=answer.reason,
    )


def _indexed(library: Library, asked: Index) -> IndexAnswer:
    """Return how far a note is. What is hidden, outside, ignored, a folder or missing gets the same words."""
    found = parse_uri(asked.path) if asked.path.startswith(SCHEME) else Address(asked.path)
    if found is None or not is_within(found.path):
        raise no_such_note(asked.path)
    try:
        return library.index_requests.index(found.path, wait=asked.wait, audience=library.audience)
    except NoteNotFoundError:
        raise no_such_note(asked.path) from None


class Similar(Paged, Filtered):
    """The arguments of `similar`."""

    note: Annotated[Name, Field(description="a path, a title or alias, a wikilink or a vault:// address")]
    limit: Annotated[int, Field(ge=1, le=MOST_SIMILAR, description="how many notes")] = 10


class Near(Place):
    """A similar note, and its passage that is nearest."""

    section: str = Field(description="the headings above the passage")
    similarity: float = Field(description="cosine similarity of the passage and the note")


class Alike(Answer):
    """The answer of `similar`."""

    path: str
    notes: list[Near]

    def places(self) -> Iterator[Place]:
        """Yield the similar notes."""
        yield from self.notes


def similar(library: Library, asked: Similar) -> Alike:
    """List the notes nearest to a note in meaning. Raises CursorError, NotComparableError, NotFoundError."""
    turn = library.turn("similar", asked)
    path = meant_by(library, asked.note).path
    found = library.names.similar(path, MOST_SIMILAR, library.filters(asked), audience=library.audience)
    if found.reason:
        raise NotComparableError(found.reason)
    freshness, warnings = library.freshness()
    shown, cursor = turn.cut(found.results, asked.limit, freshness.generation)
    return Alike(
        freshness=freshness,
        truncated=cursor is not None,
        cursor=cursor,
        warnings=[*warnings, *turn.warnings(freshness.generation)],
        path=path,
        notes=[
            Near.model_validate(
                {
                    **place(one.path, one.title, one.domain, one.lines),
                    "section": one.section,
                    "similarity": one.cosine,
                }
            )
            for one in shown
        ],
    )
