"""The tools that compare: search, walks along links, and the check of quotes."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress

from pipelines.errors import CacheError, NotFoundError
from pipelines.question import read_question
from pipelines.search.quotes import Reason, status_of
from service.mcp.library import Library
from service.mcp.naming import meant_by
from service.mcp.schemas import (
    Checked,
    CheckedQuote,
    Context,
    Freshness,
    Hit,
    NotesFound,
    Omitted,
    Packed,
    Passage,
    Reached,
    Search,
    Traverse,
    VerifyQuotes,
    Walked,
    freshness_of,
    place,
    uri_of,
    warnings_of,
)
from service.schemas.context import (
    DEFAULT_BUDGET,
    DEFAULT_COMPRESSION,
    ContextAnswer,
    ContextPassage,
    LeftOutPassage,
)
from service.schemas.evidence import Cited, VerifiedQuote
from service.schemas.links import KeptNode, Mode, Walk
from service.schemas.search import FARTHEST_OFFSET, SearchHit
from service.usecases.context import Wanted, context_by_recipe

_NO_NOTE: Reason = "no_chunk_text"
_DEEPER = "few notes are near: `traverse` with this question and deep=true may find more, as may other words"


def search(library: Library, asked: Search) -> NotesFound:
    """Find notes. Raises CursorError, FilterError, DomainNotFoundError."""
    turn = library.turn("search", asked)
    filters = library.filters(asked)
    question, *also = (read_question(one, filters, rerank=asked.rerank) for one in (asked.query, *asked.also))
    answer = library.view.search(question, asked.limit, offset=turn.offset, also=also)
    generation = answer.index.generation
    after = turn.offset + asked.limit
    more = answer.more and after <= FARTHEST_OFFSET
    hints = [_DEEPER] if answer.deep_available and not turn.offset else []
    hints += [f"not ranked again: {answer.not_reranked}"] if answer.not_reranked else []
    return NotesFound(
        match=answer.match,
        freshness=freshness_of(answer.index),
        truncated=more,
        cursor=turn.next(after, generation) if more else None,
        warnings=[*warnings_of(answer.index), *turn.warnings(generation), *hints],
        hits=[_hit(hit) for hit in answer.results],
        reason=answer.reason,
        did_you_mean=answer.did_you_mean,
        filters=[one.written for one in answer.filters],
        order=answer.order,
    )


def _hit(hit: SearchHit) -> Hit:
    return Hit.model_validate(
        {
            **place(hit.path, hit.title, hit.domain, hit.lines),
            "place": hit.place.shown if hit.place else None,
            "section": hit.section,
            "text": hit.excerpt,
            "match": hit.match,
            "is_answer": hit.match != "none",
            "similarity": hit.similarity,
            "modified": hit.modified,
            "stale": hit.stale,
            "copies": [one.path for one in hit.alike],
        }
    )


def traverse(library: Library, asked: Traverse) -> Walked:
    """Walk along links from a note, or from what a search finds.

    Raises CursorError, FilterError, NotFoundError, NotComparableError.
    """
    turn = library.turn("traverse", asked)
    question = read_question(asked.question or "", library.filters(asked))
    if asked.note is not None:
        path = meant_by(library, asked.note).path
        walks: list[Walk] = [library.traversal.traverse(path, asked.depth, question, asked.type)]
    else:
        mode: Mode = "deep" if asked.deep else "fast"
        parts = library.traversal.deep(question, mode).domains
        walks = [walk for part in parts for walk in (part.fast, part.deep) if walk]
    freshness, warnings = library.freshness()
    kept = [node for walk in walks for node in walk.nodes]
    known = {node.path for node in kept}
    kept.sort(key=lambda node: (-(node.similarity or 0.0), node.hop or 0, node.path))
    shown, cursor = turn.cut(kept, asked.limit, freshness.generation)
    return Walked(
        freshness=freshness,
        truncated=cursor is not None,
        cursor=cursor,
        warnings=[*warnings, *turn.warnings(freshness.generation)],
        notes=[_reached(node, known) for node in shown],
        dropped=sum(len(walk.dropped) for walk in walks),
        unread=sum(walk.unread for walk in walks),
        stopped=[walk.stopped for walk in walks],
    )


def _reached(node: KeptNode, known: Collection[str]) -> Reached:
    edge = node.edge
    by = f"{edge.source} -> {edge.target}" if edge and {edge.source, edge.target} <= {*known} else None
    return Reached.model_validate(
        {
            **place(node.path, node.title, node.domain),
            "hop": node.hop,
            "similarity": node.similarity,
            "by": by,
            "type": edge.type if by and edge else None,
            "why": node.retain_reason,
        }
    )


def verify_quotes(library: Library, asked: VerifyQuotes) -> Checked:
    """Check quotes against the index; a note that there is not contains none."""
    paths = [_path_meant(library, one.note) for one in asked.quotes]
    cited = [Cited(path=path, quote=one.quote) for path, one in zip(paths, asked.quotes, strict=True) if path]
    found = iter(library.records.verify(cited).quotes)
    quotes = [
        _checked(next(found))
        if path
        else CheckedQuote(path=one.note, quote=one.quote, verified=False, reason=_NO_NOTE)
        for path, one in zip(paths, asked.quotes, strict=True)
    ]
    freshness, warnings = library.freshness()
    return Checked(
        freshness=freshness,
        warnings=warnings,
        status=status_of(one.reason for one in quotes),
        quotes=quotes,
    )


def _path_meant(library: Library, name: str) -> str | None:
    with suppress(NotFoundError):
        return meant_by(library, name).path
    return None


def _checked(one: VerifiedQuote) -> CheckedQuote:
    return CheckedQuote(
        path=one.path,
        quote=one.quote,
        verified=one.citation_verified,
        reason=one.citation_reason,
        place=one.place.shown if one.place else None,
    )


# The tool that packs: one block of passages for a question or by a recipe, within a budget of tokens.


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
        answer = library.contexts.failed(_wanted(asked), error, started)
    return _packed(answer)


def _asked(library: Library, asked: Context) -> ContextAnswer:
    return library.contexts.ask(
        read_question(asked.question or "", library.filters(asked)),
        budget=asked.budget or DEFAULT_BUDGET,
        compress=asked.compress or DEFAULT_COMPRESSION,
    )


def _by_recipe(library: Library, asked: Context) -> ContextAnswer:
    return context_by_recipe(
        library.contexts,
        asked.recipe or "",
        meant_by(library, asked.note or "").path,
        budget=asked.budget,
        compress=asked.compress,
    )


def _wanted(asked: Context) -> Wanted:
    return Wanted(
        title="",
        budget=asked.budget or DEFAULT_BUDGET,
        compress=asked.compress or DEFAULT_COMPRESSION,
        question=asked.question,
        recipe=asked.recipe,
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
