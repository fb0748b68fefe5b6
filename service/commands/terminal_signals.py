"""Record the signals to a program that has changed its terminal, so that it can restore the terminal first."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(slots=True)
class Signals:
    """What was asked of the process, which has to restore the terminal first: to end by a signal, or to stop."""

    ended_by: int = 0
    suspending: bool = False


def suspend(signals: Signals) -> None:
    """Stop the process, as a terminal does by Ctrl-Z, until the shell continues it."""
    signals.suspending = False
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(0, signal.SIGTSTP)  # the process group: the shell waits for all of it
    signal.signal(signal.SIGTSTP, before)


@contextmanager
def woken_by(signals: Signals) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield a descriptor that is readable after a signal or a call of the function.

    SIGTERM, SIGHUP and SIGTSTP are recorded instead of ending or stopping the process.
    """
    # Never closed, because the thread that asks may still write when the user has left.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def wake() -> None:
        with suppress(BlockingIOError):  # a full pipe wakes, too
            os.write(writing, b".")

    def handle(number: int, _: object) -> None:
        if number == signal.SIGTSTP:
            signals.suspending = True
        elif number != signal.SIGWINCH:
            signals.ended_by = signals.ended_by or number

    heard = (signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGTSTP)
    before = {number: signal.signal(number, handle) for number in heard}
    # The system may deliver a signal to any thread. Python runs the handler in the main thread, which must wake up.
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading, wake
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
