"""Answer questions by several processes while many are asked: Python computes on one core in each.

The process that serves answers a question itself unless it has others to answer. When several have waited for a
second, it starts another process, which has its own connections, model and data in memory, and ends when it has been
idle for a minute.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar, cast

import structlog

from pipelines.child import connected, start
from pipelines.errors import ChildDiedError, EverindexError
from queue_config.logs import Trouble, configure
from queue_config.settings import Settings
from service.usecases.audience import OWNER, Audience
from service.usecases.context import Contexts
from service.usecases.search import Call, View
from workers.resources import Resources

IDLE_SECONDS = 60.0
"""How long a process waits for the next question before it ends."""
_AT_ONCE = 2  # questions that a process has, so that the next is there when one is answered
_MANY_WAIT = 2
_CROWDED_SECONDS = 1.0
_MOST_PROCESSES = 4  # besides the one that serves, whose own part of each answer is a fifth of the work
_START_SECONDS = 300.0  # 200,000 passages are read into memory in 112 s
_ANSWER_SECONDS = 120.0
_AGAIN_SECONDS = 60.0
# How often any process that answers follows commits, looks for models to load, and compares what it holds in memory.
FOLLOW_SECONDS, MODELS_SECONDS, COMPARE_SECONDS = 0.05, 0.5, 10.0
# Threads that only hand questions over would wait for Python's lock for the usual 5 ms, while a process is idle.
_SWITCH_SECONDS = 0.0005

log = structlog.get_logger()

Answer = TypeVar("Answer")


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class AnsweringProcess:
    """A child process that answers one question after another."""

    def __init__(self, settings: Settings, idle_s: float) -> None:
        """Start it, without waiting until it can answer, which takes seconds. Raises OSError."""
        self._process, self._connection = start(__name__, str(idle_s))
        self._sending = threading.Lock()
        self._ready: Future[Any] = Future()
        self._asked = deque([self._ready])
        self._has_ended = False
        with suppress(OSError):
            self._connection.send(settings)
        self._receiving = threading.Thread(target=self._hand_over, name="answers", daemon=True)
        self._receiving.start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Wait until it can answer as fast as this process. Raises ChildDiedError."""
        self._result(self._ready, _START_SECONDS)

    def ask(self, asked: Call) -> tuple[Any, dict[str, float]] | None:
        """Return the answer and the seconds of its stages; None where there is an error instead.

        Several threads may ask; the questions are answered in turn. Raises ChildDiedError.
        """
        answer: Future[Any] = Future()
        with self._sending:
            self._asked.append(answer)
            try:
                self._connection.send(asked)
            except OSError:
                pass  # it has ended, and `_hand_over` says so
            except Exception:
                self._asked.pop()
                raise
            if self._has_ended:
                self._give_up()
        found: tuple[Any, dict[str, float]] | None = self._result(answer, _ANSWER_SECONDS)
        return found

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._receiving.join()
        self._process.wait()

    def end(self) -> None:
        """End the process at once."""
        self._process.kill()

    def _hand_over(self) -> None:
        """Hand the answers over to those who wait for them, until the process ends."""
        with suppress(EOFError, OSError):
            while True:
                message = self._connection.recv()
                self._asked.popleft().set_result(message)
        self._process.kill()  # it may have closed its pipe only
        with self._sending:
            self._has_ended = True
            self._give_up()

    def _give_up(self) -> None:
        while self._asked:
            self._asked.popleft().set_exception(ChildDiedError("a process that answers questions ended"))

    @staticmethod
    def _result(answer: Future[Any], seconds: float) -> Any:
        try:
            return answer.result(seconds)
        except TimeoutError:
            raise ChildDiedError(f"a process that answers questions took more than {seconds:g} s") from None


class Answerers:
    """Shares the questions to a view out, first come first served, among this process and others that it starts."""

    def __init__(self, view: View, *, most: int | None = None, idle_s: float = IDLE_SECONDS) -> None:
        self._view = view
        self._most = min(usable_cores() - 1, _MOST_PROCESSES) if most is None else most
        self._idle_s = idle_s
        self._changing = threading.Lock()
        self._free: deque[AnsweringProcess | None] = deque([None])
        """Who is free to answer; None is this process, and comes first."""
        self._waiting: deque[SimpleQueue[AnsweringProcess | None]] = deque()
        self._crowded_since: float | None = None
        self._processes: set[AnsweringProcess] = set()
        self._starts_again = 0.0
        self._is_starting = self._is_closed = False
        if self._most:
            sys.setswitchinterval(_SWITCH_SECONDS)

    @property
    def pids(self) -> list[int]:
        """The ids of the other processes that answer, or begin to."""
        return [process.pid for process in self._processes]

    def answer(self, asked: Call, here: Callable[[], Answer]) -> Answer:
        """Return the answer of the process that is free first.

        This process answers by `here`, also after another one that failed. Raises what `here` raises.
        """
        process = self._take()
        if process is None:
            try:
                return here()
            finally:
                self._give(None)
        is_usable, found = False, None
        try:
            found = process.ask(asked)
            is_usable = True
        except ChildDiedError as error:
            log.warning("a question is asked again", reason=str(error))
        finally:
            if is_usable:
                self._give(process)
            else:
                process.end()
        if found is None:
            return here()  # without waiting a second time
        answer, seconds = found
        for stage, spent in seconds.items():
            self._view.observe(stage, spent)
        return cast("Answer", answer)

    def close(self) -> None:
        """End the other processes."""
        with self._changing:
            self._is_closed = True
            for process in self._processes:
                process.end()

    def _take(self) -> AnsweringProcess | None:
        with self._changing:
            if self._free:
                return self._free.popleft()
            turn: SimpleQueue[AnsweringProcess | None] = SimpleQueue()
            self._waiting.append(turn)
            if self._needs_another():
                self._is_starting = True
                threading.Thread(target=self._keep_another, name="answering", daemon=True).start()
        return turn.get()

    def _give(self, process: AnsweringProcess | None) -> None:
        with self._changing:
            if self._waiting:
                self._waiting.popleft().put(process)
            elif process is None:
                self._free.appendleft(None)
            else:
                self._free.append(process)
            if len(self._waiting) < _MANY_WAIT:
                self._crowded_since = None

    def _needs_another(self) -> bool:
        """Say whether several questions have waited for a while and another process may answer."""
        now = time.monotonic()
        if len(self._waiting) >= _MANY_WAIT and self._crowded_since is None:
            self._crowded_since = now
        return (
            self._crowded_since is not None
            and now - self._crowded_since >= _CROWDED_SECONDS
            and now >= self._starts_again
            and len(self._processes) < self._most
            and not (self._is_starting or self._is_closed)
        )

    def _keep_another(self) -> None:
        """Start a process, and share questions out to it until it ends."""
        process = None
        try:
            process = AnsweringProcess(self._view.resources.settings, self._idle_s)
            with self._changing:
                self._processes.add(process)
                if self._is_closed:
                    process.end()
            process.wait_until_ready()
        except (OSError, ChildDiedError) as error:
            self._starts_again = time.monotonic() + _AGAIN_SECONDS
            if not self._is_closed:
                log.warning("questions are answered by fewer processes", reason=str(error))
            if process:
                process.end()
        else:
            for _ in range(_AT_ONCE):
                self._give(process)
        finally:
            self._is_starting = False
        if process:
            process.wait()
            with self._changing:
                self._processes.discard(process)
                self._free = deque(one for one in self._free if one is not process)


# What runs in the other process.


def _memory_is_full(view: View, connection: Connection) -> bool:
    """Load models and read what questions need into memory; false when the process that serves has ended."""
    view.load_models()
    while not view.follow_commits():
        if connection.poll():
            return False
    return True


def _answer(view: View, contexts: Mapping[bool, Contexts], asked: Call) -> Any:
    """Return the answer to a question."""
    if asked.what == "context":
        return contexts[asked.is_owner].ask(asked.question, **asked.given)
    own = view if asked.is_owner else view.seen_by(Audience(view.resources))
    return own.search(asked.question, **asked.given)


def _keep_up(view: View, done: dict[Callable[[], object], float]) -> None:
    """Take in what was committed; now and then load models of other indexes, and compare what is held in memory."""
    for work, pause in (
        (view.load_models, MODELS_SECONDS),
        (view.follow_commits, 0.0),
        (view.check_memory, COMPARE_SECONDS),
    ):
        if time.monotonic() - done.get(work, 0.0) >= pause:
            done[work] = time.monotonic()
            work()


def _serve(connection: Connection, settings: Settings, idle_s: float) -> None:
    view = View(Resources(settings, create=False))
    seconds: dict[str, float] = {}
    view.observe = seconds.__setitem__
    if not _memory_is_full(view, connection):
        return
    contexts = {True: Contexts(view, OWNER), False: Contexts(view, Audience(view.resources))}
    connection.send("ready")
    trouble, asked_at = Trouble("questions are answered from the file"), time.monotonic()
    done: dict[Callable[[], object], float] = {}
    while time.monotonic() - asked_at < idle_s:
        is_asked = connection.poll(FOLLOW_SECONDS)
        try:
            _keep_up(view, done)  # before a question, too: it finds what was committed before it was asked
            trouble.over()
        except (EverindexError, OSError) as error:
            trouble.met(str(error))
        if is_asked:
            asked_at = time.monotonic()
            asked = connection.recv()
            seconds.clear()
            try:
                answer = _answer(view, contexts, asked), dict(seconds)
            except Exception:  # noqa: BLE001 - the process that serves raises it when it answers itself
                answer = None
            connection.send(answer)


def main() -> None:
    """Answer the questions that come through a pipe, until none has come for a while or the pipe is closed."""
    configure("query")
    connection = connected()
    with suppress(EOFError, ConnectionError):
        _serve(connection, connection.recv(), float(sys.argv[2]))


if __name__ == "__main__":
    main()
