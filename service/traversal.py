"""The routes that walk along links: a note's surroundings, and deep retrieval."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query
from pydantic import BaseModel, Field

from pipelines import vault
from pipelines.errors import EvidenceNotFoundError
from pipelines.model import Domain
from pipelines.retrieval.deep import compare, retrieve
from pipelines.retrieval.explore import explore, explore_from
from pipelines.retrieval.thresholds import thresholds_of
from pipelines.retrieval.traverse import MOST_HOPS, Dropped, Effort, Found, Kept, deep, fast
from pipelines.store import neighbours
from pipelines.store.cache import Cache, Vector
from pipelines.store.evidence import Evidence
from service.answers import IndexState
from service.graph import Edge, Node
from service.limits import LONGEST_QUERY
from service.questions import Questions

Mode = Literal["fast", "deep", "compare"]


class Way(BaseModel):
    """The edge by which a note was reached."""

    kind: str
    source: str
    target: str


class WalkedNode(Node):
    """A note that a walk looked at; `similarity` is null without a vector, `edge` for a note it began with."""

    similarity: float | None
    decay_weight: float
    decay_zero: bool
    edge: Way | None


class KeptNode(WalkedNode):
    """A note that was found, and why it is kept."""

    retain_reason: str


class DroppedNode(WalkedNode):
    """A note that was left out, and why."""

    drop_reason: str


class Walk(BaseModel):
    """What a walk kept (`nodes`, with the `edges` among them) and dropped, and what it cost."""

    nodes: list[KeptNode]
    edges: list[Edge]
    dropped: list[DroppedNode]
    embeddings_read: int
    unread: int = Field(
        description="linked notes that were not looked at: the budget of embeddings was spent"
    )
    stopped: str = Field(description="good_enough, no_more_links, budget_spent or depth")
    prune: float = Field(description="the lowest similarity that was kept")
    floor: float | None = Field(description="the mean similarity at which it stops; null: it does not")
    target: int = Field(description="how many notes were wanted")
    calibrated: bool = Field(description="whether prune and floor were chosen for this domain's model")
    took_ms: float


class TraverseAnswer(Walk):
    """The answer of `GET /traverse`."""

    path: str
    domain: str
    depth: int
    query: str | None


class DomainRetrieval(BaseModel):
    """One domain's part: one walk, or both with what the deep one adds and what only the fast one has."""

    domain: str
    fast: Walk | None
    deep: Walk | None
    added: list[str] | None
    lost: list[str] | None


class DeepAnswer(BaseModel):
    """The answer of `GET /deep`; `record` is the evidence record whose question it is."""

    question: str
    record: str | None
    mode: Mode
    domains: list[DomainRetrieval]
    index: IndexState


class Traversal:
    """Walks over the caches, each within one domain."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._resources = questions.resources

    def traverse(self, path: str, depth: int, query: str | None) -> TraverseAnswer:
        """Walk from a note. Raises HTTPException 404 for an unknown one, 409 where there is nothing to compare."""
        path = vault.note_key(path)
        for domain, cache in self._questions.readers():
            if neighbours.nodes(cache, [path]):
                return self._traverse(domain, cache, path, depth, query)
        raise HTTPException(404, self._questions.why(path))

    def _traverse(
        self, domain: Domain, cache: Cache, path: str, depth: int, query: str | None
    ) -> TraverseAnswer:
        vector = None if query is None else self._vector(cache, query)
        root = self._resources.root if self._resources.present() else None
        effort = fast(thresholds_of(cache.meta.model), by_note=vector is None)
        started = time.perf_counter()
        found = (
            explore_from(domain, cache, path, effort, depth=depth, root=root)
            if vector is None
            else explore(domain, cache, [path], vector, effort, depth=depth, root=root)
        )
        if found is None:
            raise HTTPException(
                409,
                f"{path} has no vector to compare with (it is empty, or not embedded yet); "
                "ask with a question (q)",
            )
        walk = _walk(domain, cache, found, effort, started)
        return TraverseAnswer(**dict(walk), path=path, domain=domain.slug, depth=depth, query=query)

    def deep(self, asked: str, mode: Mode, domain: str | None) -> DeepAnswer:
        """Search and walk on, in every domain or one. `asked`: a question, or an evidence record's id.

        Raises HTTPException 404 for an unknown domain.
        """
        readers = [(d, c) for d, c in self._questions.readers() if domain in (None, d.slug)]
        if domain is not None and not readers:
            raise HTTPException(404, f"there is no domain {domain!r}")
        question, record = self._question(asked)
        return DeepAnswer(
            question=question,
            record=record,
            mode=mode,
            domains=[self._retrieve(owner, cache, question, mode) for owner, cache in readers],
            index=self._questions.index_state((domain,) if domain else ()),
        )

    def _retrieve(self, domain: Domain, cache: Cache, question: str, mode: Mode) -> DomainRetrieval:
        vector = self._vector(cache, question)
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
        self._resources.state()  # makes the tables
        with closing(Evidence(self._resources.place.state)) as records:
            try:
                return records.get(asked).question, asked
            except EvidenceNotFoundError:
                return asked, None

    def _vector(self, cache: Cache, question: str) -> Vector:
        self._questions.load_models()
        return self._resources.embedder(cache.meta.model).encode_query(question)


def _walk(domain: Domain, cache: Cache, found: Found, effort: Effort, started: float) -> Walk:
    kept = [note.path for note in found.kept]
    looked_at = [*kept, *(note.path for note in found.dropped)]
    points = {point.path: asdict(point) for point in neighbours.nodes(cache, looked_at)}

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
        edges=[Edge(**asdict(edge)) for edge in neighbours.edges_among(cache, kept)],
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


def add_traversal(app: FastAPI, traversal: Traversal) -> None:
    """Add the routes."""

    @app.get("/traverse/{path:path}")
    def traverse(
        path: str,
        depth: Annotated[int, Query(ge=1, le=MOST_HOPS)] = 2,
        q: Annotated[str | None, Query(min_length=1, max_length=LONGEST_QUERY)] = None,
    ) -> TraverseAnswer:
        """Walk from a note along links in both directions, keeping what resembles the question, or the note."""
        return traversal.traverse(path, depth, q)

    @app.get("/deep")
    def deep(
        q: Annotated[str, Query(min_length=1, max_length=LONGEST_QUERY)],
        mode: Mode = "deep",
        domain: str | None = None,
    ) -> DeepAnswer:
        """Search, walk on from the best notes, and return everything kept or dropped with its reason."""
        return traversal.deep(q, mode, domain)
