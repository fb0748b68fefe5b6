"""Match the patterns of a `.gitignore` in linear time: one step per character of a name, whatever the patterns are.

Patterns without wildcards are looked up. All others in a file run in parallel as one automaton whose states are bits
of an integer (Baeza-Yates and Gonnet, "A new approach to text searching", 1992); transitions are cached.
"""

from __future__ import annotations

import unicodedata
from array import array
from dataclasses import dataclass, field

from pipelines.disk.glob_syntax import FOLDERS, ONE, REST, SOME_FOLDERS, SPECIAL, STAR, Item, Takes, items_of

MOST_WILDCARD_CHARACTERS = 20_000
"""Upper bound on the total length of one file's patterns with wildcards."""
_MOST_SHOWN = 200  # characters of a pattern
_MOST_STATES = _MOST_LETTERS = 500
_MOST_STEPS = 20_000


class _State:
    """A set of places in the patterns, and the state after each character met so far."""

    __slots__ = ("after", "places")

    def __init__(self, places: int) -> None:
        self.places = places
        self.after: dict[str, _State] = {}


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern as it is written in a rule file, for people to read, and its line (from 1)."""

    line: int
    pattern: str


@dataclass(slots=True)
class Globs:
    """The patterns of one rule file, in order.

    `refused` is the number of the first line (from 1) beyond the limit, or None; `size` is the total length of the
    patterns with wildcards.
    """

    refused: int | None = None
    size: int = 0
    _plain: dict[str, int] = field(default_factory=dict)
    _plain_folders: dict[str, int] = field(default_factory=dict)
    _ignores: list[bool] = field(default_factory=list)
    _automaton: _Automaton | None = None
    # A file may have half a million patterns: they are looked up in its text only when needed.
    _text: str = ""
    _line_numbers: array[int] = field(default_factory=lambda: array("L"))

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Say whether the last pattern that matches exactly this path ignores it; None if no pattern matches.

        `path` is relative to the rule file's folder. Its parent folders are not considered.
        """
        last = self._last(path, is_folder=is_folder)
        return self._ignores[last] if last >= 0 else None

    def ignoring(self, path: str, *, is_folder: bool) -> Rule | None:
        """Return the rule by which `verdict` says that this path is ignored; None if it does not say so."""
        last = self._last(path, is_folder=is_folder)
        if last < 0 or not self._ignores[last]:
            return None
        number = self._line_numbers[last]
        pattern = _pattern_of(self._text.split("\n", number)[number - 1])
        shown = pattern if len(pattern) <= _MOST_SHOWN else f"{pattern[:_MOST_SHOWN]}…"
        return Rule(number, shown.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))

    def _last(self, path: str, *, is_folder: bool) -> int:
        last = self._automaton.last(path, is_folder=is_folder) if self._automaton else -1
        for known in (self._plain, self._plain_folders) if is_folder else (self._plain,):
            if known:
                last = max(last, known.get(path.rpartition("/")[2], -1), known.get("/" + path, -1))
        return last


def read_globs(text: str) -> Globs:
    """Parse the text of a rule file as git does; a pattern that git cannot use never matches."""
    found = Globs(_text=text.removeprefix("\ufeff"))
    automaton = _Automaton()
    for line_number, line in enumerate(found._text.split("\n"), 1):  # noqa: SLF001 - this function creates it
        pattern = _pattern_of(line)
        if not pattern or pattern.startswith("#"):
            continue
        ignores = not pattern.startswith("!")
        pattern = unicodedata.normalize("NFC", pattern if ignores else pattern[1:])
        folders_only = pattern.endswith("/")
        pattern = pattern.removesuffix("/")
        number = len(found._ignores)  # noqa: SLF001 - likewise
        if SPECIAL.isdisjoint(pattern):
            known = found._plain_folders if folders_only else found._plain  # noqa: SLF001 - likewise
            known["/" + pattern.removeprefix("/") if "/" in pattern else pattern] = number
        else:
            if found.size + len(pattern) > MOST_WILDCARD_CHARACTERS:
                found.refused = line_number
                break
            found.size += len(pattern)
            items = items_of(pattern)
            if items is None:
                continue
            automaton.add(items, number, folders_only=folders_only)
        found._ignores.append(ignores)  # noqa: SLF001 - likewise
        found._line_numbers.append(line_number)  # noqa: SLF001 - likewise
    if automaton.size:
        automaton.begin()
        found._automaton = automaton  # noqa: SLF001 - likewise
    return found


def _pattern_of(line: str) -> str:
    return _trimmed(line.removesuffix("\r").partition("\0")[0])


def _trimmed(line: str) -> str:
    """Remove trailing spaces, except for one after a backslash."""
    plain = line.rstrip(" ")
    if plain == line:
        return line
    escapes = len(plain) - len(plain.rstrip("\\"))
    return plain + " " if escapes % 2 else plain


class _Automaton:
    """All patterns with wildcards in parallel. A place is a bit: how far a pattern has matched.

    A character advances places (`moves`) or leaves them where they are (`stays`). The end of each pattern is a place,
    too, after its last item. Later patterns have higher bits.
    """

    def __init__(self) -> None:
        self.size = 0
        self._first = 0
        self._stars = 0  # can be skipped without a character, at any time
        self._folders = 0  # can be skipped without a character when they are reached
        self._stay_in_name = 0
        self._stay_always = 0
        self._any_in_name = 0
        self._slashes = 0
        self._letters: dict[str, int] = {}
        self._sets: list[tuple[Takes, int]] = []
        self._ends = 0
        self._ends_of_files = 0
        self._numbers: dict[int, int] = {}
        self._moves: dict[str, int] = {}
        self._states: dict[int, _State] = {}
        self._steps = 0
        self._start = _State(0)

    def add(self, items: list[Item], number: int, *, folders_only: bool) -> None:
        """Add a pattern after the others; a match returns its number."""
        self._first |= 1 << self.size
        for item in items:
            bit = 1 << self.size
            if item.kind == STAR:
                self._stars |= bit
                self._stay_in_name |= bit
            elif item.kind in (FOLDERS, SOME_FOLDERS):
                self._folders |= bit if item.kind == FOLDERS else 0
                self._stay_always |= bit
                self._slashes |= bit
            elif item.kind == REST:
                self._stars |= bit
                self._stay_always |= bit
            elif item.kind == ONE:
                self._any_in_name |= bit
            elif item.takes:
                self._sets.append((item.takes, bit))
            else:
                self._letters[item.text] = self._letters.get(item.text, 0) | bit
            self.size += 1
        end = 1 << self.size
        self._ends |= end
        self._ends_of_files |= 0 if folders_only else end
        self._numbers[self.size] = number
        self.size += 1

    def begin(self) -> None:
        """Create the state before a path; call this after adding the last pattern."""
        self._start = _State(self._passed(self._first, 0))
        self._states[self._start.places] = self._start

    def last(self, path: str, *, is_folder: bool) -> int:
        """Return the number of the last pattern that matches a whole path, or -1."""
        state = self._start
        for letter in path:
            state = state.after.get(letter) or self._step(state, letter)
        ended = state.places & (self._ends if is_folder else self._ends_of_files)
        return self._numbers[ended.bit_length() - 1] if ended else -1

    def _passed(self, come: int, stayed: int) -> int:
        """Skip everything that needs no character, from the places just reached and those that stayed."""
        come |= (come & self._folders) << 1
        places = come | stayed
        return places | (places & self._stars) << 1

    def _step(self, state: _State, letter: str) -> _State:
        stays = self._stay_always if letter == "/" else self._stay_always | self._stay_in_name
        come = (state.places & self._moved_by(letter)) << 1
        places = self._passed(come, state.places & stays)
        if len(self._states) >= _MOST_STATES or self._steps >= _MOST_STEPS:
            # The states refer to each other, so all of them are dropped.
            for old in self._states.values():
                old.after.clear()
            self._states, self._steps = {self._start.places: self._start}, 0
        after = self._states.setdefault(places, _State(places))
        state.after[letter] = after
        self._steps += 1
        return after

    def _moved_by(self, letter: str) -> int:
        moves = self._moves.get(letter)
        if moves is None:
            moves = self._letters.get(letter, 0)
            moves |= self._slashes if letter == "/" else self._any_in_name
            for takes, bit in self._sets:
                if takes(letter):
                    moves |= bit
            if len(self._moves) >= _MOST_LETTERS:
                self._moves.clear()
            self._moves[letter] = moves
        return moves
