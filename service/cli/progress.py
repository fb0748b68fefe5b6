"""The progress of a first index: words, then meaning, with rate and time left; as bars, or as lines in a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pipelines.model import Counts
from service.usecases.text import counted

_LINE_SECONDS = 10.0


class IndexProgress:
    """Shows how much is indexed. Use it as a context manager.

    What is no terminal gets a line every ten seconds, one when all words are indexed, and one when all is.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._lines = not console.is_terminal
        self._said_at = -_LINE_SECONDS
        self._said = ""
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
        if not self._lines:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lines:
            return
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
        done = chunks - vectors_pending
        if self._lines:
            self._say(notes, pending, chunks, done)
            return
        self._was_drawn = True
        self._progress.update(
            self._words, total=notes + pending, completed=notes, detail=counted(notes, "note")
        )
        if self._started is None:
            self._started = (self._clock(), done)
        since, before = self._started
        rate = (done - before) / max(0.1, self._clock() - since)
        speed = f", {rate:.0f}/s" if rate else ""  # none, where all vectors are known
        self._progress.update(
            self._meaning, total=chunks, completed=done, detail=counted(done, "passage") + speed
        )

    def _say(self, notes: int, pending: int, chunks: int, done: int) -> None:
        if pending:
            stage, line = "words", f"words: {notes:,} of {counted(notes + pending, 'note')}"
        elif done < chunks:
            stage = "meaning"
            line = (
                f"words are done: {counted(notes, 'note')}; meaning: {done:,} of {counted(chunks, 'passage')}"
            )
        elif notes:
            found = f"{counted(notes, 'note')}, {counted(done, 'passage')}"
            stage, line = "done", f"words and meaning are done: {found}"
        else:
            stage, line = "start", "listing the files of the vault"
        if stage == self._said and (stage == "done" or self._clock() - self._said_at < _LINE_SECONDS):
            return
        self._said, self._said_at = stage, self._clock()
        self._console.print(line, soft_wrap=True)
