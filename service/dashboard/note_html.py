"""A note's Markdown as HTML: its blocks, each with its lines in the file, and its outline.

The indexer's own parser reads the note, so a page shows as links what the index has as links. Every tag and attribute
name is written here or in `note_inlines`; HTML and SVG of a note are shown as the text that they are.
"""

from __future__ import annotations

import html
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from markdown_it.token import Token
from markupsafe import Markup, escape

from pipelines.notes.frontmatter import line_starts, read_frontmatter
from pipelines.notes.markdown import BLOCKS
from service.dashboard.note_inlines import InlineWriter, Targets, slug

_CALLOUT = re.compile(r"\[!([\w-]+)\][+-]?[ \t]*([^\n]*)(?:\n|$)")
_TASK = re.compile(r"\[([ xX-])\][ \t]+")
_BLOCK_ID = re.compile(r"(?:^|\s)\^([A-Za-z0-9-]{1,100})$")
_CALLOUTS = {
    "tip": ("tip", "hint", "important", "success", "check", "done"),
    "warning": ("warning", "caution", "attention", "question", "help", "faq"),
    "danger": ("danger", "error", "failure", "fail", "missing", "bug"),
}
_LOOK_OF = {name: look for look, names in _CALLOUTS.items() for name in names}
_TAG = re.compile(r"<[^>]*>")
_ALIGNED = {"text-align:center": "center", "text-align:right": "right"}
_SIMPLE = {
    "bullet_list_open": "ul",
    "list_item_open": "li",
    "thead_open": "thead",
    "tbody_open": "tbody",
}
_SCROLLED = Markup('<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>')


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A heading: how deep it is, what it says, and the id of its place."""

    level: int
    text: str
    id: str


@dataclass(frozen=True, slots=True)
class RenderedNote:
    """A note as HTML: its properties and their lines, the heading that it begins with, the rest, its outline."""

    properties: tuple[tuple[str, tuple[Markup, ...]], ...]
    property_lines: Markup
    heading: Markup
    body: Markup
    outline: tuple[OutlineEntry, ...]


def render_note(text: str, targets: Targets) -> RenderedNote:
    """Return a note's text as HTML in which nothing of the note is active but links to notes and to the web."""
    front = read_frontmatter(text)
    starts = line_starts(text)
    start = max(front.body_start, front.end)
    writer = _BlockWriter(text[start:], bisect_right(starts, start) - 1, targets)
    heading, body = writer.write()
    lines = Markup()
    if front.end:
        lines = _line_attributes(1, bisect_right(starts, front.end - 1))
        if front.unread:
            body = Markup('<pre tabindex="0"{}>\n{}</pre>\n').format(lines, text[: front.end]) + body
    return RenderedNote(
        properties=tuple((name, tuple(writer.values(value))) for name, value in front.values.items()),
        property_lines=lines,
        heading=heading,
        body=body,
        outline=tuple(writer.outline),
    )


class _BlockWriter:
    """Writes the blocks of one note; `before` lines precede its text."""

    def __init__(self, text: str, before: int, targets: Targets) -> None:
        env: dict[str, object] = {}
        self.outline: list[OutlineEntry] = []
        self._text = text
        self._before = before
        self._starts = line_starts(text)
        self._tokens = BLOCKS.parse(text, env)
        self._inlines = InlineWriter(targets, env)
        self._closers: list[Markup] = []
        self._ids: set[str] = set()
        self._slugs: Counter[str] = Counter()

    def write(self) -> tuple[Markup, Markup]:
        """Return the heading of the first level that the text begins with, if it does, and the rest."""
        parts = [self._token(token, index) for index, token in enumerate(self._tokens)]
        headed = bool(self._tokens) and self._tokens[0].type == "heading_open" and self._tokens[0].tag == "h1"
        if headed:
            del self.outline[0]
        body = 3 if headed else 0  # the heading opens, has its text, and closes
        return Markup().join(parts[:body]), Markup().join(parts[body:])

    def _token(self, token: Token, index: int) -> Markup:
        if token.nesting > 0:
            opening, closing = self._open(token, index)
            self._closers.append(closing)
            return opening
        if token.nesting < 0:
            return self._closers.pop()
        return self._inline(token, index) if token.type == "inline" else self._leaf(token)

    def values(self, value: object) -> Iterable[Markup]:
        """Return a property's value, or the values of a list, as HTML."""
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                yield self._inlines.write(item) if "[[" in item else self._inlines.plain(item)
            elif item is not None:
                yield escape(json.dumps(item, ensure_ascii=False))

    def _open(self, token: Token, index: int) -> tuple[Markup, Markup]:
        """Return what opens and closes a block."""
        tag, attributes = _SIMPLE.get(token.type), Markup()
        if token.type == "paragraph_open":
            # The paragraphs of a tight list are not seen, but their lines are found.
            tag, attributes = "span" if token.hidden else "p", self._lines(token)
        elif token.type == "heading_open":
            tag, attributes = token.tag, self._lines(token)
        elif token.type == "blockquote_open":
            tag, attributes = "blockquote", self._look(index)
        elif token.type == "ordered_list_open":
            tag, attributes = "ol", Markup(' start="{}"').format(int(token.attrs.get("start", 1)))
        elif token.type == "tr_open":
            tag, attributes = "tr", self._lines(token)
        elif token.type in ("th_open", "td_open"):
            aligned = _ALIGNED.get(str(token.attrs.get("style", "")))
            tag, attributes = token.tag, Markup(' class="{}"').format(aligned) if aligned else Markup()
        elif token.type == "table_open":
            return _SCROLLED, Markup("</table></div>\n")
        elif token.type == "footnote_reference_open":
            return self._footnote(token.meta["label"])
        if tag is None:
            return Markup(), Markup()
        ending = "" if tag in ("span", "td", "th") else "\n"
        return Markup("<{}{}>").format(tag, attributes), Markup("</{}>{}").format(tag, ending)

    def _footnote(self, label: str) -> tuple[Markup, Markup]:
        opening = Markup('<div class="footnote"{}><a href="#fnref-{}">{}</a>')
        return opening.format(self._id(f"fn-{label}"), quote(label), label), Markup("</div>\n")

    def _leaf(self, token: Token) -> Markup:
        """Return a block without blocks or inline Markdown in it, as the text that it is."""
        if token.type == "hr":
            return Markup("<hr>\n")
        content, kind = token.content, ""
        if token.type == "fence":
            kind = Markup(' data-language="{}"').format(token.info.split()[0]) if token.info.strip() else ""
        elif token.type == "math_or_comment":
            first, end = token.map or (0, 0)
            content = self._text[self._starts[first] : (self._starts[end:] or [len(self._text)])[0]]
            kind = Markup(' class="{}"').format("math" if content.lstrip().startswith("$$") else "comment")
        elif token.type == "html_block" and content.lstrip().startswith("<!--"):
            kind = Markup(' class="comment"')
        return Markup('<pre tabindex="0"{}{}><code>{}</code></pre>\n').format(
            self._lines(token), kind, content
        )

    def _inline(self, token: Token, index: int) -> Markup:
        """Return the inline Markdown of a block, with what Obsidian reads at its begin and its end."""
        content, before, after = token.content, Markup(), Markup()
        if found := _BLOCK_ID.search(content[-110:]):
            content = content[: len(content) - len(found[0])]
            after = Markup('<span class="block-id"{}></span>').format(self._id(f"b-{found[1]}"))
        opener, around = self._tokens[index - 1], self._tokens[index - 2].type if index > 1 else ""
        if around == "list_item_open" and (task := _TASK.match(content)):
            content = content[task.end() :]
            before = _box(task[1])
        elif around == "blockquote_open" and (callout := _CALLOUT.match(content)):
            content = content[callout.end() :]
            title = (
                self._inlines.write(callout[2]) if callout[2] else callout[1].replace("-", " ").capitalize()
            )
            before = Markup('<strong class="title">{}</strong>').format(title)
        written = before + self._inlines.write(content) + after
        return self._heading(opener, written) if opener.type == "heading_open" else written

    def _heading(self, opener: Token, written: Markup) -> Markup:
        text = html.unescape(_TAG.sub("", written))
        name = f"h-{slug(text)}"
        place = f"{name}-{self._slugs[name]}" if self._slugs[name] else name
        self._slugs[name] += 1
        if opener.level == 0:
            self.outline.append(OutlineEntry(int(opener.tag[1]), text, place))
        return Markup("<span{}>{}</span>").format(self._id(place), written)

    def _look(self, index: int) -> Markup:
        """Return the class of a callout; a quotation has none."""
        inside = self._tokens[index + 2 : index + 3]
        found = _CALLOUT.match(inside[0].content) if inside and inside[0].type == "inline" else None
        look = _LOOK_OF.get(found[1].lower(), "note") if found else ""
        return Markup(' class="callout {}"').format(look) if look else Markup()

    def _lines(self, token: Token) -> Markup:
        if token.map is None:
            return Markup()
        first, last = self._before + token.map[0] + 1, self._before + token.map[1]
        return _line_attributes(first, last) if self._id(f"L{first}") else Markup()

    def _id(self, name: str) -> Markup:
        """Return an id as an attribute, the first time that it is asked for: a second one would not be found."""
        if name in self._ids:
            return Markup()
        self._ids.add(name)
        return Markup(' id="{}"').format(name)


def _line_attributes(first: int, last: int) -> Markup:
    return Markup(' id="L{}" data-end="{}"').format(first, last)


def _box(mark: str) -> Markup:
    state, sign = ("to do", "☐") if mark == " " else ("done", "☑")
    return Markup('<span class="task" role="img" aria-label="{}">{}</span> ').format(state, sign)
