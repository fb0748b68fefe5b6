"""Decide which files of a vault are not notes: default rules, `.gitignore`, `.everindexignore`, Obsidian's list."""

from __future__ import annotations

import codecs
import errno
import fnmatch
import os
import re
import stat
import string
import unicodedata
from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pipelines.errors import (
    AlreadyThereError,
    NoteChangedError,
    NoteError,
    NotFoundError,
    OverruledError,
    UnsafePathError,
)
from pipelines.formats import MARKDOWN, FormatName, format_of, is_wanted
from pipelines.vault import in_folder, paths
from pipelines.vault.obsidian import read_filters
from pipelines.vault.write import remove_if_unchanged, replace_if_unchanged

# Parse `.gitignore` patterns that have wildcards, as git's `wildmatch.c` and `dir.c` read them.


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
class PatternElement:
    """An element of a pattern: one character to match, or a repetition."""

    kind: str
    text: str = ""
    takes: Takes | None = None


STAR, FOLDERS, SOME_FOLDERS, REST, ONE, LETTER, SET = "*", "**/", "**\\/", "**", "?", "a", "["


def items_of(pattern: str) -> list[PatternElement] | None:
    """Split a pattern into its items; return None if it cannot match anything."""
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    # git compares the part before the first wildcard separately, so stars right after it begin a pattern.
    begins = next((at for at, letter in enumerate(pattern) if letter in SPECIAL), len(pattern))
    items: list[PatternElement] = [] if anchored else [PatternElement(FOLDERS)]
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "*":
            end = at
            while end < len(pattern) and pattern[end] == "*":
                end += 1
            at = _add_stars(items, pattern, at, end, anchored=anchored, begins=begins)
        elif letter == "?":
            items.append(PatternElement(ONE))
            at += 1
        elif letter == "[":
            found = _bracket(pattern, at)
            if found is None:
                return None
            takes, at = found
            items.append(PatternElement(SET, takes=takes))
        else:
            at += letter == "\\"
            if at == len(pattern):
                return None
            items.append(PatternElement(LETTER, pattern[at]))
            at += 1
    return items


def _add_stars(
    items: list[PatternElement], pattern: str, at: int, end: int, *, anchored: bool, begins: int
) -> int:
    """Add the meaning of one or more stars; return where the pattern continues."""
    whole = end - at > 1 and anchored and (at == begins or pattern[at - 1] == "/")
    if whole and end == len(pattern):
        items.append(PatternElement(REST))
    elif whole and pattern.startswith(("/", "\\/"), end):
        # After letters it also matches the rest of their folder's name. Only a plain slash may match no folder at
        # all.
        item = PatternElement(FOLDERS if pattern[end] == "/" else SOME_FOLDERS)
        if items[-1:] != [item] or item.kind != FOLDERS:
            items.append(item)
        return end + pattern[end:].index("/") + 1
    elif not items or items[-1].kind != STAR:
        items.append(PatternElement(STAR))
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


# Match the patterns of a `.gitignore` in linear time: one step per character of a name, whatever the patterns are.
#
# Patterns without wildcards are keys of a dictionary. All others in a file run in parallel as one automaton. Its
# states are bits of an integer (Baeza-Yates and Gonnet, "A new approach to text searching", 1992).
# Transitions are cached.


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
    # A file may have half a million patterns: a pattern is read from its text only when it is needed.
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

    def add(self, items: list[PatternElement], number: int, *, folders_only: bool) -> None:
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


RULE_FILES = (".gitignore", ".everindexignore")
DEEPEST_FOLDER = 128
"""Folders nested deeper are not read. The longest path that Linux opens, 4,096 bytes, has room for 2,047, but such a
depth is usually an unpacked archive."""
MOST_BYTES = 1_000_000
"""A larger rule file is not applied."""

_OTHER_FORMAT = "its format is not indexed here"
_UNDATED = (
    "its name has no date, as 2026-02-19 or 20260219, and its domain in _domains.yaml has `only_dated` in"
    " `documents: {yaml: ...}`"
)

_MOST_ALONG_A_PATH = 2 * MOST_WILDCARD_CHARACTERS
_MOST_COMPLAINTS = 100
_FOLDERS = ("@eaDir",)
_CONFIGURATION = frozenset({"_domains.yaml", "_scopes.yaml", "_contexts.yaml", "_queries.yaml"})
_OUTSIDE = "outside the vault"
_FILES = ("._*", ".DS_Store", "*.tmp", "~$*", "*.sync-conflict-*")
# Few files match any of these, and a scan tests every file.
_ANY_OF_THEM = re.compile("|".join(map(fnmatch.translate, _FILES)))


@dataclass(frozen=True, slots=True)
class _RuleFile:
    """The patterns of a rule file; `start` is the index where the path relative to its folder begins."""

    origin: str
    start: int
    globs: Globs


Scope = tuple[_RuleFile, ...]
"""The rule files that apply in a folder, those of the vault's own folder first."""


class IgnoreRules:
    """The ignore rules of one vault; a folder's rule files are read when a walk enters it.

    `generated` are the paths of Everindex's own files; `owned` are the prefixes of paths that belong to a domain, and
    `formats_of` returns the formats that the domain of a path indexes, `is_undated` says whether it ignores a file
    because its name has no date. `complaints` are sentences about rules that are not applied.
    """

    NO_DOMAIN = "in no domain of _domains.yaml"
    BY_OBSIDIAN = "Obsidian excluded files"
    SYMLINK = "symlink (not followed)"
    CONFIGURES = "configures Everindex"
    GENERATED = "generated by Everindex"
    TOO_DEEP = f"deeper than {DEEPEST_FOLDER} folders (not read)"

    def __init__(
        self,
        root: Path,
        generated: Iterable[str],
        owned: Iterable[str],
        formats_of: Callable[[str], Collection[str]],
        is_undated: Callable[[str], bool] = lambda _path: False,
    ) -> None:
        self._root = root
        self._generated = frozenset(generated)
        self._owned = tuple(owned)
        self._formats_of = formats_of
        self._is_undated = is_undated
        self._filters = read_filters(root)
        self._known: dict[str, tuple[str | None, Scope]] = {}
        self._lacking: dict[FormatName, str | None] = {}
        self.complaints: dict[str, None] = dict.fromkeys(self._filters.complaints)

    def enter(self, folder: str, names: Iterable[str], scope: Scope = ()) -> Scope:
        """Read the rule files among a folder's names; return those that apply in it. `scope` are those above it."""
        present = set(names).intersection(RULE_FILES)
        # Everindex's own file comes last, so it overrides the other.
        for name in RULE_FILES if present else ():
            path = f"{folder}/{name}" if folder else name
            if name not in present or not (globs := self._read(path)):
                continue
            if sum(file.globs.size for file in scope) + globs.size > _MOST_ALONG_A_PATH:
                self._complain(
                    f"the rules of {path!r} are not applied: with those of the folders above it, its patterns with "
                    f"wildcards have more than {_MOST_ALONG_A_PATH:,} characters; shorten them"
                )
                continue
            start = len(unicodedata.normalize("NFC", folder)) + 1 if folder else 0
            scope = (*scope, _RuleFile(path, start, globs))
        return scope

    def _read(self, path: str) -> Globs | None:
        try:
            globs = _parsed(paths.read_file(self._root, path, MOST_BYTES))
        except UnsafePathError as error:
            self._complain(f"the rules of {path!r} are not applied: {error}")
            return None
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
                self._complain(
                    f"the rules of {path!r} are not applied: it cannot be read ({error.strerror}); "
                    "correct its permissions"
                )
            return None
        if globs.refused:
            self._complain(
                f"the rules of {path!r} are not applied from line {globs.refused} on: its patterns with wildcards "
                f"have more than {MOST_WILDCARD_CHARACTERS:,} characters; shorten them, or name folders instead"
            )
        return globs

    def _complain(self, sentence: str) -> None:
        if len(self.complaints) < _MOST_COMPLAINTS:
            self.complaints[sentence] = None

    def for_folder(self, folder: str) -> str | None:
        """Return the rule that ignores a folder (itself or a parent), reading the rule files on the way.

        A folder outside the vault or behind a link is ignored, and its rule files are not read.
        """
        return self._inside(folder)[0]

    def for_file(self, path: str) -> str | None:
        """Return the rule that ignores a file, including its folders as in `for_folder`, or None."""
        folder, _, name = path.rpartition("/")
        if path.startswith("/") or name == "..":
            return _OUTSIDE
        rule, scope = self._inside(folder)
        return rule or self._link(path) or self.match(path, scope)

    def rule_of(self, path: str) -> tuple[str, Rule] | None:
        """Return the rule file and its rule that ignore a file or one of its folders; None if no rule file does."""
        parts = path.split("/")
        for depth in range(1, min(len(parts), DEEPEST_FOLDER) + 1):
            place = unicodedata.normalize("NFC", "/".join(parts[:depth]))
            scope, is_folder = self._inside("/".join(parts[: depth - 1]))[1], depth < len(parts)
            # A deeper file overrides a shallower one.
            for file in reversed(scope):
                relative = place[file.start :]
                if file.globs.verdict(relative, is_folder=is_folder) is not None:
                    if rule := file.globs.ignoring(relative, is_folder=is_folder):
                        return file.origin, rule
                    break
        return None

    def lists(self, path: str, rule: str) -> bool:
        """Say whether a file that a rule ignores would else be indexed: not one of ours, or of another format."""
        return rule not in (self.CONFIGURES, self.GENERATED) and is_wanted(path, self._formats_of(path))

    def above(self, folder: str) -> tuple[str | None, Scope]:
        """Return the rule that ignores a folder, as `for_folder` does, and the rule files of the folders above it."""
        return self._inside(folder)[0], self._inside(folder.rpartition("/")[0])[1] if folder else ()

    def _inside(self, folder: str) -> tuple[str | None, Scope]:
        """Return the rule that ignores a folder, and the rule files that apply in it."""
        parts = folder.split("/") if folder else []
        if folder.startswith("/") or ".." in parts:
            return _OUTSIDE, ()
        rule: str | None = None
        scope: Scope = ()
        # Everything below the first folder that is nested too deep is ignored with it.
        for depth in range(min(len(parts), DEEPEST_FOLDER + 1) + 1):
            path = "/".join(parts[:depth])
            if path not in self._known:
                rule = rule or (self.match(path, scope, is_folder=True) or self._link(path) if path else None)
                self._known[path] = rule, scope if rule else self._enter(path, scope)
            rule, scope = self._known[path]
        return rule, scope

    def _enter(self, folder: str, scope: Scope) -> Scope:
        # Not Path.is_file, which raises for a name that is too long and for a folder that may not be entered.
        present = (n for n in RULE_FILES if os.path.lexists(self._root / folder / n))
        return self.enter(folder, present, scope)

    def _link(self, path: str) -> str | None:
        return self.SYMLINK if os.path.islink(self._root / path) else None  # noqa: PTH114 - likewise

    def match(self, path: str, scope: Scope, *, is_folder: bool = False) -> str | None:
        """Return the rule that ignores exactly this path, without considering its parents, or None."""
        path = path if path.isascii() else unicodedata.normalize("NFC", path)
        name = path.rpartition("/")[2]
        rule = self._rule_for_folders(path, name) if is_folder else self._rule_for_files(path, name)
        rule = rule or self._user_rule(path, scope, is_folder=is_folder)
        return rule or (None if is_folder else self._rule_for_format(path))

    def _rule_for_folders(self, path: str, name: str) -> str | None:
        if name.startswith("."):
            return "dot-folder"
        if name in _FOLDERS:
            return f"default rule {name}"
        return self.TOO_DEEP if path.count("/") >= DEEPEST_FOLDER else None

    def _rule_for_files(self, path: str, name: str) -> str | None:
        if path in self._generated:
            return self.GENERATED
        if path in _CONFIGURATION:
            return self.CONFIGURES
        if _ANY_OF_THEM.match(name):
            return f"default rule {next(one for one in _FILES if fnmatch.fnmatchcase(name, one))}"
        return None if path.startswith(self._owned) else self.NO_DOMAIN

    def _rule_for_format(self, path: str) -> str | None:
        form = format_of(path)
        if form is None or form.name == MARKDOWN:
            return None
        if not is_wanted(path, self._formats_of(path)):
            return f"{_OTHER_FORMAT} ({form.name})"
        # Once per scan, because it searches the disk for the reader's packages.
        if form.name not in self._lacking:
            self._lacking[form.name] = form.lacks
        if extra := self._lacking[form.name]:
            return f"no reader for {form.name} is installed: everindex[{extra}]; `everindex doctor` names the command"
        return _UNDATED if self._is_undated(path) else None

    def _user_rule(self, path: str, scope: Scope, *, is_folder: bool) -> str | None:
        # A deeper file overrides a shallower one.
        for file in reversed(scope):
            ignores = file.globs.verdict(path[file.start :], is_folder=is_folder)
            if ignores is not None:
                if ignores:
                    return file.origin
                break
        text = self._filters.excluding(path + "/" if is_folder else path)
        return f"{self.BY_OBSIDIAN}: {text}" if text else None


def is_of_other_format(rule: str) -> bool:
    """Say whether a rule ignores a readable file only because its format is not indexed there."""
    return rule.startswith(_OTHER_FORMAT)


@lru_cache(maxsize=16)
def _parsed(data: bytes) -> Globs:
    return read_globs(data.decode("utf-8", "surrogateescape"))


# A line in the vault's `.everindexignore` that ignores exactly one file or folder.


IGNORE_FILE = ".everindexignore"
HEAD = "# Kept out of the index, in the syntax of .gitignore."
"""The first line of a file that Everindex made."""

_CR = "\r"  # the end of a line that an editor on Windows wrote, before its line feed
_MOST_TRIES = 3
_MOST_LISTED = 10  # lines, in a message
_SPECIAL = re.compile(r"[\\*?\[]")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ENCODING = ("utf-8", "surrogateescape")  # a file's name may be any bytes


def ignore(root: Path, path: str, displaced: Path) -> str:
    """Add the line that ignores a file or folder of the vault, and return the line.

    The file that is replaced is kept in the folder `displaced` for a while. Raises NotFoundError where there is no
    such path, UnsafePathError for a path outside of the vault, AlreadyThereError where the line is there,
    OverruledError, NoteError where the file cannot be read or is being written, StateError, OSError.
    """
    try:
        is_folder = stat.S_ISDIR(paths.look(root, path).st_mode)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"there is no {path} in {root}; give its path as it is in the vault") from error
    line = line_for(path, is_folder=is_folder)

    def added(lines: list[str] | None) -> list[str]:
        if lines is None:
            return [HEAD, line]
        if line in map(_bare, lines):
            raise AlreadyThereError(f"{path} is ignored already, by {line} in {IGNORE_FILE}")
        return [*lines, line + (_CR if lines and all(one.endswith(_CR) for one in lines) else "")]

    _edit(root, added, displaced)
    return line


def stop_ignoring(root: Path, path: str, displaced: Path) -> str:
    """Remove the line that ignores exactly this file or folder, and return the line; the file may be gone.

    That is the line that `ignore` added, or else the only one that names the path, however a person wrote it; also
    the line itself may be given. A file that Everindex made goes with its last line.
    Raises NotFoundError where there is no such line, or several, and names the lines that there are; UnsafePathError,
    OverruledError, NoteError, StateError, OSError.
    """
    removed: set[str] = set()

    def left(lines: list[str] | None) -> list[str] | None:
        patterns = [
            bare for line in lines or [] if (bare := _bare(line)).strip() and not bare.startswith("#")
        ]
        removed.clear()
        removed.update({path}.intersection(patterns) or _lines_naming(path, patterns))
        rest = [line for line in lines or [] if _bare(line) not in removed]
        return None if rest == [HEAD] else rest

    _edit(root, left, displaced)
    return min(removed)


def _lines_naming(path: str, lines: Collection[str]) -> set[str]:
    """Return the lines to remove for a path. Raises NotFoundError, UnsafePathError."""
    wanted = {line_for(path, is_folder=is_folder) for is_folder in (False, True)}
    named = {line for line in lines if _named_by(line) == _named_by(min(wanted))}
    found = wanted.intersection(lines) or named
    if found and (len(found) == 1 or found <= wanted):
        return found
    shown = ", ".join([*list(lines)[:_MOST_LISTED], *(["…"] if len(lines) > _MOST_LISTED else [])])
    if found:
        raise NotFoundError(
            f"several lines of {IGNORE_FILE} name {path}: {', '.join(sorted(found))}; give the one to remove"
        )
    raise NotFoundError(
        f"no line of {IGNORE_FILE} ignores exactly {path}; {f'its lines are {shown}' if shown else 'it has none'};"
        " `everindex why` names the rule that ignores a path"
    )


def path_named(pattern: str) -> str | None:
    """Return the path for which `stop_ignoring` removes a line; None for a line with wildcards."""
    bare = _named_by(pattern)
    path = re.sub(r"\\(.)", r"\1", bare)
    return path if path and _SPECIAL.sub(r"\\\g<0>", path) == bare else None


def _named_by(line: str) -> str:
    """Return the path that a line names, in whichever of the usual ways it is written; a wildcard names itself."""
    name = line.rstrip().removeprefix("**/").removesuffix("/**").removesuffix("/*")
    return name.strip("/")


def _bare(line: str) -> str:
    return line.removesuffix(_CR)


def line_for(path: str, *, is_folder: bool) -> str:
    """Return the pattern that names one path and no other. Raises UnsafePathError."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or not parts:
        raise UnsafePathError(f"{path!r} is not a path in the vault; only what is in it can be ignored")
    if set("\0\r\n") & set(path):
        raise UnsafePathError(f"{path!r} has a line break, which no line can name; rename it")
    pattern = _SPECIAL.sub(r"\\\g<0>", unicodedata.normalize("NFC", "/" + "/".join(parts)))
    if is_folder:
        return f"{pattern}/"
    name = pattern.rstrip(" ")
    return name + "\\ " * (len(pattern) - len(name))


def _edit(root: Path, change: Callable[[list[str] | None], list[str] | None], displaced: Path) -> None:
    """Change the lines of the file; None stands for no file. Lines that an editor saves meanwhile stay.

    Raises OverruledError, NoteError, StateError.
    """
    with paths.folder(root) as folder:
        found = in_folder.look(folder, IGNORE_FILE)
    for _ in range(_MOST_TRIES):
        if isinstance(found, NoteError):
            raise found
        lines = change(None if found is None else _lines_of(found))
        if lines is None and found is not None:
            found = remove_if_unchanged(root, IGNORE_FILE, found, displaced)
        else:
            new = "".join(f"{line}\n" for line in lines or []).encode(*_ENCODING)
            if len(new) > max(MOST_BYTES, len(found or b"")):
                raise OverruledError(
                    f"{IGNORE_FILE} would have more than {MOST_BYTES:,} bytes, and none of its rules would apply; "
                    "shorten it"
                )
            found = replace_if_unchanged(root, IGNORE_FILE, found, new, displaced)
        if found is None:
            return
    raise NoteChangedError(f"{IGNORE_FILE} is being written to; try again when it is saved")


def _lines_of(data: bytes) -> list[str]:
    """Return the lines of a rule file. Raises OverruledError for one in UTF-16, which no rule is read from."""
    if data.startswith(_UTF_16) or b"\0" in data:
        raise OverruledError(
            f"{IGNORE_FILE} is not in UTF-8, so none of its rules are applied; save it as UTF-8"
        )
    text = data.decode(*_ENCODING)
    return text.removesuffix("\n").split("\n") if text else []
