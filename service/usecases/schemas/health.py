"""The schemas of the state of the whole index."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from service.usecases.schemas.search import example


class ReembedCost(BaseModel):
    """What `everindex reembed` would change in a domain's index, and its cost."""

    change: str = Field(description="what the index has, and what the settings say")
    texts: int = Field(description="about how many texts would be embedded")
    seconds: int | None = Field(
        description="for as long, at the speed measured last; null: none was measured"
    )


class DomainHealth(BaseModel):
    """The state of one domain's index. `pending` counts notes, `vectors_pending` passages without a vector."""

    notes: int
    chunks: int
    vectors: int
    pending: int
    oldest_pending_s: float = Field(
        description="seconds that the oldest pending note has waited; 0: none waits"
    )
    vectors_pending: int
    parked: int = Field(description="notes that cannot be indexed until they change or are retried")
    ignored: int
    warned: int = Field(description="notes of which a part could not be read, such as broken frontmatter")
    cache: str
    model: str
    dimension: int
    percent: float = Field(
        description="how much of the domain is indexed, words and vectors together, 0 to 100"
    )
    seconds_left: int | None = Field(
        description="estimated time until all vectors are computed; null: unknown, or none pending"
    )
    reembed: ReembedCost | None = Field(
        None, description="null: the index splits and embeds notes as the settings say"
    )


class Health(BaseModel):
    """The answer of `GET /health`."""

    model_config = example(
        status="ok", version="0.1.0", vault="/home/ada/notes", vault_present=True, model_ready=True,
        domains={
            "finance": {"notes": 3_176, "chunks": 23_041, "vectors": 23_041, "pending": 0, "oldest_pending_s": 0.0,
                        "vectors_pending": 0, "parked": 0, "ignored": 64, "warned": 0,
                        "cache": "/state/cache-finance.1.db", "model": "all-MiniLM-L6-v2",
                        "dimension": 384, "percent": 100.0, "seconds_left": None}
        },
        pending=0, oldest_pending_s=0.0, vectors_pending=0, refining=False,
        last_reconcile={"age_s": 320.4, "took_ms": 21, "found": {"finance": {"new": 0, "updated": 2, "removed": 0}}},
        watcher={"mode": "events", "polling_because": None, "last_event_s": 12.3, "last_probe_s": 2.1,
                 "overflows": 0, "said_s": 3.0},
        refused_messages={"foreign": 0, "unknown": 0, "replayed": 0}, problems=[],
        other_files={"pdf": 12},
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
    refining: bool = Field(
        description="sentences still get their vectors, so that the order of close notes may change"
    )
    last_reconcile: dict[str, Any] | None
    watcher: dict[str, Any] | None = Field(
        description="mode, seconds since the last event and probe, overflows; null: none has run"
    )
    refused_messages: dict[str, int] = Field(
        description="queue messages that were ignored: foreign, of unknown tasks, or delivered twice"
    )
    problems: list[str]
    other_files: dict[str, int] = Field(
        {}, description="files that could be indexed if `formats:` named their format, by format"
    )


class HealthInBrief(BaseModel):
    """The answer of `GET /health` without the token."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"status": "ok", "version": "0.1.0"}]}
    )

    status: str
    version: str


class Readiness(BaseModel):
    """The answer of `GET /ready`: `ready` is true if the model, the caches and the index are ready."""

    model_config = example(
        ready=False,
        model_ready=True,
        caches_ready=True,
        index_ready=False,
        oldest_pending_s=412.7,
        failed={},
    )

    ready: bool
    model_ready: bool = Field(
        description="false while the model loads; until then, search compares words only"
    )
    caches_ready: bool = Field(description="false if a cache cannot be opened, or there is none yet")
    index_ready: bool = Field(
        description="false if a note has waited for more than five minutes, paused domains not counted"
    )
    oldest_pending_s: float = Field(
        description="seconds that the oldest pending note has waited, paused domains not counted"
    )
    failed: dict[str, str] = Field(description="domains that cannot be searched now, each with the reason")
