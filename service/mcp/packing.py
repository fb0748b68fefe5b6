"""The tool that packs: one block of passages for a question or by a recipe, within a budget of tokens."""

from __future__ import annotations

import time

from pipelines.errors import CacheError
from service.mcp.answers import Freshness, Omitted, Packed, Passage, freshness_of, place, warnings_of
from service.mcp.arguments import Context
from service.mcp.library import Library
from service.mcp.naming import meant_by
from service.mcp.uris import uri_of
from service.usecases.context import Wanted
from service.usecases.context_recipes import context_by_recipe
from service.usecases.schemas.context import (
    DEFAULT_BUDGET,
    DEFAULT_COMPRESSION,
    ContextAnswer,
    ContextPassage,
    LeftOutPassage,
)

_MOST_LEFT_OUT = 20
_UNREADABLE = Freshness(
    behind=0,
    vectors_pending=0,
    by_meaning=False,
    generation="unknown",
    unavailable={"vault": "its state cannot be read now"},
)


def context(library: Library, asked: Context) -> Packed:
    """Pack what answers a question, or what a recipe asks about a note, into a block.

    If the search fails, the block is empty and a warning says why. Raises ContextsFileError, FilterError,
    NotFoundError: the request is wrong, or the recipe.
    """
    started = time.perf_counter()
    try:
        answer = _by_recipe(library, asked) if asked.recipe and asked.note else _asked(library, asked)
    except (CacheError, OSError) as error:  # the index failed while it looked up the note's name
        answer = library.contexts.failed(_wanted(library, asked), error, started)
    return _packed(answer)


def _asked(library: Library, asked: Context) -> ContextAnswer:
    return library.contexts.ask(
        asked.question or "",
        library.filters(asked),
        budget=asked.budget or DEFAULT_BUDGET,
        compress=asked.compress or DEFAULT_COMPRESSION,
        audience=library.audience,
    )


def _by_recipe(library: Library, asked: Context) -> ContextAnswer:
    return context_by_recipe(
        library.questions,
        library.contexts,
        asked.recipe or "",
        meant_by(library, asked.note or "").path,
        budget=asked.budget,
        compress=asked.compress,
        audience=library.audience,
    )


def _wanted(library: Library, asked: Context) -> Wanted:
    return Wanted(
        title="",
        budget=asked.budget or DEFAULT_BUDGET,
        compress=asked.compress or DEFAULT_COMPRESSION,
        question=asked.question,
        recipe=asked.recipe,
        audience=library.audience,
    )


def _packed(answer: ContextAnswer) -> Packed:
    index = answer.index
    return Packed(
        match=answer.match,
        freshness=freshness_of(index) if index else _UNREADABLE,
        truncated=answer.left_out_count > 0,
        warnings=[*(warnings_of(index) if index else []), *answer.warnings],
        block=answer.block,
        tokens=answer.tokens,
        budget=answer.budget,
        counted_by=answer.counted_by,
        passages=[_passage(one) for one in answer.passages],
        left_out=[_omitted(one) for one in answer.left_out[:_MOST_LEFT_OUT]],
        left_out_count=answer.left_out_count,
        left_out_tokens=answer.left_out_tokens,
    )


def _passage(one: ContextPassage) -> Passage:
    return Passage.model_validate(
        {
            **place(one.path, one.title, one.domain, (one.locator.first, one.locator.last)),
            **one.model_dump(
                include={"place", "section", "date", "why", "by", "slot", "tokens", "compressed", "stale"}
            ),
        }
    )


def _omitted(one: LeftOutPassage) -> Omitted:
    at = (one.locator.first, one.locator.last)
    return Omitted(uri=uri_of(one.path, at), tokens=one.tokens, reason=one.reason)
