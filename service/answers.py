"""The shapes of the query worker's answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


def example(**fields: Any) -> ConfigDict:
    """Return what gives an answer this example in `/openapi.json`."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


class IndexState(BaseModel):
    """Whether the index is behind: notes that wait, for how long, vectors owed, whether meaning is searched."""

    pending: int
    oldest_pending_s: float
    vectors_pending: int
    model_ready: bool = Field(description="false while the model loads: answers are by word alone")
    failed: dict[str, str] = Field(description="domains that cannot be asked just now, and why")
    waits: str | None = Field(description="why nothing that is saved can be indexed just now; null: it can")


_INDEX = {
    "pending": 0, "oldest_pending_s": 0.0, "vectors_pending": 0, "model_ready": True, "failed": {}, "waits": None,
}  # fmt: skip
_LAYER = {"layer": "decayed", "rank": 1, "score": 0.0325, "parts": {"decay": 0.98}}


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

    model_config = example(
        query="pricing power", count=1, match="strong", deep_available=False, took_ms=14.2, index=_INDEX,
        results=[
            {"path": "Concepts/Moats.md", "title": "Moats", "section": "What a moat is",
             "excerpt": "A moat is pricing power that lasts.", "marks": [[10, 23]], "ranges": [[220, 255]],
             "score": 0.0244, "lines": [12, 31], "modified": "2026-11-21T05:51:27+00:00", "stale": False,
             "domain": "finance", "excerpt_by": "meaning", "layers": None}
        ],
    )  # fmt: skip

    query: str
    results: list[SearchHit]
    count: int
    match: Literal["strong", "weak", "none"] | None
    deep_available: bool = Field(description="the match is weak: `GET /deep` may find more")
    took_ms: float
    index: IndexState


class Explanation(BaseModel):
    """The answer of `GET /explain`: why a note is among the answers to a question, or is not."""

    model_config = example(
        path="Concepts/Moats.md", domain="finance", state="indexed", result=1, layers=[_LAYER], passages_nearer=0,
        cosine=0.71, bm25=8.4, depth=60, reason="it is number 1 of 84 candidates",
    )  # fmt: skip

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

    model_config = example(
        status="ok", version="0.1.0", vault="/home/ada/notes", vault_present=True, model_ready=True,
        domains={
            "finance": {"notes": 3_176, "chunks": 23_041, "vectors": 23_041, "pending": 0, "oldest_pending_s": 0.0,
                        "vectors_pending": 0, "parked": 0, "ignored": 64, "cache": "/state/cache-finance.1.db",
                        "model": "all-MiniLM-L6-v2", "dimension": 384, "percent": 100.0, "seconds_left": None}
        },
        pending=0, oldest_pending_s=0.0, vectors_pending=0,
        last_reconcile={"age_s": 320.4, "found": {"finance": {"new": 0, "updated": 2, "removed": 0}}},
        watcher={"mode": "events", "polling_because": None, "last_event_s": 12.3, "last_probe_s": 2.1,
                 "overflows": 0, "said_s": 3.0},
        refused_messages={"foreign": 0, "unknown": 0}, problems=[],
    )  # fmt: skip

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

    model_config = example(
        path="Concepts/Moats.md", domain="finance", title="Moats", frontmatter={"tags": ["investing"]},
        tags=["investing"], aliases=["Moat"], author=None, kind=None, published_at=None,
        modified="2026-11-21T05:51:27+00:00", evergreen=False, warnings=[], links=[],
        outlinks=[
            {"path": "Concepts/Pricing.md", "kind": "wikilink", "count": 2, "text": "pricing", "fragment": "",
             "line": 14}
        ],
        backlinks=[], unresolved=[],
        pagerank=0.0021, centrality=0.0114, community=3, community_label="pricing",
        chunks=[
            {"section": "What a moat is", "heading_path": ["Moats", "What a moat is"], "lines": [12, 31],
             "range": [220, 255], "text": "A moat is pricing power that lasts."}
        ],
        indexed_at="2026-11-21T05:51:28+00:00",
    )  # fmt: skip

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

    model_config = example(
        found={"finance": {"new": 1, "updated": 2, "removed": 0, "unchanged": 3_173, "ignored": 64}}
    )

    found: dict[str, dict[str, int]]


class RetryAnswer(BaseModel):
    """The answer of `POST /retry`: the parked notes that are tried again."""

    model_config = example(paths=["Mail archive.md"])

    paths: list[str]


class Readiness(BaseModel):
    """The answer of `GET /ready`: ready where the model, the caches and the index are."""

    model_config = example(
        ready=False,
        model_ready=True,
        caches_ready=True,
        index_ready=False,
        oldest_pending_s=412.7,
        failed={},
    )

    ready: bool
    model_ready: bool = Field(description="false while the model loads: answers are by word alone")
    caches_ready: bool = Field(description="false where a cache cannot be opened, or there is none yet")
    index_ready: bool = Field(
        description="false where a note has waited for more than five minutes; paused domains are left out"
    )
    oldest_pending_s: float = Field(description="of the domains that are not paused")
    failed: dict[str, str] = Field(description="domains that cannot be asked just now, and why")
