"""Record huey's signals as job history: each job's start and end, its result, and the lines that it logged."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huey.api import Task
from huey.signals import SIGNAL_COMPLETE, SIGNAL_ERROR, SIGNAL_EXECUTING

from pipelines.errors import EverindexError
from pipelines.heartbeat import lives, process_name
from pipelines.state.health import Processes
from pipelines.state.jobs import History, Result
from queue_config.logs import Trouble
from queue_config.queue import Queue
from workers.resources import Resources

_SIGNALS = (SIGNAL_EXECUTING, SIGNAL_COMPLETE, SIGNAL_ERROR)
_MOST_LINES = 40
_LONGEST_LINE = 500
# The job's own columns already contain these, and a line begins with some of them.
_SAID_ELSEWHERE = frozenset(
    {"task", "task_id", "domain", "process", "timestamp", "level", "event", "exception"}
)


class _Doing(threading.local):
    """The job that the calling thread works on; one at a time."""

    history: History | None = None
    number: int | None = None
    started: float = 0.0
    unwritten: tuple[int, Result] | None = None
    lines: list[str] | None = None


class Recorder(logging.Handler):
    """Receives huey's signals and every log record. History is best effort: jobs also run on a full disk."""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self._state = state
        self._doing = _Doing()
        self._trouble = Trouble("job history cannot be written; jobs run without it")

    def signal(self, signal: str, task: Task, error: Exception | None = None) -> None:
        """Record a job's start or end."""
        try:
            if signal == SIGNAL_EXECUTING:
                self._begin(task)
            else:
                self._end(task, error)
        except EverindexError as met:
            self._trouble.met(str(met))

    def _begin(self, task: Task) -> None:
        doing = self._doing
        doing.started, doing.lines, doing.number = time.monotonic(), [], None
        history = self._history()
        domain, paths = _named(task)
        enqueued_at = getattr(task, "enqueued_at", None)
        doing.number = history.start(
            task.id,
            task.name,
            domain,
            worker=process_name(),
            paths=paths,
            waited_ms=None if enqueued_at is None else max(0.0, (time.time() - enqueued_at) * 1000),
        )

    def _end(self, task: Task, error: Exception | None) -> None:
        doing = self._doing
        lines, doing.lines = doing.lines or [], None
        number, doing.number = doing.number, None
        if number is not None:
            ran_ms = (time.monotonic() - doing.started) * 1000
            doing.unwritten = (number, _result(getattr(task, "doing", {}), error, ran_ms, lines))
            self._history()
            self._trouble.over()  # only now: a full disk may have space for a beginning and none for an end

    def _history(self) -> History:
        """Return this thread's history after writing what is left over. Raises CacheError, StateError."""
        doing = self._doing
        if doing.history is None:
            doing.history = History(self._state)
        if doing.unwritten:
            doing.history.finish(*doing.unwritten)
            doing.unwritten = None
        return doing.history

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log line of the job that this thread works on."""
        lines = self._doing.lines
        if lines is not None and len(lines) < _MOST_LINES:
            lines += [line[:_LONGEST_LINE] for line in _lines(record)][: _MOST_LINES - len(lines)]

    def sweep(self, days: float, rows: int) -> None:
        """Mark the jobs of dead workers as lost, and delete old ones. Raises CacheError."""
        history, processes = self._history(), Processes(self._state)
        ages = {process.name: age for process, age in processes.recent()}
        processes.close()
        history.lose(lambda worker: lives(worker, ages.get(worker)))
        history.prune(days, rows)


@contextmanager
def recorded(huey: Queue, resources: Resources) -> Iterator[Recorder]:
    """Record the jobs of this process while the context is active."""
    recorder = Recorder(resources.place.state)
    huey.signal(*_SIGNALS)(recorder.signal)
    logging.getLogger().addHandler(recorder)
    try:
        yield recorder
    finally:
        logging.getLogger().removeHandler(recorder)
        huey.disconnect_signal(recorder.signal, *_SIGNALS)


def _named(task: Task) -> tuple[str, list[str]]:
    """Return the domain (`*`: all) and the notes named in a task's message."""
    first = task.args[0] if task.args else None
    if task.name == "index_notes":
        return task.args[0], [event["path"] for event in task.args[1]]
    if task.name in ("retry_parked", "index_note"):
        return "*", [first] if first else []
    return first if isinstance(first, str) and task.name != "reconcile_vault" else "*", []


def _result(doing: dict[str, Any], error: Exception | None, ran_ms: float, lines: list[str]) -> Result:
    postponed = doing.get("postponed")
    return Result(
        state="failed" if error else "put off" if postponed else "done",
        ran_ms=ran_ms,
        notes=doing.get("words", 0) + doing.get("vectors", 0),
        paths=doing.get("paths", ()),
        attempt=doing.get("attempt", 1),
        error=f"{type(error).__name__}: {error}" if error else postponed,
        log=lines,
        saved_ms=doing.get("saved_ms", {}),
        embedded=doing.get("embedded", 0),
    )


def _lines(record: logging.LogRecord) -> list[str]:
    """Return a record as lines of text, from structlog's fields or a library's message."""
    if not isinstance(record.msg, dict):
        return f"{record.levelname.lower()} {record.getMessage()}".splitlines()
    said = record.msg
    fields = [f"{k}={v}" for k, v in said.items() if k not in _SAID_ELSEWHERE and not k.startswith("_")]
    first = " ".join([said.get("timestamp", ""), said.get("level", ""), str(said.get("event")), *fields])
    return [first.strip(), *str(said.get("exception", "")).splitlines()]
