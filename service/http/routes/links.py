"""The routes of links and the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI, Query, Response
from starlette.requests import Request
from starlette.responses import HTMLResponse

from service.usecases.links import Graph
from service.usecases.schemas.links import CommunitiesAnswer, GraphAnswer, LinksAnswer, OrphansAnswer, State

_MOST_LINKS = 10_000
_MOST_NODES = 20_000


def add_graph(app: FastAPI, graph: Graph, page: Callable[[], HTMLResponse]) -> None:
    """Add the routes; a browser that asks for the graph gets `page`."""

    @app.get("/links")
    def links(
        state: State = "any",
        domain: str | None = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_LINKS)] = 500,
    ) -> LinksAnswer:
        """List links: all, broken ones, or ambiguous ones that match several files."""
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
        """Return notes and edges for a map, best-ranked first. A browser gets the map itself."""
        if "text/html" in request.headers.get("accept", ""):
            return page()
        response.headers["Vary"] = "Accept"
        return graph.picture(domain, community, limit)
