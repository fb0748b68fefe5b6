"""A block by a recipe of the vault, about one note: each slot asks its own question."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from pipelines.cache import graph, passages
from pipelines.cache.cache import Cache
from pipelines.cache.graph import edges_at
from pipelines.cache.passages import NodeRow
from pipelines.context.compress import CompressionMode
from pipelines.context.recipes import Filled, Recipe, fill, read_recipe
from pipelines.errors import EverindexError, FilterError, NoteNotFoundError, ScopesFileError
from pipelines.filters import Filters
from pipelines.search.scopes import filters_of
from pipelines.vault import files
from service.usecases.audience import Audience
from service.usecases.context import Contexts, Round, Wanted
from service.usecases.context_passages import Gathered, candidate_of, gather, nearest_of
from service.usecases.notes import on_disk
from service.usecases.schemas.context import DEFAULT_BUDGET, DEFAULT_COMPRESSION, ContextAnswer
from service.usecases.search import SearchService

_LEAST = 0.01  # relevance of a neighbour that is not near in meaning


def context_by_recipe(
    questions: SearchService,
    contexts: Contexts,
    name: str,
    about: str,
    *,
    budget: int | None = None,
    compress: CompressionMode | None = None,
    audience: Audience | None = None,
) -> ContextAnswer:
    """Return the block of a recipe for a note.

    A slot that the note cannot fill, or that finds nothing, is left out with a warning. If the search fails, the
    block is empty. Raises ContextsFileError, RecipeNotFoundError, NoteNotFoundError.
    """
    started, path, audience = time.perf_counter(), files.note_key(about), audience or contexts.readers
    recipe = read_recipe(questions.resources.root, name)
    wanted = Wanted(
        title=name,
        budget=budget or recipe.budget or DEFAULT_BUDGET,
        compress=compress or recipe.compress or DEFAULT_COMPRESSION,
        recipe=name,
        audience=audience,
    )
    try:
        return contexts.packed(wanted, _rounds(questions, recipe, wanted, path, audience), started)
    except NoteNotFoundError:
        raise
    except (EverindexError, OSError) as error:
        return contexts.failed(wanted, error, started)


def _rounds(
    questions: SearchService, recipe: Recipe, wanted: Wanted, path: str, audience: Audience
) -> list[Round]:
    """Fill a recipe's slots for a note, with a warning for each that stays empty. Raises EverindexError, OSError."""
    rounds: list[Round] = []
    slug, cache, node = _note(questions, path, audience)
    wanted.title = f"{wanted.title}: {node.title}"
    for slot in recipe.slots:
        try:
            filled = fill(slot, _values(node), node.title)
            gathered = _gathered(questions, filled, slug, cache, path, audience)
            rounds.append(Round(filled.query, gathered))
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


def _note(questions: SearchService, path: str, audience: Audience) -> tuple[str, Cache, NodeRow]:
    """Return a note's row, its domain and its cache. Raises NoteNotFoundError."""
    for domain, cache in questions.readers():
        node = passages.node(cache, path)
        if node and path not in domain.configuration and audience.sees(domain.slug, path):
            return domain.slug, cache, node
    raise questions.no_such_note(path, audience)


def _values(node: NodeRow) -> Mapping[str, object]:
    own = {"title": node.title, "path": node.path, "folder": str(PurePosixPath(node.path).parent)}
    return {**own, **node.frontmatter, "title": node.title}


def _gathered(
    questions: SearchService, slot: Filled, slug: str, cache: Cache, path: str, audience: Audience
) -> Gathered:
    filters = filters_of(questions.resources.root, slot.where)
    of_slot = partial(
        gather, questions, slot.query, notes=slot.k, without=(path,), slot=slot.heading, audience=audience
    )
    if slot.neighbours is None:
        return of_slot(filters)
    filters = replace(filters, domains=(slug,))
    if slot.neighbours == "links":
        return _linked_with(questions, slot, filters, slug, path, audience)
    audience.require_communities(slug)
    rank = graph.rank_of(cache, path)
    if rank is None or rank.community is None:
        raise _NoNeighboursError(f"{path} belongs to no community")
    return of_slot(replace(filters, communities=(rank.community,)))


def _linked_with(
    questions: SearchService, slot: Filled, filters: Filters, slug: str, path: str, audience: Audience
) -> Gathered:
    """Return the nearest passages of the notes that a note links to or is linked from."""
    page = questions.page(slot.query, 1, filters, audience=audience)
    source = page.ranked.sources.get(slug)
    gathered = Gathered(page, warnings=[f"{name}: {why}" for name, why in page.ranked.failed.items()])
    if source is None:
        return gathered
    hidden = audience.hidden(slug)
    gathered.hidden[slug] = hidden
    ends = (
        {edge.path for edge in edges_at(source.cache, [path])} - {path, *source.domain.configuration} - hidden
    )
    there = on_disk(questions.resources, source.cache, sorted(ends))
    if not there:
        raise _NoNeighboursError(f"{path} has no links to or from other notes")
    nearest = nearest_of(source, sorted(there), drop_noise=False)
    found = [
        candidate_of(slug, row, "", max(_LEAST, cosine), f"linked with {path}", slot.heading)
        for row, cosine in nearest.values()
    ]
    gathered.matching = sorted(found, key=lambda one: -one.relevance)[: slot.k]
    gathered.rows = {(slug, row.path): [row] for row, _ in nearest.values()}
    return gathered
