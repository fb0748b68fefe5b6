"""The operators' use cases: overview, queue and job history."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from statistics import median
from typing import TYPE_CHECKING

from pipelines.cache.cache import SqliteCache
from pipelines.cache.ledger import ParkedRow
from pipelines.errors import CacheError, CacheMissingError, NotFoundError
from pipelines.indexing.status import unforgotten
from pipelines.model import Domain, EndpointUse, as_iso, iso_ago, now_iso, seconds_since
from pipelines.state.attention import Attention, Chosen, How
from pipelines.state.endpoints import EndpointUses
from pipelines.state.jobs import NEWEST, History, Job, JobFilter, JobOrder
from pipelines.state.note_log import NoteLog, WorkedOn
from pipelines.state.state import EMBEDDER, EMBEDDING_SPEED, WATCHER
from pipelines.state.tags import Proposals
from pipelines.vault import files
from pipelines.vault.atomic import file_bytes
from queue_config import inspect
from queue_config.queue import QUEUE_ERRORS, Queue
from service.schemas.operations import (
    DomainOverview,
    Emptied,
    JobItem,
    JobList,
    Overview,
    ParkedChoice,
    ParkedList,
    ParkedNote,
    ParkedPaths,
    Paused,
    ProcessState,
    QueueLine,
    QueueState,
    RunningJob,
    Series,
    SeriesPoint,
    WatcherState,
)
from service.usecases.audience import named_domains
from service.usecases.status import find_problems, uncounted, vectors_in_postgresql
from workers.attention import attention_of
from workers.heartbeat import lives
from workers.jobs import is_paused
from workers.resources import Resources
from workers.tasks import make_tasks

# List, retry and forget parked notes.


if TYPE_CHECKING:
    from workers.resources import Resources
    from workers.tasks import Tasks


class Parked:
    """The parked notes of a vault's domains."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def each_domain(self, failed: dict[str, str]) -> Iterator[tuple[Domain, SqliteCache]]:
        """Yield the domains that have a cache, each with it; `failed` learns why others cannot be asked."""
        for domain in self._resources.domains():
            try:
                yield domain, self._resources.reader(domain)
            except CacheMissingError:
                continue  # the watcher is about to make it
            except CacheError as error:
                failed[domain.slug] = str(error)

    def of(self, domain: Domain, cache: SqliteCache) -> list[ParkedRow]:
        """Return a domain's parked notes but the forgotten ones. Raises CacheError."""
        return self._shown_of(domain, cache.ledger.parked_notes())

    def _shown_of(self, domain: Domain, rows: list[ParkedRow]) -> list[ParkedRow]:
        return unforgotten(rows, self._resources.state(), domain.slug)

    def _forgotten(self, domain: Domain) -> dict[str, int]:
        """Return the notes that the operator forgot, each with the generation that failed."""
        return self._resources.state().decisions.dismissed(domain.slug)

    def _all(self) -> Iterator[tuple[Domain, list[ParkedRow]]]:
        """Yield every domain that can be asked with its parked notes; the overview names the others."""
        for domain, cache in self.each_domain({}):
            try:
                rows = cache.ledger.parked_notes()
            except CacheError:
                continue
            yield domain, rows

    def shown(self) -> ParkedList:
        """List the parked notes."""
        notes: list[ParkedNote] = []
        kinds: dict[str, int] = {}
        forgotten = 0
        for domain, rows in self._all():
            shown = self._shown_of(domain, rows)
            forgotten += len(rows) - len(shown)
            for row in shown:
                kinds[row.kind] = kinds.get(row.kind, 0) + 1
                notes.append(
                    ParkedNote(
                        domain=domain.slug,
                        path=row.path,
                        kind=row.kind,
                        reason=row.reason,
                        attempts=row.attempts,
                        since_s=round(row.since_s, 1),
                    )
                )
        return ParkedList(notes=notes, kinds=kinds, forgotten=forgotten)

    def retry(self, choice: ParkedChoice, tasks: Tasks) -> ParkedPaths:
        """Have a worker retry parked notes; return their paths."""
        paths = [row.path for domain, rows in self._all() for row in self._chosen(domain, rows, choice)]
        for path in paths:
            tasks.retry_parked(path)
        return ParkedPaths(paths=paths)

    def forget(self, choice: ParkedChoice) -> ParkedPaths:
        """Hide parked notes until they change and fail again; return their paths."""
        paths: list[str] = []
        for domain, rows in self._all():
            chosen = {row.path: row.generation for row in self._chosen(domain, rows, choice)}
            if chosen:
                still = {row.path: row.generation for row in rows}
                kept = {path: g for path, g in self._forgotten(domain).items() if still.get(path) == g}
                self._resources.state().decisions.replace_dismissed(domain.slug, kept | chosen)
                paths += chosen
        return ParkedPaths(paths=paths)

    def _chosen(self, domain: Domain, rows: list[ParkedRow], choice: ParkedChoice) -> list[ParkedRow]:
        paths = frozenset(choice.paths)
        return [row for row in self._shown_of(domain, rows) if row.path in paths or row.kind == choice.kind]


# The notes that were chosen: how much attention each has, and how to forget it.


@dataclass(frozen=True, slots=True)
class AttendedNote:
    """A note that was chosen: its attention now, when it was chosen last (UTC, ISO 8601), how often in each way."""

    path: str
    attention: float
    last: str
    times: dict[How, int]


def attended_notes(resources: Resources, now: datetime) -> list[AttendedNote]:
    """Return the notes that were chosen, those with the most attention first. Raises CacheError."""
    by_path: dict[str, list[Chosen]] = {}
    registry = resources.registry()
    for one in resources.stores.of(Attention).choices():
        by_path.setdefault(one.path, []).append(one)
    notes = [
        AttendedNote(
            path=path,
            attention=attention_of(
                (one.at for one in choices), now.timestamp(), *filter(None, [registry.owner(path)])
            ),
            last=as_iso(datetime.fromtimestamp(choices[0].at, UTC)),
            times=dict(Counter(one.how for one in choices)),
        )
        for path, choices in by_path.items()
    ]
    return sorted(notes, key=lambda note: (-note.attention, note.path))


def forget(resources: Resources, path: str | None = None) -> int:
    """Delete the attention of a note (None: of all notes); return how many choices were deleted.

    Raises NotFoundError where nothing is recorded of the note, StorageUnavailableError.
    """
    key = None if path is None else files.note_key(path)
    deleted = resources.stores.of(Attention).delete(key)
    if key is not None and not deleted:
        raise NotFoundError(f"no choice of {key} is recorded; `everindex attention list` names the notes")
    return deleted


_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_BUCKET_SECONDS = {1: 60, 24: 900}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Figures above which something is worth a look. `deploy/alerts.yml` warns at the same ones."""

    passages_per_note: float = 20
    embedding_s: float = 2
    parked_share: float = 0.05
    search_p95_s: float = 0.2
    index_bytes: float = 1e9
    dollars_a_day: float = 1
    fallback_share: float = 0.2
    notes: int = 20
    """A share or a mean of fewer notes or texts says nothing."""


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class EndpointToday:
    """What an endpoint did today for the model that it serves; `is_first`: it is the first one of the model."""

    model: str
    is_first: bool
    use: EndpointUse


def _unused(name: str) -> EndpointUse:
    return EndpointUse(name, 0, 0, 0, 0, 0.0)


class Operations:
    """The operators' use cases. Registers the tasks on `queue`, which may be done only once per queue.

    `search_p95` returns the 95th percentile of the latest searches in seconds, None before any.
    """

    def __init__(self, resources: Resources, queue: Queue) -> None:
        self.resources = resources
        self.queue = queue
        self.tasks = make_tasks(queue, resources)
        self.parked = Parked(resources)
        self.stores = resources.stores
        self.search_p95: Callable[[], float | None] = lambda: None

    # The overview

    def overview(self) -> Overview:
        """Return the overview."""
        failed: dict[str, str] = {}
        saved = self.stores.of(History).saved_seconds(iso_ago(_HOUR))
        proposals = self.stores.of(Proposals).counts()
        domains = []
        for domain, cache in self.parked.each_domain(failed):
            waiting = sum(proposals.get((domain.slug, state), 0) for state in ("waiting", "addition"))
            try:
                domains.append(self._overview_of(domain, cache, saved.get(domain.slug, []), waiting))
            except CacheError as error:
                failed[domain.slug] = str(error)
        return Overview(
            version=version("everindex"),
            domains=domains,
            failed=failed,
            watcher=self.watcher(),
            processes=self.processes(),
            problems=find_problems(self.resources, self.queue),
            unusual=[*self._unusual(domains)],
        )

    def worked_on(self) -> list[WorkedOn]:
        """Return what was done in each domain in the last 24 hours."""
        return self.stores.of(NoteLog).worked_on(iso_ago(_DAY))

    def endpoints_today(self) -> list[EndpointToday]:
        """Return what the endpoints of the settings did since midnight, UTC. Raises CacheError."""
        uses = self.stores.of(EndpointUses).of_day(now_iso()[:10])
        endpoints = self.resources.settings.endpoints
        first = {one.serves or one.model: one.called for one in reversed(endpoints)}
        return [
            EndpointToday(model, one.called == first[model], uses.get(one.called, _unused(one.called)))
            for one in endpoints
            for model in [one.serves or one.model]
        ]

    def _unusual_endpoints(self) -> Iterator[str]:
        today = self.endpoints_today()
        for model in dict.fromkeys(one.model for one in today):
            texts = sum(one.use.texts for one in today if one.model == model)
            others = sum(one.use.texts for one in today if one.model == model and not one.is_first)
            if texts >= BOUNDS.notes and others > BOUNDS.fallback_share * texts:
                yield (
                    f"{model}: {others} of {texts} texts were embedded by another endpoint than the first today, more"
                    f" than {BOUNDS.fallback_share:.0%}"
                )
        dollars = self.stores.of(EndpointUses).dollars(now_iso()[:10])
        if dollars > BOUNDS.dollars_a_day:
            most = f"{BOUNDS.dollars_a_day:g}"
            yield f"endpoints and conversations have cost {dollars:.2f} dollars today, more than {most}"

    def _unusual(self, domains: Sequence[DomainOverview]) -> Iterator[str]:
        """Yield a sentence for each figure that is above its bound."""
        for one in domains:
            mean = one.chunks / max(one.notes, 1)
            if one.notes >= BOUNDS.notes and mean > BOUNDS.passages_per_note:
                yield (
                    f"{one.domain}: a note has {mean:.0f} passages on average, more than"
                    f" {BOUNDS.passages_per_note:g}; a larger EVERINDEX_CHUNK_TARGET_WORDS makes fewer"
                )
            size = file_bytes(self.resources.state().cache_path(one.domain))
            if size > BOUNDS.index_bytes:
                yield f"{one.domain}: its index has {size / 1e9:.1f} GB, more than {BOUNDS.index_bytes / 1e9:g} GB"
        for log in self.worked_on():
            if log.done + log.parked < BOUNDS.notes:
                continue
            if (log.embedding_s or 0) > BOUNDS.embedding_s:
                yield (
                    f"{log.domain}: embedding took {log.embedding_s:.1f} s a note in the last 24 hours, more than"
                    f" {BOUNDS.embedding_s:g} s"
                )
            if log.parked > BOUNDS.parked_share * (log.done + log.parked):
                yield (
                    f"{log.domain}: {log.parked} of {log.done + log.parked} notes could not be indexed in the last 24"
                    f" hours, more than {BOUNDS.parked_share:.0%}; /ops/parked says why"
                )
        p95 = self.search_p95()
        if p95 is not None and p95 > BOUNDS.search_p95_s:
            took, bound = p95 * 1000, BOUNDS.search_p95_s * 1000
            yield f"one search of 20 took longer than {took:.0f} ms; the bound is {bound:g} ms"
        _, dollars = self.stores.of(Proposals).spending.of_day(now_iso()[:10])
        if dollars > BOUNDS.dollars_a_day:
            yield f"proposals have cost {dollars:.2f} dollars today, more than {BOUNDS.dollars_a_day:g}"
        yield from self._unusual_endpoints()

    def _overview_of(
        self, domain: Domain, cache: SqliteCache, saved: list[float], review_waiting: int
    ) -> DomainOverview:
        state, counts = self.resources.state(), cache.counts(uncounted(self.resources, domain))
        edges, communities = cache.graph.edges_and_communities()
        speed, embedder = state.get(EMBEDDING_SPEED, domain.slug), state.get(EMBEDDER, cache.meta.model)
        return DomainOverview(
            domain=domain.slug,
            notes=counts.notes,
            chunks=counts.chunks,
            vectors=counts.vectors,
            edges=edges,
            communities=communities,
            review_waiting=review_waiting,
            pending=counts.pending,
            oldest_pending_s=round(counts.oldest_pending_s, 1),
            vectors_pending=counts.vectors_pending,
            parked=len(self.parked.of(domain, cache)),
            ignored=counts.ignored,
            paused=is_paused(self.resources, domain.slug),
            model=cache.meta.model,
            dimension=cache.meta.dimension,
            vectors_in_postgresql=vectors_in_postgresql(self.resources, cache),
            device=embedder.value.device if embedder else None,
            precision=embedder.value.precision if embedder else None,
            texts_per_s=speed.value.texts_per_s if speed else None,
            saves=len(saved),
            saved_median_s=round(median(saved), 3) if saved else None,
            saved_p95_s=round(percentile(saved, 0.95), 3) if saved else None,
        )

    def watcher(self) -> WatcherState | None:
        """Return the watcher's last report."""
        said = self.resources.state().get(WATCHER)
        if said is None:
            return None
        facts = {
            name: value for name, value in asdict(said.value).items() if name in WatcherState.model_fields
        }
        return WatcherState(**facts, said_s=round(said.age_s, 1))

    def processes(self) -> list[ProcessState]:
        """Return the processes with a heartbeat in the last hour that did not announce their end."""
        return [
            ProcessState(
                name=process.name,
                role=process.role,
                version=process.version,
                started_at=process.started_at,
                uptime_s=_since(process.started_at),
                rss_bytes=process.rss_bytes,
                said_s=round(age, 1),
                alive=lives(process.name, age),
            )
            for process, age in self.resources.processes().recent()
        ]

    # The queue

    def queue_state(self) -> QueueState:
        """Return the waiting tasks, running jobs and paused domains."""
        lines: list[QueueLine] = []
        scheduled, error = 0, None
        try:
            for kind in inspect.waiting_by_task(self.queue, time.time()):
                oldest = None if kind.oldest_s is None else round(kind.oldest_s, 1)
                lines.append(
                    QueueLine(priority=kind.priority, task=kind.task, waiting=kind.count, oldest_s=oldest)
                )
            scheduled = inspect.scheduled(self.queue)
        except QUEUE_ERRORS as met:
            error = str(met)
        return QueueState(
            kind=inspect.kind(self.queue),
            waiting=sum(line.waiting for line in lines),
            by_task=lines,
            running=[_running(job) for job in self.stores.of(History).running()],
            scheduled=scheduled,
            paused=self.paused(),
            error=error,
        )

    def paused(self) -> list[str]:
        """Return the domains that are paused."""
        return [one.slug for one in self.resources.domains() if is_paused(self.resources, one.slug)]

    def pause(self, slug: str, *, paused: bool) -> Paused:
        """Pause or resume the indexing of a domain. Raises DomainNotFoundError."""
        named_domains(self.resources, slug)
        if paused:
            self.resources.state().decisions.pause(slug, now_iso())
        else:
            self.resources.state().decisions.resume(slug)
        return Paused(paused=self.paused())

    def empty(self) -> Emptied:
        """Remove everything from the queue; the sweep finds the pending work."""
        return Emptied(removed=inspect.empty(self.queue))

    # Jobs

    def jobs(
        self, wanted: JobFilter, order: JobOrder = NEWEST, *, before: int | None = None, limit: int = 50
    ) -> JobList:
        """List jobs, newest first unless another order is given."""
        found = self.stores.of(History).page(wanted, order, before=before, limit=limit)
        counts: dict[str, dict[str, int]] = {}
        for (task, state), count in self.stores.of(History).counts().items():
            counts.setdefault(task, {})[state] = count
        return JobList(
            jobs=[JobItem.model_validate(job) for job in found],
            before=found[-1].id if len(found) == limit else None,
            counts=counts,
        )

    def job(self, number: int) -> JobItem:
        """Return one job. Raises NotFoundError."""
        found = self.stores.of(History).get(number)
        if found is None:
            raise NotFoundError(f"there is no job {number}, or no longer: old ones are deleted")
        return JobItem.model_validate(found)

    def series(self, hours: int) -> Series:
        """Return the jobs that ended in the last hour or day, per span of time."""
        bucket_s = _BUCKET_SECONDS[hours]
        points = self.stores.of(History).series(iso_ago(timedelta(hours=hours)), bucket_s)
        return Series(
            hours=hours, bucket_s=bucket_s, points=[SeriesPoint.model_validate(one) for one in points]
        )


def _running(job: Job) -> RunningJob:
    return RunningJob(
        id=job.id,
        task=job.task,
        domain=job.domain,
        path=job.path,
        notes=job.notes,
        worker=job.worker,
        started_at=job.started_at,
        since_s=_since(job.started_at),
    )


def _since(at: str) -> float:
    return round(seconds_since(at), 1)


def percentile(values: list[float], share: float) -> float:
    """Return the least value that a share of all does not exceed (the nearest rank)."""
    return sorted(values)[math.ceil(share * len(values)) - 1]
