"""The shapes of the query worker's answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class IndexState(BaseModel):
    """Whether the index is behind: notes that wait, for how long, vectors owed, whether meaning is searched."""

    pending: int
    oldest_pending_s: float
    vectors_pending: int
    model_ready: bool = Field(description="false while the model loads: answers are by word alone")
    failed: dict[str, str] = Field(description="domains that cannot be asked just now, and why")
    waits: str | None = Field(description="why nothing that is saved can be indexed just now; null: it can")


class Layer(BaseModel):
    """A hit's place and score in one layer, and what went into it."""

    layer: str
    rank: int
    score: float
    parts: dict[str, float]


class SearchHit(BaseModel):
    """A note among the answers; `lines` are its best chunk's, `marks` are ranges in `excerpt`."""

    path: str
    title: str
    section: str
    excerpt: str
    marks: list[tuple[int, int]]
    ranges: list[tuple[int, int]] = Field(description="where its sentences stand: characters of the note")
    score: float
    lines: tuple[int, int]
    modified: str
    stale: bool
    domain: str
    excerpt_by: Literal["meaning", "words"]
    layers: list[Layer] | None = Field(description="null unless `explain` was asked for")


class SearchAnswer(BaseModel):
    """The answer of `GET /search`; `match` is null where the model's cosines were never judged."""

    query: str
    results: list[SearchHit]
    count: int
    match: Literal["strong", "weak", "none"] | None
    deep_available: bool = Field(description="the match is weak: `GET /deep` may find more")
    took_ms: float
    index: IndexState


class Explanation(BaseModel):
    """The answer of `GET /explain`: why a note is among the answers to a question, or is not."""

    path: str
    domain: str | None
    state: str
    result: int | None = Field(description="its place among the results; null: it is not among them")
    layers: list[Layer]
    passages_nearer: int | None = Field(description="passages that are nearer in meaning than its best one")
    cosine: float | None = Field(description="of its passage nearest in meaning")
    bm25: float | None = Field(description="of its passage that matches best; null: it has none of the words")
    depth: int = Field(description="how many passages each retriever gave")
    reason: str


class DomainHealth(BaseModel):
    """How one domain stands."""

    notes: int
    chunks: int
    vectors: int
    pending: int
    oldest_pending_s: float
    vectors_pending: int
    parked: int
    ignored: int
    cache: str
    model: str
    dimension: int
    percent: float
    seconds_left: int | None


class Health(BaseModel):
    """The answer of `GET /health`."""

    status: str
    version: str
    vault: str
    vault_present: bool
    model_ready: bool
    domains: dict[str, DomainHealth]
    pending: int
    oldest_pending_s: float
    vectors_pending: int
    last_reconcile: dict[str, Any] | None
    watcher: dict[str, Any] | None = Field(
        description="mode, last event and probe, overflows; null: none ran"
    )
    refused_messages: dict[str, int] = Field(description="messages on the queue that were not ours")
    problems: list[str]


class NodeChunk(BaseModel):
    """One chunk of a note: where it stands, and its text."""

    section: str
    heading_path: list[str]
    lines: tuple[int, int]
    range: tuple[int, int] = Field(description="character offsets into the note's text")
    text: str


class NodeAnswer(BaseModel):
    """The answer of `GET /node/<path>`."""

    path: str
    domain: str
    title: str
    frontmatter: dict[str, Any]
    tags: list[str]
    aliases: list[str]
    author: str | None
    kind: str | None
    published_at: str | None
    modified: str
    evergreen: bool
    warnings: list[str]
    links: list[dict[str, Any]]
    outlinks: list[dict[str, Any]] = Field(description="files that it links to, each kind once, with a count")
    backlinks: list[dict[str, Any]] = Field(description="notes that link to it, of whatever domain")
    unresolved: list[dict[str, Any]] = Field(description="links that mean no file")
    pagerank: float | None = Field(description="null: it has no link, or is not ranked yet")
    centrality: float | None
    community: int | None
    community_label: str | None
    chunks: list[NodeChunk]
    indexed_at: str | None


class ReloadAnswer(BaseModel):
    """The answer of `POST /reload`: what the scan found, by domain."""

    found: dict[str, dict[str, int]]


class RetryAnswer(BaseModel):
    """The answer of `POST /retry`: the parked notes that are tried again."""

    paths: list[str]


class Ready(BaseModel):
    """The answer of `GET /ready`."""

    ready: bool
    model_ready: bool
    percent: float
    seconds_left: int | None
