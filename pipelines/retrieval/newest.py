"""The notes that pass a question's filters, the newest first, where it asks for nothing else."""

from __future__ import annotations

from pipelines import lexical
from pipelines.filters import Filters
from pipelines.retrieval.by_rank import Placed
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.layers import Ranking, Source
from pipelines.retrieval.merging import Asked
from pipelines.retrieval.restrict import notes_left_out
from pipelines.store.filters import days_of


def is_list(query: str, filters: Filters) -> bool:
    """Say whether a question has only filters, and perhaps words that it leaves out."""
    return filters != Filters() and not lexical.operators(query).asks


def newest(asked: Asked, query: str) -> list[Placed]:
    """Return the notes that pass, without those that the question leaves out. Call this within `snapshots`."""

    def notes(source: Source) -> list[tuple[str, Placed]]:
        left_out = {*source.domain.configuration, *notes_left_out(source.cache, lexical.operators(query))}
        passing = sorted(row for row in days_of(source.cache, source.only) if row[0] not in left_out)
        hits = [(day, Hit(path, chunk_id, {})) for path, chunk_id, day in passing]
        return [(day, Placed(source, Ranking([hit], {}), hit)) for day, hit in hits]

    found = [one for several in asked.each(notes).values() for one in several]
    found.sort(key=lambda one: one[1].hit.path)
    return [placed for _, placed in sorted(found, key=lambda one: one[0], reverse=True)]
