"""Report failures of a process: every one in the log at once, a lasting one among the vault's problems."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pipelines.errors import EverindexError
from queue_config.logs import Trouble
from workers.resources import Resources

_LASTING_SECONDS = 8.0


@contextmanager
def model_reported(resources: Resources, role: str, is_loaded: Callable[[], bool]) -> Iterator[None]:
    """Report, until the models are loaded, that a process in this role cannot load them."""
    try:
        yield
    except EverindexError as error:
        message = (
            f"the embedding model cannot be used ({error}). Until then, notes are found by words only; it is retried"
            " every 30 s"
        )
        with suppress(EverindexError):
            resources.problems().report("model", role, message)
        raise
    if is_loaded():
        with suppress(EverindexError):
            resources.problems().clear("model", role)


class Complaint:
    """A failure of one part of a process; `part` names it for people and among the problems."""

    def __init__(self, resources: Resources, part: str) -> None:
        self._resources = resources
        self._part = part
        self._trouble = Trouble("a part of this process failed; it is retried", part=part)
        self._since: float | None = None
        self._cleared = False

    def met(self, reason: str) -> None:
        """Record that the failure happened; report it if it lasts."""
        self._trouble.met(reason)
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= _LASTING_SECONDS:
            self._cleared = False
            message = f"{self._part} fails and is retried: {reason}"
            with suppress(EverindexError):  # a full disk: status checks that themselves
                self._resources.problems().report("part", self._part, message)

    def over(self) -> None:
        """Record that there is no failure; this also clears a report from an earlier process."""
        self._trouble.over()
        self._since = None
        if not self._cleared:
            with suppress(EverindexError):
                self._resources.problems().clear("part", self._part)
                self._cleared = True
