"""Split a passage into the units that compression keeps or leaves out: sentences, list items, rows, lines of code."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pipelines.context.quotations import unbroken
from pipelines.retrieval.splitting import split_sentences

Kind = Literal["heading", "quote", "item", "row", "fence", "code", "plain", "sentence"]

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*(\w*)")
# Languages of fences that hold no source code.
_PLAIN = frozenset({"", "text", "txt", "plain", "plaintext", "md", "markdown"})
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*\Z")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|\Z)")
_QUOTE = re.compile(r" {0,3}>")
_QUOTED_IN_ITEM = re.compile(r"[ \t]*>")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
# Only these begin a list right below a paragraph.
_INTERRUPTING_ITEM = re.compile(r"[ \t]*(?:[-*+]|0{0,8}1[.)])[ \t]+\S")
_TASK = re.compile(r"\[[ xX]\](?:\s|\Z)")
_ROW = re.compile(r"[ \t]*\|")
_CONTINUED = re.compile(r"[ \t]+\S")
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_ENDED = re.compile(r"[.!?:;\u3002\uff01\uff1f][\"'\u201d\u00bb)\]*_]*\Z")
# A number or a date, a link, a quotation.
_TELLING = re.compile(
    r"[\d\u00bc-\u00be\u2150-\u215e]|[\u3007\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341]+[\u5e74\u6708\u65e5]"
    r"|\[\[|\][(\[:]|://|www\.|[\"\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a\u300c-\u300f]"
)
_QUOTATION = re.compile(r"[\"\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a\u300c-\u300f]")
_TABLE_HEAD = 2  # rows: the names and the line below them


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit, `text[start:end]`, of the block (paragraph, list, table, fence) with this number.

    `fixed`: it stays. `telling`: of a list's item, that it has a number or a link. `gone`: the kind of mark that
    stands for it, empty while it is kept; `note`: that mark's text.
    """

    start: int
    end: int
    kind: Kind
    block: int
    fixed: bool = False
    telling: bool = False
    gone: str = ""
    note: str = ""


def units_of(text: str, *, is_source: bool = False) -> list[Unit]:
    """Return the units of a text in order; every character that is no white space is in one of them.

    Those of source code are its lines, those of Markdown what its marks say.
    """
    if is_source:
        lines = ((match.start(), match[0].rstrip()) for match in _LINE.finditer(text))
        return [Unit(start, start + len(line), "code", 0) for start, line in lines if line]
    found: list[Unit] = []
    paragraph: tuple[int, int] | None = None
    for line in _lines(text):
        if paragraph and line.kind == "sentence" and _UNDERLINE.match(text[line.start : line.end]):
            found.append(Unit(paragraph[0], line.end, "heading", _next_block(found), fixed=True))
            paragraph = None
            continue
        if line.kind == "sentence":
            paragraph = (paragraph[0] if paragraph else line.start, line.end)
            continue
        if paragraph:
            found += _sentences(text, *paragraph, _next_block(found))
            paragraph = None
        if line.follows and found and found[-1].kind == "item":
            words = text[line.start : line.end]
            fixed = found[-1].fixed or bool(_QUOTED_IN_ITEM.match(words) or _QUOTATION.search(words))
            telling = found[-1].telling or _is_telling(words)
            found[-1] = replace(found[-1], end=line.end, fixed=fixed, telling=telling)
        elif line.kind is not None:
            found.append(_unit(text, line, found))
    if paragraph:
        found += _sentences(text, *paragraph, _next_block(found))
    return found


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, without its end; its kind is None where it is empty. `follows`: it belongs to the item before it."""

    start: int
    end: int
    kind: Kind | None
    follows: bool = False


def _lines(text: str) -> Iterator[_Line]:
    fence, last = "", _NOTHING
    inside: Kind = "code"
    for match in _LINE.finditer(text):
        line = match[0].rstrip("\r\n")
        start, end = match.start(), match.start() + len(line)
        opened = _FENCE.match(line)
        if fence:
            closes = opened and opened[1][0] == fence[0] and len(opened[1]) >= len(fence)
            fence = "" if closes and not line.strip(" \t`~") else fence
            yield _Line(start, end, (inside if fence else "fence") if line.strip() else None)
        elif opened:
            fence, last = opened[1], _NOTHING
            inside = "plain" if opened[2].lower() in _PLAIN else "code"
            yield _Line(start, end, "fence")
        elif not line.strip():
            last = replace(last, ended=True)
            yield _Line(start, end, None)
        else:
            kind, follows = last.next(line)
            last = _Before(kind)
            yield _Line(start, end, kind, follows)


@dataclass(frozen=True, slots=True)
class _Before:
    """What a line comes after: a line of this kind; `ended`: there are empty lines between."""

    kind: Kind | None = None
    ended: bool = False

    def next(self, line: str) -> tuple[Kind, bool]:
        """Return a line's kind, and whether it belongs to the item before it: a paragraph goes on without marks."""
        if self.kind == "item" and not _ITEM.match(line):
            lazy = not self.ended and _kind(line) == "sentence"
            if lazy or _CONTINUED.match(line):
                return "item", True
        kind = _kind(line)
        goes_on = kind in ("sentence", "row") or (kind == "item" and not _INTERRUPTING_ITEM.match(line))
        if self.kind == "quote" and not self.ended and goes_on:
            kind = "quote"
        return kind, False


_NOTHING = _Before()


def _kind(line: str) -> Kind:
    shapes: tuple[tuple[re.Pattern[str], Kind], ...] = (
        (_HEADING, "heading"),
        (_QUOTE, "quote"),
        (_ITEM, "item"),
        (_ROW, "row"),
    )
    return next((kind for shape, kind in shapes if shape.match(line)), "sentence")


def _unit(text: str, line: _Line, before: list[Unit]) -> Unit:
    last = before[-1] if before else None
    kind, words = line.kind or "sentence", text[line.start : line.end]
    telling = False
    fenced = {"code", "plain", "fence"}
    same = last is not None and (last.kind == kind or {last.kind, kind} <= fenced)
    block = last.block if last is not None and same else _next_block(before)
    if kind == "row":
        fixed = sum(one.block == block for one in before[-_TABLE_HEAD:]) < _TABLE_HEAD
    elif kind == "item":
        begin = match.end() if (match := _ITEM.match(words)) else 0
        fixed = bool(_TASK.match(words, begin) or _QUOTATION.search(words)) or words[begin:].startswith(">")
        telling = _is_telling(words[begin:])
    elif kind == "plain":
        fixed = _is_telling(words)
    else:
        fixed = kind != "code"
    return Unit(line.start, line.end, kind, block, fixed, telling)


def _next_block(before: list[Unit]) -> int:
    return before[-1].block + 1 if before else 0


def _sentences(text: str, start: int, end: int, block: int) -> Iterator[Unit]:
    """Yield the sentences of a paragraph; one that a line end breaks stays whole, and quotations and links stay."""
    ranges = deque((start + first, start + last) for first, last in unbroken(text[start:end]))

    def sentence(first: int, last: int) -> Unit:
        while ranges and ranges[0][1] <= first:
            ranges.popleft()
        fixed = _is_telling(text[first:last]) or bool(ranges and ranges[0][0] < last)
        return Unit(first, last, "sentence", block, fixed)

    opened: int | None = None
    for piece in split_sentences(text[start:end]):
        first, last = start + piece.start, start + piece.end
        opened = first if opened is None else opened
        if _ENDED.search(text[opened:last]) or last == end:
            yield sentence(opened, last)
            opened = None
    if opened is not None:
        yield sentence(opened, end)


def _is_telling(words: str) -> bool:
    return bool(_TELLING.search(words))
