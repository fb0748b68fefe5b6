"""The routes that walk along links."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from pipelines.retrieval.traverse import MOST_HOPS
from service.usecases.schemas.search import LONGEST_QUERY
from service.usecases.schemas.traversal import DeepAnswer, Mode, TraverseAnswer
from service.usecases.traversal import Traversal


def add_traversal(app: FastAPI, traversal: Traversal) -> None:
    """Add the routes."""

    @app.get("/traverse/{path:path}")
    def traverse(
        path: str,
        depth: Annotated[int, Query(ge=1, le=MOST_HOPS)] = 2,
        q: Annotated[str | None, Query(min_length=1, max_length=LONGEST_QUERY)] = None,
    ) -> TraverseAnswer:
        """Walk from a note along links in both directions, keeping notes that resemble the question or the note."""
        return traversal.traverse(path, depth, q)

    @app.get("/deep")
    def deep(
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY)],
        mode: Mode = "deep",
        domain: str | None = None,
    ) -> DeepAnswer:
        """Search, walk on from the best notes, and return every note that was kept or dropped, with the reason."""
        return traversal.deep(q, mode, domain)
