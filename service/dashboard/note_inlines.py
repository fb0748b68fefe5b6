"""The inline Markdown of a note as HTML: text, emphasis, code, links, tags.

Every tag and attribute name is written here; from the note come escaped text and checked addresses alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token
from markupsafe import Markup, escape

from pipelines.notes.links import NOTE_SUFFIXES, inner_target
from pipelines.notes.markdown import inline_parser

_NO_SLUG = re.compile(r"[^\w\s-]")
_SPACE = re.compile(r"\s")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_BLOCK_ID = re.compile(r"\^[A-Za-z0-9-]+")
_LEAVING = re.compile(r"(?:https?://|mailto:)[^\s<>\"'\\]+", re.IGNORECASE)
_BARE = re.compile(r"https?://[^\s<>\"'\\`]*[^\s<>\"'\\`.,;:!?)\]}*_]")
_FOOTNOTE = re.compile(r"\[\^([^\s\]]{1,200})\]")
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
    return f"b-{name[1:]}" if _BLOCK_ID.fullmatch(name) else f"h-{slug(name)}"


def note_address(path: str) -> str:
    """Return the address of a note's page."""
    return f"/notes/{quote(path)}"


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the links of a note lead: `meant` has the file of each target that the index knows, or None.

    `opener` returns the address with which another program opens a file of the vault. `documents` are the files
    beside Markdown that have a page.
    """

    meant: Mapping[str, str | None]
    opener: Callable[[str], str]
    documents: Collection[str] = ()

    def address(self, target: str, fragment: str) -> str | None:
        """Return where a link leads, or None if it means no file."""
        place = f"#{quote(anchor(fragment))}" if fragment else ""
        if not target.strip():
            return place or None
        path = self.meant.get(target)
        if path is None:
            return None
        if path in self.documents:
            return note_address(path) + (f"#{quote(fragment, safe='=')}" if fragment else "")
        return note_address(path) + place if path.lower().endswith(NOTE_SUFFIXES) else self.opener(path)

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
        if token.type in ("code_inline", "math"):
            kind = Markup(' class="math"') if token.type == "math" else ""
            written = Markup("<code{}>{}</code>").format(kind, token.content)
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
        if within:
            return escape(text)
        if found is None:
            return Markup('<span class="dead" title="{}">{}</span>').format(
                self._targets.why_dead(target), text
            )
        return Markup('<a{} href="{}">{}</a>').format(Markup(' class="embed"') if embed else "", found, text)

    def _image(self, token: Token, *, within: bool) -> Markup:
        """Return a link to a picture: none is loaded."""
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


def _leaving(address: str, text: str) -> Markup:
    return Markup('<a class="leaving" rel="noreferrer noopener" href="{}">{}</a>').format(address, text)
