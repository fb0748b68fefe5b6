"""Keys as a terminal sends them, one at a time, and the terminal's state before and after."""

from __future__ import annotations

import codecs
import re
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto

_INPUT_FLAGS, _LOCAL_FLAGS = 0, 3  # the places of `c_iflag` and `c_lflag` in what `tcgetattr` returns


class Key(Enum):
    """The keys that are not text."""

    UP = auto()
    DOWN = auto()
    ENTER = auto()
    BACKSPACE = auto()
    DELETE_WORD = auto()
    DELETE_ALL = auto()
    ESCAPE = auto()
    INTERRUPT = auto()
    SUSPEND = auto()


# A cursor key is sent as `ESC [ A` or `ESC O A`, depending on the terminal's mode.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_KEYS = {
    **dict.fromkeys(("\x1b[A", "\x1bOA", "\x10"), Key.UP),  # also Ctrl-P
    **dict.fromkeys(("\x1b[B", "\x1bOB", "\x0e"), Key.DOWN),  # also Ctrl-N
    **dict.fromkeys(("\r", "\n"), Key.ENTER),
    **dict.fromkeys(("\x7f", "\b"), Key.BACKSPACE),
    "\x17": Key.DELETE_WORD,  # Ctrl-W and Ctrl-U delete in every shell
    "\x15": Key.DELETE_ALL,
    **dict.fromkeys(("\x1b", "\x04"), Key.ESCAPE),  # also Ctrl-D
    "\x03": Key.INTERRUPT,
    "\x1a": Key.SUSPEND,
}


class Keys:
    """Decodes the bytes of a terminal into keys; a key may arrive in several parts."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> Iterator[Key | str]:
        """Yield the keys, and the characters that were typed; other control characters are dropped."""
        text = self._rest + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        self._rest = text[unfinished.start() :] if unfinished else ""
        for found in _SEQUENCE.findall(text[: len(text) - len(self._rest)]):
            if (key := _KEYS.get(found)) or found.isprintable():
                yield key or found

    @property
    def waiting(self) -> bool:
        """Whether the last bytes are the Escape key, or the beginning of another key."""
        return bool(self._rest)

    def give_up(self) -> Iterator[Key]:
        """Yield the Escape key if nothing followed its byte in time."""
        if self._rest:
            self._rest = ""
            yield Key.ESCAPE


@contextmanager
def single_keys(terminal: int) -> Iterator[None]:
    """Let a terminal send each key at once and unseen, Ctrl-C and Ctrl-Z included; restore its state afterwards."""
    before = termios.tcgetattr(terminal)
    now = termios.tcgetattr(terminal)
    now[_INPUT_FLAGS] &= ~termios.IXON  # Ctrl-S would stop the output, and with it the process that writes
    now[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, now)
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSANOW, before)
