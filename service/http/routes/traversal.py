"""The routes that walk along links."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.requests import Request

from pipelines.search.walk import MOST_HOPS
from service.http.routes.search import filters_in
from service.usecases.schemas.search import LONGEST_QUERY
from service.usecases.schemas.traversal import DeepAnswer, Mode, TraverseAnswer
from service.usecases.traversal import Traversal


def add_traversal(app: FastAPI, traversal: Traversal, root: Path) -> None:
    """Add the routes. `root` is the vault's folder."""

    @app.get("/traverse/{path:path}")
    def traverse(
        path: str,
        request: Request,
        depth: Annotated[int, Query(ge=1, le=MOST_HOPS)] = 2,
        q: Annotated[str | None, Query(min_length=1, max_length=LONGEST_QUERY)] = None,
    ) -> TraverseAnswer:
        """Walk from a note along links in both directions, keeping notes that resemble the question or the note.

        Every other parameter is a filter of the notes on the way, as in `GET /search`.
        """
        return traversal.traverse(path, depth, q, filters_in(request, root, "depth", "q"))

    @app.get("/deep")
    def deep(
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY)],
        request: Request,
        mode: Mode = "deep",
    ) -> DeepAnswer:
        """Search, walk on from the best notes, and return every note that was kept or dropped, with the reason.

        Every other parameter is a filter, as in `GET /search`.
        """
        return traversal.deep(q, mode, filters_in(request, root, "q", "mode"))
