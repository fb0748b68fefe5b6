r"""Convert Markdown to the text that a reader sees, character by character.

The text keeps its length: what is not shown becomes NUL, which no note contains (`decode` replaces it). A position in
the result is therefore the same position in the source, and the parts of a long text can be shown one by one. A text
may begin or end anywhere, as a chunk does, so the remains of a cut link or emphasis are hidden too.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from pipelines.retrieval.html_tags import without_tags

HIDDEN = "\0"
# Placeholder for a character that later rules must leave alone.
_KEPT = "\1"
_CELL = "\u00b7"

# Admonitions are written as code blocks.
_MARKDOWN = re.compile(r"ad-|md\b|markdown\b")
_FENCE = re.compile(r"^[ \t>]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$", re.MULTILINE)
_PROSE = re.compile(r"\]\(|\[\[|\*\*\w")
_LIST = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]", re.MULTILINE)
_INDENTED = re.compile(r"(?:\A|(?<=\n\n))(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+")
_LONGEST = 2_000
# Every branch begins with its own character, which `re` searches for before it tries the rest.
_VERBATIM = re.compile(
    r"\\(?:(?P<escape>(?=[!-/:-@\[-`{}~])[^|\n])|(?P<line_break>$))"
    rf"|`(?<!``)(?P<ticks>`*)(?!`)(?P<code>[^\n]{{1,{_LONGEST}}}?)(?<!`)`(?P=ticks)(?!`)"
    rf"|<!--(?P<html_comment>(?:[^<-]|-(?!->)|<(?!!--)){{0,{_LONGEST}}}-->|)"
    rf"|%%(?P<comment>.{{0,{_LONGEST}}}?%%|(?<=^%%)|$)"
    rf"|\$\$(?P<formula>[^$]{{1,{_LONGEST}}}\$\$|)"
    rf"|\$(?<![\w$]\$)(?P<math>(?![\s$])[^$\n]{{1,{_LONGEST}}}(?<![\s\\])\$(?![\d$]))"
    r"|h(?<!\wh)ttps?://(?P<url>[^\s<>()\[\]\"'*`|]*[^\s<>()\[\]\"'*`|.,;:!?])"
    r"|&(?P<entity>(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z]\w{1,30});)",
    re.DOTALL | re.MULTILINE,
)
_RULE = r"[ \t]*(?:(?:[-*_][ \t]*){3,}|=+)[ \t]*"
_DELIMITERS = r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*"
_LINE_MARKS = re.compile(
    rf"^(?:(?P<line>{_RULE}|{_DELIMITERS})$"
    r"|[ \t]*(?:(?:>|[-*+](?=\s)|\d{1,3}[.)](?=\s)|\[[ xX/<>!?*-]\](?=\s)|#{1,6}(?=\s|$)|\[![\w-]+\][+-]?)[ \t]*)+)",
    re.MULTILINE,
)
_LINE_ENDS = re.compile(
    r"(?:#(?<=\s#)#*|\{(?<=\s\{)[#.][^{}\n]*\}|\^(?<=\s\^)[A-Za-z\d-]+)[ \t]*$", re.MULTILINE
)
_HAS_DELIMITERS = re.compile(rf"^(?=[^\n]*-)(?=[^\n]*\|){_DELIMITERS}$", re.MULTILINE)
_ROW = re.compile(r"^[ \t\0]*\|[^\n]*$", re.MULTILINE)
_ANY_ROW = re.compile(r"^[^\n]*\|[^\n]*$", re.MULTILINE)
_DESTINATION = (
    rf"\((?:[^()\s]|\([^()\n]*\)|[ \t](?![\"'])){{0,{_LONGEST}}}(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)"
)
_TEXT = rf"(?:[^\[\]]|\[[^\[\]\n]*\]){{0,{_LONGEST}}}"
_LINKS = re.compile(
    rf"!\[(?:\[(?P<embed>[^\[\]\n]*)\]\]|(?P<image>{_TEXT})\]{_DESTINATION})"
    r"|\[\[(?P<wikilink>[^\[\]\n]+)\]\]"
    r"|\[(?:(?<![^\n]\[)\^[^\]\s]{1,100}\]:[ \t]*|\^[^\]\s]{1,100}\])"
    r"|\[(?<![^\n]\[)[^\[\]\n]+\]:[ \t]+\S+(?:[ \t]+[\"'(][^\n]*)?[ \t]*$"
    rf"|\[(?P<link>{_TEXT})\]{_DESTINATION}"
    r"|\[(?<!\w\[)(?P<reference>[^\[\]\n]+)\]\[[^\[\]\n]*\]",
    re.MULTILINE,
)
_CUT_LINKS = re.compile(r"\]\([^\s)]*\)?|!\[\[?|\[\[|\]\]|\[(?=[^\[\]\n]*\Z)")
_TAG = re.compile(r"#(?<![\w#&/]#)[\w/-]*[^\W\d][\w/-]*")
_AUTOLINK = re.compile(rf"<(?P<address>{_KEPT}+)>")
_BULLET = re.compile(r"\A(?:[-*+>|]\s+|#{1,6}\s+|\[.\]\s+)+")
_INNER = r"(?:[^{0}\n]|\n(?!\s*\n))"
_EMPHASIS = re.compile(
    rf"\*(?<![*\w]\*)(?P<star>\*{{0,2}})(?![\s*])(?P<a>{_INNER.format('*')}{{1,{_LONGEST}}}?)(?<![\s*])\*(?P=star)(?!\*)"
    rf"|\*\*(?<![*A-Za-z0-9]\*\*)(?![\s*])(?P<b>{_INNER.format('*')}{{1,{_LONGEST}}}?)(?<![\s*])\*\*(?!\*)"
    rf"|_(?<!\w_)(?P<low>_{{0,2}})(?![\s_])(?P<c>(?:[^_\n]|(?<=\w)_+(?=\w)|\n(?!\s*\n)){{1,{_LONGEST}}}?)(?<![\s_])_(?P=low)(?!\w)"
    rf"|~~(?<![\w~]~~)(?![\s~])(?P<d>[^~\n]{{1,{_LONGEST}}}?)(?<![\s~])~~(?![\w~])"
    rf"|==(?<![\w=]==)(?![\s=])(?P<e>[^=\n]{{1,{_LONGEST}}}?)(?<![\s=])==(?![\w=])"
)
_STRAY = re.compile(r"\*\*(?:(?<![A-Za-z0-9)*]\*\*)\**|\**(?![A-Za-z0-9(*]))|`+")
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text as it is shown, and the same without links, addresses and tags; each is as long as the source."""

    shown: str
    telling: str

    def between(self, start: int, end: int) -> str:
        """Return the shown text of a part of the source, on one line, without a leading bullet."""
        return _BULLET.sub("", _visible(self.shown[start:end]))

    def says(self, start: int, end: int) -> bool:
        """Say whether a part of the source has a word outside links, addresses and tags."""
        return any(character.isalnum() for character in self.telling[start:end])


def plain(text: str) -> str:
    """Return a Markdown text as a reader sees it, on one line."""
    return _visible(plain_text(text).shown)


def plain_text(text: str) -> PlainText:
    """Read Markdown: emphasis, links, headings, lists, quotes, tables, HTML, comments, footnotes, embeds, escapes."""
    reading = _Reading(text.replace(HIDDEN, "\ufffd"))
    for rule in (_code_blocks, _verbatim, _lines, _links, _tables, _html, _emphasis):
        rule(reading)
    return reading.done()


def _visible(shown: str) -> str:
    return " ".join(shown.replace(HIDDEN, "").split())


@dataclass(slots=True)
class _Reading:
    """A text while rules are applied, with the places of verbatim text and of links."""

    now: str
    verbatim: list[tuple[int, int, str]] = field(default_factory=list)
    linked: list[tuple[int, int]] = field(default_factory=list)
    has_tables: bool = False

    def keep(self, start: int, end: int, text: str) -> str:
        """Keep a text from later rules: record it, and return a placeholder of the same length."""
        self.verbatim.append((start, end, text.ljust(end - start, HIDDEN)))
        return _KEPT * (end - start)

    def apply(self, pattern: re.Pattern[str], change: Callable[[re.Match[str]], str]) -> None:
        """Replace each match of a pattern by something of the same length."""
        self.now = pattern.sub(change, self.now)

    def done(self) -> PlainText:
        """Restore the kept texts, unless a later rule hid them."""
        shown = self.now
        if self.verbatim:
            parts, at = [], 0
            for start, end, text in sorted(self.verbatim):
                if start >= at:
                    parts += [shown[at:start], text if HIDDEN not in shown[start:end] else shown[start:end]]
                    at = end
            shown = "".join([*parts, shown[at:]])
        telling = shown
        for start, end in self.linked:
            telling = telling[:start] + HIDDEN * (end - start) + telling[end:]
        return PlainText(shown, telling)


def _hide(match: re.Match[str]) -> str:
    return HIDDEN * len(match[0])


def _blank(match: re.Match[str]) -> str:
    """Hide a match but leave a space, so that the words around it stay separate."""
    return " ".ljust(len(match[0]), HIDDEN)


def _only(match: re.Match[str], group: str) -> str:
    """Hide all of a match except for a group."""
    start, end = match.span(group)
    return HIDDEN * (start - match.start()) + match[group] + HIDDEN * (match.end() - end)


def _code_blocks(reading: _Reading) -> None:
    """Keep the lines of code blocks as they are, and hide their fences."""
    text = reading.now
    fences = list(_FENCE.finditer(text)) if "```" in text or "~~~" in text else []
    parts, at, opened = [], 0, "`" if fences and _begins_inside(text, fences) else ""
    code = bool(opened) and not _PROSE.search(text[: fences[0].start()])
    for fence in fences:
        start, end = fence.span()
        parts += [reading.keep(at, start, text[at:start]) if code else text[at:start], _hide(fence)]
        at = end
        if not opened:
            opened, code = fence["mark"], not _MARKDOWN.match(fence["info"])
        elif fence["mark"][0] == opened[0] and len(fence["mark"]) >= len(opened) and not fence["info"]:
            opened, code = "", False
    parts.append(reading.keep(at, len(text), text[at:]) if code and at < len(text) else text[at:])
    reading.now = "".join(parts)
    if ("    " in text or "\t" in text) and not _LIST.search(reading.now):
        reading.apply(
            _INDENTED, lambda m: m[0] if _PROSE.search(m[0]) else reading.keep(m.start(), m.end(), m[0])
        )


def _begins_inside(text: str, fences: list[re.Match[str]]) -> bool:
    """Guess whether a part of a note begins within a code block: one of its fences has no counterpart."""
    odd = sum(fence["mark"][0] == fences[0]["mark"][0] for fence in fences) % 2 == 1
    return odd and not text.startswith("#") and not fences[0]["info"] and not fences[-1]["info"]


def _verbatim(reading: _Reading) -> None:
    """Keep code, formulas, addresses and escaped characters from all later rules, and hide comments."""

    def change(match: re.Match[str]) -> str:
        kind, (start, end) = match.lastgroup, match.span()
        if kind == "code" or match["formula"]:
            first, last = match.span("code") if kind == "code" else (start + 2, end - 2)
            inner = reading.now[first:last]
            return HIDDEN * (first - start) + reading.keep(first, last, inner) + HIDDEN * (end - last)
        if kind == "escape":
            return HIDDEN + reading.keep(start + 1, end, match["escape"])
        if kind in ("comment", "html_comment"):
            return _blank(match)
        if kind in ("line_break", "formula"):
            return _hide(match)
        if kind == "url":
            reading.linked.append((start, end))
        shown = html.unescape(match[0]) if kind == "entity" else match[0]
        return reading.keep(start, end, shown if len(shown) <= end - start else match[0])

    reading.apply(_VERBATIM, change)


def _lines(reading: _Reading) -> None:
    """Hide marks at the beginning or end of lines, or whole lines: headings, lists, quotes, rules, block ids."""
    reading.has_tables = "|" in reading.now and _HAS_DELIMITERS.search(reading.now) is not None
    reading.apply(_LINE_MARKS, _hide)
    reading.apply(_LINE_ENDS, _hide)


def _links(reading: _Reading) -> None:
    """Show the text of each link; show nothing of embeds, footnote marks and reference definitions."""

    def change(match: re.Match[str]) -> str:
        kind = match.lastgroup
        if kind == "embed":
            return _blank(match)
        if kind is None:
            return _hide(match)
        shown = _wikilink(match) if kind == "wikilink" else _only(match, kind)
        reading.linked.append(match.span())
        return shown

    if "[" in reading.now or "]" in reading.now:
        reading.apply(_LINKS, change)
        if "](" in reading.now:
            reading.apply(_LINKS, change)  # for images within links
        reading.apply(_CUT_LINKS, _hide)
    reading.linked += [match.span() for match in _TAG.finditer(reading.now)]


def _wikilink(match: re.Match[str]) -> str:
    """Show a wikilink's alias, or else its target."""
    inner = match["wikilink"]
    target, bar, alias = inner.partition("|")
    if bar:
        return HIDDEN * (len(match[0]) - 2 - len(alias)) + alias + HIDDEN * 2
    note, _, _ = target.partition("#^")
    parts = list(filter(None, note.split("#")))
    shown = next((one for one in (" › ".join(parts), " ".join(parts)) if len(one) <= len(match[0])), "")
    return shown.ljust(len(match[0]), HIDDEN)


def _tables(reading: _Reading) -> None:
    """Show the cells of table rows, with a dot between them."""
    if "|" in reading.now:
        reading.apply(_ANY_ROW if reading.has_tables else _ROW, _row)


def _row(match: re.Match[str]) -> str:
    shown, before = "", False
    for cell in re.split(r"(\\?\|)", match[0]):
        if cell == "|":
            shown += HIDDEN
        elif cell == "\\|":
            shown += "\0|"
        else:
            says = bool(_visible(cell))
            shown = f"{shown[:-1]}{_CELL}" if says and before else shown
            shown, before = shown + cell, before or says
    return shown


def _html(reading: _Reading) -> None:
    """Hide HTML tags, and show a link in angle brackets without the brackets."""
    if "<" in reading.now:
        reading.apply(_AUTOLINK, lambda m: _only(m, "address"))
        reading.now = without_tags(reading.now, HIDDEN)


def _emphasis(reading: _Reading) -> None:
    """Hide the marks of emphasis, from the innermost outwards, and those that lost their counterpart to a cut."""

    def change(match: re.Match[str]) -> str:
        return _only(match, next(name for name in "abcde" if match[name] is not None))

    for _ in range(_DEEPEST):
        before = reading.now
        reading.apply(_EMPHASIS, change)
        if before == reading.now:
            break
    reading.apply(_STRAY, _hide)
