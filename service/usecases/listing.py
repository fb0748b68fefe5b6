"""The notes that pass filters, all of them, without a question."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from pipelines.cache.cache import Cache
from pipelines.cache.filters import matching_notes
from pipelines.filters import Filters, require_no_question
from service.usecases.audience import OWNER, Audience
from service.usecases.nearest_values import unknown_values
from service.usecases.notes import on_disk
from service.usecases.schemas.listing import ListAnswer, ListedNote
from service.usecases.search import SearchService

Order = Literal["path", "date"]


def list_notes(
    questions: SearchService, filters: Filters, order: Order, *, audience: Audience = OWNER
) -> ListAnswer:
    """Return the notes that pass, by path or the newest first, without those whose file is gone.

    Raises DomainNotFoundError, FilterError.
    """
    require_no_question(filters)
    found, configuration = [], []
    for slug in filters.domains or (None,):
        for domain, cache in questions.readers(slug):
            if filters.name_communities:
                audience.require_communities(domain.slug)
            rows = matching_notes(cache, filters, audience.hidden(domain.slug))
            there = on_disk(questions.resources, cache, [row.path for row in rows])
            configuration += [path for path in domain.configuration if path in there]
            found += [
                ListedNote(
                    path=row.path,
                    title=row.title,
                    domain=domain.slug,
                    kind=row.kind,
                    date=row.day,
                    chunks=row.chunks,
                    warnings=list(row.warnings),
                )
                for row in rows
                if row.path in there and row.path not in domain.configuration
            ]
    unknown = [] if found else unknown_values(_asked(questions, filters, audience), filters)
    found.sort(key=lambda note: note.path)
    if order == "date":
        found.sort(key=lambda note: note.date, reverse=True)
    return ListAnswer(
        notes=found,
        count=len(found),
        configuration=sorted(configuration),
        reason="; ".join(unknown) or None,
    )


def _asked(
    questions: SearchService, filters: Filters, audience: Audience
) -> Iterator[tuple[Cache, Collection[str]]]:
    """Yield the caches of the domains that the filters choose, each with the paths hidden from the asker."""
    for slug in filters.domains or (None,):
        for domain, cache in questions.readers(slug):
            yield cache, audience.hidden(domain.slug)
