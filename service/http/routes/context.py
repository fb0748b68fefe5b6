"""The routes of a block of passages for a language model."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query
from starlette.requests import Request

from pipelines.context.block import Order
from pipelines.context.compress import CompressionMode
from pipelines.search.scopes import filters_of
from service.usecases.context import Contexts
from service.usecases.context_recipes import context_by_recipe
from service.usecases.schemas.context import (
    DEFAULT_BUDGET,
    DEFAULT_COMPRESSION,
    DEFAULT_ORDER,
    LARGEST_BUDGET,
    SMALLEST_BUDGET,
    ContextAnswer,
    ContextRequest,
)
from service.usecases.schemas.search import LONGEST_QUERY
from service.usecases.search import SearchService


def add_context(app: FastAPI, questions: SearchService) -> None:
    """Add the routes."""
    contexts = Contexts(questions)

    @app.get("/context")
    def context(
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY, examples=["what is a moat worth"])],
        request: Request,
        budget: Annotated[int, Query(ge=SMALLEST_BUDGET, le=LARGEST_BUDGET)] = DEFAULT_BUDGET,
        compress: CompressionMode = DEFAULT_COMPRESSION,
        order: Order = DEFAULT_ORDER,
    ) -> ContextAnswer:
        """Return the passages that answer a question as one block for a model, within a budget of tokens.

        Every other parameter is a filter, as in `GET /search`. If the search fails, the block is empty and a warning
        says why.
        """
        own = ("q", "budget", "compress", "order")
        pairs = [pair for pair in request.query_params.multi_items() if pair[0] not in own]
        filters = filters_of(questions.resources.root, pairs)
        return contexts.ask(q, filters, budget=budget, compress=compress, order=order)

    @app.get("/context/{recipe}")
    def context_by(
        recipe: str,
        about: Annotated[str, Query(min_length=1, examples=["Companies/NVDA.md"])],
        budget: Annotated[int | None, Query(ge=SMALLEST_BUDGET, le=LARGEST_BUDGET)] = None,
        compress: CompressionMode | None = None,
    ) -> ContextAnswer:
        """Return the block of a recipe in `_contexts.yaml` about a note, whose frontmatter fills the recipe's slots.

        Budget and compression are the recipe's where none are given.
        """
        return context_by_recipe(questions, contexts, recipe, about, budget=budget, compress=compress)

    @app.post("/context")
    def context_of(body: ContextRequest) -> ContextAnswer:
        """Return the same for a JSON body, for long questions."""
        filters = filters_of(questions.resources.root, body.given_filters)
        return contexts.ask(
            body.question, filters, budget=body.budget, compress=body.compress, order=body.order
        )
