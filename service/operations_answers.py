"""The shapes of the operators' answers: what `/ops` shows, as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.store.history import JobState


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", from_attributes=True)


# The overview


class DomainOverview(_Answer):
    """How one domain stands. Times of saves are of the last hour; null where there was none."""

    domain: str
    notes: int
    chunks: int
    vectors: int
    edges: int = Field(description="links that mean a note or another file")
    communities: int
    review_waiting: int = Field(description="proposed tags and additions that wait for the operator")
    pending: int
    oldest_pending_s: float
    vectors_pending: int
    parked: int = Field(description="notes that cannot be indexed; forgotten ones are left out")
    ignored: int
    paused: bool
    model: str
    dimension: int
    device: str | None = Field(description="where the worker computes: cpu or cuda; null: no model is loaded")
    precision: str | None = Field(description="float32 or bfloat16; null: no model is loaded")
    texts_per_s: float | None = Field(description="embedded in the last slice of work; null: none yet")
    saves: int = Field(description="that became findable in the last hour")
    saved_median_s: float | None = Field(description="from the save's discovery until it could be found")
    saved_p95_s: float | None


class WatcherState(_Answer):
    """How the watcher does. Seconds are since then; null: never."""

    mode: Literal["events", "polling"]
    polling_because: str | None
    last_event_s: float | None
    last_probe_s: float | None = Field(
        description="since the vault's folder last answered the liveness probe"
    )
    overflows: int
    said_s: float = Field(description="since the watcher said this")


class ProcessState(_Answer):
    """A process that lives, or died less than an hour ago without a word."""

    name: str = Field(description="host:pid/when it began")
    role: Literal["watcher", "worker", "query"]
    version: str
    started_at: str
    uptime_s: float
    rss_bytes: int
    said_s: float = Field(description="since it last spoke")
    alive: bool


class Overview(_Answer):
    """The answer of `GET /ops/overview.json`."""

    version: str
    domains: list[DomainOverview]
    failed: dict[str, str] = Field(description="domains that cannot be asked just now, and why")
    watcher: WatcherState | None = Field(description="null: none runs")
    processes: list[ProcessState]
    problems: list[str]


# The queue


class QueueLine(_Answer):
    """The tasks of one kind and priority that wait."""

    priority: int
    task: str
    waiting: int
    oldest_s: float | None = Field(description="since the oldest was enqueued; null: unknown")


class RunningJob(_Answer):
    """A job that a worker does now."""

    id: int
    task: str
    domain: str
    path: str | None
    notes: int
    worker: str
    started_at: str
    since_s: float


class QueueState(_Answer):
    """The answer of `GET /ops/queue.json`."""

    kind: Literal["embedded", "redis"]
    waiting: int
    by_task: list[QueueLine] = Field(description="the most urgent first")
    running: list[RunningJob]
    scheduled: int = Field(description="tasks for later: none is ever made, so another number is a fault")
    paused: list[str] = Field(description="domains whose notes are not indexed until they are resumed")
    error: str | None = Field(description="why the queue cannot be asked just now; null: it can")


class Paused(_Answer):
    """The answer of `POST /ops/queue/pause` and `/resume`: the domains that are paused now."""

    paused: list[str]


class Confirmation(_Answer):
    """Says that it is meant."""

    confirm: Literal[True]


class Emptied(_Answer):
    """How many tasks were taken off the queue; what they hinted at is found again within seconds."""

    removed: int


# Jobs


class JobItem(_Answer):
    """A job. Times are UTC, ISO 8601; null where it has not come to that."""

    id: int
    task_id: str
    task: str
    domain: str = Field(description="`*`: all domains")
    path: str | None = Field(description="the note of a job about one")
    paths: list[str] = Field(description="the first of its notes")
    notes: int
    state: JobState
    worker: str
    attempt: int
    waited_ms: float | None = Field(description="on the queue")
    started_at: str
    finished_at: str | None
    ran_ms: float | None
    error: str | None
    log: list[str]
    saved_ms: list[float] = Field(description="of each save that it made findable, since its discovery")


class JobList(_Answer):
    """The answer of `GET /ops/jobs.json`, newest first."""

    jobs: list[JobItem]
    before: int | None = Field(description="ask for the next page with this; null: this is the last")
    counts: dict[str, dict[str, int]] = Field(description="of all jobs ever, by task and state")


# Parked notes


class ParkedNote(_Answer):
    """A note that cannot be indexed until it changes or is retried."""

    domain: str
    path: str
    kind: str
    reason: str
    attempts: int
    since_s: float = Field(description="since the content that fails was first seen")


class ParkedList(_Answer):
    """The answer of `GET /ops/parked.json`."""

    notes: list[ParkedNote]
    kinds: dict[str, int] = Field(description="how many there are of each kind of reason")
    forgotten: int = Field(description="how many the operator chose to see no more")


class ParkedChoice(_Answer):
    """Which parked notes: these paths and those of this kind of reason; neither: none."""

    paths: list[str] = Field(default_factory=list, max_length=10_000)
    kind: str | None = None


class ParkedPaths(_Answer):
    """The parked notes that a request was about."""

    paths: list[str]


# Charts


class SeriesPoint(_Answer):
    """What ended in one span of time; `start` is UTC, ISO 8601."""

    start: str
    done: int
    failed: int
    median_ms: float | None
    notes: int


class Series(_Answer):
    """The answer of `GET /ops/series.json`, oldest first, without gaps."""

    hours: int
    bucket_s: int
    points: list[SeriesPoint]
