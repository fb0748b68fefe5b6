"""Embed many texts by torch in a process that ends when it is idle: torch alone keeps half a gigabyte."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Literal

from pipelines.child import connected, start
from pipelines.embedding.embedder import Embedder, Vectors
from pipelines.embedding.models import ModelInfo
from pipelines.errors import BadVectorError, ChildDiedError
from pipelines.model import Precision

_IDLE_SECONDS = 60.0
_START_SECONDS = 300.0  # on a slow disk; nothing waits for it
# Of a request, which has few texts: what takes longer will not end. Each text adds a second.
_ANSWER_SECONDS = 120.0
_LOOK_SECONDS = 1.0
_END_SECONDS = 5.0
# Several slices of texts are computed at the same time, so that none waits while another is being stored.
_MOST_AT_ONCE = 4
_NICENESS = 10  # a question that is asked meanwhile comes first

Kind = Literal["documents", "queries"]


class TorchProcess:
    """A model that torch computes in a child process. Any thread may use it.

    `loaded` is None until it can embed, then its device and precision; `warning` is that of `Embedder`. When it has
    ended, `ended` says why, and `has_failed` whether it should not have: it ends by itself when it is idle.
    """

    def __init__(
        self, info: ModelInfo, *, idle_s: float = _IDLE_SECONDS, answer_s: float = _ANSWER_SECONDS
    ) -> None:
        """Start the process without waiting until it has loaded, which takes seconds. Raises OSError."""
        self.info = info
        self.loaded: tuple[str, Precision] | None = None
        self.warning: str | None = None
        self.ended: str | None = None
        self.has_failed = False
        self._failure: str | None = None
        self._answer_s = answer_s
        self._numbers = itertools.count(1)
        self._first: Future[Any] = Future()
        # By number: the answer, and until when it has to be there (monotonic).
        self._asked = {0: (self._first, time.monotonic() + _START_SECONDS)}
        self._changing, self._sending = threading.Lock(), threading.Lock()
        self._process, self._connection = start(__name__, str(idle_s))
        threading.Thread(target=self._receive, name="torch", daemon=True).start()
        self._send((0, info))

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def is_ready(self) -> bool:
        """Say whether it has loaded the model, and runs."""
        return self.loaded is not None and self.ended is None

    def wait_until_ready(self) -> None:
        """Wait until it has loaded the model. Raises ChildDiedError if it ends first."""
        self._first.result()

    def encode(self, kind: Kind, texts: Sequence[str], threads: int) -> Vectors:
        """Return the vectors of texts, with as many threads: shape (len(texts), dimension), unit length.

        Raises ChildDiedError if the process ends first or takes too long, BadVectorError if a text is the cause.
        """
        answer: Future[Vectors] = Future()
        number = next(self._numbers)
        with self._changing:
            if self.ended is not None:
                raise ChildDiedError(self.ended)
            self._asked[number] = answer, time.monotonic() + self._answer_s + len(texts)
        self._send((number, kind, list(texts), threads))
        return answer.result()

    def close(self) -> None:
        """End the process at once."""
        self._process.kill()

    def _send(self, question: tuple[Any, ...]) -> None:
        with self._sending, suppress(OSError):  # it has ended, which `_receive` sees, too
            self._connection.send(question)

    def _receive(self) -> None:
        """Hand over the answers until the process ends, or is ended because one is late."""
        reason = None
        try:
            while not self._is_late():
                if self._connection.poll(_LOOK_SECONDS):
                    self._take(*self._connection.recv())
            self._process.kill()
            reason = "it took too long, and was ended"
        except (EOFError, OSError):
            return  # it has ended
        finally:
            self._finish(reason)

    def _take(self, number: int, answer: Any) -> None:
        with self._changing:
            future, _ = self._asked.pop(number)
        if isinstance(answer, Exception):
            self._failure = str(answer) if isinstance(answer, ChildDiedError) else None
            future.set_exception(answer)
            return
        if number == 0:
            self.loaded, self.warning = answer
        future.set_result(answer)

    def _is_late(self) -> bool:
        with self._changing:
            return any(time.monotonic() > until for _, until in self._asked.values())

    def _finish(self, reason: str | None) -> None:
        """Tell all who wait that the process has ended."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        reason = reason or self._failure
        if reason is None:
            reason = "it was idle" if code == 0 else f"its process ended ({code}: out of memory, or a fault)"
        with self._changing:
            self.ended, self.has_failed = reason, code != 0
            waiting, self._asked = self._asked, {}
        for future, _ in waiting.values():
            future.set_exception(ChildDiedError(reason))
        self._connection.close()


# The process itself.


def main() -> None:
    """Load the model that is asked for, then embed what is asked, until idle or until the other side has ended."""
    connection, idle_s = connected(), float(sys.argv[2])
    os.nice(_NICENESS)
    number, info = connection.recv()
    try:
        embedder = Embedder(info, threads=1, library="torch")
    except Exception as error:  # noqa: BLE001 - the libraries have their own errors
        connection.send((number, ChildDiedError(f"{info.name} cannot be loaded in torch: {error}")))
        os._exit(1)
    connection.send((number, ((embedder.device, embedder.precision), embedder.warning)))
    sending = threading.Lock()

    def answer(number: int, kind: Kind, texts: Sequence[str], threads: int) -> None:
        embedder.use_threads(threads)
        encode = embedder.encode_documents if kind == "documents" else embedder.encode_queries
        found: Vectors | Exception
        try:
            found = encode(texts)
        except BadVectorError as error:
            found = error
        except Exception as error:  # noqa: BLE001 - likewise; its message may quote a note
            found = ChildDiedError(f"{info.name} failed in torch: {type(error).__name__}")
        with sending:
            connection.send((number, found))
            if isinstance(found, ChildDiedError):
                os._exit(1)  # the other side computes these texts itself

    pool = ThreadPoolExecutor(_MOST_AT_ONCE)
    running: list[Future[None]] = []
    # `os._exit`, because torch takes its time to leave, and what it computes is of no use any more.
    try:
        while connection.poll(idle_s) or running:
            running = [one for one in running if not one.done()]
            if connection.poll():
                running.append(pool.submit(answer, *connection.recv()))
    except (EOFError, OSError):
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
