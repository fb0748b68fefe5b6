"""The progress bar of a first index: words, then meaning, with rate and time left."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pipelines.model import Counts
from service.usecases.text import counted


class IndexProgress:
    """Shows how much is indexed. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
        )
        self._words = self._progress.add_task("words  ", total=None, detail="")
        self._meaning = self._progress.add_task("meaning", total=None, detail="")
        self._domains: dict[str, Counts] = {}
        self._started: tuple[float, int] | None = None
        self._was_drawn = False

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._was_drawn:
            self._progress.stop()
            return
        self._progress.live.transient = True  # two empty bars would say nothing
        self._progress.live.stop()

    def show(self, domain: str, counts: Counts) -> None:
        """Show the progress of one domain; the bars add up all domains shown so far."""
        self._domains[domain] = counts
        every = self._domains.values()
        self._draw(
            sum(c.notes for c in every),
            sum(c.pending for c in every),
            sum(c.chunks for c in every),
            sum(c.vectors_pending for c in every),
        )

    def show_health(self, health: dict[str, Any]) -> None:
        """Show the progress in an answer of `GET /health`."""
        every = health["domains"].values()
        self._draw(
            sum(d["notes"] for d in every),
            health["pending"],
            sum(d["chunks"] for d in every),
            health["vectors_pending"],
        )

    def _draw(self, notes: int, pending: int, chunks: int, vectors_pending: int) -> None:
        self._was_drawn = True
        self._progress.update(
            self._words, total=notes + pending, completed=notes, detail=counted(notes, "note")
        )
        done = chunks - vectors_pending
        if self._started is None:
            self._started = (time.monotonic(), done)
        since, before = self._started
        rate = (done - before) / max(0.1, time.monotonic() - since)
        speed = f", {rate:.0f}/s" if rate else ""  # none, where all vectors are known
        self._progress.update(
            self._meaning, total=chunks, completed=done, detail=counted(done, "passage") + speed
        )
