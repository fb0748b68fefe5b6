"""Layer 4: pick the two sentences of a chunk that answer best, and mark the words of the question in them."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, takewhile

from pipelines.formats import format_of
from pipelines.notes.chunk import CJK
from pipelines.notes.lexical import fold_letters

# Remove HTML tags from a note's text.


_HTML_TAG = re.compile(r"<(?P<slash>/?)(?P<name>[A-Za-z][\w.-]*)(?P<rest>(?:\s[^<>]*)?/?)>")
_INLINE = re.compile(
    "a|abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small|span|strike|strong|sub"
    "|time|tt|u|var|wbr"
)
_BLOCK = re.compile(
    "article|aside|blockquote|body|br|button|caption|center|col|dd|details|div|dl|dt|figcaption|figure|footer|form"
    "|h[1-6]|head|header|hr|html|iframe|img|input|li|link|main|meta|nav|object|ol|option|p|path|picture|pre|script"
    "|section|select|source|style|summary|svg|table|tbody|td|textarea|tfoot|th|thead|tr|ul|video"
)


def without_tags(text: str, filler: str) -> str:
    """Return a text of the same length with its HTML tags replaced by a filler.

    Tags are those that HTML defines, and others that are closed or have an attribute; `<your name>` and `Vec<u8>` are
    text. A block tag leaves a space, so that words stay separate, and `<sup>` leaves `^`.
    """

    def change(match: re.Match[str]) -> str:
        name = match["name"].lower()
        if name == "sup":
            return ("" if match["slash"] else "^").ljust(len(match[0]), filler)
        if _INLINE.fullmatch(name):
            return filler * len(match[0])
        marked = match["slash"] or match["rest"].endswith("/") or "=" in match["rest"]
        known = marked or _BLOCK.fullmatch(name) or f"</{match['name']}>" in text
        return " ".ljust(len(match[0]), filler) if known else match[0]

    return _HTML_TAG.sub(change, text)


# Split a text into sentences, also one whose lines an editor wrapped.


HEADING = re.compile(r"#{1,6}\s")
"""The beginning of a line that is a heading."""

# A full stop that ends a sentence, unlike those of "e.g.", "z.B." and these abbreviations. It comes before the
# lookbehinds, which are slow, because most characters are none.
_FULL_STOP = (
    r"\.(?<!\b\w\.\w\.)(?<!\b(?:Dr|Mr|Ms|No|Nr|ca|cf|eg|ft|ie|pp|vs)\.)(?<!\b(?:Abs|Fig|Mrs|Vol|bzw|vgl)\.)"
)
# The number of a list item ends no sentence either.
_SENTENCE = re.compile(
    rf"(?=\S)(?:\d{{1,3}}[.)][ \t]+)?(?:.*?(?:(?:{_FULL_STOP}|[!?])(?=\s)|[\u3002\uff01\uff1f])|.+)"
)
_FENCE_LINE = re.compile(r"[ \t>]*(?:`{3}|~{3})")
_MARGIN = re.compile(r"[ \t]*(?:>[ \t]?)*")
_NO_PROSE = re.compile(r"[={}<>\\]|->|::|\w\(| \| |://|\A(?:\||\[!|#{1,6}\s)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s")
_GOES_ON = re.compile(r"[\w,)\]\"'\u2019\u201d\u00bb*_`\u2013\u2014-]")
_CONTINUES = re.compile(r"[(\[\"'\u2018\u201c\u00ab*_`]*\w")
_BREAK = "  \n"
_SHORTEST_WRAPPED = 40
# Before a line that begins with a capital, only lines of the usual widths count as wrapped.
_WIDTHS = range(50, 121)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text, `text[start:end]`, with its white space collapsed."""

    text: str
    start: int
    end: int


def split_sentences(text: str) -> list[Sentence]:
    """Split a text after `.`, `!` or `?` before a space and their CJK forms, and where a line ends.

    A line that an editor wrapped ends no sentence. Headings are left out because they say little on their own,
    unless there is nothing else.
    """
    found = list(_pieces(_unwrapped(text)))
    return [s for s in found if not HEADING.match(s.text)] or found


def whole_sentences(text: str, at: int, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences of a part of a text, which begins `at` an offset, where they are in the text.

    The first one is given the beginning, and the last one the end, that the part cut off.
    """
    moved = [replace(one, start=one.start + at, end=one.end + at) for one in sentences]
    unwrapped = _unwrapped(text)
    if moved and (cut := _piece_across(unwrapped, moved[0].start)):
        moved[0] = replace(moved[0], start=cut.start)
    if moved and (cut := _piece_across(unwrapped, moved[-1].end)):
        moved[-1] = replace(moved[-1], end=cut.end)
    return moved


def _piece_across(unwrapped: str, at: int) -> Sentence | None:
    """Return the sentence of a text that goes across an offset; only the line there is read, because others end."""
    begins = unwrapped.rfind("\n", 0, at) + 1
    before = takewhile(lambda piece: piece.start < at, _pieces(unwrapped, begins))
    across = next((piece for piece in before if piece.end > at), None)
    if across and HEADING.match(across.text):
        return across if all(HEADING.match(piece.text) for piece in _pieces(unwrapped)) else None
    return across


def _pieces(unwrapped: str, begins: int = 0) -> Iterator[Sentence]:
    """Yield the sentences and headings of a text from where one begins."""
    for match in _SENTENCE.finditer(unwrapped, begins):
        text = match[0]
        yield Sentence(" ".join(text.split()), match.start(), match.start() + len(text.rstrip()))


def _unwrapped(text: str) -> str:
    """Return a text with a space in place of the end of each line that was wrapped: it keeps its length."""
    return "".join(_physical_lines(text)) if "\n" in text else text


def _physical_lines(text: str) -> Iterator[str]:
    is_code = False
    for line, following in pairwise([*text.splitlines(keepends=True), ""]):
        is_code ^= bool(_FENCE_LINE.match(line))
        yield line if is_code or not _is_wrapped(line, following) else f"{line[:-1]} "


def _is_wrapped(line: str, following: str) -> bool:
    """Say whether a sentence goes on in the next line: both are prose, and neither ends or begins anything."""
    if len(line) < _SHORTEST_WRAPPED or not line.endswith("\n") or line.endswith(_BREAK):
        return False
    margin, next_margin = _margin(line), _margin(following)
    words, next_words = line[len(margin) :].rstrip(), following[len(next_margin) :]
    if (
        not (_GOES_ON.match(words[-1:]) and _CONTINUES.match(next_words))
        or margin.count(">") != next_margin.count(">")
        or _ITEM.match(next_words)
        or any(map(_NO_PROSE.search, (words, next_words)))
    ):
        return False
    is_of_usual_width = len(line) in _WIDTHS and (words[-1].islower() or words[-1] == ",")
    return next_words[0].islower() or is_of_usual_width


def _margin(line: str) -> str:
    """Return what stands before a line's words: its indentation, and the signs of quotes."""
    found = _MARGIN.match(line)
    return found[0] if found else ""


# Convert Markdown to the text that a reader sees, character by character.
#
# The text keeps its length: what is not shown becomes NUL, which no note contains (`decode` replaces it). A
# position in the result is therefore the same position in the source, and the parts of a long text can be shown one
# by one. A text may begin or end anywhere, as a chunk does, so the remains of a cut link or emphasis are hidden
# too.


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
    reading = _MarkedText(text.replace(HIDDEN, "\ufffd"))
    for rule in (_code_blocks, _verbatim, _lines, _links, _tables, _html, _emphasis):
        rule(reading)
    return reading.done()


def _visible(shown: str) -> str:
    return " ".join(shown.replace(HIDDEN, "").split())


@dataclass(slots=True)
class _MarkedText:
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


def _code_blocks(reading: _MarkedText) -> None:
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


def _verbatim(reading: _MarkedText) -> None:
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


def _lines(reading: _MarkedText) -> None:
    """Hide marks at the beginning or end of lines, or whole lines: headings, lists, quotes, rules, block ids."""
    reading.has_tables = "|" in reading.now and _HAS_DELIMITERS.search(reading.now) is not None
    reading.apply(_LINE_MARKS, _hide)
    reading.apply(_LINE_ENDS, _hide)


def _links(reading: _MarkedText) -> None:
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


def _tables(reading: _MarkedText) -> None:
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


def _html(reading: _MarkedText) -> None:
    """Hide HTML tags, and show a link in angle brackets without the brackets."""
    if "<" in reading.now:
        reading.apply(_AUTOLINK, lambda m: _only(m, "address"))
        reading.now = without_tags(reading.now, HIDDEN)


def _emphasis(reading: _MarkedText) -> None:
    """Hide the marks of emphasis, from the innermost outwards, and those that lost their counterpart to a cut."""

    def change(match: re.Match[str]) -> str:
        return _only(match, next(name for name in "abcde" if match[name] is not None))

    for _ in range(_DEEPEST):
        before = reading.now
        reading.apply(_EMPHASIS, change)
        if before == reading.now:
            break
    reading.apply(_STRAY, _hide)


_CJK = re.compile(f"[{CJK}]")
_SENTENCES = 2
_LONGEST_EXCERPT = 320
# What is folded together: plain characters, or a letter with its accents or a half-width one with its voice mark.
_MARK = r"[\u0300-\u036f\u3099\u309a\uff9e\uff9f]"
_FOLDED_TOGETHER = re.compile(rf"[\0-\x7f]+(?!{_MARK})|.{_MARK}*", re.DOTALL)
_READ, _OPENING_LINES, _LONGEST_LINE = 1_000, 4, 300


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A chunk's excerpt as plain text, the ranges in it that match, and the ranges of its sentences in the chunk."""

    text: str
    marks: tuple[tuple[int, int], ...]
    sentences: tuple[tuple[int, int], ...]


def opening(text: str) -> list[str]:
    """Return the first lines of a Markdown text as a reader sees them, without headings and empty lines."""
    beginning = text[:_READ]
    reading, lines, start = plain_text(beginning), list[str](), 0
    for line in beginning.splitlines(keepends=True):
        shown = reading.between(start, start + len(line))
        start += len(line)
        if shown and not HEADING.match(line):
            lines.append(shown[:_LONGEST_LINE])
        if len(lines) == _OPENING_LINES:
            break
    return lines


def read_passage(path: str, text: str) -> PlainText:
    """Read a passage of a file: as Markdown if its format writes it, otherwise as it is written."""
    form = format_of(path)
    return plain_text(text) if form is None or form.markdown else PlainText(text, text)


def excerpt(
    text: PlainText,
    sentences: Sequence[Sentence],
    terms: Sequence[str],
    similarities: Sequence[float] | None = None,
) -> Excerpt:
    """Choose two sentences of a text, in its order; return them as shown, with the terms marked.

    Chooses those most similar to the question (the source document's "Excerpt extraction"); if no term occurs in
    them, the second gives way to the sentence with most of the terms. If the similarities are unknown, chooses those
    with most of the terms, or the first ones if no term occurs. A sentence that consists only of links, addresses or
    tags is chosen only if there is no other.
    """
    pattern = _pattern(tuple(terms))
    shown = [_composed(text.between(s.start, s.end)) for s in sentences]
    worth = similarities if similarities is not None else [_terms_in(one, pattern) for one in shown]
    ranked = sorted(range(len(shown)), key=lambda i: (-worth[i], i))
    telling = [i for i in ranked if text.says(sentences[i].start, sentences[i].end)]
    ranked = telling or [i for i in ranked if shown[i]] or ranked
    best = ranked[:_SENTENCES]
    if similarities is not None and not any(_terms_in(shown[i], pattern) for i in best):
        most = max(ranked, key=lambda i: _terms_in(shown[i], pattern), default=None)
        if most is not None and _terms_in(shown[most], pattern):
            best[-1] = most
    best.sort()
    cut = " … ".join(_around(shown[i], pattern) for i in best if shown[i])
    marks = tuple(_marks(cut, pattern)) if pattern else ()
    return Excerpt(cut, marks, tuple((sentences[i].start, sentences[i].end) for i in best))


def sentence_at(path: str, text: str, at: int, terms: Sequence[str]) -> Excerpt:
    """Return the sentence of a passage that holds the character `at`, or the next one, with the terms marked."""
    ahead = [one for one in split_sentences(text) if one.end > at]
    return excerpt(read_passage(path, text), ahead[:1], terms)


def _composed(text: str) -> str:
    """Return a text in composed Unicode (NFC), in which it is shown."""
    return unicodedata.normalize("NFC", text)


def _terms_in(sentence: str, pattern: re.Pattern[str] | None) -> int:
    return len({match.lastindex for match in pattern.finditer(fold_letters(sentence))}) if pattern else 0


def _marks(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a text whose folded letters match, in order; overlapping ones are one."""
    folded = ""
    spans: list[
        tuple[int, int]
    ] = []  # of each folded letter: where the one begins and ends from which it comes
    for part in _FOLDED_TOGETHER.finditer(text):
        letters, (first, last) = fold_letters(part[0]), part.span()
        folded += letters
        spans += pairwise(range(first, last + 1)) if part[0].isascii() else [(first, last)] * len(letters)
    start = end = 0
    for match in pattern.finditer(folded):
        first, last = match.span() if match[0] else match.span(match.lastindex or 0)
        begins, ends = spans[first][0], spans[last - 1][1]
        if begins >= end:
            if end:
                yield start, end
            start = begins
        end = max(end, ends)
    if end:
        yield start, end


@lru_cache(maxsize=16)  # every hit of an answer has the same terms
def _pattern(terms: tuple[str, ...]) -> re.Pattern[str] | None:
    """Match any term in a folded text, one group each: words whole or with an English ending, CJK anywhere."""
    longest_first = sorted(filter(None, map(fold_letters, terms)), key=len, reverse=True)
    words = [term for term in longest_first if term.isalnum() and not _CJK.search(term)]
    # Pairs of CJK characters overlap: each is found where it begins, and takes no characters from the next.
    parts = [f"(?=({re.escape(term)}))" for term in longest_first if term not in words]
    if words:
        # No word is tried where none can begin.
        any_word = "|".join(f"({re.escape(word)})" for word in words)
        parts.append(rf"(?<!\w)(?:{any_word})(?:s|es|ed|ing)?(?!\w)")
    return re.compile("|".join(parts)) if parts else None


def _around(sentence: str, pattern: re.Pattern[str] | None) -> str:
    """Cut a very long sentence down to the part around its first match."""
    if len(sentence) <= _LONGEST_EXCERPT:
        return sentence
    first, _ = next(_marks(sentence, pattern), (0, 0)) if pattern else (0, 0)
    start = max(0, min(first - _LONGEST_EXCERPT // 3, len(sentence) - _LONGEST_EXCERPT))
    end = start + _LONGEST_EXCERPT
    # Cut between words if there are spaces.
    if start and " " in sentence[start : start + _LONGEST_EXCERPT // 4]:
        start = sentence.index(" ", start) + 1
    if end < len(sentence) and " " in sentence[end - _LONGEST_EXCERPT // 4 : end]:
        end = sentence.rindex(" ", 0, end)
    return ("…" if start else "") + sentence[start:end].strip() + ("…" if end < len(sentence) else "")
