"""What the query worker and the command line ask of the caches, answered in the worker's shapes."""

from __future__ import annotations

import time
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import structlog
from fastapi import HTTPException

from pipelines import vault
from pipelines.errors import CacheError, CacheMissingError
from pipelines.model import Domain
from pipelines.reconcile import rules_of
from pipelines.retrieval.search import Result, Source, search
from pipelines.status import domain_status, why
from pipelines.store import search as store
from pipelines.store.cache import Cache, Vector
from service.answers import (
    DomainHealth,
    Health,
    IndexState,
    NodeAnswer,
    NodeChunk,
    Ready,
    SearchAnswer,
    SearchHit,
)
from service.problems import find_problems
from workers.resources import LAST_QUERY_FILE, Resources

log = structlog.get_logger()


class Questions:
    """What the routes ask. `wait_for_model` makes the first question wait instead of answering by word alone."""

    def __init__(self, resources: Resources, *, wait_for_model: bool = False) -> None:
        self.resources = resources
        self._wait = wait_for_model
        self._loaded: set[str] = set()
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

    def load_models(self) -> None:
        """Load the models of all caches that are not loaded yet."""
        for model in {cache.meta.model for _, cache in self.readers()} - self._loaded:
            # One thread: questions come one at a time, and bulk work has the other cores.
            self.resources.embedder(model, threads=1).encode_query("warm up")
            self._loaded.add(model)

    def model_ready(self) -> bool:
        """Say whether questions are searched by meaning in every domain."""
        return all(cache.meta.model in self._loaded for _, cache in self.readers())

    def _vector(self, model: str, query: str) -> Vector | None:
        if model not in self._loaded:
            if not self._wait:
                return None
            self.load_models()
        return self.resources.embedder(model).encode_query(query)

    def search(self, query: str, k: int, slug: str | None = None) -> SearchAnswer:
        """Answer a question. Raises HTTPException 404 for an unknown domain."""
        started = time.perf_counter()
        (self.resources.place.state / LAST_QUERY_FILE).touch()
        readers = [(d, c) for d, c in self.readers() if slug is None or d.slug == slug]
        if slug is not None and not readers:
            raise HTTPException(404, f"there is no domain {slug!r}")
        vectors = {m: self._vector(m, query) for m in {c.meta.model for _, c in readers}}
        sources = [Source(domain, cache, vectors[cache.meta.model]) for domain, cache in readers]
        root, present = self.resources.root, self.resources.present()
        results = search(sources, query, k, root=root, present=present)
        return SearchAnswer(
            query=query,
            results=[_hit(result) for result in results],
            count=len(results),
            took_ms=round((time.perf_counter() - started) * 1000, 1),
            index=self.index_state(readers),
        )

    def index_state(self, readers: list[tuple[Domain, Cache]] | None = None) -> IndexState:
        """Say whether the index is behind the disk."""
        caches = [cache for _, cache in (self.readers() if readers is None else readers)]
        pending = [cache.ledger.pending() for cache in caches]
        return IndexState(
            pending=sum(count for count, _ in pending),
            oldest_pending_s=round(max((age for _, age in pending), default=0.0), 1),
            vectors_pending=sum(cache.vectors_pending() for cache in caches),
            model_ready=all(cache.meta.model in self._loaded for cache in caches),
        )

    def health(self) -> Health:
        """Describe the vault, its caches and what is wrong."""
        resources, state = self.resources, self.resources.state()
        domains = {d.slug: domain_status(cache, state, d.slug) for d, cache in self.readers()}
        index = self.index_state()
        reconciled = state.heard("reconcile")
        problems = find_problems(resources, self._queue)
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

    def ready(self) -> Ready:
        """Say whether everything known is indexed, and how far it is if not."""
        state = self.resources.state()
        facts = [domain_status(cache, state, d.slug) for d, cache in self.readers()]
        left = [f["seconds_left"] for f in facts if f["seconds_left"] is not None]
        model_ready = self.model_ready()
        return Ready(
            ready=bool(facts)
            and model_ready
            and all(not f["pending"] and not f["vectors_pending"] for f in facts),
            model_ready=model_ready,
            percent=min((f["percent"] for f in facts), default=0.0),
            seconds_left=max(left) if left else None,
        )

    def node(self, path: str) -> NodeAnswer:
        """Return a note and its chunks. Raises HTTPException 404 with what is known of the path."""
        path = vault.note_key(path)
        for domain, cache in self.readers():
            node = store.node(cache, path)
            row = cache.ledger.row(path)
            if node is None:
                continue
            return NodeAnswer(
                **asdict(node),
                domain=domain.slug,
                links=store.links_of(cache, path),
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

    def why(self, path: str) -> dict[str, Any]:
        """Say how a path stands, and why."""
        registry = self.resources.registry()
        caches = {domain.slug: cache for domain, cache in self.readers()}
        return why(path, registry, rules_of(self.resources.root, registry), caches)


def _hit(result: Result) -> SearchHit:
    return SearchHit(
        path=result.path,
        title=result.title,
        section=result.section,
        excerpt=result.excerpt.text,
        marks=list(result.excerpt.marks),
        score=round(result.score, 6),
        lines=result.lines,
        modified=result.modified,
        stale=result.stale,
        domain=result.domain,
    )
