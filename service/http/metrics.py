"""`GET /metrics`: figures of all processes, read from the stores on each request, and the times of searches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as OwnHistogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipelines.errors import CacheError
from pipelines.search.bm25 import Compared
from pipelines.state.health import Role
from pipelines.state.jobs import Histogram, History
from pipelines.state.state import EMBEDDING_SPEED, STATE_FILE
from pipelines.state.tags import Proposals
from pipelines.vault.atomic import file_bytes
from queue_config import inspect
from queue_config.queue import QUEUE_ERRORS
from service.usecases.memory import memory_counts
from service.usecases.operations import Operations, percentile
from service.usecases.status import uncounted

_STAGE_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5)
_LATEST = 1_000
_BESIDE_THE_VAULT: tuple[Role, ...] = ("watcher", "worker", "query")


class SearchTimes:
    """How long searches took in this process, by stage."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._histogram = OwnHistogram(
            "everindex_search_duration_seconds",
            "How long the stages of searches took in this query worker.",
            ["stage"],
            buckets=_STAGE_BUCKETS,
            registry=registry,
        )
        self._latest = deque[float](maxlen=_LATEST)

    def observe(self, stage: str, seconds: float) -> None:
        """Record how long a stage of a search took."""
        self._histogram.labels(stage).observe(seconds)
        if stage == "total":
            self._latest.append(seconds)

    def p95(self) -> float | None:
        """Return the 95th percentile of the latest searches in seconds; None before any."""
        latest = list(self._latest)
        return percentile(latest, 0.95) if latest else None


class Facts(Collector):
    """The figures of the stores and the queue as metrics. A store that cannot be read is reported as down."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def collect(self) -> Iterator[Metric]:
        """Read and yield every metric."""
        build = GaugeMetricFamily("everindex_build_info", "The version that answers.", labels=["version"])
        build.add_metric([version("everindex")], 1)
        yield build
        yield from self._jobs()
        yield from self._queue()
        yield from self._domains()
        yield from self._memory()
        yield from self._worked_on()
        yield from self._tags()
        yield from self._endpoints()
        yield from self._processes()
        yield from self._files()

    def _jobs(self) -> Iterator[Metric]:
        history = self._operations.stores.of(History)
        counts = history.counts()
        jobs = CounterMetricFamily("everindex_jobs", "Jobs that ended.", labels=["task", "state"])
        for (task, state), count in counts.items():
            jobs.add_metric([task, state.replace(" ", "_")], count)
        yield jobs
        ran = HistogramMetricFamily("everindex_job_duration_seconds", "How long jobs ran.", labels=["task"])
        for task in sorted({task for task, _ in counts}):
            _add(ran, [task], history.histogram(f"ran_seconds:{task}"))
        yield ran
        saved = HistogramMetricFamily(
            "everindex_save_to_searchable_seconds",
            "From the discovery of a save until the note can be found.",
        )
        _add(saved, [], history.histogram("saved_seconds"))
        yield saved
        embedded = HistogramMetricFamily("everindex_embed_batch_texts", "Texts embedded per job.")
        _add(embedded, [], history.histogram("embedded_texts"))
        yield embedded
        running = GaugeMetricFamily("everindex_jobs_running", "Running jobs.")
        running.add_metric([], len(history.running()))
        yield running

    def _queue(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("everindex_queue_up", "1 if the queue can be read, else 0.")
        depth = GaugeMetricFamily("everindex_queue_tasks", "Waiting tasks.", labels=["priority", "task"])
        oldest = GaugeMetricFamily(
            "everindex_queue_oldest_age_seconds",
            "How long the oldest task has waited.",
            labels=["priority", "task"],
        )
        try:
            for kind in inspect.waiting_by_task(self._operations.queue, time.time()):
                labels = [str(kind.priority), kind.task]
                depth.add_metric(labels, kind.count)
                if kind.oldest_s is not None:
                    oldest.add_metric(labels, kind.oldest_s)
            up.add_metric([], 1)
        except QUEUE_ERRORS:
            up.add_metric([], 0)
        yield from (up, depth, oldest)

    def _domains(self) -> Iterator[Metric]:
        up = _by_domain("everindex_cache_up", "1 if a domain's cache can be read, else 0.")
        notes = GaugeMetricFamily("everindex_notes", "Notes by state.", labels=["domain", "state"])
        chunks = _by_domain("everindex_chunks", "Indexed passages.")
        vectors_pending = _by_domain("everindex_vectors_pending", "Passages without a vector.")
        pending = _by_domain("everindex_oldest_pending_age_seconds", "How long the oldest note has waited.")
        paused = _by_domain("everindex_indexing_paused", "1 if an operator paused the domain, else 0.")
        speed = _by_domain(
            "everindex_embed_texts_per_second", "Texts embedded per second in the last slice of work."
        )
        operations, state, failed = self._operations, self._operations.resources.state(), dict[str, str]()
        stopped = operations.paused()
        for domain, cache in operations.parked.each_domain(failed):
            slug = domain.slug
            try:
                counts = cache.counts(uncounted(operations.resources, domain))
                parked = len(operations.parked.of(domain, cache))
            except CacheError as error:
                failed[slug] = str(error)
                continue
            up.add_metric([slug], 1)
            for name, count in (
                *(("indexed", counts.notes), ("pending", counts.pending)),
                *(("parked", parked), ("ignored", counts.ignored)),
            ):
                notes.add_metric([slug, name], count)
            chunks.add_metric([slug], counts.chunks)
            vectors_pending.add_metric([slug], counts.vectors_pending)
            pending.add_metric([slug], counts.oldest_pending_s)
            paused.add_metric([slug], slug in stopped)
            if said := state.get(EMBEDDING_SPEED, slug):
                speed.add_metric([slug], said.value.texts_per_s)
        for slug in failed:
            up.add_metric([slug], 0)
        yield from (up, notes, chunks, vectors_pending, pending, paused, speed)

    def _memory(self) -> Iterator[Metric]:
        checked = CounterMetricFamily(
            "everindex_memory_checked",
            "Lists held in memory that were compared with the cache.",
            labels=["domain"],
        )
        differing = CounterMetricFamily(
            "everindex_memory_differing",
            "Lists held in memory that differed from the cache and were reloaded.",
            labels=["domain"],
        )
        resources = self._operations.resources
        counts = memory_counts(resources.state())
        for domain in resources.domains():
            compared = counts.get(domain.slug, Compared(0, 0))
            checked.add_metric([domain.slug], compared.checked)
            differing.add_metric([domain.slug], compared.differing)
        yield from (checked, differing)

    def _worked_on(self) -> Iterator[Metric]:
        day = "in the last 24 hours."
        logged = GaugeMetricFamily(
            "everindex_notes_logged_day",
            f"How often notes were indexed, or parked, {day}",
            labels=["domain", "result"],
        )
        seconds = _by_domain("everindex_note_embedding_seconds_day", f"Mean time to embed a note {day}")
        for one in self._operations.worked_on():
            logged.add_metric([one.domain, "indexed"], one.done)
            logged.add_metric([one.domain, "parked"], one.parked)
            if one.embedding_s is not None:
                seconds.add_metric([one.domain], one.embedding_s)
        yield from (logged, seconds)

    def _tags(self) -> Iterator[Metric]:
        store = self._operations.stores.of(Proposals)
        proposals = GaugeMetricFamily(
            "everindex_proposals", "Proposed tags by state.", labels=["domain", "state"]
        )
        for (domain, state), count in store.counts().items():
            proposals.add_metric([domain, state], count)
        notes, dollars = store.spending.of_day(datetime.now(UTC).date().isoformat())
        spend = GaugeMetricFamily("everindex_spend_today_dollars", "Spent on proposals since midnight, UTC.")
        spend.add_metric([], dollars)
        limit = GaugeMetricFamily("everindex_spend_limit_dollars", "Daily limit on spending for proposals.")
        limit.add_metric([], self._operations.resources.settings.claude_usd_a_day)
        sent = GaugeMetricFamily(
            "everindex_notes_sent_today", "Notes sent to a paid proposer since midnight, UTC."
        )
        sent.add_metric([], notes)
        yield from (proposals, spend, limit, sent)

    def _endpoints(self) -> Iterator[Metric]:
        since = "since midnight, UTC."
        requests = GaugeMetricFamily(
            "everindex_endpoint_requests_today",
            f"Requests to endpoints that embed, {since}",
            labels=["server", "result"],
        )
        texts = GaugeMetricFamily(
            "everindex_endpoint_texts_today",
            f"Texts that endpoints embedded {since}",
            labels=["server", "model", "place"],
        )
        spend = GaugeMetricFamily("everindex_embedding_spend_today_dollars", f"Spent on endpoints {since}")
        limit = GaugeMetricFamily(
            "everindex_embedding_spend_limit_dollars", "Daily limit on spending for endpoints."
        )
        today = self._operations.endpoints_today()
        for one in today:
            name, failed = one.use.endpoint, one.use.failures
            requests.add_metric([name, "done"], one.use.requests - failed)
            requests.add_metric([name, "failed"], failed)
            texts.add_metric([name, one.model, "first" if one.is_first else "fallback"], one.use.texts)
        spend.add_metric([], sum(one.use.dollars for one in today))
        limit.add_metric([], self._operations.resources.settings.endpoints_usd_a_day)
        yield from (requests, texts, spend, limit)

    def _processes(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("everindex_processes", "Live processes by role.", labels=["role"])
        memory = GaugeMetricFamily(
            "everindex_process_memory_bytes", "Resident memory of a process.", labels=["role", "name"]
        )
        started = GaugeMetricFamily(
            "everindex_process_start_time_seconds", "Start time of a process.", labels=["role", "name"]
        )
        ended = GaugeMetricFamily(
            "everindex_processes_ended",
            "Processes by role that ended unexpectedly in the last hour, each of which was restarted.",
            labels=["role"],
        )
        recent = self._operations.processes()
        living = [one for one in recent if one.alive]
        # A vault needs no workers on other hosts, so these roles appear only once there are some.
        for role in dict.fromkeys((*_BESIDE_THE_VAULT, *(one.role for one in recent))):
            up.add_metric([role], sum(one.role == role for one in living))
            ended.add_metric([role], sum(one.role == role and not one.alive for one in recent))
        for one in living:
            memory.add_metric([one.role, one.name], one.rss_bytes)
            started.add_metric([one.role, one.name], datetime.fromisoformat(one.started_at).timestamp())
        yield from (up, ended, memory, started, *self._watcher())

    def _watcher(self) -> Iterator[Metric]:
        polling = GaugeMetricFamily(
            "everindex_watcher_polling",
            "1 if the watcher compares the vault every few seconds, 0 if it receives file events.",
        )
        said = GaugeMetricFamily(
            "everindex_watcher_said_age_seconds", "Time since the watcher last reported its state."
        )
        probe = GaugeMetricFamily(
            "everindex_watcher_probe_age_seconds", "Time since a probe caused a file event."
        )
        watcher = self._operations.watcher()
        if watcher:
            said.add_metric([], watcher.said_s)
            polling.add_metric([], watcher.mode == "polling")
            if watcher.last_probe_s is not None:
                # This was its age when the watcher reported it.
                probe.add_metric([], watcher.last_probe_s + watcher.said_s)
        yield from (polling, said, probe)

    def _files(self) -> Iterator[Metric]:
        wal = GaugeMetricFamily("everindex_wal_bytes", "Size of a write-ahead log.", labels=["file"])
        size = GaugeMetricFamily("everindex_database_bytes", "Size of a database's file.", labels=["file"])
        resources = self._operations.resources
        files = [resources.place.state / STATE_FILE]
        files += [resources.state().cache_path(domain.slug) for domain in resources.domains()]
        for file in files:
            size.add_metric([file.name], file_bytes(file))
            wal.add_metric([file.name], file_bytes(file.with_name(f"{file.name}-wal")))
        yield from (size, wal)


def _by_domain(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["domain"])


def _add(family: HistogramMetricFamily, labels: Iterable[str], histogram: Histogram) -> None:
    buckets = [("+Inf" if le == float("inf") else str(le), n) for le, n in histogram.at_most.items()]
    family.add_metric(list(labels), buckets, histogram.total)


def add_metrics(app: FastAPI, operations: Operations) -> SearchTimes:
    """Add the route; return the callback that records the times of searches."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Facts(operations))
    times = SearchTimes(registry)
    operations.search_p95 = times.p95

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Return the metrics of all processes in Prometheus' text format."""
        return PlainTextResponse(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return times
