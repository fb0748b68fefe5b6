"""Job history in `state.db`: the jobs that workers ran, their results, and counts that outlive the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipelines.moments import as_iso
from pipelines.store.connection import one, rows, transaction
from pipelines.store.connection import row as first
from pipelines.store.job_order import NEWEST, JobOrder
from pipelines.store.job_rows import (
    COLUMNS,
    Job,
    JobFilter,
    JobState,
    Result,
    columns_of,
    conditions_of,
    job_of,
    path_columns,
    saved_of,
)
from pipelines.store.pruning import prune
from pipelines.store.state_file import open_state

_LOST = "its worker died before it reported a result; the sweep finds its pending work again"
_BUCKETS: Mapping[str, tuple[float, ...]] = {
    "ran_seconds": (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
    "saved_seconds": (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0),
    "embedded_texts": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
}
_FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Bucket:
    """The jobs that ended in a span of time that begins at `start` (UTC, ISO 8601); lost jobs count as failed."""

    start: str
    done: int
    failed: int
    median_ms: float | None
    notes: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """All observations so far: how many were at most `le`, by `le` (the last is infinity), and their sum."""

    at_most: Mapping[float, int] = field(default_factory=dict)
    total: float = 0.0


class History:
    """A connection to the jobs in a vault's `state.db`."""

    def __init__(self, folder: Path, wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._con = open_state(folder)
        self._clock = wall_clock

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    # Writing

    def start(
        self,
        task_id: str,
        task: str,
        domain: str,
        *,
        worker: str,
        paths: Sequence[str] = (),
        waited_ms: float | None = None,
    ) -> int:
        """Record that a worker started a job; return the job's id. Raises StorageUnavailableError."""
        with transaction(self._con):
            (number,) = one(
                self._con,
                "INSERT INTO job_history (task_id, task, domain, path, paths, notes, state, worker, attempt,"
                " waited_ms, started_at, log) VALUES (?, ?, ?, ?, ?, ?, 'running', ?, 1, ?, ?, '[]') RETURNING id",
                (
                    *(task_id, task, domain, *path_columns(paths), len(paths), worker),
                    *(None if waited_ms is None else round(waited_ms, 1), self._now()),
                ),
            )
        return int(number)

    def finish(self, number: int, result: Result) -> None:
        """Record the result of a job. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute(
                "UPDATE job_history SET state = :state, attempt = :attempt, finished_at = :at, ran_ms = :ran,"
                " error = :error, log = :log, saved_ms = :saved, notes = max(notes, :notes),"
                " path = CASE WHEN :paths = '' THEN path ELSE :path END,"
                " paths = CASE WHEN :paths = '' THEN paths ELSE :paths END"
                " WHERE id = :id AND state IN ('running', 'lost')",
                columns_of(result) | {"id": number, "at": self._now()},
            )
            if self._con.changes():
                (task,) = one(self._con, "SELECT task FROM job_history WHERE id = ?", (number,))
                self._count(task, result.state)
                self._observe(f"ran_seconds:{task}", [result.ran_ms / 1000])
                self._observe(
                    "saved_seconds", [ms / 1000 for saved in result.saved_ms.values() for ms in saved]
                )
                self._observe("embedded_texts", [result.embedded] if result.embedded else [])

    def _count(self, task: str, state: JobState, count: int = 1) -> None:
        self._con.execute(
            "INSERT INTO job_count VALUES (?1, ?2, ?3)"
            " ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (task, state, count),
        )

    def _observe(self, name: str, values: Sequence[float]) -> None:
        bounds = (*_BUCKETS[name.partition(":")[0]], _FOREVER)
        self._con.executemany(
            "INSERT INTO job_histogram VALUES (?1, ?2, 1, ?3)"
            " ON CONFLICT DO UPDATE SET count = count + 1, total = total + ?3",
            [(name, next(le for le in bounds if value <= le), value) for value in values],
        )

    def lose(self, alive: Callable[[str], bool]) -> int:
        """Mark the running jobs of dead workers as lost; return how many. Raises StorageUnavailableError."""
        dead = [(job.id, job.task) for job in self.running() if not alive(job.worker)]
        lost = 0
        if dead:
            with transaction(self._con):
                for number, task in dead:
                    self._con.execute(
                        "UPDATE job_history SET state = 'lost', finished_at = ?, error = ?"
                        " WHERE id = ? AND state = 'running'",
                        (self._now(), _LOST, number),
                    )
                    if self._con.changes():
                        self._count(task, "lost")
                        lost += 1
        return lost

    def prune(self, days: float, most: int) -> int:
        """Delete the jobs older than `days`, and all but the newest `most`; return how many. The counts stay.

        Raises StorageUnavailableError.
        """
        oldest = as_iso(self._clock() - timedelta(days=days))
        return prune(
            self._con, "job_history", "started_at", oldest=oldest, most=most, condition="state <> 'running'"
        )

    # Reading

    def get(self, number: int) -> Job | None:
        """Return a job, or None if it does not exist."""
        found = first(self._con, f"SELECT {COLUMNS} FROM job_history WHERE id = ?", (number,))
        return job_of(found) if found else None

    def page(
        self, wanted: JobFilter, order: JobOrder = NEWEST, *, before: int | None = None, limit: int = 50
    ) -> list[Job]:
        """Return the first jobs that match, in an order; of the newest, those older than the job `before`."""
        conditions, bindings = conditions_of(wanted, before)
        found = rows(
            self._con,
            # A covering index: at 100,000 rows, a text that no job has is ruled out within 20 ms.
            f"SELECT {COLUMNS} FROM job_history WHERE id IN (SELECT id FROM job_history {order.index}"
            f" WHERE {conditions} AND {order.condition} ORDER BY {order.sql} LIMIT :limit OFFSET :skip)"
            f" ORDER BY {order.sql}",
            bindings | order.bindings | {"limit": limit},
        )
        return [job_of(row) for row in found]

    def running(self) -> list[Job]:
        """Return the jobs that are running, oldest first."""
        found = rows(self._con, f"SELECT {COLUMNS} FROM job_history WHERE state = 'running' ORDER BY id")
        return [job_of(row) for row in found]

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how many jobs of each task ever ended in each state; running jobs are not counted."""
        return {(task, state): n for task, state, n in rows(self._con, "SELECT * FROM job_count")}

    def histogram(self, name: str) -> Histogram:
        """Return all observations of `saved_seconds`, `embedded_texts` or `ran_seconds:<task>`."""
        counted = {
            le: (count, total)
            for le, count, total in rows(
                self._con, "SELECT le, count, total FROM job_histogram WHERE name = ?", (name,)
            )
        }
        at_most, so_far = {}, 0
        for le in (*_BUCKETS[name.partition(":")[0]], _FOREVER):
            so_far += counted.get(le, (0, 0.0))[0]
            at_most[le] = so_far
        return Histogram(at_most, sum(total for _, total in counted.values()))

    def series(self, since: str, bucket_s: int) -> list[Bucket]:
        """Return what ended since an ISO time, in spans of `bucket_s` seconds (also empty ones), oldest first."""
        found = rows(
            self._con,
            "SELECT unixepoch(finished_at) / :span AS bucket, sum(state = 'done'),"
            " sum(state IN ('failed', 'lost')), median(ran_ms), sum(notes) FROM job_history"
            " WHERE finished_at >= :since GROUP BY bucket",
            {"span": bucket_s, "since": since},
        )
        by_bucket = {bucket: rest for bucket, *rest in found}
        start = int(datetime.fromisoformat(since).timestamp()) // bucket_s
        end = int(self._clock().timestamp()) // bucket_s
        return [
            Bucket(as_iso(datetime.fromtimestamp(n * bucket_s, UTC)), *by_bucket.get(n, (0, 0, None, 0)))
            for n in range(start, end + 1)
        ]

    def saved_seconds(self, since: str) -> dict[str, list[float]]:
        """Return, by domain, the seconds that each save took to become findable, for jobs that ended since then."""
        found: dict[str, list[float]] = {}
        for own, stored in rows(
            self._con,
            "SELECT domain, saved_ms FROM job_history WHERE saved_ms IS NOT NULL AND finished_at >= ?",
            (since,),
        ):
            for domain, saved in saved_of(stored, own).items():
                found.setdefault(domain, []).extend(ms / 1000 for ms in saved)
        return found

    def _now(self) -> str:
        return as_iso(self._clock())
