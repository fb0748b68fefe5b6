"""A block of passages for a language model: what answers a question, within a budget of tokens."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import structlog

from pipelines.cache.cache import SqliteCache
from pipelines.cache.passages import NodeRow
from pipelines.context import block
from pipelines.context.block import LeftOut, Order, Packer, Packing, Tokens, estimated
from pipelines.context.candidates import Candidate
from pipelines.context.compress import CompressionMode
from pipelines.context.recipes import Filled, Neighbours, OfTypes, Recipe, fill, read_recipe
from pipelines.errors import (
    DomainNotFoundError,
    EverindexError,
    FilterError,
    NoteNotFoundError,
    ScopesFileError,
)
from pipelines.question import Question
from pipelines.search.rank import Source
from pipelines.search.scopes import filters_of
from pipelines.search.thresholds import best_match
from pipelines.search.walk import explore_types
from pipelines.vault import files
from service.schemas.context import (
    DEFAULT_BUDGET,
    DEFAULT_COMPRESSION,
    DEFAULT_ORDER,
    ContextAnswer,
    ContextPassage,
    LeftOutPassage,
)
from service.schemas.search import IndexState, Lines, TypedFilter, typed_filters
from service.usecases.audience import Audience, agents
from service.usecases.context_passages import (
    NOTES,
    Compression,
    Gathered,
    RepeatedLines,
    candidate_of,
    first_of,
    gather,
    most_notes,
    nearest_of,
)
from service.usecases.search import Call, View
from service.usecases.status import on_disk

log = structlog.get_logger()

_LISTED = 50  # passages that were left out
_PER_LINKED_NOTE = 1
_DIGITS = 6


@dataclass(slots=True)
class Round:
    """The passages that one question or slot gives, and its share of what is left of the budget."""

    gathered: Gathered
    share: float = 1.0


@dataclass(slots=True)
class Wanted:
    """What is asked for: a title for the block, a question or a recipe, a budget, and how to compress."""

    title: str
    budget: int
    compress: CompressionMode
    question: str | None = None
    recipe: str | None = None
    order: Order = DEFAULT_ORDER
    domains: Sequence[str] = ()
    warnings: list[str] = field(default_factory=list)
    filters: list[TypedFilter] = field(default_factory=list)


class Contexts:
    """Makes blocks of passages."""

    def __init__(self, view: View, readers: Audience | None = None) -> None:
        """Make blocks for these readers: models, which see no private note unless the setting names `context`."""
        self.view = view.seen_by(readers or agents(view.resources, "context"))
        self._repeated = RepeatedLines()

    def ask(
        self,
        question: Question,
        *,
        budget: int,
        compress: CompressionMode,
        order: Order = DEFAULT_ORDER,
    ) -> ContextAnswer:
        """Return the passages that answer a question.

        Raises DomainNotFoundError, FilterError.

        In the order of relevance, what the budget leaves goes to the notes after the last answer; the densest are
        chosen from the answers alone.
        If the search fails, the block is empty and a warning says why: a caller can go on without it.
        """
        given: dict[str, Any] = {"budget": budget, "compress": compress, "order": order}
        here = partial(self._ask, question, **given)
        return self.view.spread(Call("context", self.view.audience.sees_all, question, given), here)

    def _ask(
        self, question: Question, *, budget: int, compress: CompressionMode, order: Order
    ) -> ContextAnswer:
        started = time.perf_counter()
        typed, domains = question.typed, question.filters.domains
        wanted = Wanted(typed, budget, compress, typed, order=order, domains=domains)
        wanted.filters = typed_filters(question)
        try:
            in_order = order == "relevance"
            notes = most_notes(budget) if in_order else NOTES
            gathered = gather(self.view, question, notes=notes, beyond=in_order)
            return self.packed(wanted, [Round(gathered)], started)
        except (DomainNotFoundError, FilterError):
            raise
        except (EverindexError, OSError) as error:
            return self.failed(wanted, error, started)

    def packed(self, wanted: Wanted, rounds: Sequence[Round], started: float) -> ContextAnswer:
        """Pack the passages of one or more rounds into a block. Raises CacheError."""
        tokens = self._tokens(rounds)
        slots = {one.slot or "" for turn in rounds for one in turn.gathered.matching if one.slot}
        remarks = _remarks(rounds)
        frame = block.written(
            wanted.title, [], [*remarks, *(f"## {block.heading(slot)}\n" for slot in slots)]
        )
        domains = [one.domain for turn in rounds for one in turn.gathered.page.ranked.sources.values()]
        most_notes = {domain.slug: domain.context.max_files for domain in domains}
        room = wanted.budget - tokens.of([frame])[0]
        packer = Packer(room, tokens, block.passage, wanted.order, most_notes)
        for turn in rounds:
            compression = Compression(wanted.compress, turn.gathered, tokens)
            compression.find_repeated(self._repeated)
            matching, further, linked = (
                compression.weighed(of)
                for of in (turn.gathered.matching, turn.gathered.further, turn.gathered.linked)
            )
            found = len(turn.gathered.page.shown)
            ways = compression.shrink, compression.cut
            packer.add(matching, *ways, further=further, found=found, share=turn.share)
            packer.add(linked, *ways, per_note=_PER_LINKED_NOTE, share=turn.share)
        return self._answer(wanted, rounds, packer.finished(), tokens, started)

    def _tokens(self, rounds: Sequence[Round]) -> Tokens:
        """Return how to count: by the model of the first domain that was asked."""
        models = [model for turn in rounds for model in turn.gathered.page.ranked.models.values()]
        embedders = self.view.resources.embedders
        if not models or not embedders.has_loaded(models[0]):
            return estimated()
        return Tokens(models[0], embedders.get(models[0]).count_tokens)

    def _answer(
        self, wanted: Wanted, rounds: Sequence[Round], packing: Packing, tokens: Tokens, started: float
    ) -> ContextAnswer:
        left = packing.left_out
        listed = [one for one in left if one.reason != "alike"]
        text, size = self._text(
            wanted, rounds, packing, tokens, sum(one.tokens for one in listed), len(listed)
        )
        linked = {one.note for turn in rounds for one in turn.gathered.linked}
        stale = {note: known for turn in rounds for note, known in turn.gathered.stale.items()}
        unlisted = None if None in stale.values() else False  # the vault is there for all notes, or for none
        sizes = tokens.of([one.text for one in packing.chosen])
        warnings = [*wanted.warnings, *(w for turn in rounds for w in turn.gathered.warnings)]
        return ContextAnswer(
            question=wanted.question,
            filters=wanted.filters,
            recipe=wanted.recipe,
            block=text,
            tokens=size,
            budget=wanted.budget,
            counted_by=tokens.name,
            compress=wanted.compress,
            match=best_match(turn.gathered.match for turn in rounds),
            passages=[
                _passage(one, count, is_linked=one.note in linked, stale=stale.get(one.note, unlisted))
                for one, count in zip(packing.chosen, sizes, strict=True)
            ],
            left_out=[_left_out(one) for one in left[:_LISTED]],
            left_out_count=len(left),
            left_out_tokens=sum(one.tokens for one in left),
            warnings=list(dict.fromkeys(warnings)),
            index=self._index(wanted),
            took_ms=_milliseconds(started),
        )

    def _text(
        self, wanted: Wanted, rounds: Sequence[Round], packing: Packing, tokens: Tokens, size: int, count: int
    ) -> tuple[str, int]:
        """Return the block and its tokens; empty where there is no passage.

        What was left out is counted in the block if that fits. Where a tokenizer counts the whole higher than its
        parts, the last passages go.
        """
        remarks = _remarks(rounds)
        counted = [*remarks, f"Left out of {wanted.budget:,} tokens: {count} passages of {size:,} tokens."]
        while packing.chosen:
            for told in (counted, remarks) if count else (remarks,):
                text = block.written(wanted.title, packing.chosen, told)
                whole = tokens.whole(text)
                if whole <= wanted.budget:
                    return text, whole
            packing.chosen.pop()
        return "", 0

    def failed(self, wanted: Wanted, error: Exception, started: float) -> ContextAnswer:
        """Return the empty block of a search that failed."""
        log.warning("a context is empty", reason=str(error))
        return ContextAnswer(
            question=wanted.question,
            filters=wanted.filters,
            recipe=wanted.recipe,
            block="",
            tokens=0,
            budget=wanted.budget,
            counted_by=estimated().name,
            compress=wanted.compress,
            match=None,
            passages=[],
            left_out=[],
            left_out_count=0,
            left_out_tokens=0,
            warnings=[*wanted.warnings, f"the search failed, so the block is empty: {error}"],
            index=self._index(wanted),
            took_ms=_milliseconds(started),
        )

    def _index(self, wanted: Wanted) -> IndexState | None:
        try:
            return self.view.index_state(wanted.domains)
        except (EverindexError, OSError):
            return None  # what fails here made the search fail, too, which says so


def _remarks(rounds: Sequence[Round]) -> list[str]:
    """Return what a reader of the block has to know beside the passages."""
    if best_match(turn.gathered.match for turn in rounds) == "none":
        return ["No note is a clear answer: these are only the nearest."]
    return []


def _passage(one: Candidate, tokens: int, *, is_linked: bool, stale: bool | None) -> ContextPassage:
    return ContextPassage(
        path=one.path,
        domain=one.domain,
        title=one.title,
        section=one.section,
        locator=Lines(first=one.first, last=one.last),
        place=one.place or None,
        date=one.date,
        why=one.why,
        by="link" if is_linked else "match",
        slot=one.slot,
        text=one.text,
        relevance=round(one.relevance, _DIGITS),
        tokens=tokens,
        whole=one.is_whole,
        compressed=one.compressed,
        stale=stale,
    )


def _left_out(one: LeftOut) -> LeftOutPassage:
    return LeftOutPassage(
        path=one.candidate.path,
        domain=one.candidate.domain,
        locator=Lines(first=one.candidate.first, last=one.candidate.last),
        tokens=one.tokens,
        reason=one.reason,
    )


def _milliseconds(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


# A block by a recipe of the vault, about one note: each slot asks its own question.


_LEAST = 0.01  # relevance of a neighbour that is not near in meaning


def context_by_recipe(
    contexts: Contexts,
    name: str,
    about: str,
    *,
    budget: int | None = None,
    compress: CompressionMode | None = None,
) -> ContextAnswer:
    """Return the block of a recipe for a note.

    A slot that the note cannot fill, or that finds nothing, is left out with a warning. If the search fails, the
    block is empty. Raises ContextsFileError, RecipeNotFoundError, NoteNotFoundError.
    """
    started, path = time.perf_counter(), files.note_key(about)
    recipe = read_recipe(contexts.view.resources.root, name)
    wanted = Wanted(
        title=name,
        budget=budget or recipe.budget or DEFAULT_BUDGET,
        compress=compress or recipe.compress or DEFAULT_COMPRESSION,
        recipe=name,
    )
    try:
        return contexts.packed(wanted, _rounds(contexts.view, recipe, wanted, path), started)
    except NoteNotFoundError:
        raise
    except (EverindexError, OSError) as error:
        return contexts.failed(wanted, error, started)


def _rounds(view: View, recipe: Recipe, wanted: Wanted, path: str) -> list[Round]:
    """Fill a recipe's slots for a note, with a warning for each that stays empty. Raises EverindexError, OSError."""
    rounds: list[Round] = []
    slug, cache, node = _note(view, path)
    wanted.title = f"{wanted.title}: {node.title}"
    for slot in recipe.slots:
        try:
            filled = fill(slot, _values(node), node.title)
            gathered = _gathered(view, filled, slug, cache, path)
            rounds.append(Round(gathered))
            if not gathered.matching:
                wanted.warnings.append(f"{filled.heading}: no note was found for {filled.query!r}")
        except KeyError as error:
            wanted.warnings.append(f"a slot is left out: {path} has no property {error.args[0]!r}")
        except (FilterError, ScopesFileError, _NoNeighboursError) as error:
            wanted.warnings.append(f"a slot is left out: {error}")
    for number, turn in enumerate(rounds):
        turn.share = 1 / (len(rounds) - number)
    return rounds


class _NoNeighboursError(EverindexError):
    """A note has no neighbours of the kind that a slot asks for."""


def _note(view: View, path: str) -> tuple[str, SqliteCache, NodeRow]:
    """Return a note's row, its domain and its cache. Raises NoteNotFoundError."""
    for domain, cache in view.readers():
        node = cache.passages.node(path)
        if node and path not in domain.configuration and view.audience.sees(domain.slug, path):
            return domain.slug, cache, node
    raise view.no_such_note(path)


def _values(node: NodeRow) -> Mapping[str, object]:
    own = {"title": node.title, "path": node.path, "folder": str(PurePosixPath(node.path).parent)}
    return {**own, **node.frontmatter, "title": node.title}


def _gathered(view: View, slot: Filled, slug: str, cache: SqliteCache, path: str) -> Gathered:
    filters = filters_of(view.resources.root, slot.where)
    of_slot = partial(gather, view, notes=slot.k, without=(path,), slot=slot.heading)
    # A slot has its filters beside its question, which has no operators.
    if slot.neighbours is None:
        return of_slot(Question(slot.query, slot.query, filters=filters))
    filters = replace(filters, domains=(slug,))
    if slot.neighbours != "community":
        question = Question(slot.query, slot.query, filters=filters)
        return _linked_with(view, slot, question, slug, path)
    view.audience.require_communities(slug)
    rank = cache.graph.rank_of(path)
    if rank is None or rank.community is None:
        raise _NoNeighboursError(f"{path} belongs to no community")
    filters = replace(filters, communities=(rank.community,))
    return of_slot(Question(slot.query, slot.query, filters=filters))


def _linked_with(view: View, slot: Filled, question: Question, slug: str, path: str) -> Gathered:
    """Return the nearest passages of the notes that a note is linked with, directly or along links of some types.

    Those along links of a type are there for that link, so they come also if nothing of them can be compared.
    """
    page = view.page(question, 1)
    source = page.ranked.sources.get(slug)
    gathered = Gathered(page, warnings=[f"{name}: {why}" for name, why in page.ranked.failed.items()])
    if source is None:
        return gathered
    hidden = view.audience.hidden(slug)
    gathered.hidden[slug] = hidden
    reasons = _reasons(source, slot.neighbours, path, hidden)
    there = on_disk(view.resources, source.cache, sorted(reasons))
    if not there:
        types = slot.neighbours.types if isinstance(slot.neighbours, OfTypes) else ()
        kind = f" of the type {' or '.join(types)}" if types else ""
        raise _NoNeighboursError(f"{path} has no links{kind} to or from other notes")
    nearest = nearest_of(source, sorted(there), drop_noise=False)
    if isinstance(slot.neighbours, OfTypes):
        nearest = first_of(source, there - nearest.keys()) | nearest
    found = [
        candidate_of(slug, row, "", max(_LEAST, cosine), reasons[row.path], slot.heading)
        for row, cosine in nearest.values()
    ]
    gathered.matching = sorted(found, key=lambda one: -one.relevance)[: slot.k]
    gathered.rows = {(slug, row.path): [row] for row, _ in nearest.values()}
    return gathered


def _reasons(source: Source, neighbours: Neighbours, path: str, hidden: Collection[str]) -> dict[str, str]:
    """Return the notes that a note is linked with, and how each is."""
    domain, cache = source.domain, source.cache
    if not isinstance(neighbours, OfTypes):
        ends = {edge.path for edge in cache.graph.edges_at([path])} - {path, *domain.configuration, *hidden}
        return dict.fromkeys(ends, f"linked with {path}")
    walk = explore_types(
        domain, cache, path, neighbours.types, depth=neighbours.depth, root=None, hidden=hidden
    )
    edges = (note.edge for note in walk.kept if note.edge)
    return {
        edge.path: f"linked with {edge.source if edge.path == edge.target else edge.target}"
        f" ({domain.relations.name(edge.type)})"
        for edge in edges
    }
