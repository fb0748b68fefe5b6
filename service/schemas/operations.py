"""The schemas of the dashboard's data: what `/ops` shows, as JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.state.health import Role
from pipelines.state.jobs import JobState
from service.schemas.links import Methods
from service.schemas.search import example


class _OperationsModel(BaseModel):
    model_config = ConfigDict(extra="forbid", from_attributes=True)


# The overview

_BEGAN, _WORKER = "2026-11-21T05:51:27.204+00:00", "desk:600/1795.5"
_DOMAIN = {
    "domain": "finance", "notes": 3_176, "chunks": 23_041, "vectors": 23_029, "edges": 8_810, "communities": 41,
    "review_waiting": 7, "pending": 2, "oldest_pending_s": 1.4, "vectors_pending": 12, "parked": 1, "ignored": 64,
    "paused": False, "model": "all-MiniLM-L6-v2", "dimension": 384, "device": "cpu", "precision": "bfloat16",
    "texts_per_s": 65.0, "saves": 38, "saved_median_s": 0.64, "saved_p95_s": 1.12,
}  # fmt: skip
_WATCHER = {
    "mode": "events", "polling_because": None, "last_event_s": 12.3, "last_probe_s": 2.1, "overflows": 0,
    "said_s": 3.0,
}  # fmt: skip
_PROCESS = {
    "name": _WORKER, "role": "worker", "version": "0.1.0", "started_at": _BEGAN, "uptime_s": 25_200.0,
    "rss_bytes": 612_000_000, "said_s": 1.8, "alive": True,
}  # fmt: skip


class DomainOverview(_OperationsModel):
    """The state of one domain. Saves are counted over the last hour; times are null if there was none."""

    domain: str
    notes: int
    chunks: int
    vectors: int
    edges: int = Field(description="links that resolve to a note or another file")
    communities: int
    review_waiting: int = Field(description="proposed tags and vocabulary additions that wait")
    pending: int
    oldest_pending_s: float
    vectors_pending: int
    parked: int = Field(description="notes that cannot be indexed, without those that the operator hid")
    ignored: int
    paused: bool
    model: str
    dimension: int
    vectors_in_postgresql: str | None = Field(
        None,
        description="what finds the nearest passages there, such as `hnsw, recall@10 0.98`; null: not used",
    )
    device: str | None = Field(description="that computes vectors: cpu or cuda; null: no model is loaded")
    precision: str | None = Field(description="bfloat16 or float32, as it computes; null: no model is loaded")
    texts_per_s: float | None = Field(description="in the last slice of work; null: none yet")
    saves: int = Field(description="notes made findable in the last hour")
    saved_median_s: float | None = Field(description="from noticing a save until search finds it")
    saved_p95_s: float | None = Field(description="95th percentile of the same")


class WatcherState(_OperationsModel):
    """The state of the watcher. A field in `_s` is the number of seconds since then; null: never."""

    mode: Literal["events", "polling"]
    polling_because: str | None
    last_event_s: float | None
    last_probe_s: float | None = Field(description="since the vault last passed an event test")
    overflows: int
    said_s: float = Field(description="since the watcher last reported its state")


class ProcessState(_OperationsModel):
    """A live process, or one that exited unexpectedly less than an hour ago."""

    name: str = Field(description="host:pid/start time")
    role: Role
    version: str
    started_at: str
    uptime_s: float
    rss_bytes: int
    said_s: float = Field(description="seconds since its last heartbeat")
    alive: bool


class Overview(_OperationsModel):
    """The answer of `GET /ops/overview.json`."""

    model_config = example(
        version="0.1.0", domains=[_DOMAIN], failed={}, watcher=_WATCHER, processes=[_PROCESS], problems=[],
        unusual=["finance: its index has 1.2 GB, more than 1 GB"],
    )  # fmt: skip

    version: str
    domains: list[DomainOverview]
    failed: dict[str, str] = Field(description="domains that cannot be searched now, each with the reason")
    watcher: WatcherState | None = Field(description="null: none runs")
    processes: list[ProcessState]
    problems: list[str]
    unusual: list[str] = Field(description="figures at which the alerts warn; nothing is broken")


# The queue


class QueueLine(_OperationsModel):
    """The waiting tasks of one kind and priority."""

    priority: int
    task: str
    waiting: int
    oldest_s: float | None = Field(description="seconds since the oldest was enqueued; null: unknown")


class RunningJob(_OperationsModel):
    """A job that a worker runs now, for `since_s` seconds so far."""

    id: int
    task: str
    domain: str
    path: str | None
    notes: int
    worker: str
    started_at: str
    since_s: float


class QueueState(_OperationsModel):
    """The answer of `GET /ops/queue.json`."""

    model_config = example(
        kind="redis", waiting=3, scheduled=0, paused=["journal"], error=None,
        by_task=[{"priority": 0, "task": "drain", "waiting": 3, "oldest_s": 0.4}],
        running=[
            {"id": 981, "task": "index_notes", "domain": "finance", "path": "Moats.md", "notes": 1,
             "worker": _WORKER, "started_at": _BEGAN, "since_s": 0.2}
        ],
    )  # fmt: skip

    kind: Literal["embedded", "redis"]
    waiting: int
    by_task: list[QueueLine] = Field(description="most urgent first")
    running: list[RunningJob]
    scheduled: int = Field(description="delayed tasks; Everindex makes none, so a number above 0 is a fault")
    paused: list[str] = Field(description="domains whose notes are not indexed until they are resumed")
    error: str | None = Field(description="why the queue cannot be read now; null: it can")


class Paused(_OperationsModel):
    """The answer of `POST /ops/queue/pause` and `/resume`: the domains that are paused now."""

    model_config = example(paused=["journal"])

    paused: list[str]


class Confirmation(_OperationsModel):
    """A confirmation that the request is intended."""

    model_config = example(confirm=True)

    confirm: Literal[True]


class Emptied(_OperationsModel):
    """How many tasks were removed. No work is lost: the ledger enqueues pending work again within seconds."""

    model_config = example(removed=3)

    removed: int


# Jobs

_JOB = {
    "id": 981, "task_id": "3f0c8a51-6c1e-4f3a-9a53-5a5b7c0f2f11", "task": "index_notes", "domain": "finance",
    "path": "Moats.md", "paths": ["Moats.md"], "notes": 1, "state": "done", "worker": _WORKER, "attempt": 1,
    "waited_ms": 3.0, "started_at": _BEGAN, "finished_at": "2026-11-21T05:51:27.391+00:00", "ran_ms": 187.0,
    "error": None, "log": ["indexed notes=1 texts=4"], "saved_ms": [640.0],
}  # fmt: skip


class JobItem(_OperationsModel):
    """A job. Times are UTC, ISO 8601, durations are milliseconds; null: not reached yet."""

    model_config = example(**_JOB)

    id: int
    task_id: str
    task: str
    domain: str = Field(description="the job's domain; `*`: all domains")
    path: str | None = Field(description="the note, if the job is about one note")
    paths: list[str] = Field(description="the first notes of the job")
    notes: int
    state: JobState
    worker: str
    attempt: int
    waited_ms: float | None = Field(description="time on the queue")
    started_at: str
    finished_at: str | None
    ran_ms: float | None
    error: str | None
    log: list[str]
    saved_ms: list[float] = Field(description="per save: time from noticing it until search finds it")


class JobList(_OperationsModel):
    """The answer of `GET /ops/jobs.json`, newest first."""

    model_config = example(jobs=[_JOB], before=None, counts={"index_notes": {"done": 981, "failed": 2}})

    jobs: list[JobItem]
    before: int | None = Field(
        description="pass this as `before` to get the next page; null: this is the last page"
    )
    counts: dict[str, dict[str, int]] = Field(
        description="number of all jobs in the history, by task and state"
    )


# Parked notes


class ParkedNote(_OperationsModel):
    """A note that cannot be indexed until it changes or is retried."""

    domain: str
    path: str
    kind: str
    reason: str
    attempts: int
    since_s: float = Field(description="seconds since this content of the note was first seen")


class ParkedList(_OperationsModel):
    """The answer of `GET /ops/parked.json`."""

    model_config = example(
        notes=[
            {"domain": "finance", "path": "Mail archive.md", "kind": "too-large", "attempts": 1,
             "since_s": 3600.0, "reason": "Mail archive.md has 41 MB, more than 10 MB; split it"}
        ],
        kinds={"too-large": 1},
        forgotten=0,
    )  # fmt: skip

    notes: list[ParkedNote]
    kinds: dict[str, int] = Field(description="number of notes by kind of reason")
    forgotten: int = Field(description="number of notes that the operator hid")


class ParkedChoice(_OperationsModel):
    """A choice of parked notes: these paths, and all with this kind of reason. Without both: none."""

    model_config = example(paths=["Mail archive.md"], kind=None)

    paths: list[str] = Field(default_factory=list, max_length=10_000)
    kind: str | None = None


class ParkedPaths(_OperationsModel):
    """The parked notes that a request applied to."""

    model_config = example(paths=["Mail archive.md"])

    paths: list[str]


# Charts


class SeriesPoint(_OperationsModel):
    """The jobs that ended in one span of time, and their notes; `start` is UTC, ISO 8601."""

    start: str
    done: int
    failed: int
    median_ms: float | None
    notes: int


class Series(_OperationsModel):
    """The answer of `GET /ops/series.json`, oldest first, without gaps."""

    model_config = example(
        hours=1,
        bucket_s=60,
        points=[
            {"start": "2026-11-21T05:51:00+00:00", "done": 12, "failed": 0, "median_ms": 187.0, "notes": 14}
        ],
    )

    hours: int
    bucket_s: int
    points: list[SeriesPoint]


# The schemas of the state of the whole index.


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
    bytes: int = Field(description="size of the index's file")
    model: str
    dimension: int
    vectors_in_postgresql: str | None = Field(
        None,
        description="what finds the nearest passages there, such as `hnsw, recall@10 0.98`; null: not used",
    )
    percent: float = Field(
        description="how much of the domain is indexed, words and vectors together, 0 to 100"
    )
    seconds_left: int | None = Field(
        description="estimated time until all vectors are computed; null: unknown, or none pending"
    )
    reembed: ReembedCost | None = Field(
        None, description="null: the index splits and embeds notes as the settings say"
    )
    methods: Methods | None = Field(None, description="how it was ranked; null: it has no ranks yet")


class Health(BaseModel):
    """The answer of `GET /health`."""

    model_config = example(
        status="ok", version="0.1.0", vault="/home/ada/notes", vault_present=True, model_ready=True,
        domains={
            "finance": {"notes": 3_176, "chunks": 23_041, "vectors": 23_041, "pending": 0, "oldest_pending_s": 0.0,
                        "vectors_pending": 0, "parked": 0, "ignored": 64, "warned": 0,
                        "cache": "/state/cache-finance.1.db", "bytes": 61_300_000, "model": "all-MiniLM-L6-v2",
                        "dimension": 384, "percent": 100.0, "seconds_left": None}
        },
        pending=0, oldest_pending_s=0.0, vectors_pending=0, refining=False, attention=False,
        last_reconcile={"age_s": 320.4, "took_ms": 21, "found": {"finance": {"new": 0, "updated": 2, "removed": 0}}},
        watcher={"mode": "events", "polling_because": None, "last_event_s": 12.3, "last_probe_s": 2.1,
                 "overflows": 0, "said_s": 3.0},
        refused_messages={"foreign": 0, "unknown": 0, "replayed": 0}, problems=[],
        ignored_files={"Drafts/Zebra.md": ".everindexignore:1: Drafts/"}, other_files={"pdf": 12},
        to_index_other_files=["`everindex init /home/ada` writes a _domains.yaml with the formats of your files"],
        shared_ids={"EA-NVDA": ["NVDA.yaml", "NVDA copy.yaml"]},
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
    attention: bool = Field(description="whether the notes that you choose are recorded")
    refining: bool = Field(
        description="sentences, or passages for a second model, still get their vectors, so that the order of close"
        " notes may change"
    )
    last_reconcile: dict[str, Any] | None
    watcher: dict[str, Any] | None = Field(
        description="mode, seconds since the last event and probe, overflows; null: none has run"
    )
    refused_messages: dict[str, int] = Field(
        description="queue messages that were ignored: foreign, of unknown tasks, or delivered twice"
    )
    problems: list[str]
    ignored_files: dict[str, str] = Field(
        description="the first ten ignored files by path, each with the rule"
    )
    other_files: dict[str, int] = Field(
        {}, description="files that could be indexed if `formats:` named their format, by format"
    )
    to_index_other_files: list[str] = Field(
        [], description="what has them indexed: the line of each domain in `_domains.yaml`, or a command"
    )
    shared_ids: dict[str, list[str]] = Field(
        {}, description="the paths of records that have one id, by that id; the first 20 ids"
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
