"""Notes by name, and similar notes."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence

from pipelines.cache.cache import Cache
from pipelines.cache.vectors import Vector, mean_vector
from pipelines.filters import NO_FILTERS, Filters
from pipelines.model import Domain
from pipelines.search.names import NameIndex, names_of
from pipelines.search.operators import passing_chunks
from pipelines.search.walk import nearest_notes
from pipelines.vault import files
from service.schemas.search import SimilarAnswer, SimilarHit, TitleHit, TitlesAnswer, place_of
from service.usecases.audience import OWNER, Audience, named_domains
from service.usecases.search import SearchService
from service.usecases.status import on_disk

_NO_VECTORS = "the note's passages have no vectors yet; ask again when they are embedded"


class TitleSearch:
    """Find notes by name or by similarity, over all domains."""

    def __init__(self, questions: SearchService) -> None:
        self._questions = questions
        self._index = NameIndex()
        # What the index contains: by domain and path, title and aliases as JSON. The lock guards both.
        self._held: dict[str, dict[str, tuple[str, str]]] = {}
        self._lock = threading.Lock()
        self._own = threading.local()

    def titles(self, query: str, limit: int, *, audience: Audience = OWNER) -> TitlesAnswer:
        """Find notes by title, alias or path: by its beginning, else by similar spelling."""
        readers = self._questions.readers()
        with self._lock:
            self._refresh(readers)
            hidden = {domain.slug: audience.hidden(domain.slug) for domain, _ in readers}
            found = self._index.find(query, limit, hidden)
        there = {
            (domain.slug, path)
            for domain, cache in readers
            for path in on_disk(
                self._questions.resources, cache, [name.path for name in found if name.domain == domain.slug]
            )
        }
        results = [
            TitleHit(path=n.path, title=n.title, domain=n.domain, matched=n.matched, name=n.name)
            for n in found
            if (n.domain, n.path) in there
        ]
        return TitlesAnswer(query=query, results=results, count=len(results))

    def _refresh(self, readers: Sequence[tuple[Domain, Cache]]) -> None:
        """Bring the index up to date; a cache is read only if it changed since this thread last looked."""
        seen: dict[str, tuple[Cache, int]] = self._own.__dict__.setdefault("seen", {})
        for gone in set(self._held) - {domain.slug for domain, _ in readers}:
            self._hold(gone, {})
            del self._held[gone]  # whatever a thread has seen, it is read again when it is back
        for domain, cache in readers:
            now = (cache, cache.data_version())
            if seen.get(domain.slug) != now or domain.slug not in self._held:
                self._hold(domain.slug, cache.notes.names())
                seen[domain.slug] = now

    def _hold(self, slug: str, names: dict[str, tuple[str, str]]) -> None:
        """Make the index hold these names of a domain, changing only what differs."""
        held = self._held.get(slug, {})
        self._held[slug] = names
        if names == held:  # most commits change no name
            return
        for path in [path for path in held.keys() | names.keys() if held.get(path) != names.get(path)]:
            for change, of in ((self._index.remove, held), (self._index.add, names)):
                if path in of:
                    title, aliases = of[path]
                    for name in names_of(slug, path, title, json.loads(aliases)):
                        change(name)

    def similar(
        self, path: str, k: int, filters: Filters = NO_FILTERS, *, audience: Audience = OWNER
    ) -> SimilarAnswer:
        """Return the notes nearest to a note, of its domain and of others with the same model.

        Raises NoteNotFoundError, DomainNotFoundError.
        """
        for slug in filters.domains:
            named_domains(self._questions.resources, slug)
        path = files.note_key(path)
        readers = self._questions.readers()
        _, own = self._questions.holder(path, audience)
        if filters.name_communities:
            for domain, _ in readers:
                audience.require_communities(domain.slug)
        vector = mean_vector(own.notes.vectors_of(path))
        if vector is None:
            return SimilarAnswer(path=path, results=[], count=0, reason=_NO_VECTORS)
        model = own.meta.model, own.meta.dimension
        results = [
            hit
            for domain, cache in readers
            if domain.slug in (filters.domains or (domain.slug,))
            if (cache.meta.model, cache.meta.dimension) == model
            for hit in self._near(domain, cache, vector, k, path, filters, audience.hidden(domain.slug))
        ]
        results.sort(key=lambda hit: -hit.cosine)
        return SimilarAnswer(path=path, results=results[:k], count=len(results[:k]), reason=None)

    def _near(
        self,
        domain: Domain,
        cache: Cache,
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
            there = on_disk(self._questions.resources, cache, [path for path, _, _ in near])
            rows = cache.passages.chunk_rows([chunk_id for _, chunk_id, _ in near])
        return [
            SimilarHit(
                path=path,
                title=rows[chunk_id].title,
                domain=domain.slug,
                cosine=round(cosine, 4),
                section=rows[chunk_id].section,
                lines=(rows[chunk_id].first_line, rows[chunk_id].last_line),
                place=place_of(rows[chunk_id].place),
            )
            for path, chunk_id, cosine in near
            if path in there and chunk_id in rows
        ]
