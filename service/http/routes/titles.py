"""The routes that find notes by name, and similar notes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.requests import Request

from service.http.routes.search import filters_in
from service.usecases.schemas.titles import MOST_SIMILAR, MOST_TITLES, SimilarAnswer, TitlesAnswer
from service.usecases.titles import TitleSearch

_LONGEST_NAME = 500


def add_names(app: FastAPI, names: TitleSearch, root: Path) -> None:
    """Add the routes. `root` is the vault's folder."""

    @app.get("/titles")
    def titles(
        q: Annotated[str, Query(min_length=1, max_length=_LONGEST_NAME)],
        limit: Annotated[int, Query(ge=1, le=MOST_TITLES)] = 20,
    ) -> TitlesAnswer:
        """Find notes by title, alias or path as you type: matching beginnings first, then similar spellings."""
        return names.titles(q, limit)

    @app.get("/similar/{path:path}")
    def similar(
        path: str, request: Request, k: Annotated[int, Query(ge=1, le=MOST_SIMILAR)] = 10
    ) -> SimilarAnswer:
        """Return the notes whose passages are nearest to the mean of a note's vectors; one hit per note.

        Every other parameter is a filter, as in `GET /search`.
        """
        return names.similar(path, k, filters_in(request, root, "k"))
