"""The schemas of links and the graph."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

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
