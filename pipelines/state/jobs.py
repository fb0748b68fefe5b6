"""Job history in `state.db`: the jobs that workers ran, their results, and counts that outlive the history."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Literal

from pipelines.model import Place, as_iso
from pipelines.sqlite import Connection, first, one, select, transaction
from pipelines.state.state import open_state

# Jobs and their rows in `state.db`: how a job is stored, and which condition finds it.


JobState = Literal["running", "done", "failed", "put off", "lost"]
PATHS_KEPT = 10
"""How many of a job's paths its row stores: small rows keep searching fast."""
LAST_ID = 2**63 - 1
"""The largest possible id of a job."""
COLUMNS = (
    "id, task_id, task, domain, path, paths, notes, state, worker, attempt, waited_ms, started_at, finished_at,"
    " ran_ms, error, log, saved_ms"
)
"""The columns that `job_of` reads, in its order."""

_LONGEST_ERROR = 400
# Not JSON, because a search would also match JSON's brackets.
_BETWEEN = "\x1f"


@dataclass(frozen=True, slots=True)
class Job:
    """A job; times are UTC, ISO 8601. `paths` holds the first paths, `notes` counts all.

    `saved_ms`: for each save that the job made findable, the milliseconds since the watcher saw it.
    """

    id: int
    task_id: str
    task: str
    domain: str
    path: str | None
    paths: tuple[str, ...]
    notes: int
    state: JobState
    worker: str
    attempt: int
    waited_ms: float | None
    started_at: str
    finished_at: str | None
    ran_ms: float | None
    error: str | None
    log: tuple[str, ...]
    saved_ms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to show; `path` and `error` match anywhere in the job's own, ignoring the case of A to Z."""

    task: str | None = None
    domain: str | None = None
    state: JobState | None = None
    path: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a job: `embedded` counts the embedded texts, `paths` are the notes that it indexed.

    `saved_ms`: as in `Job`, by domain, because a job indexes the saves of all domains. Without `paths` the job keeps
    those that it was started with.
    """

    state: JobState
    ran_ms: float
    notes: int = 0
    paths: Sequence[str] = ()
    attempt: int = 1
    error: str | None = None
    log: Sequence[str] = ()
    saved_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    embedded: int = 0


def path_columns(paths: Sequence[str]) -> tuple[str | None, str]:
    """Return the values of the columns `path` and `paths`."""
    kept = [storable(path) for path in paths[:PATHS_KEPT]]
    return kept[0] if len(paths) == 1 else None, _BETWEEN.join(kept)


def columns_of(result: Result) -> dict[str, Any]:
    """Return the values of the columns of a job that ended."""
    path, paths = path_columns(result.paths)
    return {
        "path": path,
        "paths": paths,
        "state": result.state,
        "attempt": result.attempt,
        "ran": round(result.ran_ms, 1),
        "error": storable(result.error)[:_LONGEST_ERROR] if result.error else None,
        "log": json.dumps([storable(line) for line in result.log], ensure_ascii=False),
        "saved": _as_json(result.saved_ms),
        "notes": result.notes,
    }


def _as_json(saved_ms: Mapping[str, Sequence[float]]) -> str | None:
    told = {domain: [round(ms, 1) for ms in found] for domain, found in saved_ms.items() if found}
    return json.dumps(told, ensure_ascii=False) if told else None


def saved_of(stored: str | None, domain: str) -> dict[str, list[float]]:
    """Return the column `saved_ms` by domain; a row of an earlier version has a list for the job's own `domain`."""
    found = json.loads(stored or "{}")
    return found if isinstance(found, dict) else {domain: found}


def storable(text: str) -> str:
    """Return text that can be stored and searched: a library's message may quote bytes that are not valid text."""
    plain = text.encode("utf-8", "replace").decode()
    return plain.replace("\0", "\N{SYMBOL FOR NULL}").replace(_BETWEEN, "\N{SYMBOL FOR UNIT SEPARATOR}")


def conditions_of(wanted: JobFilter, before: int | None) -> tuple[str, dict[str, Any]]:
    """Return the SQL condition, with its bindings, for the jobs that match and are older than the job `before`."""
    conditions = ["id < :before"]
    bindings: dict[str, Any] = {"before": LAST_ID if before is None else before}
    for name in ("task", "domain", "state"):
        if (value := getattr(wanted, name)) is not None:
            conditions.append(f"{name} = :{name}")
            bindings[name] = value
    if wanted.path:
        conditions.append("paths LIKE :path ESCAPE '!'")
        bindings["path"] = _anywhere(wanted.path)
    if wanted.error:
        conditions.append("error LIKE :error ESCAPE '!'")
        bindings["error"] = _anywhere(wanted.error)
    return " AND ".join(conditions), bindings


def _anywhere(text: str) -> str:
    text = storable(text)
    for special in "!%_":
        text = text.replace(special, "!" + special)
    return f"%{text}%"


def job_of(row: tuple[Any, ...]) -> Job:
    """Return the job of a row with the columns `COLUMNS`."""
    found = dict(zip(COLUMNS.split(", "), row, strict=True))
    found["paths"] = tuple(found["paths"].split(_BETWEEN)) if found["paths"] else ()
    found["log"] = tuple(json.loads(found["log"] or "[]"))
    found["saved_ms"] = tuple(chain.from_iterable(saved_of(found["saved_ms"], found["domain"]).values()))
    return Job(**found)


# The orders in which the list of jobs is shown, as SQL.


SortKey = Literal["began", "task", "state", "domain", "notes", "waited", "ran", "attempt"]
_COLUMNS: Mapping[SortKey, str] = {"began": "id", "waited": "waited_ms", "ran": "ran_ms"}
_INDEXED = ("began", "task", "state", "domain")


@dataclass(frozen=True, slots=True)
class JobOrder:
    """What a list of jobs is sorted by, and how many jobs come before it.

    Values that are missing come last; of equal ones the newest job comes first. Jobs of the tasks `without_done` are
    listed only if they are not done.
    """

    by: SortKey = "began"
    ascending: bool = False
    skip: int = 0
    without_done: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        """Return what follows ORDER BY."""
        return f"{_COLUMNS.get(self.by, self.by)} {'ASC' if self.ascending else 'DESC'} NULLS LAST, id DESC"

    @property
    def index(self) -> str:
        """Return which index to read: the covering one if it has the column, else none, as it would be slower."""
        return "INDEXED BY job_history_page" if self.by in _INDEXED else "NOT INDEXED"

    @property
    def condition(self) -> str:
        """Return the condition on a job."""
        if not self.without_done:
            return "TRUE"
        return "NOT (state = 'done' AND task IN (SELECT value FROM json_each(:without_done)))"

    @property
    def bindings(self) -> dict[str, Any]:
        """Return the values that the SQL binds."""
        bound: dict[str, Any] = {"skip": self.skip}
        return bound | ({"without_done": json.dumps(self.without_done)} if self.without_done else {})


NEWEST = JobOrder()
"""The newest first."""


# Bound a table of `state.db` that grows with time: delete what is old, and what is beyond a number of rows.


_DELETED_AT_ONCE = 2_000


def prune(con: Connection, table: str, time: str, *, oldest: str, most: int, condition: str = "TRUE") -> int:
    """Delete the rows whose column `time` is before `oldest`, and all but the newest `most`; return how many.

    Rows that do not meet the condition stay. Ids have to ascend with time. Uses short transactions, so that no worker
    waits. Raises StorageUnavailableError.
    """
    deleted = 0
    while True:
        with transaction(con):
            con.execute(
                # Ids ascend with time, so the first recent row ends the search.
                f"DELETE FROM {table} WHERE {condition} AND id IN (SELECT id FROM {table}"
                f" WHERE id < max((SELECT max(id) FROM {table}) - :most + 1, coalesce("
                f"  (SELECT id FROM {table} WHERE {time} >= :oldest ORDER BY id LIMIT 1), :last))"
                " ORDER BY id LIMIT :count)",
                {"most": most, "oldest": oldest, "count": _DELETED_AT_ONCE, "last": LAST_ID},
            )
            changes = con.changes()
        deleted += changes
        if changes == 0:
            return deleted


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

    def __init__(self, place: Place, wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._con = open_state(place)
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
        """Record the start of a job; return the job's id. Raises StorageUnavailableError."""
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
            " ON CONFLICT (task, state) DO UPDATE SET count = job_count.count + excluded.count",
            (task, state, count),
        )

    def _observe(self, name: str, values: Sequence[float]) -> None:
        bounds = (*_BUCKETS[name.partition(":")[0]], _FOREVER)
        self._con.executemany(
            "INSERT INTO job_histogram VALUES (?1, ?2, 1, ?3)"
            " ON CONFLICT (name, le) DO UPDATE SET count = job_histogram.count + 1, total = job_histogram.total + ?3",
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
        found = select(
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
        found = select(self._con, f"SELECT {COLUMNS} FROM job_history WHERE state = 'running' ORDER BY id")
        return [job_of(row) for row in found]

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how many jobs of each task ever ended in each state; running jobs are not counted."""
        return {(task, state): n for task, state, n in select(self._con, "SELECT * FROM job_count")}

    def histogram(self, name: str) -> Histogram:
        """Return all observations of `saved_seconds`, `embedded_texts` or `ran_seconds:<task>`."""
        counted = {
            le: (count, total)
            for le, count, total in select(
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
        found = select(
            self._con,
            "SELECT unixepoch(finished_at) / :span AS bucket, count(*) FILTER (WHERE state = 'done'),"
            " count(*) FILTER (WHERE state IN ('failed', 'lost')), median(ran_ms), sum(notes) FROM job_history"
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
        for own, stored in select(
            self._con,
            "SELECT domain, saved_ms FROM job_history WHERE saved_ms IS NOT NULL AND finished_at >= ?",
            (since,),
        ):
            for domain, saved in saved_of(stored, own).items():
                found.setdefault(domain, []).extend(ms / 1000 for ms in saved)
        return found

    def was_worked_on(self, domain: str, seconds: float) -> bool:
        """Say whether a job indexed notes of a domain within the last `seconds`."""
        found = first(
            self._con,
            "SELECT 1 FROM job_history WHERE finished_at > ? AND state = 'done' AND notes > 0 AND domain = ? LIMIT 1",
            (as_iso(self._clock() - timedelta(seconds=seconds)), domain),
        )
        return found is not None

    def last_trouble(self, domain: str, seconds: float) -> str | None:
        """Return the error of a domain's last job that failed or was postponed within the last `seconds`, or None."""
        found = first(
            self._con,
            "SELECT error FROM job_history WHERE domain IN (SELECT value FROM json_each(?))"
            " AND state IN ('put off', 'failed') AND finished_at > ? ORDER BY id DESC LIMIT 1",
            (json.dumps([domain, "*"]), as_iso(self._clock() - timedelta(seconds=seconds))),
        )
        return found[0] if found else None

    def _now(self) -> str:
        return as_iso(self._clock())
