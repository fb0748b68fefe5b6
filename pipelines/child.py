"""Calling a function in a process of its own: work that takes long, and lets other threads wait or might end them."""

from __future__ import annotations

import os
import pickle
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

_LOOK_SECONDS = 2.0
_STOP_SECONDS = 0.2
_NICENESS = 10


def _unheard(_seconds: float) -> None:
    """Take how long a call has taken, and do nothing."""


class Child:
    """Calls functions of ours, each in a process of its own. Any thread may stop it, for good."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the processes that there are, and start no other."""
        self._stopped.set()

    def call(
        self, function: Callable[..., Any], *given: object, beat: Callable[[float], None] = _unheard
    ) -> Any:
        """Return what a module's function returns; call `beat` with the seconds that it has taken, every two seconds.

        Raises ChildDiedError where the process ends without an answer, ApartStoppedError after `stop`, what the
        function raises, and what `beat` raises.
        """
        package = str(Path(__file__).parent.parent)
        found = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        # A file: `communicate` forgets what it has not sent when it is called again after a timeout.
        with tempfile.TemporaryFile() as question:
            pickle.dump((function, given), question)
            question.seek(0)
            with subprocess.Popen(
                # -P: the current folder may be a vault, and nothing in a vault is code.
                [sys.executable, "-P", "-m", "pipelines.child"],
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
        raise ApartStoppedError("the worker stops; what it had begun is done when it runs again")


def _result(code: int, answer: bytes) -> Any:
    if code:
        raise ChildDiedError(f"its process ended ({code}: memory, or a fault in a library)")
    try:
        result = pickle.loads(answer)  # noqa: S301 - our own child's, through a pipe that only we hold
    except (pickle.UnpicklingError, EOFError) as error:
        raise ChildDiedError("its process ended without a result") from error
    if isinstance(result, Exception):
        raise result
    return result


def _end_with(parent: int) -> None:
    """End this process when its parent has died: it may have minutes of work before it that is of no use."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def main() -> None:
    """Call the function that comes on standard input; write what it returns, or raises, to standard output."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    os.nice(_NICENESS)
    with suppress(OSError):  # Linux alone has it: where memory runs out, this process goes, not the worker
        Path("/proc/self/oom_score_adj").write_text("1000")
    function, given = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own parent's
    result: object
    try:
        result = function(*given)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent raises it
        result = error
    pickle.dump(result, sys.stdout.buffer)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
