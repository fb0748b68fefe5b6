"""The routes of links and the graph: what links where, what is broken, who stands together."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import FastAPI, HTTPException, Query
from jinja2 import Environment
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pipelines.links import suggest
from pipelines.model import Domain
from pipelines.store import neighbours
from pipelines.store.cache import Cache
from service.pages import graph_page
from service.questions import Questions

_MOST_LINKS = 10_000
_MOST_NODES = 20_000
_SUGGESTIONS = 3
_EXAMPLES = 5

State = Literal["broken", "ambiguous", "any"]


class LinkRow(BaseModel):
    """A link as it is written, the file that it means, and for a broken one what may have been meant."""

    domain: str
    path: str
    line: int
    kind: str
    target: str
    fragment: str
    text: str
    section: str
    property: str | None
    meant: str | None
    ambiguous: bool
    suggestions: list[str]


class LinksAnswer(BaseModel):
    """The answer of `GET /links`."""

    links: list[LinkRow]
    count: int


class Node(BaseModel):
    """A note in a picture; `hop` is its distance from the one that was asked for."""

    path: str
    title: str
    domain: str
    pagerank: float | None
    community: int | None
    hop: int | None = None


class Edge(BaseModel):
    """All links of a kind from one note to another."""

    source: str
    target: str
    kind: str
    count: int


class GraphAnswer(BaseModel):
    """The answer of `GET /graph`; `truncated` says that there is more than was asked for."""

    nodes: list[Node]
    edges: list[Edge]
    truncated: bool


class OrphansAnswer(BaseModel):
    """The answer of `GET /orphans`."""

    paths: list[str]


class CommunityRow(BaseModel):
    """A community: its label, how many notes it has, and the best-ranked of them."""

    domain: str
    id: int
    label: str
    notes: int
    examples: list[str]


class CommunitiesAnswer(BaseModel):
    """The answer of `GET /communities`; `isolated` notes have no link at all, and so no community."""

    communities: list[CommunityRow]
    isolated: dict[str, int]


class Graph:
    """Questions about links, over all domains or one."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def _readers(self, slug: str | None) -> list[tuple[Domain, Cache]]:
        found = [(d, c) for d, c in self._questions.readers() if slug in (None, d.slug)]
        if slug is not None and not found:
            raise HTTPException(404, f"there is no domain {slug!r}")
        return found

    def links(self, state: State, domain: str | None, limit: int) -> LinksAnswer:
        """List links by their state; broken ones with suggestions. Raises HTTPException 404."""
        readers = self._readers(domain)
        names = [pair for _, cache in self._questions.readers() for pair in neighbours.names(cache)]
        found: list[LinkRow] = []
        for owner, cache in readers:
            for link in neighbours.links_in_state(cache, state, limit - len(found)):
                near = suggest(link.target, names, _SUGGESTIONS) if link.meant is None else []
                found.append(LinkRow(**asdict(link), domain=owner.slug, suggestions=near))
        return LinksAnswer(links=found, count=len(found))

    def orphans(self, domain: str | None) -> OrphansAnswer:
        """List the notes that link to nothing and that nothing links to. Raises HTTPException 404."""
        linked = {path for _, cache in self._readers(None) for path in neighbours.targets_elsewhere(cache)}
        alone = [path for _, cache in self._readers(domain) for path in neighbours.orphans(cache)]
        return OrphansAnswer(paths=[path for path in alone if path not in linked])

    def communities(self, domain: str | None) -> CommunitiesAnswer:
        """List the communities, largest first. Raises HTTPException 404."""
        readers = self._readers(domain)
        rows = [
            CommunityRow(domain=owner.slug, **asdict(found))
            for owner, cache in readers
            for found in neighbours.communities(cache, _EXAMPLES)
        ]
        isolated = {owner.slug: neighbours.unranked(cache) for owner, cache in readers}
        return CommunitiesAnswer(communities=rows, isolated=isolated)

    def picture(self, slug: str | None, community: int | None, limit: int) -> GraphAnswer:
        """Return the best-ranked notes and the edges among them. Raises HTTPException 404."""
        nodes: list[Node] = []
        edges: list[Edge] = []
        truncated = False
        for domain, cache in self._readers(slug):
            best = neighbours.best_ranked(cache, community, limit - len(nodes) + 1)
            truncated = truncated or len(best) > limit - len(nodes)
            chosen = best[: limit - len(nodes)]
            nodes += _nodes(domain, cache, chosen)
            edges += _edges(cache, chosen)
        return GraphAnswer(nodes=nodes, edges=edges, truncated=truncated)


def _nodes(domain: Domain, cache: Cache, paths: list[str]) -> list[Node]:
    return [Node(**asdict(found), domain=domain.slug) for found in neighbours.nodes(cache, paths)]


def _edges(cache: Cache, paths: list[str]) -> list[Edge]:
    return [Edge(**asdict(found)) for found in neighbours.edges_among(cache, paths)]


def add_graph(app: FastAPI, graph: Graph, templates: Environment) -> None:
    """Add the routes."""

    @app.get("/links")
    def links(
        state: State = "any",
        domain: str | None = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_LINKS)] = 500,
    ) -> LinksAnswer:
        """List links: all, those that mean no file, or those that several files could be meant by."""
        return graph.links(state, domain, limit)

    @app.get("/orphans")
    def orphans(domain: str | None = None) -> OrphansAnswer:
        """List the notes that link to nothing and that nothing links to."""
        return graph.orphans(domain)

    @app.get("/communities")
    def communities(domain: str | None = None) -> CommunitiesAnswer:
        """List the communities, largest first."""
        return graph.communities(domain)

    @app.get("/graph", response_model=GraphAnswer)
    def picture(
        request: Request,
        response: Response,
        domain: str | None = None,
        community: int | None = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_NODES)] = 5_000,
    ) -> GraphAnswer | HTMLResponse:
        """Return notes and edges for a picture, best-ranked first. A browser gets the picture itself."""
        if "text/html" in request.headers.get("accept", ""):
            return graph_page(templates)
        response.headers["Vary"] = "Accept"
        return graph.picture(domain, community, limit)
