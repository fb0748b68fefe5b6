"""The schemas of what is known about the index as a whole."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from service.usecases.schemas.search import example


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
        last_reconcile={"age_s": 320.4, "took_ms": 21, "found": {"finance": {"new": 0, "updated": 2, "removed": 0}}},
        watcher={"mode": "events", "polling_because": None, "last_event_s": 12.3, "last_probe_s": 2.1,
                 "overflows": 0, "said_s": 3.0},
        refused_messages={"foreign": 0, "unknown": 0, "replayed": 0}, problems=[],
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
    refused_messages: dict[str, int] = Field(
        description="messages on the queue that were not ours, or came twice"
    )
    problems: list[str]


class HealthInBrief(BaseModel):
    """The answer of `GET /health` without the token."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"status": "ok", "version": "0.1.0"}]}
    )

    status: str
    version: str


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
