"""The schemas of links and the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from pipelines.cache.graph import WrittenLink

State = Literal["broken", "ambiguous", "any"]


@dataclass(frozen=True, slots=True)
class LinkRow(WrittenLink):
    """A link as written. `meant` is the file that it resolves to, null for a broken link, which has `suggestions`."""

    domain: str
    suggestions: list[str]


class LinksAnswer(BaseModel):
    """The answer of `GET /links`; `count` is the number of links in it."""

    links: list[LinkRow]
    count: int


class Node(BaseModel):
    """A note of a graph; `hop` is the number of links between it and the note where a walk started."""

    path: str
    title: str
    domain: str
    pagerank: float | None
    community: int | None
    hop: int | None = None


class Edge(BaseModel):
    """All links of one kind from one note to another, and how many they are."""

    source: str
    target: str
    kind: str
    count: int


class GraphAnswer(BaseModel):
    """The answer of `GET /graph`; `truncated`: there are more notes than `limit`."""

    nodes: list[Node]
    edges: list[Edge]
    truncated: bool


class OrphansAnswer(BaseModel):
    """The answer of `GET /orphans`."""

    paths: list[str]


class CommunityRow(BaseModel):
    """A community: its label, its number of notes, and the best-ranked of them."""

    domain: str
    id: int
    label: str
    notes: int
    examples: list[str]


class CommunitiesAnswer(BaseModel):
    """The answer of `GET /communities`.

    `isolated`: by domain, how many notes have no link within it, and so no community.
    """

    communities: list[CommunityRow]
    isolated: dict[str, int]
