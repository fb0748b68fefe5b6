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
from typing import Any

from pipelines.errors import ApartStoppedError, ChildDiedError

_FOLDER = str(Path(__file__).parents[__name__.count(".")])
_LOOK_SECONDS = 2.0
_STOP_SECONDS = 0.2
_NICENESS = 10


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
        found = [_FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
        # A file, because `communicate` loses unsent input when it is called again after a timeout.
        with tempfile.TemporaryFile() as question:
            pickle.dump((function, given), question)
            question.seek(0)
            with subprocess.Popen(  # noqa: S603 - our own module, in the Python that runs this
                # -P, because the current folder may be a vault, whose files must never run as code.
                [sys.executable, "-P", "-m", __name__],
                stdin=question,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(found)},
            ) as child:
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
        raise ApartStoppedError("the worker is stopping; unfinished work is done when it runs again")


def _result(code: int, answer: bytes) -> Any:
    if code:
        raise ChildDiedError(f"its process ended ({code}: out of memory, or a fault in a library)")
    try:
        result = pickle.loads(answer)  # noqa: S301 - from our own child, through a private pipe
    except (pickle.UnpicklingError, EOFError) as error:
        raise ChildDiedError("its process ended without a result") from error
    if isinstance(result, Exception):
        raise result
    return result


def _end_with(parent: int) -> None:
    """End this process when its parent has died, because minutes of work may remain that are of no use."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def main() -> None:
    """Call the function read from standard input; write its result, or its exception, to standard output."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C in a terminal is for the parent, which ends this process
    os.nice(_NICENESS)
    with suppress(OSError):  # Linux only: when memory runs out, this process is killed, not the worker
        Path("/proc/self/oom_score_adj").write_text("1000")
    function, given = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
    result: object
    try:
        result = function(*given)
    except Exception as error:  # noqa: BLE001 - the parent raises it
        result = error
    pickle.dump(result, sys.stdout.buffer)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
