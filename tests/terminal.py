"""A program on a real pseudo-terminal, with methods that read and type."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PATIENCE = 120.0
_ENTERS, _LEAVES = "\x1b[?1049h", "\x1b[?1049l"  # another screen, and back to the first one
_HIDES, _SHOWS = "\x1b[?25l", "\x1b[?25h"  # the cursor
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|.)")


class Terminal:
    """A pseudo-terminal of 24 lines and 80 columns in which a program runs."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._before = termios.tcgetattr(self._theirs)
        self._data = b""
        self._process = subprocess.Popen(
            command,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=dict(environment or os.environ) | {"TERM": "xterm-256color"},
            start_new_session=True,
        )

    @property
    def raw(self) -> str:
        """All that the program wrote."""
        return self._data.decode("utf-8", "replace")

    @property
    def said(self) -> str:
        """The text that the program wrote."""
        return _SEQUENCE.sub("", self.raw)

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as the program found it: its modes, its screen and its cursor."""
        self._read(0)  # the program may have written more since the last read
        cursor = self.raw.rfind(_SHOWS) >= self.raw.rfind(_HIDES)
        return termios.tcgetattr(self._theirs) == self._before and self._is_on_the_first_screen and cursor

    @property
    def _is_on_the_first_screen(self) -> bool:
        return self.raw.rfind(_LEAVES) >= self.raw.rfind(_ENTERS)

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self._ours, keys.encode())

    def until(self, text: str) -> None:
        """Read until the program has written a text."""
        self._wait(lambda: text in self.said, f"{text!r}")

    def until_file(self, file: Path) -> None:
        """Read until a file exists."""
        self._wait(file.exists, str(file))

    def until_taken(self) -> None:
        """Read until the program shows another screen than the one that it found."""
        self._wait(lambda: not self._is_on_the_first_screen, "the other screen")

    def ended(self) -> int:
        """Read until the program has ended, and return its exit code."""
        self._wait(lambda: self._process.poll() is not None, "the end of the program", runs=False)
        self._read(0)
        return int(self._process.returncode)

    def send_signal(self, number: int) -> None:
        """Send the program a signal."""
        self._process.send_signal(number)

    def close(self) -> None:
        """End the program and close the terminal."""
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def _wait(self, condition: Callable[[], bool], what: str, *, runs: bool = True) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}, only {self.said!r}"
            assert not runs or self._process.poll() is None, f"it ended before {what}: {self.said!r}"
            self._read(0.05)

    def _read(self, seconds: float) -> None:
        poll = select.poll()  # `select` knows no descriptor above 1,023, and a run of all tests has them
        poll.register(self._ours, select.POLLIN)
        while poll.poll(seconds * 1_000):
            self._data += os.read(self._ours, 65_536)
            seconds = 0
