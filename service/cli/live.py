"""Search as you type, on a terminal."""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from io import TextIOWrapper
from queue import SimpleQueue
from typing import Any, TextIO

from rich.console import Group
from rich.live import Live
from rich.text import Text

from pipelines.errors import EverindexError
from queue_config.visible import visible
from service.cli.console import out
from service.cli.render import about, line_of, section_of, shown_hits, where_of

# Keys as a terminal sends them, one at a time, and the terminal's state before and after.


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


class KeyDecoder:
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


# Record the signals to a program that has changed its terminal, so that it can restore the terminal first.


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


_PAUSE_SECONDS = 0.15
"""A question is asked when no key was pressed for this time."""
_ESCAPE_SECONDS = 0.05
"""An Escape byte without a successor for this time is the Escape key, not the beginning of another."""
_LINES_PER_HIT = 3
_LINES_AROUND = 4
_LEAVE_SCREEN = b"\x1b[?25h\x1b[?1049l"  # show the cursor, and return to the first screen
_MARKS = "▏▸›…↑↓"
_HELP = "↑ ↓ select   Enter opens the note   Esc leaves"

Ask = Callable[[str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _LiveAnswer:
    question: str
    hits: list[dict[str, Any]]
    about: str


def can_be_shown(encoding: str) -> bool:
    """Say whether a terminal with this encoding shows the marks of the search."""
    try:
        _MARKS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def choose_note(ask: Ask, *, every: bool) -> tuple[str, int] | None:
    """Let the user search and choose a note; return its path and line, or None without one.

    `ask` returns the service's answer to a question; `every` shows all of its hits. Ctrl-Z and SIGTSTP suspend the
    process. Raises KeyboardInterrupt for Ctrl-C, SystemExit for SIGTERM and SIGHUP, and what `ask` raises besides
    EverindexError. The terminal is restored before each of these.
    """
    signals = Signals()
    with woken_by(signals) as (wakes, wake):
        session = _Session(_Asker(ask, wake, every=every), wakes, signals)
        while True:
            with (
                single_keys(sys.stdin.fileno()),
                _left_as_found(sys.stdout),
                Live(
                    console=out, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
                ) as live,
            ):
                chosen = session.run(live)
            if not signals.suspending:
                break
            suspend(signals)
    if signals.ended_by:
        sys.exit(128 + signals.ended_by)
    return chosen


@contextmanager
def _left_as_found(output: TextIO) -> Iterator[None]:
    """Replace characters that the terminal's encoding lacks; leave its second screen even where rich fails to."""
    assert isinstance(output, TextIOWrapper)  # noqa: S101  (a terminal's)
    errors = output.errors
    output.reconfigure(errors="replace")
    try:
        yield
    finally:
        output.reconfigure(errors=errors)
        with suppress(OSError):  # the terminal may be gone
            os.write(output.fileno(), _LEAVE_SCREEN)


class _Asker:
    """Asks in a thread of its own, only the newest question of those that wait."""

    def __init__(self, ask: Ask, wake: Callable[[], None], *, every: bool) -> None:
        self._ask, self._wake, self._every = ask, wake, every
        self._wanted: SimpleQueue[str] = SimpleQueue()
        self.answers: SimpleQueue[_LiveAnswer | Exception] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def want(self, question: str) -> None:
        """Ask this question next, in place of one that was not asked yet."""
        self._wanted.put(question)

    def _work(self) -> None:
        while True:
            question = self._wanted.get()
            while not self._wanted.empty():
                question = self._wanted.get()
            try:
                self.answers.put(self._answer(question))
            except Exception as error:  # noqa: BLE001 - it is raised again in the main thread
                self.answers.put(error)
            self._wake()

    def _answer(self, question: str) -> _LiveAnswer:
        try:
            answer = self._ask(question)
        except EverindexError as error:
            return _LiveAnswer(question, [], str(error))
        hits = shown_hits(answer, every=self._every)
        return _LiveAnswer(question, hits, about(answer, len(hits)))


class _Session:
    """What was typed, what was answered, and which hit is selected."""

    def __init__(self, asker: _Asker, wakes: int, signals: Signals) -> None:
        self._asker, self._wakes, self._signals = asker, wakes, signals
        self._keys = KeyDecoder()
        self._typed = ""
        self._asked: str | None = ""
        self._typed_at = 0.0
        self._answer = _LiveAnswer("", [], "")
        self._selected = 0

    def run(self, live: Live) -> tuple[str, int] | None:
        """Return the chosen note's path and line, or None; it goes on when called again. Raises KeyboardInterrupt."""
        terminal = sys.stdin.fileno()
        while not self._signals.ended_by and not self._signals.suspending:
            live.update(self._view(*live.console.size), refresh=True)
            ready, _, _ = select.select([terminal, self._wakes], [], [], self._patience())
            if self._wakes in ready:
                os.read(self._wakes, 1_024)
                self._take_answers()
            if terminal in ready and not (data := os.read(terminal, 1_024)):
                return None
            pressed = self._keys.feed(data) if terminal in ready else () if ready else self._keys.give_up()
            for key in pressed:
                if key is Key.ESCAPE:
                    return None
                if key is Key.ENTER and (hit := self._chosen()):
                    return hit["path"], line_of(hit)
                self._press(key)
            self._ask_after_pause()
        return None

    def _patience(self) -> float | None:
        """Return how long to wait for a key, in seconds; None: until there is one."""
        if self._keys.waiting:
            return _ESCAPE_SECONDS
        if self._question == self._asked:
            return None
        return max(0.0, self._typed_at + _PAUSE_SECONDS - time.monotonic())

    @property
    def _question(self) -> str:
        return self._typed.strip()

    def _press(self, key: Key | str) -> None:
        if key is Key.INTERRUPT:
            raise KeyboardInterrupt
        if key is Key.SUSPEND:
            self._signals.suspending = True
        if key in (Key.UP, Key.DOWN):
            step = 1 if key is Key.DOWN else -1
            self._selected = max(0, min(self._selected + step, len(self._answer.hits) - 1))
            return
        before = self._question
        if isinstance(key, str):
            self._typed += key
        elif key is Key.BACKSPACE:
            self._typed = self._typed[:-1]
        elif key is Key.DELETE_WORD:
            self._typed = self._typed.rstrip().rpartition(" ")[0]
            self._typed += " " if self._typed else ""
        elif key is Key.DELETE_ALL:
            self._typed = ""
        if self._question != before:
            self._typed_at = time.monotonic()

    def _ask_after_pause(self) -> None:
        if self._question == self._asked or time.monotonic() < self._typed_at + _PAUSE_SECONDS:
            return
        self._asked = self._question
        if self._question:
            self._asker.want(self._question)
        else:
            self._answer, self._selected = _LiveAnswer("", [], ""), 0

    def _take_answers(self) -> None:
        while not self._asker.answers.empty():
            answer = self._asker.answers.get()
            if isinstance(answer, Exception):
                raise answer
            if answer.question == self._question:
                self._answer, self._selected = answer, 0
            elif answer.question == self._asked:
                self._asked = None  # dropped, so it has to be asked again if the user returns to it

    def _chosen(self) -> dict[str, Any] | None:
        """Return the selected hit, but none of an answer to what was typed earlier."""
        if self._answer.question != self._question or not self._answer.hits:
            return None
        return self._answer.hits[self._selected]

    def _view(self, width: int, height: int) -> Group:
        """Return the screen: the question, as many hits as fit around the selected one, and what to press."""
        fitting = max(1, (height - _LINES_AROUND) // _LINES_PER_HIT)
        first = max(0, min(self._selected - fitting // 2, len(self._answer.hits) - fitting))
        lines = [
            Text("Search: ", "dim").append(visible(self._typed)[-max(1, width - 10) :], "bold").append("▏")
        ]
        answered = self._answer.question == self._question
        lines.append(Text(visible(self._answer.about) if answered else "…", "dim"))
        for number, hit in enumerate(self._answer.hits[first : first + fitting], start=first):
            lines += _hit_lines(hit, selected=number == self._selected)
        lines += [Text(), Text(_HELP, "dim")]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)


def _hit_lines(hit: dict[str, Any], *, selected: bool) -> list[Text]:
    """Return the lines of a hit, escaped here already: the console would make a line longer than the screen."""
    head = Text("▸ " if selected else "  ", "bold green")
    head.append(_line(hit["title"]), "bold reverse" if selected else "bold")
    if section := section_of(hit):
        head.append(f" › {_line(section)}")
    where = Text(f"    {_line(where_of(hit))}", "cyan")
    excerpt, at = Text("    "), 0
    for start, end in hit["marks"]:
        excerpt.append(_line(hit["excerpt"][at:start])).append(
            _line(hit["excerpt"][start:end]), "bold yellow"
        )
        at = end
    return [head, where, excerpt.append(_line(hit["excerpt"][at:]))]


def _line(text: str) -> str:
    return visible(text.replace("\n", " ").replace("\t", " "))
