"""Read the lines of an edited review queue: what each says about an item, and which a person wrote. Pure.

A line's meaning comes from its comment, wherever the line is, or else from the tag that it names under its note.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.parsing.frontmatter import is_tag
from pipelines.tagging.review_queue import (
    ALL,
    FIXED,
    MARKER,
    QueuedNote,
    QueuedTag,
    all_key,
    folded,
    heading,
    label,
    note_key,
    quoted,
    seal,
    tag_name,
)

_ACCEPT = frozenset("x\u0445\u00d7\u2713\u2714")  # also the Cyrillic letter that looks like an x
_REJECT = frozenset("-\u2010\u2011\u2012\u2013\u2014\u2212")
_LINE = re.compile(
    r"\s*(?P<bullet>[-*+\u2022]|[0-9]{1,9}[.)])?\s*(?:\\?\[(?P<mark>[^\[\]\\]{0,4})\\?\])?(?P<text>.*)",
    re.DOTALL,
)
_HEADING = re.compile(r"\s*#{1,6}\s")
_EMPTY = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s*(?:\[\s*\]\s*)?")
_ALL = "all-"


@dataclass(frozen=True, slots=True)
class Said:
    """What a line says about an item or a note's box for all: `x`, `-`, or nothing; `rest` is what a person added."""

    number: int
    mark: str
    line: str
    path: str | None
    by_hand: bool = False
    rest: str = ""


class LineReader:
    """Reads line by line: `said` by item, `typed` and `additions` as (note, tag), `kept` (note, text) by line number.

    `_path` is the note above the current line; `_sure`: nothing speaks against it.
    """

    def __init__(
        self, known: Sequence[QueuedNote], find: Callable[[str], str | None], lines: Sequence[str]
    ) -> None:
        self._find = find
        self.notes = {note.path: note for note in known}
        self.tags = {str(tag.id): (tag, note.path) for note in known for tag in note.tags}
        self.said: dict[str, list[Said]] = defaultdict(list)
        self.typed: list[tuple[str, str]] = []
        self.additions: list[tuple[str, str]] = []
        self.kept: dict[int, tuple[str | None, str]] = {}
        self._mentioned: set[str] = set()  # ids in kept lines
        self._named: set[tuple[str | None, str]] = set()  # the same for tags: (note, tag)
        self.pages: list[tuple[str, str]] = []
        self._path: str | None = None
        self._sure = False
        self._by_key = {note_key(note.path): note.path for note in known}
        self._headings = {seal(heading(note)): note.path for note in known}
        self._fixed = {seal(line) for line in FIXED}
        self._ours = self._fixed | set(self._headings)
        self._ours.update(seal(line) for note in known for line in quoted(note.opening))
        for line in lines:
            for match in MARKER.finditer(line):
                if match["kind"].lower() != "e":
                    self._ours.update(match["rest"].lower().split())

    def read(self, number: int, line: str) -> None:
        """Read one line that is not blank."""
        for match in MARKER.finditer(line):
            self._enter(match)
        # A comment that names a page or a note is Everindex's wherever it is; kept text must not name another.
        line = MARKER.sub(lambda match: match[0] if match["kind"].lower() == "e" else "", line)
        items = list(MARKER.finditer(line))
        if len(items) > 1:
            self._keep(number, self._path, line)
        elif items:
            self._item(number, line, items[0])
        elif seal(line) in self._ours or seal(line.strip().lstrip("0123456789")) in self._fixed:
            if _HEADING.match(line):
                self._path = self._headings.get(seal(line))
                self._sure = self._path is not None
        elif line.strip() and not _EMPTY.fullmatch(line):
            self._unmarked(number, line)

    def read_cut(self, number: int, line: str, page: str) -> None:
        """Read the last line of a truncated file: part of a line of Everindex, or words that may be incomplete."""
        half = "".join(folded(line).split())
        ours = ["".join(folded(whole).split()) for whole in (*page.split("\n"), *FIXED)]
        if MARKER.search(line):
            self.read(number, line)
        elif half.startswith(("<!--page:", "<!--n:")):
            pass
        elif half and not any(whole.startswith((half, half.lstrip("0123456789"))) for whole in ours):
            self._keep(number, None, line)

    def _enter(self, match: re.Match[str]) -> None:
        kind, name = match["kind"].lower(), match["id"].lower()
        if kind != "e":
            self._path = self._by_key.get(name) if kind == "n" else None
            self._sure = self._path is not None
        if kind in {"page", "end"}:
            self.pages.append((kind, name))

    def _item(self, number: int, line: str, match: re.Match[str]) -> None:
        """Read a line with the comment of one item."""
        key = _key(match)
        parts = _parts((line[: match.start()] + line[match.end() :]).lstrip("> \t"))
        mark, text = _mark(parts["mark"]), parts["text"].strip()
        path, rest = self._path, None
        if key in self.tags:
            tag, path = self.tags[key]
            # An earlier version may have worded it differently; its own seal shows that it is unedited.
            ours = seal(text) in match["rest"].lower().split()
            rest = "" if ours else _rest(text, label(tag), tag_name(tag))
        elif key.removeprefix(_ALL) in self._by_key:
            path = self._by_key[key.removeprefix(_ALL)]
            rest = _rest(text, ALL, ALL)
        elif parts["mark"] is not None and (
            (key.isdecimal() and seal(text) in match["rest"].lower().split())
            or (key.startswith(_ALL) and not mark and seal(text) == seal(ALL))
        ):
            rest = ""  # an unedited item of another page
        if path != self._path:
            self._path, self._sure = None, False  # moved here; the next lines may be either note's
        if mark is None or rest is None:
            self._keep(number, path, line)
        else:
            self.said[key].append(Said(number, mark, line, path, rest=rest))

    def _unmarked(self, number: int, line: str) -> None:
        """Read a line without a comment that is not one of Everindex's."""
        parts = _parts(line)
        mark, text = _mark(parts["mark"]), parts["text"].strip()
        if _HEADING.match(line):
            self._sure = False
        note = self.notes[self._path] if self._sure and self._path is not None else None
        if note is None or mark is None or line.lstrip().startswith(">"):
            self._keep(number, self._path, line)
        elif seal(text) == seal(ALL):
            if parts["mark"] is not None:
                self.said[all_key(note.path)].append(Said(number, mark, line, note.path, by_hand=True))
        elif not self._tags(number, line, note, parts):
            self._keep(number, note.path, line)

    def _tags(self, number: int, line: str, note: QueuedNote, parts: re.Match[str]) -> bool:
        """Read the tags typed under a note; for anything else do nothing and return False."""
        mark, text = _mark(parts["mark"]) or "", parts["text"].strip()
        words = text.replace(",", " ").split()
        names = words if words and all(word.startswith("#") for word in words) else [text]
        marked = parts["mark"] is not None
        by_hand = marked or parts["bullet"] is not None or text.startswith("#")
        if not by_hand and number - 1 in self.kept:
            return False  # the last word of a person's sentence
        found: list[tuple[str, str | None, QueuedTag | None]] = []
        for written in names:
            name = _bare(written)
            tag = self._find(name)
            item = _item_named(note, written, tag or name)
            if item is None and (mark == "-" or (tag is None and not (by_hand and is_tag(name)))):
                return False
            found.append((name, tag, item))
        for name, tag, item in found:
            if item is not None:
                whole = seal(text) == seal(label(item))
                said = Said(number, mark if marked or whole else "x", line, note.path, by_hand=True)
                self.said[str(item.id)].append(said)
            elif tag is not None:
                self.typed.append((note.path, tag))
            else:
                self.additions.append((note.path, name))
        return True

    def _keep(self, number: int, path: str | None, line: str) -> None:
        self.kept[number] = (path, line)
        self._mentioned.update(_key(match) for match in MARKER.finditer(line))
        parts = _parts(line)
        if parts["mark"] is not None and (words := parts["text"].split(maxsplit=1)):
            self._named.add((path, folded(_bare(words[0]))))

    def mentions(self, key: str) -> bool:
        """Say whether a kept line names a shown item, so that the item is undecided, but not deleted."""
        tag, path = self.tags[key]
        name = folded(_bare(tag_name(tag)))
        return key in self._mentioned or not self._named.isdisjoint({(path, name), (None, name)})

    def agree(self, said: Sequence[Said]) -> str | None:
        """Return the mark that all lines about one item agree on; if they disagree, keep the lines, return None."""
        own = {one.mark for one in said if not one.by_hand}
        typed = {one.mark or ("x" if own else "") for one in said if one.by_hand}
        marks = (own | typed) - {""}
        if len(own) > 1 or len(typed) > 1 or len(marks) > 1:
            for one in said:
                self._keep(one.number, one.path, one.line)
            return None
        self.kept |= {one.number: (one.path, one.rest) for one in said if one.rest}
        return marks.pop() if marks else ""


def _parts(line: str) -> re.Match[str]:
    match = _LINE.fullmatch(line)
    assert match is not None  # noqa: S101  (every part may be empty)
    return match


def _mark(written: str | None) -> str | None:
    """Return the content of a box as `x`, `-` or nothing; None for anything else."""
    mark = (written or "").strip().casefold()
    if mark in _ACCEPT:
        return "x"
    return "-" if mark in _REJECT else (None if mark else "")


def _key(match: re.Match[str]) -> str:
    key = match["id"].lower()
    return str(int(key)) if key.isascii() and key.isdecimal() else key


def _bare(word: str) -> str:
    return word.replace("`", "").replace("\\", "").strip(" \t,;:.\u00b7").removeprefix("#")


def _item_named(note: QueuedNote, written: str, name: str) -> QueuedTag | None:
    """Return the one item of a note that a line without a comment means."""
    whole = [tag for tag in note.tags if seal(label(tag)) == seal(written)]
    found = whole or [tag for tag in note.tags if folded(_bare(tag_name(tag))) == folded(name)]
    return found[0] if len(found) == 1 else None


def _rest(text: str, whole: str, name: str) -> str | None:
    """Return what a person added to one of Everindex's lines; None if it does not begin with its item."""
    if not text or seal(text) == seal(whole):
        return ""
    if text.startswith(whole):
        return text[len(whole) :].strip()
    first, *rest = text.split(maxsplit=1)
    if folded(_bare(first)) != folded(_bare(name)):
        return None
    return "".join(rest).removeprefix(whole[len(name) :].strip()).strip()
