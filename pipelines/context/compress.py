"""Compress Markdown: leave out what says least for a question, and mark every gap.

What is kept is kept word for word. Headings, tasks, quotes, links, and sentences with numbers stay. Long lists and
tables are summarised with their counts, source code by the source document's rules, and of other sentences those
farthest from the question go first.
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from pipelines.model import ContextLimits
from pipelines.search.excerpts import split_sentences

# Find quotations and links in a paragraph, so that nothing is left out from the middle of one.


# Each opening mark with the marks that close it: „German“, “English”, ”Swedish”, «French», »Finnish», 「Japanese」.
_CLOSED_BY = {
    '"': '"',
    "\u201c": '\u201d"',
    "\u201e": "\u201c\u201d",
    "\u201d": "\u201d",
    "\u00ab": "\u00bb",
    "\u00bb": "\u00ab\u00bb",
    "\u2039": "\u203a",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
    "\u2018": "\u2019",
    "\u201a": "\u2018\u2019",
}
_SINGLE = "\u2018\u201a"
"""Marks that are also apostrophes: without a closing mark they open nothing."""

_AFTER_WORDS = '"\u201d\u00bb'
"""Marks that open a quotation only where no word ends: elsewhere they close one, or mean inches."""

_LINK = re.compile(r"\[\[[^\[\]]*\]\]|\[[^\[\]]*\][(\[][^()\[\]]*[)\]]")


def unbroken(text: str) -> list[tuple[int, int]]:
    """Return the ranges of a paragraph that are quotations or links, by their start.

    A quotation that is not closed goes on to the end.
    """
    return sorted([*_quotations(text), *(match.span() for match in _LINK.finditer(text))])


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    at, unclosed = 0, ""
    while at < len(text):
        mark = text[at]
        is_opening = mark in _CLOSED_BY and not (mark in _AFTER_WORDS and at and text[at - 1].isalnum())
        if not is_opening or mark in unclosed:
            at += 1
            continue
        end = _end(text, at + 1, _CLOSED_BY[mark])
        if end is None and mark in _SINGLE:
            unclosed += mark  # no later one is closed, either, so the text is searched once
            at += 1
            continue
        yield at, end or len(text)
        at = end or len(text)


def _end(text: str, at: int, closing: str) -> int | None:
    """Return the end of the quotation that is open at `at`; an apostrophe inside a word closes nothing."""
    for place in range(at, len(text)):
        if text[place] in closing and not (text[place] == "\u2019" and text[place + 1 : place + 2].isalnum()):
            return place + 1
    return None


# Split a passage into the units that compression keeps or leaves out: sentences, list items, rows, lines of code.


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
    """Yield the sentences of a paragraph; line ends within sentences, quotations and links do not cut them."""
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


# Shorten source code by the source document's rules: summarise imports and the like, leave out what says least.
#
# Of a fence without a language, nothing is summarised, and what holds a number, a link or a quotation stays.


_MODIFIERS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|sealed|override|virtual"
    r"|async|pub(?:\([^)]*\))?|unsafe|extern|const|inline|open|data|partial)\s+)*"
)
_DEFINITION = re.compile(
    rf"\s*{_MODIFIERS}(?:def|function|fn|func|fun|class|struct|interface|enum|trait|impl|type|module|namespace|record)\b"
    r"|\s*(?:export\s+)?(?:const|let|var)\s+\w+\s*=\s*(?:async\b\s*)?(?:function\b|\w+\s*=>|\([^)]*\)[^=]*=>)"
    r"|\s*\w[\w*&<>:,\[\]]*(?:\s+[\w*&<>:,\[\]]+)*\s+[\w~*&:]+\([^;={}]*\)\s*(?:const\s*)?\{?\s*\Z"
    r"|\s*@\w"
)
_BRANCH = re.compile(
    r"[\s})\]]*(?:return|raise|throw|yield|assert|if|elif|elsif|else|unless|for|foreach|while|until|do|loop|try|except"
    r"|catch|rescue|finally|ensure|with|match|switch|case|when|default|guard|select)\b|.*\{\s*\Z"
)
_TODO = re.compile(r".*\b(?:TODO|FIXME|HACK|XXX)\b|.*(?:#|//|\*)\s*NOTE\b")
_COMMENT = re.compile(r"\s*(?:#(?!include|define)|//|/?\*|--)")
_DOC_COMMENT = re.compile(r"\s*(?:///|//!)")
_DOCSTRING = re.compile(r"\s*[rRuUbBfF]{0,2}(\"\"\"|\x27\x27\x27)")
_STRUCTURE = re.compile(r"[\W_]*(?:end)?[\W_]*\Z")
_STRINGS = re.compile(r"\"(?:[^\"\\]|\\.)*\"|\x27(?:[^\x27\\]|\\.)*\x27")
_LONGEST_STATEMENT = 60  # lines
_SUMMARISED = {
    "import": (
        re.compile(
            r"\s*(?:import\b.*\bfrom|(?:const|let|var)\b.*=\s*require\()\s*[\"\x27]([^\"\x27]+)"
            r"|\s*(?:import\s+type|import\s+static|import|from|use|using|require|#\s*include)\b\s*[<\"\x27({]?\s*([\w.:/@-]*)"
        ),
        2,
    ),
    "constant": (
        re.compile(
            r"(?:export\s+)?([A-Z_][A-Z0-9_]+)\s*(?::[^=]+)?=[^=]"
            r"|\s*(?:[\w<>\[\]()]+\s+)*(?:const|static|final|val)\s+(?:[\w<>\[\]]+\s+)*([A-Z_][A-Z0-9_]+)\s*(?::[^=]+)?=[^=]"
            r"|\s*#\s*define\s+([A-Z_][A-Z0-9_]+)\s"
        ),
        1,
    ),
    "assignment": (re.compile(r"\s*(?:self|this)\.(\w+)\s*=[^=]"), 2),
    "log statement": (re.compile(r"\s*(?:(?:log|logger|logging|console)\.\w+|print\w*)\s*\("), 1),
}
"""Kinds of lines, with how many in a row stay as they are."""

_NAMES = 6
_WORD = re.compile(r"[^\W\d]\w+")


def shorten_code(
    units: Sequence[Unit], text: str, terms: Collection[str], *, limits: ContextLimits | None
) -> list[Unit]:
    """Mark the lines of code that are summarised or, within `limits`, left out because they say least."""
    found: list[Unit] = []
    for (kind, _), run in groupby(units, key=lambda one: (one.kind, one.block)):
        lines = list(run)
        words = [text[one.start : one.end] for one in lines]
        stays = [False] * len(lines)
        if kind == "code":
            stays = _preserved(words)
            lines = list(_summarise(lines, words, stays))
        if kind in ("code", "plain") and limits:
            lines = _pruned(lines, words, stays, terms, limits)
        found += lines
    return found


def is_definition(line: str) -> bool:
    """Say whether a line of source code begins a function, a class or the like."""
    return bool(_DEFINITION.match(line)) and not _BRANCH.match(line.rstrip(" {"))


def _preserved(lines: Sequence[str]) -> list[bool]:
    """Return which lines stay: definitions, branches, returns, docstrings and TODOs, each to its last line."""
    stays = [bool(_TODO.match(line) or _DOC_COMMENT.match(line) or _STRUCTURE.match(line)) for line in lines]
    inside = ""  # the mark that ends a docstring or a comment
    for number, line in enumerate(lines):
        if inside:
            stays[number], inside = True, "" if inside in line else inside
        elif opened := _DOCSTRING.match(line):
            stays[number], inside = True, "" if opened[1] in line[opened.end() :] else opened[1]
        elif line.lstrip().startswith("/**"):
            stays[number], inside = True, "" if "*/" in line else "*/"
        elif (_DEFINITION.match(line) or _BRANCH.match(line)) and _class(line) not in ("import", "constant"):
            for at in range(number, _end_of_statement(lines, number, "([", ")]")):
                stays[at] = True
            if _DEFINITION.match(line):
                _keep_comment_above(lines, number, stays)
        elif number and stays[number - 1] and _COMMENT.match(line) and _COMMENT.match(lines[number - 1]):
            stays[number] = True  # a comment goes on
    return stays


def _keep_comment_above(lines: Sequence[str], number: int, stays: list[bool]) -> None:
    while number and _COMMENT.match(lines[number - 1]):
        number -= 1
        stays[number] = True


def _end_of_statement(lines: Sequence[str], number: int, opening: str, closing: str) -> int:
    """Return the line after a statement, which goes on while a bracket is open; a longer one ends with its line."""
    depth = 0
    for at, line in enumerate(lines[number : number + _LONGEST_STATEMENT], number + 1):
        code = _STRINGS.sub("", line)
        depth += sum(code.count(one) for one in opening) - sum(code.count(one) for one in closing)
        if depth <= 0:
            return at
    return number + 1


def _classes(lines: Sequence[str], stays: Sequence[bool]) -> list[str]:
    """Return the kind of each line that can be summarised, empty for others; a statement's lines are of its kind."""
    classes = [""] * len(lines)
    number = 0
    while number < len(lines):
        name = "" if stays[number] else _class(lines[number])
        end = _end_of_statement(lines, number, "([{", ")]}") if name else number + 1
        classes[number:end] = [name] * (end - number)
        number = end
    return classes


def _class(line: str) -> str:
    return next((name for name, (shape, _) in _SUMMARISED.items() if shape.match(line)), "")


def _summarise(lines: Sequence[Unit], words: Sequence[str], stays: Sequence[bool]) -> Iterator[Unit]:
    """Replace each run of imports, constants, assignments of attributes, or log statements by a line that counts."""
    for name, run in groupby(zip(_classes(words, stays), lines, words, strict=True), key=lambda one: one[0]):
        same = [(unit, line) for _, unit, line in run]
        begins = [match for _, line in same if name and (match := _SUMMARISED[name][0].match(line))]
        if not name or len(begins) <= _SUMMARISED[name][1]:
            yield from (unit for unit, _ in same)
            continue
        note = f"# [{len(begins)} {name}s{_names(begins)}]"
        yield from (replace(unit, gone=name, note=note) for unit, _ in same)


def _names(matches: Sequence[re.Match[str]]) -> str:
    """Return the names in a run of lines, as they follow its count."""
    names = list(dict.fromkeys(name for match in matches for name in match.groups() if name))
    return (": " if names else "") + ", ".join(names[:_NAMES]) + (", …" if len(names) > _NAMES else "")


def _pruned(
    lines: Sequence[Unit],
    texts: Sequence[str],
    stays: Sequence[bool],
    terms: Collection[str],
    limits: ContextLimits,
) -> list[Unit]:
    """Leave out the lines with the smallest sum of inverse document frequencies, each line being a document."""
    words = [set(_WORD.findall(line.casefold())) for line in texts]
    having = Counter(word for own in words for word in own)
    worth = [sum(math.log((len(lines) + 1) / (having[word] + 1)) + 1 for word in own) for own in words]
    loose = [
        number
        for number, one in enumerate(lines)
        if not (one.gone or one.fixed or stays[number] or words[number] & set(terms))
    ]
    kept = sum(one.end - one.start for one in lines if not one.gone)
    target = limits.target_ratio * sum(one.end - one.start for one in lines)
    gone: set[int] = set()
    for number in sorted(loose, key=lambda n: worth[n])[: math.ceil(limits.max_prune_ratio * len(loose))]:
        if kept <= target:
            break
        kept -= lines[number].end - lines[number].start
        gone.add(number)
    return [replace(one, gone=one.kind) if number in gone else one for number, one in enumerate(lines)]


CompressionMode = Literal["none", "light", "strong"]
_LIGHT = 0.7
"""The share of a text's characters towards which `light` leaves out sentences; that of `strong` is in the limits."""

_ROWS: dict[CompressionMode, int] = {"light": 7, "strong": 4}  # with the two of a table's head
_ITEMS: dict[CompressionMode, int] = {"light": 6, "strong": 3}
GAP = "[…]"


@dataclass(frozen=True, slots=True)
class Aim:
    """What a text is compressed for: the mode, the words of the question, and lines that are boilerplate.

    `near`: how near ranges of the text are to the question, (start, end, cosine). `share`: the share of the text that
    would suffice; the mode and the domain's `limits` say how much is left out at most. `is_source`: the text is
    source code, not Markdown.
    """

    mode: CompressionMode
    terms: Collection[str] = ()
    near: Sequence[tuple[int, int, float]] = ()
    repeated: Collection[str] = ()
    share: float = 0.0
    is_source: bool = False
    limits: ContextLimits = field(default_factory=ContextLimits)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a compressed text: a range of the original, or a mark in place of what was left out."""

    start: int
    end: int
    mark: str = ""


def compress(text: str, aim: Aim) -> tuple[str, list[TextPart]]:
    """Return a text compressed, and its parts; the text itself if nothing can be left out."""
    if aim.mode == "none":
        return text, [TextPart(0, len(text))]
    units = units_of(text, is_source=aim.is_source)
    units = [replace(one, gone="line") if _is_boilerplate(one, text, aim) else one for one in units]
    units = list(_shorten_runs(units, text, aim))
    units = shorten_code(units, text, aim.terms, limits=aim.limits if aim.mode == "strong" else None)
    units = _prune(units, text, aim)
    parts = list(_parts(units))
    return _written(text, parts), parts


def best_part(
    text: str, aim: Aim, sizes: Callable[[Sequence[str]], Sequence[int]], room: int
) -> tuple[int, int] | None:
    """Return the range of the lines and sentences around the one nearest to the question that fit into `room`.

    Of source code it begins with a definition, if all lines from there to the nearest one fit. None if not even the
    nearest one fits.
    """
    units = units_of(text, is_source=aim.is_source)
    if not units:
        return None
    counts = sizes([text[one.start : one.end] for one in units])
    near = [_nearness(one, text, aim) for one in units]
    first = last = max(range(len(units)), key=lambda n: near[n])
    if counts[first] > room:
        return None
    begins = [n for n, one in enumerate(units) if aim.is_source and is_definition(text[one.start : one.end])]
    before = [n for n in (begins or range(len(units))) if n <= first]
    if begins and before and sum(counts[before[-1] : last + 1]) <= room:
        first = before.pop()
    while True:
        used = sum(counts[first : last + 1])
        previous = max((n for n in before if n < first), default=None)
        fits_before = previous is not None and used + sum(counts[previous:first]) <= room
        fits_after = last + 1 < len(units) and used + counts[last + 1] <= room
        if fits_after and (begins or not fits_before or near[last + 1] >= near[first - 1]):
            last += 1
        elif fits_before and previous is not None:
            first = previous
        else:
            return units[first].start, units[last].end


def _is_boilerplate(unit: Unit, text: str, aim: Aim) -> bool:
    return (
        not (unit.fixed or unit.telling)
        and unit.kind in ("sentence", "item")
        and text[unit.start : unit.end].strip() in aim.repeated
    )


def _shorten_runs(units: Sequence[Unit], text: str, aim: Aim) -> Iterator[Unit]:
    """Summarise long lists and tables: the first entries stay, and those that share a word with the question.

    Entries with numbers or links stay, too, where they are few: in a list in which most have some, that says nothing.
    """
    for (kind, _), run in groupby(units, key=lambda one: (one.kind, one.block)):
        first = {"row": _ROWS, "item": _ITEMS}.get(kind, {}).get(aim.mode)
        entries = list(run)
        few = sum(one.telling for one in entries) <= len(entries) / 2
        for number, one in enumerate(entries):
            stays = one.fixed or (one.telling and few)
            is_due = first is not None and number >= first and not (stays or _asks_for(one, text, aim))
            yield replace(one, gone=kind) if is_due and not one.gone else one


def _asks_for(unit: Unit, text: str, aim: Aim) -> bool:
    words = text[unit.start : unit.end].casefold()
    return any(term in words for term in aim.terms)


def _prune(units: Sequence[Unit], text: str, aim: Aim) -> list[Unit]:
    """Leave out sentences, the farthest from the question first, until the text is as short as it should be."""
    least = _LIGHT if aim.mode == "light" else aim.limits.target_ratio
    target = max(least, aim.share) * len(text)
    kept = sum(one.end - one.start for one in units if not one.gone)
    loose = [n for n, one in enumerate(units) if one.kind == "sentence" and not (one.fixed or one.gone)]
    pruned: set[int] = set()
    for number in sorted(loose, key=lambda n: _nearness(units[n], text, aim))[
        : int(aim.limits.max_prune_ratio * len(loose))
    ]:
        if kept <= target:
            break
        kept -= units[number].end - units[number].start
        pruned.add(number)
    return [replace(one, gone="sentence") if n in pruned else one for n, one in enumerate(units)]


def _nearness(unit: Unit, text: str, aim: Aim) -> float:
    """Return the best cosine of the ranges in a sentence; where there are none, its share of the question's words."""
    cosines = [cosine for start, end, cosine in aim.near if start < unit.end and unit.start < end]
    if cosines:
        return max(cosines)
    words = text[unit.start : unit.end].casefold()
    return sum(term in words for term in aim.terms) / max(1, len(aim.terms)) - 1


def _parts(units: Sequence[Unit]) -> Iterator[TextPart]:
    """Yield what is kept, neighbours as one range, and one mark for each run of units that are gone."""
    for (gone, _), several in groupby(units, key=lambda one: (one.gone, one.note)):
        run = list(several)
        mark = "" if not gone else run[0].note or _mark(gone, len(run))
        yield TextPart(run[0].start, run[-1].end, mark)


def _mark(gone: str, count: int) -> str:
    names = {
        "row": ("row", "rows"),
        "item": ("item", "items"),
        "code": ("line of code", "lines of code"),
        "plain": ("line", "lines"),
    }
    return f"[… {count} {names[gone][count > 1]}]" if gone in names else GAP


def _written(text: str, parts: Sequence[TextPart]) -> str:
    """Join the parts; a mark is on the line of what it replaces if that line goes on, else on its own."""
    written: list[str] = []
    end = 0
    for part in parts:
        between = text[end : part.start] if written else ""
        breaks = "\n\n" if between.count("\n") > 1 else "\n" if "\n" in between else " "
        written.append((breaks if written else "") + (part.mark or text[part.start : part.end]))
        end = part.end
    return "".join(written)
