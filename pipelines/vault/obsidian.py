"""What Obsidian shares: its excluded files (`userIgnoreFilters` in `.obsidian/app.json`), daily notes, and links."""

from __future__ import annotations

import json
import os
import re
import string
import unicodedata
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from pipelines.errors import UnsafePathError
from pipelines.vault import paths
from pipelines.vault.files import path_on_disk

# Parse JavaScript's regular expressions, as far as `pipelines/vault/obsidian.py` can match them.


MOST_CHARACTERS = 500
_DEEPEST = 30
_MOST_TIMES = 1_000
_COUNT = re.compile(r"\{(\d{1,9})(?:(,)(\d{0,9}))?\}")
_LINE_ENDS = frozenset("\n\r\u2028\u2029")
_LETTERS_OF_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}

Taker = Callable[[AbstractSet[str]], bool]
"""Return whether a character is matched, given its forms (unchanged, lower case, upper case)."""


class PatternError(ValueError):
    """A pattern cannot be used; the message is the reason, as a clause."""


class Kind(Enum):
    """The kind of a part of a pattern."""

    TAKES = auto()
    ALL = auto()
    ANY = auto()
    REPEATED = auto()
    BEGIN = auto()
    END = auto()
    EDGE = auto()
    NO_EDGE = auto()


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a pattern; `most` is None if a repetition has no upper bound."""

    kind: Kind
    parts: tuple[Node, ...] = ()
    takes: Taker | None = None
    least: int = 0
    most: int | None = None


def parse(pattern: str) -> Node:
    """Parse a pattern. Raises PatternError with the reason, as a clause."""
    if len(pattern) > MOST_CHARACTERS:
        raise PatternError(f"it has more than {MOST_CHARACTERS} characters")
    parser = _Parser(pattern)
    node = parser.alternatives(0)
    if not parser.ended:
        raise PatternError("it has a `)` without a `(`")
    return node


def _one_of(letters: AbstractSet[str]) -> Taker:
    return lambda forms: not letters.isdisjoint(forms)


def _none_of(taker: Taker) -> Taker:
    return lambda forms: not taker(forms)


def _is_space(forms: AbstractSet[str]) -> bool:
    return any(letter.isspace() or letter == "\ufeff" for letter in forms)


_CLASSES: dict[str, Taker] = {
    "d": _one_of(frozenset(string.digits)),
    "w": _one_of(frozenset(string.ascii_letters + string.digits + "_")),
    "s": _is_space,
}
_CLASSES |= {name.upper(): _none_of(taker) for name, taker in _CLASSES.items()}
_NOT_A_LINE_END = _none_of(_one_of(_LINE_ENDS))


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at >= len(self._pattern)

    def _has(self, text: str) -> bool:
        """Skip a text if it comes next, and say whether it did."""
        found = self._pattern.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _next(self) -> str:
        if self.ended:
            raise PatternError("it ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def alternatives(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise PatternError(f"its groups are nested more than {_DEEPEST} deep")
        found = []
        parts: list[Node] = []
        while not self.ended and not self._pattern.startswith(")", self._at):
            if self._has("|"):
                found.append(Node(Kind.ALL, tuple(parts)))
                parts = []
            else:
                parts.append(self._repeated(self._atom(depth)))
        found.append(Node(Kind.ALL, tuple(parts)))
        return found[0] if len(found) == 1 else Node(Kind.ANY, tuple(found))

    def _atom(self, depth: int) -> Node:
        letter = self._next()
        if letter == "(":
            return self._group(depth)
        if letter == "[":
            return Node(Kind.TAKES, takes=self._set())
        if letter == "\\":
            return self._escape()
        if letter in "*+?" or _COUNT.match(self._pattern, self._at - 1):
            raise PatternError(f"its `{letter}` follows nothing that can be repeated")
        if letter in "^$":
            return Node(Kind.BEGIN if letter == "^" else Kind.END)
        return Node(Kind.TAKES, takes=_NOT_A_LINE_END if letter == "." else _one_of({letter}))

    def _group(self, depth: int) -> Node:
        if self._has("?<") and self._pattern[self._at : self._at + 1] not in ("=", "!"):
            end = self._pattern.find(">", self._at)
            if end < 0:
                raise PatternError("a group's name is not closed")
            self._at = end + 1
        elif not self._has("?:") and (self._has("?") or self._pattern[self._at - 2 : self._at] == "?<"):
            raise PatternError("it looks ahead or behind, which takes more than one step per character")
        node = self.alternatives(depth + 1)
        if not self._has(")"):
            raise PatternError("it has a `(` without a `)`")
        return node

    def _escape(self) -> Node:
        letter = self._next()
        if letter in "bB":
            return Node(Kind.EDGE if letter == "b" else Kind.NO_EDGE)
        if letter in "123456789k":
            raise PatternError("it refers back to a group, which takes more than one step per character")
        return Node(Kind.TAKES, takes=_CLASSES.get(letter) or _one_of({self._letter_of(letter)}))

    def _letter_of(self, letter: str) -> str:
        """Return the character that an escape stands for."""
        digits = {"x": 2, "u": 4}.get(letter, 0)
        number = self._pattern[self._at : self._at + digits]
        if digits and len(number) == digits and set(number) <= set(string.hexdigits):
            self._at += digits
            return chr(int(number, 16))
        return _LETTERS_OF_ESCAPES.get(letter, letter)

    def _set(self) -> Taker:
        negated = self._has("^")
        takers: list[Taker] = []
        while not self._has("]"):
            low, taker = self._set_part()
            if taker is None and self._pattern.startswith("-", self._at) and not self._ends_with_hyphen():
                self._at += 1
                high, other = self._set_part()
                if other is None and high < low:
                    raise PatternError(f"its range {low}-{high} is in the wrong order")
                takers.append(_between(low, high) if other is None else _either(_one_of({low, "-"}), other))
            else:
                takers.append(taker or _one_of({low}))
        found = _any_of(tuple(takers))
        return _none_of(found) if negated else found

    def _ends_with_hyphen(self) -> bool:
        return self._pattern.startswith("-]", self._at)

    def _set_part(self) -> tuple[str, Taker | None]:
        """Return the next character of a set, or the class that an escape names."""
        letter = self._next()
        if letter != "\\":
            return letter, None
        letter = self._next()
        if letter == "b":
            return "\b", None
        return self._letter_of(letter), _CLASSES.get(letter)

    def _repeated(self, node: Node) -> Node:
        count = _COUNT.match(self._pattern, self._at)
        if count:
            self._at = count.end()
            least = int(count[1])
            most = int(count[3]) if count[3] else None if count[2] else least
        elif self._has("*"):
            least, most = 0, None
        elif self._has("+"):
            least, most = 1, None
        elif self._has("?"):
            least, most = 0, 1
        else:
            return node
        self._has("?")  # a lazy repetition finds the same matches
        if max(least, most or 0) > _MOST_TIMES or (most is not None and most < least):
            raise PatternError("its repetition counts are invalid")
        if node.kind not in (Kind.TAKES, Kind.ALL, Kind.ANY, Kind.REPEATED):
            raise PatternError("it repeats something that matches no character")
        return Node(Kind.REPEATED, (node,), least=least, most=most)


def _between(low: str, high: str) -> Taker:
    return lambda forms: any(low <= letter <= high for letter in forms)


def _either(one: Taker, other: Taker) -> Taker:
    return lambda forms: one(forms) or other(forms)


def _any_of(takers: tuple[Taker, ...]) -> Taker:
    return lambda forms: any(taker(forms) for taker in takers)


# Match regular expressions in linear time: any pattern, even a stranger's, costs a bounded step per character.
#
# The syntax is JavaScript's, ignoring case. A pattern becomes an automaton with one place per character that it
# matches (Glushkov, "The abstract theory of automata", 1961). All paths through it are followed in parallel, and
# transitions are cached. Patterns that need more than that (backreferences, lookaround) are refused.


MOST_PLACES = 2_000
"""Upper bound on the characters that a pattern matches, with its repetitions expanded."""
_MOST_NODES = 3 * MOST_PLACES
_MOST_STATES = _MOST_LETTERS = 500
_MOST_STEPS = _MOST_PARTS = 20_000
_START, _WORD, _OTHER, _END = range(4)
_WORD_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

_Context = tuple[int, int]
"""The kinds of the characters before and after a position in a text."""


class _State:
    """The places just matched, the kind of the last character, and the next state for each character met so far."""

    __slots__ = ("after", "before", "places")

    def __init__(self, places: int, before: int) -> None:
        self.places = places
        self.before = before
        self.after: dict[str, _State] = {}


class Regex:
    """A compiled pattern; `size` is its number of places."""

    def __init__(self, pattern: str, most_places: int = MOST_PLACES) -> None:
        """Compile a pattern with at most `most_places` places. Raises PatternError with the reason."""
        # For each node: what it matches or asserts, and the nodes that follow. The first node is the end of a match.
        self._holds: list[Taker | Kind | None] = [None]
        self._built = 0
        self._next: list[tuple[int, ...]] = [()]
        self._begin = self._build(parse(pattern), 0)
        self._places = [n for n, holds in enumerate(self._holds) if callable(holds)]
        self.size = len(self._places)
        if self.size > most_places:
            raise PatternError(
                f"it matches more than {most_places} characters, with its repetitions expanded"
            )
        self._bit = {node: 1 << place for place, node in enumerate(self._places)}
        self._matched = 1 << self.size
        self._bytes = self.size // 8 + 1
        self._parts: dict[tuple[_Context, int, int], int] = {}
        self._letters: dict[str, int] = {}
        self._start = _State(0, _START)
        self._found = _State(self._matched, _OTHER)
        self._states = {(0, _START): self._start}
        self._steps = 0

    def finds(self, text: str) -> bool:
        """Say whether the pattern matches anywhere in a text."""
        state = self._start
        for letter in text:
            state = state.after.get(letter) or self._step(state, letter)
            if state is self._found:
                return True
        return bool(self._reached(state, _END) & self._matched)

    def _build(self, node: Node, then: int) -> int:
        """Add the part of the pattern before `then`; return its first node."""
        self._built += 1
        if self._built > _MOST_NODES:
            raise PatternError("its expanded repetitions are too long")
        if node.kind is Kind.TAKES:
            return self._add(node.takes, (then,))
        if node.kind is Kind.ALL:
            for part in reversed(node.parts):
                then = self._build(part, then)
            return then
        if node.kind is Kind.ANY:
            return self._add(None, tuple(self._build(part, then) for part in node.parts))
        if node.kind is Kind.REPEATED:
            return self._build_repeated(node, then)
        return self._add(node.kind, (then,))

    def _build_repeated(self, node: Node, then: int) -> int:
        (part,) = node.parts
        if node.most is None:
            again = self._add(None, ())
            self._next[again] = (self._build(part, again), then)
            then = again
        else:
            out = then
            for _ in range(node.most - node.least):
                then = self._add(None, (self._build(part, then), out))
        for _ in range(node.least):
            then = self._build(part, then)
        return then

    def _add(self, holds: Taker | Kind | None, following: tuple[int, ...]) -> int:
        self._holds.append(holds)
        self._next.append(following)
        return len(self._holds) - 1

    def _step(self, state: _State, letter: str) -> _State:
        reached = self._reached(state, _WORD if letter in _WORD_LETTERS else _OTHER)
        if reached & self._matched:
            after = self._found
        else:
            places = reached & self._taken_by(letter)
            key = places, _WORD if letter in _WORD_LETTERS else _OTHER
            if len(self._states) >= _MOST_STATES or self._steps >= _MOST_STEPS:
                # The states refer to each other, so all of them are dropped.
                for old in self._states.values():
                    old.after.clear()
                self._states, self._steps = {(0, _START): self._start}, 0
            after = self._states.setdefault(key, _State(*key))
        state.after[letter] = after
        self._steps += 1
        return after

    def _taken_by(self, letter: str) -> int:
        found = self._letters.get(letter)
        if found is None:
            # Ignore case as JavaScript does: by the letter's other forms, if they are single letters.
            forms = {letter, *(form for form in (letter.lower(), letter.upper()) if len(form) == 1)}
            found = sum(
                self._bit[node]
                for node in self._places
                if callable(takes := self._holds[node]) and takes(forms)
            )
            if len(self._letters) >= _MOST_LETTERS:
                self._letters.clear()
            self._letters[letter] = found
        return found

    def _reached(self, state: _State, following: int) -> int:
        """Return the places that may match the next character, including the end of a match."""
        context = (state.before, following)
        # A match may begin anywhere.
        reached = self._part(context, -1, 0)
        for at, places in enumerate(state.places.to_bytes(self._bytes, "little")):
            if places:
                reached |= self._part(context, at, places)
        return reached

    def _part(self, context: _Context, at: int, places: int) -> int:
        """Return what follows those of eight places whose bits are set, or, at -1, what begins a match."""
        key = (context, at, places)
        found = self._parts.get(key)
        if found is None:
            begins = [self._begin] if at < 0 else []
            for bit in range(8):
                if places >> bit & 1:
                    begins += self._next[self._places[8 * at + bit]]
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            found = self._parts[key] = self._follow(begins, context)
        return found

    def _follow(self, begins: list[int], context: _Context) -> int:
        found, seen, waiting = 0, set(begins), list(begins)
        while waiting:
            node = waiting.pop()
            holds = self._holds[node]
            if node == 0:
                found |= self._matched
            elif callable(holds):
                found |= self._bit[node]
            elif holds is None or _holds_at(holds, context):
                new = set(self._next[node]) - seen
                seen |= new
                waiting += new
        return found


def _holds_at(kind: Kind, context: _Context) -> bool:
    before, after = context
    if kind is Kind.BEGIN:
        return before == _START
    if kind is Kind.END:
        return after == _END
    return ((before == _WORD) != (after == _WORD)) == (kind is Kind.EDGE)


OBSIDIAN_SETTINGS = ".obsidian/app.json"
_DAILY_NOTES = ".obsidian/daily-notes.json"
_MOST_BYTES = 1_000_000
_MOST_FILTERS = 1_000


@dataclass(frozen=True, slots=True)
class Filters:
    """The files that Obsidian excludes; `complaints` are sentences about filters that cannot be used."""

    prefixes: tuple[tuple[str, str], ...] = ()
    expressions: tuple[tuple[str, Regex], ...] = ()
    complaints: tuple[str, ...] = ()

    def excluding(self, path: str) -> str | None:
        """Return the filter that excludes a path (a folder's ends with `/`), or None."""
        if self.prefixes:
            lowered = path.lower()
            for text, prefix in self.prefixes:
                if lowered.startswith(prefix):
                    return text
        for text, regex in self.expressions:
            if regex.finds(path):
                return text
        return None


def is_vault(root: Path) -> bool:
    """Say whether Obsidian has opened a folder as a vault."""
    return (root / OBSIDIAN_SETTINGS).parent.is_dir()


def open_link(root: Path, key: str) -> str:
    """Return the link that opens the file with this key in Obsidian."""
    file = root.resolve() / path_on_disk(root, key)
    return f"obsidian://open?path={quote(os.fsencode(file), safe='')}"


def read_filters(root: Path) -> Filters:
    """Read a vault's filters, which are path prefixes, or regular expressions between slashes."""
    try:
        data = paths.read_file(root, OBSIDIAN_SETTINGS, _MOST_BYTES)
    except UnsafePathError as error:
        return Filters(complaints=(f"Obsidian's excluded files are not applied: {error}",))
    except OSError:
        return Filters()  # no settings
    return _parse(data)


def read_daily_format(root: Path) -> str | None:
    """Return the format of the names of daily notes, below their folder, if the vault states one."""
    try:
        settings = json.loads(paths.read_file(root, _DAILY_NOTES, _MOST_BYTES).decode("utf-8"))
        form, folder = settings.get("format"), settings.get("folder")
    except (OSError, UnsafePathError, ValueError, AttributeError, RecursionError):
        return None  # no settings, or not written by Obsidian
    if not isinstance(form, str) or not form.strip():
        return None
    folder = folder.strip("/ ") if isinstance(folder, str) else ""
    # Brackets quote in such a format; a name that has some itself cannot be quoted.
    return f"[{folder}/]{form}" if folder and not set("[]") & set(folder) else form


@lru_cache(maxsize=4)
def _parse(data: bytes) -> Filters:
    try:
        settings = json.loads(data.decode("utf-8"))
        filters = settings.get("userIgnoreFilters") or []
    except (ValueError, AttributeError):
        return Filters()  # not written by Obsidian
    except RecursionError:
        return Filters(
            complaints=(f"Obsidian's excluded files are not applied: {OBSIDIAN_SETTINGS} is nested too deep",)
        )
    if not isinstance(filters, list):
        return Filters()
    texts = [text for text in filters if isinstance(text, str) and text]
    complaints: list[str] = []
    if len(texts) > _MOST_FILTERS:
        complaints.append(
            f"Obsidian's excluded files: there are more than {_MOST_FILTERS}, and the rest are not applied; "
            "use .everindexignore"
        )
    texts = texts[:_MOST_FILTERS]
    is_regex = {text: len(text) > 1 and text[0] == text[-1] == "/" for text in texts}
    return Filters(
        tuple((text, unicodedata.normalize("NFC", text).lower()) for text in texts if not is_regex[text]),
        tuple(_compiled([text for text in texts if is_regex[text]], complaints)),
        tuple(complaints),
    )


def _compiled(texts: list[str], complaints: list[str]) -> Iterator[tuple[str, Regex]]:
    left = MOST_PLACES  # of all together, because each path is matched against all of them
    for text in texts:
        try:
            regex = Regex(text[1:-1], left)
        except PatternError as error:
            complaints.append(
                f"Obsidian's excluded files: {text[:200]!r} is not applied: {error}; use .everindexignore"
            )
        else:
            left -= regex.size
            yield text, regex
