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
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token
from markupsafe import Markup, escape

from pipelines.notes.frontmatter import line_starts, read_frontmatter
from pipelines.notes.links import NOTE_SUFFIXES, inner_target
from pipelines.notes.markdown import BLOCKS, inline_parser
from pipelines.question import read_question

# The inline Markdown of a note as HTML: text, emphasis, code, links, tags.
#
# Every tag and attribute name is written here; from the note come escaped text and checked addresses alone.


_NO_SLUG = re.compile(r"[^\w\s-]")
_SPACE = re.compile(r"\s")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_BLOCK_NAME = re.compile(r"\^[A-Za-z0-9-]+")
_LEAVING = re.compile(r"(?:https?://|mailto:)[^\s<>\"'\\]+", re.IGNORECASE)
_BARE = re.compile(r"https?://[^\s<>\"'\\`]*[^\s<>\"'\\`.,;:!?)\]}*_]")
_FOOTNOTE = re.compile(r"\[\^([^\s\]]{1,200})\]")
_SIZE = re.compile(r"(\d{1,5})(?:x(\d{1,5}))?")
_EQUALS_SIGN = ord("=")
_LINE_BREAK = Markup("<br>\n")
_TAGS = {
    "em_open": Markup("<em>"),
    "em_close": Markup("</em>"),
    "strong_open": Markup("<strong>"),
    "strong_close": Markup("</strong>"),
    "s_open": Markup("<s>"),
    "s_close": Markup("</s>"),
    "mark_open": Markup("<mark>"),
    "mark_close": Markup("</mark>"),
    "hardbreak": _LINE_BREAK,
    "softbreak": _LINE_BREAK,  # as Obsidian has it
}


def _footnote_ref(state: StateInline, silent: bool) -> bool:  # noqa: FBT001  (markdown-it's signature)
    """Read `[^label]` where there is such a footnote; the plugin's rule may read on to the end of the block."""
    found = _FOOTNOTE.match(state.src, state.pos, state.posMax)
    if found is None or f":{found[1]}" not in state.env.get("footnotes", {}).get("refs", {}):
        return False
    if not silent:
        state.push("footnote_ref", "", 0).content = found[1]
    state.pos = found.end()
    return True


def _equals_signs(state: StateInline, silent: bool) -> bool:  # noqa: FBT001
    """Read `==`, which may open or close a highlight."""
    if silent or not state.src.startswith("==", state.pos, state.posMax):
        return False
    scanned = state.scanDelims(state.pos, canSplitWord=True)
    signs = state.push("text", "", 0)
    signs.content = state.src[state.pos : state.pos + scanned.length]
    if scanned.length == len("=="):
        # markdown-it's own rules for emphasis count lengths in threes; 0 leaves that out, as for `~~`.
        place = len(state.tokens) - 1
        state.delimiters.append(
            Delimiter(_EQUALS_SIGN, 0, place, -1, open=scanned.can_open, close=scanned.can_close)
        )
    state.pos += scanned.length
    return True


def _highlights(state: StateInline) -> None:
    """Turn the pairs of `==` that markdown-it has matched into the begin and end of a highlight."""
    nested = [meta["delimiters"] for meta in state.tokens_meta if meta and "delimiters" in meta]
    for delimiters in (state.delimiters, *nested):
        for opening in delimiters:
            if opening.marker == _EQUALS_SIGN and opening.end >= 0:
                state.tokens[opening.token].type = "mark_open"
                state.tokens[delimiters[opening.end].token].type = "mark_close"


_INLINES = inline_parser()
_INLINES.inline.ruler.after("image", "footnote_ref", _footnote_ref)
_INLINES.inline.ruler.after("strikethrough", "highlight", _equals_signs)
_INLINES.inline.ruler2.after("strikethrough", "highlight", _highlights)


def slug(heading: str) -> str:
    """Return what a heading is called in an address, as GitHub has it: `What's new` is `whats-new`."""
    return _SPACE.sub("-", _NO_SLUG.sub("", heading.lower()).strip())


def anchor(fragment: str) -> str:
    """Return the id of the place that a link's fragment names: a heading, the last of several, or a block."""
    name = fragment.rpartition("#")[2].strip()
    return f"b-{name[1:]}" if _BLOCK_NAME.fullmatch(name) else f"h-{slug(name)}"


def note_address(path: str) -> str:
    """Return the address of a note's page."""
    return f"/notes/{quote(path)}"


def file_address(path: str) -> str:
    """Return the address of a file of the vault."""
    return f"/files/{quote(path)}"


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the links of a note lead: `meant` has the file of each target that the index knows, or None.

    `opener` returns the address with which another program opens a file of the vault. `documents` are the files
    beside Markdown that have a page, `pictures` those that are shown where a note embeds them.
    """

    meant: Mapping[str, str | None]
    opener: Callable[[str], str]
    documents: Collection[str] = ()
    pictures: Collection[str] = ()

    def address(self, target: str, fragment: str) -> str | None:
        """Return where a link leads, or None if it means no file."""
        place = f"#{quote(anchor(fragment))}" if fragment else ""
        if not target.strip():
            return place or None
        path = self.meant.get(target)
        if path is None:
            return None
        if path in self.pictures:
            return file_address(path)
        if path in self.documents:
            return note_address(path) + (f"#{quote(fragment, safe='=')}" if fragment else "")
        return note_address(path) + place if path.lower().endswith(NOTE_SUFFIXES) else self.opener(path)

    def picture(self, target: str) -> str | None:
        """Return the address of the picture that a link means; None if it means none that is shown."""
        path = self.meant.get(target)
        return file_address(path) if path and path in self.pictures else None

    def why_dead(self, target: str) -> str:
        """Say why a link leads nowhere."""
        return "No file of this name" if target in self.meant else "Not indexed yet"


class InlineWriter:
    """Writes the inline Markdown of one note; `env` is what markdown-it found in its blocks."""

    def __init__(self, targets: Targets, env: dict[str, object]) -> None:
        self._targets = targets
        self._env = env
        self._refs: set[str] = set()
        self._closers: list[Markup] = []

    def write(self, content: str) -> Markup:
        """Return inline Markdown as HTML."""
        self._closers = []
        parts = [self._token(token) for token in _INLINES.inline.parse(content, _INLINES, self._env, [])]
        return Markup().join(parts)

    def plain(self, text: str) -> Markup:
        """Return text as HTML in which addresses of the web are links."""
        parts, at = [], 0
        for found in _BARE.finditer(text):
            parts += [escape(text[at : found.start()]), _leaving(found[0], found[0])]
            at = found.end()
        return Markup().join([*parts, escape(text[at:])])

    def _token(self, token: Token) -> Markup:
        within = bool(self._closers)  # a link holds no other
        if token.type in _TAGS:
            return _TAGS[token.type]
        if token.type == "link_open":
            opening, closing = self._link(str(token.attrs.get("href", "")))
            self._closers.append(closing)
            return opening
        if token.type == "link_close":
            return self._closers.pop()
        if token.type == "wikilink":
            target, fragment, text = token.meta["link"]
            if text == f"{target}#{fragment}":
                text = " › ".join(filter(None, (target, *fragment.split("#"))))
            return self._file(target, fragment, text, embed=token.meta["embed"], within=within)
        return (
            self._image(token, within=within) if token.type == "image" else self._text(token, within=within)
        )

    def _text(self, token: Token, *, within: bool) -> Markup:
        """Return what is no link to a file."""
        written = escape(token.content)
        if token.type == "code_inline":
            written = Markup("<code>{}</code>").format(token.content)
        elif token.type == "math":
            kind = "math display" if token.markup == "$$" else "math"
            written = Markup('<span class="{}">{}</span>').format(kind, token.content)
        elif token.type == "html_inline" and _BREAK.fullmatch(token.content):
            written = Markup("<br>")
        elif token.type == "comment" or (token.type == "html_inline" and token.content.startswith("<!--")):
            written = Markup('<span class="comment">{}</span>').format(token.content)
        elif within:
            pass
        elif token.type == "tag":
            address = "/?" + urlencode({"q": re.sub(r"[/_-]+", " ", token.content), "tag": token.content})
            written = Markup('<a class="tag" href="{}">#{}</a>').format(address, token.content)
        elif token.type == "footnote_ref":
            written = self._footnote(token.content)
        elif token.type in ("text", "text_special"):
            written = self.plain(token.content)
        return written

    def _link(self, address: str) -> tuple[Markup, Markup]:
        """Return what opens and closes a Markdown link."""
        if self._closers:
            return Markup(), Markup()
        if _LEAVING.fullmatch(address):
            opening = Markup('<a class="leaving" rel="noreferrer noopener" href="{}">').format(address)
            return opening, Markup("</a>")
        inner = inner_target(address)
        found = self._targets.address(*inner) if inner else None
        if found is None:
            why = self._targets.why_dead(inner[0]) if inner else "Addresses of this kind are not opened"
            return Markup('<span class="dead" title="{}">').format(why), Markup("</span>")
        return Markup('<a href="{}">').format(found), Markup("</a>")

    def _file(self, target: str, fragment: str, text: str, *, embed: bool, within: bool) -> Markup:
        found = self._targets.address(target, fragment)
        if embed and (picture := self._targets.picture(target)):
            return _picture(picture, text, target, within=within)
        if within:
            return escape(text)
        if found is None:
            return Markup('<span class="dead" title="{}">{}</span>').format(
                self._targets.why_dead(target), text
            )
        return Markup('<a{} href="{}">{}</a>').format(Markup(' class="embed"') if embed else "", found, text)

    def _image(self, token: Token, *, within: bool) -> Markup:
        """Return a picture of the vault, or a link: none is loaded from elsewhere."""
        address = str(token.attrs.get("src", ""))
        text = token.content or address
        if _LEAVING.fullmatch(address) and not within:
            return _leaving(address, text)
        inner = inner_target(address)
        return self._file(*inner, text, embed=True, within=within) if inner else escape(text)

    def _footnote(self, label: str) -> Markup:
        again = label in self._refs
        self._refs.add(label)
        place = "" if again else Markup(' id="fnref-{}"').format(label)
        return Markup('<sup{}><a href="#fn-{}">{}</a></sup>').format(place, quote(label), label)


def _picture(address: str, text: str, name: str, *, within: bool) -> Markup:
    """Return a picture that leads to its file; its text may end with a width, as Obsidian has it: `garden|300`."""
    before, _, last = text.rpartition("|")
    size = _SIZE.fullmatch(last)
    alt = (before if size else text) or name
    width = Markup(' width="{}"').format(int(size[1])) if size else ""
    height = Markup(' height="{}"').format(int(size[2])) if size and size[2] else ""
    shown = Markup('<img src="{}" alt="{}" loading="lazy"{}{}>').format(address, alt, width, height)
    return shown if within else Markup('<a class="picture" href="{}">{}</a>').format(address, shown)


def _leaving(address: str, text: str) -> Markup:
    return Markup('<a class="leaving" rel="noreferrer noopener" href="{}">{}</a>').format(address, text)


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
# A script draws these in the element's shadow tree, so that what the server sent stays as it is, to be compared.
_DIAGRAM = Markup('<div class="diagram"{}><pre tabindex="0"{}><code>{}</code></pre></div>\n')
_FORMULA = Markup('<div class="math display"{}>{}</div>\n')
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
    """Return a note's text as HTML in which nothing of it is active but links, and pictures of the vault."""
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
        properties=tuple((name, tuple(writer.values(name, value))) for name, value in front.values.items()),
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

    def values(self, name: str, value: object) -> Iterable[Markup]:
        """Return a property's value, or the values of a list, as HTML: links to notes that have the same."""
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                written = self._inlines.write(item) if "[[" in item else self._inlines.plain(item)
            elif item is not None:
                written = escape(json.dumps(item, ensure_ascii=False))
            else:
                continue
            address = (
                None
                if "<a " in written or isinstance(item, dict)
                else _search_for(name, html.unescape(written))
            )
            yield Markup('<a href="{}">{}</a>').format(address, written) if address else written

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
        content, kind = token.content, Markup()
        if token.type == "fence":
            language = (token.info.split() or [""])[0]
            kind = Markup(' data-language="{}"').format(language) if language else kind
            if language.lower() == "mermaid":
                return _DIAGRAM.format(self._lines(token), kind, content)
        elif token.type == "math_or_comment":
            first, end = token.map or (0, 0)
            content = self._text[self._starts[first] : (self._starts[end:] or [len(self._text)])[0]]
            if content.lstrip().startswith("$$"):
                return _FORMULA.format(
                    self._lines(token), content.strip().removeprefix("$$").removesuffix("$$")
                )
            kind = Markup(' class="comment"')
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


def _search_for(name: str, value: str) -> str | None:
    """Return the address of the search for the notes with a property's value; None if no question asks for it."""
    if name.lower() in ("tag", "tags"):
        tag = value.strip().removeprefix("#")
        return f"/?{urlencode({'tag': tag})}" if tag and not re.search(r"[\s,]", tag) else None
    for asked in (f"[{name}:{value}]", f'["{name}":"{value}"]'):
        question = read_question(asked)
        if not question.text and [one.values for one in question.operators] == [(value,)]:
            return f"/?{urlencode({'q': asked})}"
    return None


def _line_attributes(first: int, last: int) -> Markup:
    return Markup(' id="L{}" data-end="{}"').format(first, last)


def _box(mark: str) -> Markup:
    state, sign = ("to do", "☐") if mark == " " else ("done", "☑")
    return Markup('<span class="task" role="img" aria-label="{}">{}</span> ').format(state, sign)
