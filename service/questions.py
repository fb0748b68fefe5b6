"""What the query worker and the command line ask of the caches, answered in the worker's shapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, TypeVar

import structlog
from fastapi import HTTPException

from pipelines import vault
from pipelines.errors import CacheError, CacheMissingError
from pipelines.model import Domain
from pipelines.reconcile import rules_of
from pipelines.retrieval.explain import standing
from pipelines.retrieval.filters import Filters
from pipelines.retrieval.layers import Source, depth_for, rank_notes
from pipelines.retrieval.search import Found, excerpts, find, merge
from pipelines.retrieval.sentences import SentenceVectors
from pipelines.retrieval.thresholds import best_match
from pipelines.status import domain_status, why
from pipelines.store import neighbours
from pipelines.store import search as store
from pipelines.store.cache import Cache, Vector
from pipelines.store.filters import matching_chunks
from service.answers import (
    DomainHealth,
    Explanation,
    Health,
    IndexState,
    NodeAnswer,
    NodeChunk,
    SearchAnswer,
)
from service.hits import explanation, search_hit
from service.in_memory import InMemory
from service.named import named_domains
from service.problems import find_problems, storage_problem
from workers.resources import LAST_QUERY_FILE, Resources

log = structlog.get_logger()

Answer = TypeVar("Answer")
NO_FILTERS = Filters()


def _unobserved(_stage: str, _seconds: float) -> None:
    """Take a stage's time, and tell nobody."""


class Questions:
    """What the routes ask. `wait_for_model` makes the first question wait instead of answering by word alone.

    `observe` is told how many seconds each stage of a search took.
    """

    def __init__(self, resources: Resources, *, wait_for_model: bool = False) -> None:
        self.resources = resources
        self._wait = wait_for_model
        self._loaded: set[str] = set()
        self._sentences: dict[str, SentenceVectors] = {}
        self._in_memory = InMemory()
        self.observe: Callable[[str, float], None] = _unobserved
        self._queue = resources.queue()

    def readers(self) -> list[tuple[Domain, Cache]]:
        """Return the domains that have a cache yet, each with this thread's connection to it."""
        found = []
        for domain in self.resources.domains():
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
        """Ask every domain (or some): the answers, and why others gave none. One damaged cache silences no other."""
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
        """Load the models of all caches that are not loaded yet."""
        for model in {cache.meta.model for _, cache in self.readers()} - self._loaded:
            # One thread: questions come one at a time, and bulk work has the other cores.
            embedder = self.resources.embedder(model, threads=1)
            embedder.encode_query("warm up")
            self._sentences[model] = SentenceVectors(embedder.encode_queries)
            self._loaded.add(model)

    def follow_commits(self) -> None:
        """Bring what is in memory in step with the caches whose models are loaded. One thread calls it."""
        self._in_memory.follow([cache for _, cache in self.readers() if cache.meta.model in self._loaded])

    def _vector(self, model: str, query: str) -> Vector | None:
        if model not in self._loaded:
            if not self._wait:
                return None
            self.load_models()
        with self._timed("encode"):
            return self.resources.embedder(model).encode_query(query)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.observe(stage, time.perf_counter() - started)

    def search(
        self, query: str, k: int, filters: Filters = NO_FILTERS, *, explain: bool = False
    ) -> SearchAnswer:
        """Answer a question. Raises HTTPException 404 for an unknown domain."""
        started = time.perf_counter()
        with suppress(OSError):  # a disk that is full, or may only be read, keeps nobody from asking
            (self.resources.place.state / LAST_QUERY_FILE).touch()
        root, present, now = self.resources.root, self.resources.present(), datetime.now(UTC)
        vectors: dict[str, Vector | None] = {}
        models: dict[str, str] = {}

        def ask(domain: Domain, cache: Cache) -> list[Found]:
            model = models[domain.slug] = cache.meta.model
            if model not in vectors:
                vectors[model] = self._vector(model, query)
            held, only = self._in_memory, matching_chunks(cache, filters)
            source = Source(domain, cache, vectors[model], only, held.codes(cache), held.words(cache))
            with self._timed("find"):
                return find(source, query, k, root=root, present=present, now=now)

        for slug in filters.domains:
            named_domains(self.resources, slug)
        answers, _ = self._ask(ask, filters.domains)
        found = merge(list(answers.values()), k)
        similar = {
            model: self._sentences[model].similarities(v) for model, v in vectors.items() if v is not None
        }
        by_domain = {domain: similar[model] for domain, model in models.items() if model in similar}
        with self._timed("excerpts"):
            cut = excerpts(found, query, by_domain)
        match = best_match((models[one.domain], one.hit.scores.get("cosine")) for one in found)
        took = time.perf_counter() - started
        self.observe("total", took)
        return SearchAnswer(
            query=query,
            results=[search_hit(one, *show, explain=explain) for one, show in zip(found, cut, strict=True)],
            count=len(found),
            match=match,
            deep_available=match == "weak",
            took_ms=round(took * 1000, 1),
            index=self.index_state(filters.domains),
        )

    def layers(self, query: str, slug: str) -> dict[str, list[str]]:
        """Return the paths as each layer of a domain orders them. Raises HTTPException 404, CacheError."""
        named_domains(self.resources, slug)

        def ask(domain: Domain, cache: Cache) -> dict[str, list[str]]:
            source = Source(domain, cache, self._vector(cache.meta.model, query))
            return dict(rank_notes(source, query, depth_for(60), datetime.now(UTC)).layers)

        answers, failed = self._ask(ask, [slug])
        if failed:
            raise CacheError(failed[slug])
        return answers.get(slug, {"lexical": [], "vector": [], "fused": []})

    def explain(self, query: str, path: str, k: int) -> Explanation:
        """Say why a note is among the answers to a question, or is not."""
        path = vault.note_key(path)
        known = self.why(path)
        for domain, cache in self.readers():
            if store.node(cache, path) is None:
                continue
            source = Source(domain, cache, self._vector(cache.meta.model, query))
            found = standing(source, query, path, k, datetime.now(UTC))
            return explanation(path, domain.slug, known["state"], found, k)
        return Explanation(
            path=path,
            domain=known["domain"],
            state=known["state"],
            result=None,
            layers=[],
            passages_nearer=None,
            cosine=None,
            bm25=None,
            depth=depth_for(k),
            reason=f"it is not indexed: {known['reason']}",
        )

    def index_state(self, slugs: Collection[str] = ()) -> IndexState:
        """Say whether the index is behind the disk, and which domains cannot be asked."""

        def ask(_: Domain, cache: Cache) -> tuple[int, float, int, bool]:
            return *cache.ledger.pending(), cache.vectors_pending(), cache.meta.model in self._loaded

        found, failed = self._ask(ask, slugs)
        states = list(found.values())
        return IndexState(
            pending=sum(pending for pending, _, _, _ in states),
            oldest_pending_s=round(max((oldest for _, oldest, _, _ in states), default=0.0), 1),
            vectors_pending=sum(vectors for _, _, vectors, _ in states),
            model_ready=all(ready for _, _, _, ready in states),
            failed=failed,
            waits=storage_problem(self.resources.place.state),
        )

    def health(self) -> Health:
        """Describe the vault, its caches and what is wrong."""
        resources, state = self.resources, self.resources.state()
        domains, _ = self._ask(lambda domain, cache: domain_status(cache, state, domain.slug))
        index = self.index_state()
        reconciled = state.heard("reconcile")
        problems = [*index.failed.values(), *find_problems(resources, self._queue)]
        watcher = state.heard("watcher")
        refused = state.heard("refused")
        return Health(
            status="ok" if not problems else "degraded",
            version=version("everindex"),
            vault=str(resources.root),
            vault_present=resources.present(),
            model_ready=index.model_ready,
            domains={slug: DomainHealth(**facts) for slug, facts in domains.items()},
            pending=index.pending,
            oldest_pending_s=index.oldest_pending_s,
            vectors_pending=index.vectors_pending,
            last_reconcile=(
                {"age_s": round(reconciled.age_s, 1), "found": reconciled.value} if reconciled else None
            ),
            watcher=watcher.value | {"said_s": round(watcher.age_s, 1)} if watcher else None,
            refused_messages=refused.value if refused else {"foreign": 0, "unknown": 0},
            problems=problems,
        )

    def node(self, path: str) -> NodeAnswer:
        """Return a note and its chunks. Raises HTTPException 404 with what is known of the path."""
        path = vault.note_key(path)
        for domain, cache in self.readers():
            node = store.node(cache, path)
            row = cache.ledger.row(path)
            if node is None:
                continue
            rank = neighbours.rank_of(cache, path)
            return NodeAnswer(
                **asdict(node),
                domain=domain.slug,
                links=store.links_of(cache, path),
                outlinks=[asdict(other) for other in neighbours.outlinks(cache, path)],
                backlinks=self.backlinks(path),
                unresolved=[asdict(link) for link in neighbours.broken_links_of(cache, path)],
                pagerank=rank.pagerank if rank else None,
                centrality=rank.centrality if rank else None,
                community=rank.community if rank else None,
                community_label=rank.label if rank else None,
                chunks=[
                    NodeChunk(
                        section=c.section,
                        heading_path=list(c.heading_path),
                        lines=(c.first_line, c.last_line),
                        range=(c.start, c.end),
                        text=c.text,
                    )
                    for c in store.chunks_of(cache, path)
                ],
                indexed_at=row.indexed_at if row else None,
            )
        raise HTTPException(404, self.why(path))

    def backlinks(self, path: str) -> list[dict[str, Any]]:
        """Return the notes of any domain that link to a file."""
        return [
            asdict(other) | {"domain": domain.slug}
            for domain, cache in self.readers()
            for other in neighbours.backlinks(cache, path)
        ]

    def parked(self, path: str | None = None) -> list[str]:
        """Return the parked notes, or those of them that have a path."""
        found = [row[0] for _, cache in self.readers() for row in cache.ledger.parked_rows()]
        return found if path is None else [one for one in found if one == vault.note_key(path)]

    def why(self, path: str) -> dict[str, Any]:
        """Say how a path stands, and why."""
        registry = self.resources.registry()
        caches = {domain.slug: cache for domain, cache in self.readers()}
        return why(path, registry, rules_of(self.resources.root, registry), caches)
