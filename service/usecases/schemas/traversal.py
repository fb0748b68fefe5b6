"""The schemas of traversal and deep retrieval."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from service.usecases.schemas.links import Edge, Node
from service.usecases.schemas.search import IndexState

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
        description="linked notes that were not looked at: past the embeddings that a hop may read"
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
