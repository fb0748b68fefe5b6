"""Why a note is among the answers to a question, or is not."""

from __future__ import annotations

import sys

from pipelines.cache import passages
from pipelines.cache.cache import Vector
from pipelines.cache.search import notes_of
from pipelines.question import read_question
from pipelines.search.explain import standing
from pipelines.vault import files
from service.usecases.audience import OWNER, Audience
from service.usecases.paging import followed_by
from service.usecases.schemas.search import Explanation
from service.usecases.search import SearchService
from service.usecases.search_results import explanation, unindexed
from service.usecases.setbacks import gone_because

_EVERY = sys.maxsize  # all candidates


def explain(
    questions: SearchService, query: str, path: str, k: int, *, audience: Audience = OWNER
) -> Explanation:
    """Say why a note is among the answers to a question, or is not."""
    path, asked = files.note_key(path), read_question(query)
    known, vectors = questions.why(path, audience=audience), dict[str, Vector | None]()
    page = questions.page(asked.text, k, asked.filters, vectors=vectors, audience=audience)
    every = questions.ranked(
        asked.text, _EVERY, asked.filters, depth=page.depth, vectors=vectors, audience=audience
    )
    found = followed_by(page.found, every.found)
    for slug, source in every.sources.items():
        if passages.node(source.cache, path) is None or not audience.sees(slug, path):
            continue
        stands = standing(source, asked.text, path, page.depth, found)
        gone = None if stands.place else gone_because(questions.resources, source.cache, path)
        if not (gone or stands.place or path in notes_of(source.cache, source.only)):
            gone = "it does not pass the filters in the question"
        return explanation(path, slug, known["state"], stands, page.shown, gone)
    return unindexed(known, path, page.depth)
