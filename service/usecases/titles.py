"""Notes by name, and similar notes."""

from __future__ import annotations

from pipelines.cache.cache import SqliteCache
from pipelines.cache.vectors import Vector, mean_vector
from pipelines.filters import NO_FILTERS, Filters
from pipelines.model import Domain
from pipelines.search.operators import passing_chunks
from pipelines.search.thresholds import band_of
from pipelines.search.walk import nearest_notes
from pipelines.vault import files
from service.schemas.search import SimilarAnswer, SimilarHit, TitleHit, TitlesAnswer, place_of
from service.usecases.audience import named_domains
from service.usecases.search import View
from service.usecases.status import on_disk

_NO_VECTORS = "the note's passages have no vectors yet; ask again when they are embedded"
_NEVER = "the note's domain is found by words alone (`embedding: none`); choose a model and run `everindex reembed`"


class TitleSearch:
    """Find notes by name or by similarity, over all domains."""

    def __init__(self, view: View) -> None:
        self._view = view

    def titles(self, query: str, limit: int) -> TitlesAnswer:
        """Find notes by title, alias or path: by its beginning, else by similar spelling."""
        readers = self._view.readers()
        found = self._view.titles.find(query, limit, readers, self._view.audience.hidden)
        there = {
            (domain.slug, path)
            for domain, cache in readers
            for path in on_disk(
                self._view.resources, cache, [name.path for name in found if name.domain == domain.slug]
            )
        }
        results = [
            TitleHit(path=n.path, title=n.title, domain=n.domain, matched=n.matched, name=n.name)
            for n in found
            if (n.domain, n.path) in there
        ]
        return TitlesAnswer(query=query, results=results, count=len(results))

    def similar(self, path: str, k: int, filters: Filters = NO_FILTERS) -> SimilarAnswer:
        """Return the notes nearest to a note, of its domain and of others with the same model.

        Raises NoteNotFoundError, DomainNotFoundError.
        """
        for slug in filters.domains:
            named_domains(self._view.resources, slug)
        path = files.note_key(path)
        readers = self._view.readers()
        _, own = self._view.holder(path)
        if filters.name_communities:
            for domain, _ in readers:
                self._view.audience.require_communities(domain.slug)
        vector = mean_vector(own.notes.vectors_of(path))
        if vector is None:
            return SimilarAnswer(
                path=path, results=[], count=0, reason=_NO_VECTORS if own.meta.embeds else _NEVER
            )
        model = own.meta.model, own.meta.dimension
        results = [
            hit
            for domain, cache in readers
            if domain.slug in (filters.domains or (domain.slug,))
            if (cache.meta.model, cache.meta.dimension) == model
            for hit in self._near(
                domain, cache, vector, k, path, filters, self._view.audience.hidden(domain.slug)
            )
        ]
        results.sort(key=lambda hit: -hit.cosine)
        return SimilarAnswer(path=path, results=results[:k], count=len(results[:k]), reason=None)

    def _near(
        self,
        domain: Domain,
        cache: SqliteCache,
        vector: Vector,
        k: int,
        path: str,
        filters: Filters,
        hidden: frozenset[str],
    ) -> list[SimilarHit]:
        with cache.snapshot():
            only = passing_chunks(cache, filters, hidden, vector)
            # A few more than asked for, in case that files are gone.
            near = nearest_notes(cache, vector, k + 5, {path, *hidden, *domain.configuration}, only)
            there = on_disk(self._view.resources, cache, [path for path, _, _ in near])
            rows = cache.passages.chunk_rows([chunk_id for _, chunk_id, _ in near])
        return [
            SimilarHit(
                path=path,
                title=rows[chunk_id].title,
                domain=domain.slug,
                cosine=round(cosine, 4),
                band=band_of(cache.meta.model, round(cosine, 4)),
                section=rows[chunk_id].section,
                lines=(rows[chunk_id].first_line, rows[chunk_id].last_line),
                place=place_of(rows[chunk_id].place),
            )
            for path, chunk_id, cosine in near
            if path in there and chunk_id in rows
        ]
