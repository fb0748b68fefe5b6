"""Walks along links: a note's surroundings, and deep retrieval."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pipelines.cache import graph, notes
from pipelines.cache.cache import Cache, Vector
from pipelines.cache.vectors import mean_vector
from pipelines.errors import EvidenceNotFoundError, NotComparableError
from pipelines.filters import Filters
from pipelines.model import Domain
from pipelines.notes import lexical
from pipelines.question import read_question
from pipelines.search.operators import notes_that_fail, passing_chunks
from pipelines.search.thresholds import thresholds_of
from pipelines.search.walk import (
    Dropped,
    Effort,
    Found,
    Kept,
    compare,
    deep,
    explore,
    explore_from,
    fast,
    retrieve,
)
from pipelines.state.evidence import Evidence
from pipelines.vault import files
from service.usecases.audience import OWNER, Audience
from service.usecases.domains import named_domains
from service.usecases.schemas.links import Edge
from service.usecases.schemas.traversal import (
    DeepAnswer,
    DomainRetrieval,
    DroppedNode,
    KeptNode,
    Mode,
    TraverseAnswer,
    Walk,
    Way,
)
from service.usecases.search import NO_FILTERS, SearchService


class Traversal:
    """Walks over the caches, each within one domain."""

    def __init__(self, questions: SearchService) -> None:
        self._questions = questions
        self._resources = questions.resources

    def traverse(
        self,
        path: str,
        depth: int,
        query: str | None,
        filters: Filters = NO_FILTERS,
        *,
        audience: Audience = OWNER,
    ) -> TraverseAnswer:
        """Walk from a note, whatever it is, over notes that pass the filters.

        Raises NoteNotFoundError, NotComparableError, DomainNotFoundError.
        """
        for slug in filters.domains:
            named_domains(self._resources, slug)
        path = files.note_key(path)
        domain, cache = self._questions.holder(path, audience)
        if query is not None:
            read = read_question(query)
            query, filters = read.text or None, read.within(filters)
        vector = None if query is None else self._vector(cache, query)
        compared = vector
        if vector is None and filters.min_similarity is not None:
            compared = mean_vector(notes.vectors_of(cache, path))
        left_out = self._left_out(domain, cache, filters, audience, compared)
        return self._traverse(domain, cache, path, depth, query, vector, {*left_out} - {path})

    def _left_out(
        self, domain: Domain, cache: Cache, filters: Filters, audience: Audience, vector: Vector | None
    ) -> Collection[str]:
        """Return the paths of the notes to which a walk does not come."""
        if filters.name_communities:
            audience.require_communities(domain.slug)
        if filters.domains and domain.slug not in filters.domains:
            return notes.note_names(cache).keys()
        return notes_that_fail(cache, filters, audience.hidden(domain.slug), vector)

    def _traverse(
        self,
        domain: Domain,
        cache: Cache,
        path: str,
        depth: int,
        query: str | None,
        vector: Vector | None,
        hidden: Collection[str],
    ) -> TraverseAnswer:
        root = self._resources.root if self._resources.present() else None
        effort = fast(thresholds_of(cache.meta.model), by_note=vector is None)
        started = time.perf_counter()
        found = (
            explore_from(domain, cache, path, effort, depth=depth, root=root, hidden=hidden)
            if vector is None
            else explore(domain, cache, [path], vector, effort, depth=depth, root=root, hidden=hidden)
        )
        if found is None:
            raise NotComparableError(
                f"{path} has no vector to compare with (it is not embedded yet); ask with a question (q)",
            )
        walk = _walk(domain, cache, found, effort, started)
        return TraverseAnswer(**dict(walk), path=path, domain=domain.slug, depth=depth, query=query)

    def deep(
        self, asked: str, mode: Mode, filters: Filters = NO_FILTERS, *, audience: Audience = OWNER
    ) -> DeepAnswer:
        """Search and walk on over notes that pass the filters. `asked`: a question, or an evidence record's id.

        Only notes that pass the question's operators are found, and walked through.
        Only who sees all notes may name a record: its question is the owner's. Raises DomainNotFoundError.
        """
        readers = [one for slug in filters.domains or (None,) for one in self._questions.readers(slug)]
        question, record = self._question(asked) if audience.sees_all else (asked, None)
        return DeepAnswer(
            question=question,
            record=record,
            mode=mode,
            domains=[
                self._retrieve(owner, cache, question, mode, filters, audience) for owner, cache in readers
            ],
            index=self._questions.index_state(filters.domains, audience=audience),
        )

    def _retrieve(
        self, domain: Domain, cache: Cache, question: str, mode: Mode, filters: Filters, audience: Audience
    ) -> DomainRetrieval:
        read = read_question(question)
        # Operators alone say nothing that could be near or far.
        question, filters = read.text or question, read.within(filters)
        vector = self._vector(cache, question)
        left_out = self._left_out(domain, cache, filters, audience, vector)
        only = passing_chunks(cache, filters, audience.hidden(domain.slug), vector)
        bars = thresholds_of(cache.meta.model)
        efforts = {"fast": fast(bars), "deep": deep(bars)}
        walks: dict[str, Walk] = {}
        found: dict[str, Found] = {}
        for name in ("fast", "deep") if mode == "compare" else (mode,):
            started = time.perf_counter()
            found[name] = retrieve(
                domain,
                cache,
                question,
                vector,
                efforts[name],
                root=self._resources.root,
                present=self._resources.present(),
                now=datetime.now(UTC),
                only=only,
                hidden=audience.hidden(domain.slug),
                left_out=left_out,
            )
            walks[name] = _walk(domain, cache, found[name], efforts[name], started)
        difference = compare(found["fast"], found["deep"]) if mode == "compare" else None
        return DomainRetrieval(
            domain=domain.slug,
            fast=walks.get("fast"),
            deep=walks.get("deep"),
            added=list(difference.added) if difference else None,
            lost=list(difference.lost) if difference else None,
        )

    def _question(self, asked: str) -> tuple[str, str | None]:
        """Return the question that is meant, and the record that has it."""
        with closing(Evidence(self._resources.place.state)) as records:
            try:
                return records.get(asked).question, asked
            except EvidenceNotFoundError:
                return asked, None

    def _vector(self, cache: Cache, question: str) -> Vector:
        self._questions.load_models()
        return self._resources.embedders.get(cache.meta.model).encode_query(
            lexical.without_unwanted(question)
        )


def _walk(domain: Domain, cache: Cache, found: Found, effort: Effort, started: float) -> Walk:
    kept = [note.path for note in found.kept]
    looked_at = [*kept, *(note.path for note in found.dropped)]
    points = {point.path: asdict(point) for point in graph.nodes(cache, looked_at)}

    def facts(note: Kept | Dropped) -> dict[str, Any]:
        edge = note.edge
        return points[note.path] | {
            "domain": domain.slug,
            "hop": note.hop,
            "similarity": None if note.similarity is None else round(note.similarity, 4),
            "decay_weight": note.decay_weight,
            "decay_zero": note.decay_weight <= 0,
            "edge": Way(kind=edge.kind, source=edge.source, target=edge.target) if edge else None,
        }

    # A note that was deleted this moment has no point any more.
    return Walk(
        nodes=[KeptNode(**facts(n), retain_reason=n.reason) for n in found.kept if n.path in points],
        edges=[Edge(**asdict(edge)) for edge in graph.edges_among(cache, kept)],
        dropped=[DroppedNode(**facts(n), drop_reason=n.reason) for n in found.dropped if n.path in points],
        embeddings_read=found.embeddings,
        unread=found.unread,
        stopped=found.stopped,
        prune=effort.prune,
        floor=effort.floor,
        target=effort.target,
        calibrated=thresholds_of(cache.meta.model).calibrated,
        took_ms=round((time.perf_counter() - started) * 1000, 1),
    )
