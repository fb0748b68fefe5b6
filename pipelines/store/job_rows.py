"""Jobs and their rows in `state.db`: how a job is stored, and which condition finds it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

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
