"""The tool that proposes tags; the operator decides."""

from __future__ import annotations

from service.mcp.answers import ProposedTag, Waiting
from service.mcp.arguments import Propose
from service.mcp.library import Library
from service.mcp.naming import meant_by

_MOST_NAMES = 100


def propose(library: Library, asked: Propose) -> Waiting:
    """Let tags wait for the operator. Raises NotFoundError, TooManyWaitingError."""
    path = meant_by(library, asked.note).path
    tags = library.proposing.propose(library.client, path, asked.tags, asked.reason, library.audience)
    freshness, warnings = library.freshness()
    unknown = any(one.outcome == "unknown_tag" for one in tags)
    return Waiting(
        freshness=freshness,
        warnings=warnings,
        path=path,
        tags=[ProposedTag(tag=one.tag, outcome=one.outcome) for one in tags],
        waiting=library.proposing.waiting(library.client),
        vocabulary=library.proposing.vocabulary(path)[:_MOST_NAMES] if unknown else [],
    )
