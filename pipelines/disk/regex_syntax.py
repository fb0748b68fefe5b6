"""Parse JavaScript's regular expressions, as far as `pipelines/disk/regex.py` can match them."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto

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
