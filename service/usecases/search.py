"""Search and explanations over the caches, for the query worker and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import structlog

from pipelines.cache import graph, passages
from pipelines.cache.cache import Cache, Vector
from pipelines.errors import CacheError, CacheMissingError, NoteNotFoundError
from pipelines.filters import Filters, require_no_question
from pipelines.indexing.reconcile import rules_of
from pipelines.indexing.status import nothing_at, why
from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search.ablation import Way, as_it_is
from pipelines.search.domains import is_list
from pipelines.search.find import excerpts, find, find_newest
from pipelines.search.fusion import timing
from pipelines.search.operators import passing_chunks
from pipelines.search.rank import Source
from pipelines.sqlite import snapshot
from pipelines.vault import files
from queue_config.queue import Queue
from service.runtime.refusals import standing_of
from service.usecases.audience import OWNER, Audience
from service.usecases.domain_state import state_of
from service.usecases.domains import named_domains
from service.usecases.health import DomainIndex, describe_health, describe_index, index_of, without_counts
from service.usecases.memory_check import check_memory
from service.usecases.memory_index import InMemory
from service.usecases.notes import describe_note, on_disk
from service.usecases.paging import Page, Ranked, page_of, page_of_list
from service.usecases.question_models import QuestionModels
from service.usecases.schemas.health import Health
from service.usecases.schemas.notes import NodeAnswer
from service.usecases.schemas.search import IndexState, SearchAnswer, typed_filters
from service.usecases.search_results import meant_by, search_hit, why_nothing
from service.usecases.setbacks import explained
from workers.attention import attended
from workers.resources import Resources

log = structlog.get_logger()

Answer = TypeVar("Answer")
NO_FILTERS = Filters()


def _unobserved(_stage: str, _seconds: float) -> None:
    """Ignore the duration of a stage."""


class SearchService:
    """Searches over the caches. With `wait_for_model` the first question waits for the model.

    `observe` receives the seconds that each stage of a search took.
    """

    def __init__(self, resources: Resources, *, wait_for_model: bool = False) -> None:
        self.resources = resources
        self._wait = wait_for_model
        self._models = QuestionModels(resources)
        self._in_memory = InMemory()
        self.observe: Callable[[str, float], None] = _unobserved

    def readers(self, slug: str | None = None) -> list[tuple[Domain, Cache]]:
        """Return the domains (or the named one) that have a cache, each with this thread's connection.

        Raises DomainNotFoundError.
        """
        found = []
        for domain in named_domains(self.resources, slug):
            try:
                found.append((domain, self.resources.reader(domain)))
            except CacheMissingError:
                continue  # the watcher is about to make it
            except CacheError as error:
                log.warning("a domain cannot be asked", domain=domain.slug, reason=str(error))
        return found

    def _ask(
        self, question: Callable[[Domain, Cache], Answer], slugs: Collection[str] = ()
    ) -> tuple[dict[str, Answer], dict[str, str]]:
        """Query every domain (or some); return the answers and the failures. One damaged cache affects no other."""
        answers, failed = {}, {}
        for domain in self.resources.domains():
            if slugs and domain.slug not in slugs:
                continue
            try:
                answers[domain.slug] = question(domain, self.resources.reader(domain))
            except CacheMissingError:
                continue  # the watcher is about to make it
            except CacheError as error:
                failed[domain.slug] = str(error)
                log.warning("a domain cannot be asked", domain=domain.slug, reason=str(error))
        return answers, failed

    def load_models(self) -> None:
        """Load missing models of all caches."""
        self._models.load(cache.meta.model for _, cache in self.readers())

    def follow_commits(self) -> None:
        """Update the data in memory from the caches whose models are loaded. Only one thread calls it."""
        self._in_memory.follow(
            [cache for _, cache in self.readers() if self._models.has_loaded(cache.meta.model)]
        )

    def check_memory(self) -> None:
        """Compare a part of the data in memory with the caches. Called by the thread that follows commits."""
        check_memory(self.resources, self._in_memory, self.readers())

    def _vector(self, model: str, query: str) -> Vector | None:
        if self._wait and not self._models.has_loaded(model):
            self.load_models()
        return self._models.vector(model, query)

    def search(
        self,
        query: str,
        k: int,
        filters: Filters = NO_FILTERS,
        *,
        explain: bool = False,
        offset: int = 0,
        fold: bool = True,
        audience: Audience = OWNER,
    ) -> SearchAnswer:
        """Answer what a person typed by `k` results after the first `offset`, copies folded.

        Its operators narrow the filters. Raises DomainNotFoundError, FilterError.
        """
        started = time.perf_counter()
        asked = read_question(query)
        text, filters = asked.text, asked.within(filters)
        self.resources.embedders.leave_a_core()
        with timing() as seconds:
            page = self.page(text, k, filters, offset=offset, fold=fold, audience=audience)
            cut = excerpts(
                [one.first for one in page.shown], text, page.ranked.similarities(self._models.sentences)
            )
        index = self.index_state(filters.domains, audience=audience)
        index.failed |= page.ranked.failed
        took = time.perf_counter() - started
        for name, spent in {**seconds, "total": took}.items():
            self.observe(name, spent)
        return SearchAnswer(
            query=query,
            text=text,
            order="newest" if is_list(text, filters) else "relevance",
            filters=typed_filters(asked),
            results=[
                search_hit(one, *show, explain=explain) for one, show in zip(page.shown, cut, strict=True)
            ],
            count=len(page.shown),
            offset=offset,
            answers=len(page.answers),
            more=page.more,
            match=page.match,
            deep_available=page.match in ("weak", "none") or page.sparse,
            took_ms=round(took * 1000, 1),
            index=index,
            reason=None if page.ranked.found else why_nothing(page.ranked, text, filters),
            did_you_mean=asked.with_text(meant_by(page.ranked, text, self.resources)),
        )

    def page(
        self,
        query: str,
        k: int,
        filters: Filters = NO_FILTERS,
        *,
        offset: int = 0,
        fold: bool = True,
        way: Way = as_it_is,
        vectors: dict[str, Vector | None] | None = None,
        now: datetime | None = None,
        audience: Audience = OWNER,
    ) -> Page:
        """Return the results that a search shows, without their excerpts. Raises DomainNotFoundError, FilterError.

        Searches, explanations and measurements all use this. It must not learn from a question, or every
        measurement would change the next. A question without words, beside filters, has the newest notes that pass.
        """
        known = {} if vectors is None else vectors
        if is_list(query, filters):
            ranked = self.ranked(query, offset + k + 1, filters, vectors=known, now=now, audience=audience)
            return page_of_list(ranked, k, offset)

        def rank(most: int, depth: int) -> Ranked:
            return self.ranked(
                query, most, filters, depth=depth, way=way, vectors=known, now=now, audience=audience
            )

        return page_of(rank, query, k, offset, folded=fold)

    def ranked(
        self,
        query: str,
        k: int,
        filters: Filters = NO_FILTERS,
        *,
        depth: int | None = None,
        way: Way = as_it_is,
        vectors: dict[str, Vector | None] | None = None,
        now: datetime | None = None,
        audience: Audience = OWNER,
    ) -> Ranked:
        """Rank the notes of all domains, or those of the filters, for a question.

        `depth`: see `find`. `way` changes what each domain is asked by. `vectors` are the question's own by model,
        as far as they are known; others are added to it. Raises DomainNotFoundError, FilterError.
        """
        root, present, now = self.resources.root, self.resources.present(), now or datetime.now(UTC)
        known, lists = {} if vectors is None else vectors, is_list(query, filters)
        if lists:
            require_no_question(filters)

        def source(domain: Domain, cache: Cache) -> Source:
            model, held, hidden = cache.meta.model, self._in_memory, audience.hidden(domain.slug)
            if model not in known:
                known[model] = None if lists else self._vector(model, query)
            if filters.name_communities:
                audience.require_communities(domain.slug)
            only = passing_chunks(cache, filters, hidden, known[model])
            memory, names = (held.quantized(cache), held.words(cache)), held.names(cache)
            own = Source(domain, cache, known[model], only, *memory, names=names, hidden=hidden)
            return way(replace(own, attended=attended(self.resources, now), code=held.code(cache)))

        for slug in filters.domains:
            named_domains(self.resources, slug)
        sources, failed = self._ask(source, filters.domains)
        asked = list(sources.values())
        found, also_failed = (
            find_newest(asked, query, k, root=root, present=present)
            if lists
            else find(asked, query, k, root=root, present=present, now=now, depth=depth)
        )
        for slug, error in also_failed.items():
            log.warning("a domain cannot be asked", domain=slug, reason=str(error))
            failed[slug] = str(error)
        return Ranked(found, known, sources, failed)

    def index_state(self, slugs: Collection[str] = (), *, audience: Audience = OWNER) -> IndexState:
        """Say whether the index is behind the disk, and which domains cannot be asked.

        Who does not see all notes learns only whether any note or vector is pending, not how many are, and nothing of
        notes that are hidden.
        """

        def ask(domain: Domain, cache: Cache) -> DomainIndex:
            return index_of(domain, cache, audience, ready=self._models.has_loaded(cache.meta.model))

        found, failed = self._ask(ask, slugs)
        state = describe_index(self.resources, list(found.values()), failed)
        return state if audience.sees_all else without_counts(state)

    def health(self, queue: Queue) -> Health:
        """Describe the vault, its caches, and all problems."""
        domains, failed = self._ask(partial(state_of, self.resources))
        index = self.index_state()
        index.failed |= failed
        return describe_health(self.resources, queue, domains, index)

    def holder(self, path: str, audience: Audience = OWNER) -> tuple[Domain, Cache]:
        """Return the domain and cache of an indexed note that the asker sees. Raises NoteNotFoundError."""
        for domain, cache in self.readers():
            if passages.node(cache, path) is not None and audience.sees(domain.slug, path):
                return domain, cache
        raise self.no_such_note(path, audience)

    def node(self, path: str, *, audience: Audience = OWNER) -> NodeAnswer:
        """Return a note and its chunks. Raises NoteNotFoundError, also for a note whose file is gone."""
        path = files.note_key(path)
        for domain, cache in self.readers():
            with snapshot(cache.con):
                sees = audience.sees(domain.slug, path) and path in on_disk(self.resources, cache, [path])
                if sees and (node := describe_note(domain, cache, path, self.backlinks, audience)):
                    return node
        raise self.no_such_note(path, audience)

    def backlinks(self, path: str, audience: Audience = OWNER) -> list[dict[str, Any]]:
        """Return the notes of any domain that link to a file, without those whose files are gone."""
        linking: list[dict[str, Any]] = []
        for domain, cache in self.readers():
            found = graph.backlinks(cache, path)
            there = on_disk(self.resources, cache, [one.path for one in found])
            linking += [
                asdict(one) | {"domain": domain.slug}
                for one in found
                if one.path in there and audience.sees(domain.slug, one.path)
            ]
        return linking

    def parked(self, path: str | None = None) -> list[str]:
        """Return the parked notes, or those of them that have a path."""
        found = [row[0] for _, cache in self.readers() for row in cache.ledger.parked_rows()]
        return found if path is None else [one for one in found if one == files.note_key(path)]

    def no_such_note(self, path: str, audience: Audience = OWNER) -> NoteNotFoundError:
        """Return the error that says why a note is unavailable."""
        known = self.why(path, audience=audience)
        return NoteNotFoundError(standing_of(known), known)

    def why(self, path: str, *, audience: Audience = OWNER) -> dict[str, Any]:
        """Return the state of a path, with the reason; a path that the asker does not see is unknown."""
        registry = self.resources.registry()
        key, root = files.note_key(path), self.resources.root
        if not audience.sees_all and not audience.named([key]):
            return nothing_at(key, registry)
        caches = {domain.slug: cache for domain, cache in self.readers()}
        known = why(path, root, registry, rules_of(root, registry), caches)
        return explained(self.resources, caches, known, is_owner=audience.sees_all)
