"""Run our own code in separate processes, for work that blocks other threads for long or might crash the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from pipelines.errors import ApartStoppedError, ChildDiedError

_FOLDER = str(Path(__file__).parents[__name__.count(".")])
_LOOK_SECONDS = 2.0
_STOP_SECONDS = 0.2
_NICENESS = 10
_STOPPING = "the worker is stopping; unfinished work is done when it runs again"
_ENDED = (EOFError, OSError)
"""What a connection raises when the other side has ended, or this one closed it."""


def start(module: str, *given: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start one of our modules as a process; its first argument is the descriptor of its end of the connection.

    Raises OSError.
    """
    ours, theirs = Pipe()
    found = [_FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - our own module, in the Python that runs this
            # -P, because the current folder may be a vault, whose files must never run as code.
            [sys.executable, "-P", "-m", module, str(theirs.fileno()), *given],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # libraries print
            env=os.environ | {"PYTHONPATH": os.pathsep.join(found)},
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for the process that started it, which ends it
        )
    return process, ours


def connected() -> Connection:
    """Return the end of the connection that this process, which was started here, has."""
    # When memory runs out, this process is killed, not the one that started it.
    with suppress(OSError):  # Linux only
        Path("/proc/self/oom_score_adj").write_text("1000")
    return Connection(int(sys.argv[1]))


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
        process, connection = start(__name__, str(_NICENESS))
        with process, connection:
            try:
                _send(connection, function, given)
                self._wait(connection, beat)
                result = _received(process, connection)
            finally:
                process.kill()
        return _raised(result)

    def _wait(self, connection: Connection, beat: Callable[[float], None]) -> None:
        started = looked = time.monotonic()
        while not self._stopped.is_set():
            if connection.poll(_STOP_SECONDS):
                return
            if time.monotonic() - looked >= _LOOK_SECONDS:
                looked = time.monotonic()
                beat(looked - started)
        raise ApartStoppedError(_STOPPING)


class LastingChild:
    """Calls our own functions in one separate process, which stays for the next call until it is told to end.

    One thread calls; any thread may stop it permanently.
    """

    def __init__(self) -> None:
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._stopped = False

    @property
    def is_running(self) -> bool:
        """Say whether there is a process."""
        return self._child is not None

    def end(self) -> None:
        """End the process, if there is one; the next call starts another."""
        child, self._child = self._child, None
        if child is not None:
            process, connection = child
            process.kill()
            process.wait()
            connection.close()

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
            self._child = start(__name__, "0")  # `stop` may come now, so it is looked for afterwards
        process, connection = self._child
        if self._stopped:
            process.kill()
        try:
            _send(connection, function, given)
            result = _received(process, connection)
        except ChildDiedError:
            self.end()
            if self._stopped:
                raise ApartStoppedError(_STOPPING) from None
            raise
        return _raised(result)


def _send(connection: Connection, function: Callable[..., Any], given: Sequence[object]) -> None:
    with suppress(*_ENDED):  # `_received` says that it has ended
        connection.send((function, given))


def _received(process: subprocess.Popen[bytes], connection: Connection) -> Any:
    """Wait for the result of a process. Raises ChildDiedError."""
    try:
        return connection.recv()
    except _ENDED as error:
        code = process.wait()
        how = f" ({code}: out of memory, or a fault in a library)" if code else " without a result"
        raise ChildDiedError(f"its process ended{how}") from error


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
    """Call each function that comes through the connection; send its result, or its exception, back."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    connection = connected()
    os.nice(int(sys.argv[2]))
    with suppress(EOFError):
        while True:
            function, given = connection.recv()
            result: object
            try:
                result = function(*given)
            except Exception as error:  # noqa: BLE001 - the other side raises it
                result = error
            connection.send(result)


if __name__ == "__main__":
    main()
