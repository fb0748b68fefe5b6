"""The schemas of traversal and deep retrieval."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from service.usecases.schemas.links import Edge, Node
from service.usecases.schemas.search import IndexState

Mode = Literal["fast", "deep", "compare"]


class Way(BaseModel):
    """The link by which a walk reached a note."""

    kind: str
    source: str
    target: str


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
