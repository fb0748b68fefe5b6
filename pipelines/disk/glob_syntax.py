"""Parse `.gitignore` patterns that have wildcards, as git's `wildmatch.c` and `dir.c` read them."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass

SPECIAL = frozenset("*?[\\")
"""The characters that make a pattern more than a name."""
# git's classes are ASCII in every locale.
_CLASSES: dict[str, frozenset[str]] = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "blank": frozenset(" \t"),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "digit": frozenset(string.digits),
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset(" \t\n\r"),
    "upper": frozenset(string.ascii_uppercase),
    "xdigit": frozenset(string.hexdigits),
}

Takes = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Item:
    """An element of a pattern: one character to match, or a repetition."""

    kind: str
    text: str = ""
    takes: Takes | None = None


STAR, FOLDERS, SOME_FOLDERS, REST, ONE, LETTER, SET = "*", "**/", "**\\/", "**", "?", "a", "["


def items_of(pattern: str) -> list[Item] | None:
    """Split a pattern into its items; return None if it cannot match anything."""
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    # git compares the part before the first wildcard separately, so stars right after it begin a pattern.
    begins = next((at for at, letter in enumerate(pattern) if letter in SPECIAL), len(pattern))
    items: list[Item] = [] if anchored else [Item(FOLDERS)]
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "*":
            end = at
            while end < len(pattern) and pattern[end] == "*":
                end += 1
            at = _add_stars(items, pattern, at, end, anchored=anchored, begins=begins)
        elif letter == "?":
            items.append(Item(ONE))
            at += 1
        elif letter == "[":
            found = _bracket(pattern, at)
            if found is None:
                return None
            takes, at = found
            items.append(Item(SET, takes=takes))
        else:
            at += letter == "\\"
            if at == len(pattern):
                return None
            items.append(Item(LETTER, pattern[at]))
            at += 1
    return items


def _add_stars(items: list[Item], pattern: str, at: int, end: int, *, anchored: bool, begins: int) -> int:
    """Add the meaning of one or more stars; return where the pattern continues."""
    whole = end - at > 1 and anchored and (at == begins or pattern[at - 1] == "/")
    if whole and end == len(pattern):
        items.append(Item(REST))
    elif whole and pattern.startswith(("/", "\\/"), end):
        # After letters it also matches the rest of their folder's name. Only a plain slash may match no folder at
        # all.
        item = Item(FOLDERS if pattern[end] == "/" else SOME_FOLDERS)
        if items[-1:] != [item] or item.kind != FOLDERS:
            items.append(item)
        return end + pattern[end:].index("/") + 1
    elif not items or items[-1].kind != STAR:
        items.append(Item(STAR))
    return end


def _bracket(pattern: str, at: int) -> tuple[Takes, int] | None:
    """Parse the bracket expression that begins at `at`: what it matches and where it ends; None if it is unclosed."""
    at += 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    letters: set[str] = set()
    ranges: list[tuple[str, str]] = []
    previous, first = "", at
    while at < len(pattern) and (pattern[at] != "]" or at == first):
        if pattern.startswith("[:", at) and (named := _named_class(pattern, at)):
            name, at = named
            if name not in _CLASSES:
                return None
            letters |= _CLASSES[name]
            previous = ""
        elif previous and pattern[at] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _letter(pattern, at + 1)
            ranges.append((previous, high))
            previous = ""
        else:
            previous, at = _letter(pattern, at)
            letters.add(previous)
    return (_taker(frozenset(letters), tuple(ranges), negated=negated), at + 1) if at < len(pattern) else None


def _letter(pattern: str, at: int) -> tuple[str, int]:
    """Return the letter at `at`, escaped by a backslash or not, and where the pattern continues."""
    at += pattern[at] == "\\"
    return pattern[at : at + 1], at + 1


def _named_class(pattern: str, at: int) -> tuple[str, int] | None:
    """Return the name of the class whose `[:` is at `at`, and where it ends; None if it is not a class."""
    end = pattern.find("]", at + 2)
    if end < 0:
        return "", at
    return (pattern[at + 2 : end - 1], end + 1) if end > at + 2 and pattern[end - 1] == ":" else None


def _taker(letters: frozenset[str], ranges: tuple[tuple[str, str], ...], *, negated: bool) -> Takes:
    def takes(letter: str) -> bool:
        found = letter in letters or any(low <= letter <= high for low, high in ranges)
        return found != negated and letter != "/"

    return takes
