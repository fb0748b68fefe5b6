"""Call a function in a separate process, for work that blocks other threads for long or might crash the process."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from pipelines.errors import ApartStoppedError, ChildDiedError

_FOLDER = str(Path(__file__).parents[__name__.count(".")])
_LOOK_SECONDS = 2.0
_STOP_SECONDS = 0.2
_NICENESS = 10
_STOPPING = "the worker is stopping; unfinished work is done when it runs again"


def unheard(_seconds: float) -> None:
    """Ignore the seconds spent so far."""


class Child:
    """Calls our own functions, each in a separate process. Any thread may stop it permanently."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the running processes, and start no others."""
        self._stopped.set()

    def call(
        self, function: Callable[..., Any], *given: object, beat: Callable[[float], None] = unheard
    ) -> Any:
        """Return the result of a module-level function; every two seconds call `beat` with the seconds spent so far.

        Raises ChildDiedError if the process ends without a result, ApartStoppedError after `stop`, and whatever the
        function or `beat` raises.
        """
        # A file, because `communicate` loses unsent input when it is called again after a timeout.
        with tempfile.TemporaryFile() as question:
            pickle.dump((function, given), question)
            question.seek(0)
            with _started(question, _NICENESS) as child:
                try:
                    answer = self._wait(child, beat)
                finally:
                    child.kill()
        return _result(child.returncode, answer)

    def _wait(self, child: subprocess.Popen[bytes], beat: Callable[[float], None]) -> bytes:
        started = looked = time.monotonic()
        while not self._stopped.is_set():
            with suppress(subprocess.TimeoutExpired):
                return child.communicate(timeout=_STOP_SECONDS)[0]
            if time.monotonic() - looked >= _LOOK_SECONDS:
                looked = time.monotonic()
                beat(looked - started)
        raise ApartStoppedError(_STOPPING)


class LastingChild:
    """Calls our own functions in one separate process, which stays for the next call until it is told to end.

    One thread calls; any thread may stop it permanently.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    @property
    def is_running(self) -> bool:
        """Say whether there is a process."""
        return self._child is not None

    def end(self) -> None:
        """End the process, if there is one; the next call starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def stop(self) -> None:
        """End the process, and start no other."""
        self._stopped = True
        self.end()

    def call(self, function: Callable[..., Any], *given: object) -> Any:
        """Return the result of a module-level function.

        Raises ChildDiedError if the process ends without a result, ApartStoppedError after `stop`, and whatever the
        function raises.
        """
        if self._child is None:
            self._child = _started(subprocess.PIPE, 0)  # `stop` may come now, so it is looked for afterwards
        questions = cast("IO[bytes]", self._child.stdin)
        answers = cast("IO[bytes]", self._child.stdout)
        try:
            if self._stopped:
                raise BrokenPipeError
            pickle.dump((function, given), questions, pickle.HIGHEST_PROTOCOL)
            questions.flush()
            result = pickle.load(answers)  # noqa: S301 - from our own child, through a private pipe
        except (
            OSError,
            ValueError,
            EOFError,
            pickle.UnpicklingError,
        ) as error:  # ValueError: `stop` closed them
            self.end()
            if self._stopped:
                raise ApartStoppedError(_STOPPING) from error
            raise ChildDiedError("its process ended without a result") from error
        return _raised(result)


def _started(stdin: IO[bytes] | int, niceness: int) -> subprocess.Popen[bytes]:
    """Start this module as a process that answers what it reads from `stdin`."""
    found = [_FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(  # noqa: S603 - our own module, in the Python that runs this
        # -P, because the current folder may be a vault, whose files must never run as code.
        [sys.executable, "-P", "-m", __name__, str(niceness)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(found)},
    )


def _result(code: int, answer: bytes) -> Any:
    if code:
        raise ChildDiedError(f"its process ended ({code}: out of memory, or a fault in a library)")
    try:
        result = pickle.loads(answer)  # noqa: S301 - from our own child, through a private pipe
    except (pickle.UnpicklingError, EOFError) as error:
        raise ChildDiedError("its process ended without a result") from error
    return _raised(result)


def _raised(result: Any) -> Any:
    if isinstance(result, Exception):
        raise result
    return result


def _end_with(parent: int) -> None:
    """End this process when its parent has died, because minutes of work may remain that are of no use."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def main() -> None:
    """Call each function read from standard input; write its result, or its exception, to standard output."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # Ctrl-C in a terminal is for the parent, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(int(sys.argv[1]))
    with suppress(OSError):  # Linux only: when memory runs out, this process is killed, not the worker
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(EOFError):
        while True:
            function, given = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
            result: object
            try:
                result = function(*given)
            except Exception as error:  # noqa: BLE001 - the parent raises it
                result = error
            pickle.dump(result, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
