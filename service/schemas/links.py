"""The schemas of links and the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.cache.graph import WrittenLink
from pipelines.model import CentralityBy, Communities
from service.schemas.search import IndexState

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
    """All links of one kind and type from one note to another, and how many they are."""

    source: str
    target: str
    kind: str
    count: int
    type: str | None = Field(description="what the target is to the source, if the source says so")
    relation: str | None = Field(description="the type as people read it")


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


class Methods(BaseModel):
    """The methods by which a domain was divided into communities, and the centrality of its notes computed."""

    model_config = ConfigDict(from_attributes=True)

    communities: Communities
    centrality: CentralityBy


class CommunitiesAnswer(BaseModel):
    """The answer of `GET /communities`.

    `isolated`: by domain, how many notes have no link within it, and so no community. `methods`: of each domain that
    has been ranked.
    """

    communities: list[CommunityRow]
    isolated: dict[str, int]
    methods: dict[str, Methods]


# The schemas of traversal and deep retrieval.


Mode = Literal["fast", "deep", "compare"]


class Way(BaseModel):
    """The link by which a walk reached a note; its type as in `Edge`."""

    kind: str
    source: str
    target: str
    type: str | None
    relation: str | None


class WalkedNode(Node):
    """A note that a walk examined; `similarity` is null without a vector, `edge` for a start note."""

    similarity: float | None
    decay_weight: float
    decay_zero: bool
    edge: Way | None


class KeptNode(WalkedNode):
    """A note that the walk kept, and why."""

    retain_reason: str


class DroppedNode(WalkedNode):
    """A note that the walk dropped, and why."""

    drop_reason: str


class Walk(BaseModel):
    """What a walk kept (`nodes`, and the `edges` between them) and dropped, and what it cost."""

    nodes: list[KeptNode]
    edges: list[Edge]
    dropped: list[DroppedNode]
    embeddings_read: int
    unread: int = Field(
        description="linked notes that were not examined because a hop reads a limited number of embeddings"
    )
    stopped: str = Field(description="why it ended: good_enough, no_more_links, budget_spent or depth")
    prune: float = Field(description="the similarity below which notes were dropped")
    floor: float | None = Field(
        description="the mean similarity of the kept notes at which the walk may stop; null: it never does"
    )
    target: int = Field(description="how many notes the walk looks for")
    calibrated: bool = Field(description="whether `prune` and `floor` were measured for this domain's model")
    took_ms: float


class TraverseAnswer(Walk):
    """The answer of `GET /traverse`."""

    path: str
    domain: str
    depth: int
    query: str | None


class DomainRetrieval(BaseModel):
    """One domain's walk.

    With mode `compare` both walks, the paths that only the deep one found (`added`) and those that only the fast one
    found (`lost`).
    """

    domain: str
    fast: Walk | None
    deep: Walk | None
    added: list[str] | None
    lost: list[str] | None


class DeepAnswer(BaseModel):
    """The answer of `GET /deep`; `record` is the id of the evidence record that the question came from, if any."""

    question: str
    record: str | None
    mode: Mode
    domains: list[DomainRetrieval]
    index: IndexState
