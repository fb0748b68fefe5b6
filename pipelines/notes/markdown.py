"""Parse a Markdown file into a Note: text, properties, headings, links and tags, by Obsidian's rules.

The block parser finds the blocks. The inline parser then runs only on those that can contain a link or a tag.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin

from pipelines.model import Link, LinkKind, Note, NoteHeading
from pipelines.notes.dates import read_dates
from pipelines.notes.encodings import decode
from pipelines.notes.frontmatter import (
    TAG,
    is_tag,
    keyed_strings,
    line_starts,
    read_frontmatter,
    read_properties,
    split_wikilink,
)
from pipelines.notes.links import LONGEST_TYPE, inner_target, type_of, with_few_types
from pipelines.notes.privacy import own_privacy

# markdown-it-py as Obsidian reads Markdown: parsers for blocks and inlines with rules for Obsidian's additions.
#
# Math and comments are read by one of these rules instead of a plugin, because the plugin searches to the end of
# the file for every `$$` that is never closed.


# A limit for each search, so that a run of `[[` costs at most its length times this.
LONGEST_WIKILINK = 2_000
# Outlines nest deeper than markdown-it's limit of 20, past which it skips the rest of the file.
DEEPEST_BLOCK = 100
_INLINE_MATH = re.compile(r"\$(?![\s$])(?:[^$\\]|\\.)*+(?<!\s)\$(?!\d)", re.DOTALL)
_EMPHASIS = "*_~="


def wikilinks(text: str) -> Iterator[str]:
    """Yield the inside of each wikilink in a text, whatever Markdown surrounds it."""
    at = text.find("[[")
    while at >= 0:
        end = _wikilink_end(text, at, len(text))
        if end is not None:
            yield text[at + 2 : end - 2]
        at = text.find("[[", end or at + 1)


def _wikilink_end(text: str, at: int, limit: int) -> int | None:
    """Return where the wikilink whose `[[` is at `at` ends; None if there is none on this line."""
    closing = text.find("]]", at + 2, min(limit, at + LONGEST_WIKILINK))
    if closing < 0 or "[[" in (rest := text[at + 1 : closing]) or "\n" in rest:
        return None
    return closing + 2


def _wikilink(state: StateInline, silent: bool) -> bool:  # noqa: FBT001  (markdown-it's signature)
    """Parse `[[...]]` and `![[...]]`."""
    embed = state.src.startswith("![[", state.pos, state.posMax)
    if not embed and not state.src.startswith("[[", state.pos, state.posMax):
        return False
    opening = state.pos + embed
    end = _wikilink_end(state.src, opening, state.posMax)
    parts = split_wikilink(state.src[opening + 2 : end - 2]) if end else None
    if end is None or parts is None:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.meta = {"at": state.pos, "embed": embed, "link": parts}
    state.pos = end
    return True


def _tag(state: StateInline, silent: bool) -> bool:  # noqa: FBT001
    """Parse `#tag` after white space, at a line start, or after emphasis marks or an HTML tag."""
    if state.src[state.pos] != "#" or state.linkLevel:
        return False
    before = state.src[max(0, state.pos - 4) : state.pos].rstrip(_EMPHASIS)
    match = TAG.match(state.src, state.pos + 1, state.posMax)
    after_html = not state.pending and bool(state.tokens) and state.tokens[-1].type == "html_inline"
    if match is None or (before and not before[-1].isspace() and not after_html):
        return False
    name = match[0].strip("/")
    if not is_tag(name):
        return False
    if not silent:
        state.push("tag", "", 0).content = name
    state.pos = match.end()
    return True


def _math_or_comment(state: StateInline, silent: bool) -> bool:  # noqa: FBT001
    """Parse `$x$`, `$$x$$` and `%%x%%`, which contain no links or tags."""
    marker = state.src[state.pos : state.pos + 2]
    if marker in {"$$", "%%"}:
        closing = state.src.find(marker, state.pos + 2, state.posMax)
        end = closing + 2 if closing >= 0 else 0
    elif marker[0] == "$":
        match = _INLINE_MATH.match(state.src, state.pos, state.posMax)
        end = match.end() if match else 0
    else:
        return False
    if not end:
        return False
    if not silent:
        token = state.push("comment" if marker == "%%" else "math", "", 0)
        token.content = state.src[state.pos : end].strip("$")
        token.markup = marker if marker == "$$" else marker[0]
    state.pos = end
    return True


def _math_or_comment_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    """Parse a block from a line that begins with an unclosed `$$` or `%%` to the next line that has the mark."""
    if state.is_code_block(start):
        return False
    opening = state.bMarks[start] + state.tShift[start]
    marker = state.src[opening : opening + 2]
    if marker not in {"$$", "%%"} or state.src.find(marker, opening + 2, state.eMarks[start]) >= 0:
        return False
    for line in range(start + 1, end):
        if state.sCount[line] < state.blkIndent and not state.isEmpty(line):
            return False
        if state.src.find(marker, state.bMarks[line], state.eMarks[line]) >= 0:
            if not silent:
                state.push("math_or_comment", "", 0).map = [start, line + 1]
                state.line = line + 1
            return True
    return False


def _located(
    rule: Callable[[StateInline, bool], bool], *, embed: bool
) -> Callable[[StateInline, bool], bool]:
    """Make one of markdown-it's rules record on its token where in the block the link starts."""

    def located(state: StateInline, silent: bool) -> bool:  # noqa: FBT001
        at, first = state.pos, len(state.tokens)
        found = rule(state, silent)
        if found and not silent:
            token = next(t for t in state.tokens[first:] if t.type in {"link_open", "image"})
            token.meta = {"at": at, "embed": embed}
        return found

    return located


def _block_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST_BLOCK}).enable("table")
    parser.use(footnote_plugin, inline=False, move_to_end=False)
    parser.block.ruler.before("fence", "math_or_comment", _math_or_comment_block, {"alt": ["paragraph"]})
    return parser.disable(["inline", "text_join"])


def inline_parser() -> MarkdownIt:
    """Return a parser for the text of a block; its link tokens give targets in the form of the index."""
    parser = MarkdownIt("commonmark").enable("strikethrough")
    rules = parser.inline.ruler
    rules.at("link", _located(link, embed=False))
    rules.at("image", _located(image, embed=True))
    rules.before("link", "wikilink", _wikilink)
    rules.before("link", "tag", _tag)
    rules.before("escape", "math_or_comment", _math_or_comment)
    return parser


BLOCKS = _block_parser()
INLINES = inline_parser()


# Find what the Excalidraw plugin keeps in a note besides words.
#
# At the end of the note, below its text and links, is the drawing as JSON, usually compressed and in base64. As
# text it would be most of the note and say nothing.


PROPERTY = "excalidraw-plugin"
HEADINGS = frozenset({"Excalidraw Data", "Text Elements"})
"""The plugin's first headings, which name no note."""

_LINE_END = r"[ \t]*(?:\r\n?|\n)"
_DRAWING = re.compile(
    rf"^(?P<comment>%%{_LINE_END}\s*+)?##? Drawing{_LINE_END}\s*+```(?:compressed-)?json\b", re.MULTILINE
)
_NOTHING = re.compile(r"\s*+(?:%%)?\s*+\Z")


def drawing_start(text: str, body_start: int, properties: Mapping[str, object]) -> int:
    """Return the offset of the drawing with which a note's body ends, its opening `%%` included, or the body's end.

    A note without the plugin's property has a drawing only if it is in a comment.
    """
    for found in _DRAWING.finditer(text, body_start) if " Drawing" in text else ():
        closing = text.find("\n```", found.end())
        is_last = closing < 0 or _NOTHING.match(text, closing + len("\n```"))
        if is_last and (PROPERTY in properties or found["comment"]):
            return found.start()
    return len(text)


LONGEST_TITLE = 500
"""Characters of a note's title and of a heading: every passage and link holds those above it."""
CITING_PROPERTIES = {"cites", "source", "sources", "references", "up"}
CITING_SECTIONS = {"sources", "references", "citations", "bibliography"}
_MARKUP = re.compile(r"[\[\]\\`*_~<&!$%#\n]")


@dataclass(slots=True)
class _Found:
    headings: list[NoteHeading] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def read_note(path: str, data: bytes) -> Note:
    """Decode and parse a file's bytes; the note's warnings report what is not UTF-8."""
    text, warnings = decode(data)
    note = parse_note(path, text)
    return replace(note, warnings=(*warnings, *note.warnings))


def parse_note(path: str, text: str) -> Note:
    """Parse one file. Any text gives a Note; parts that could not be read are reported in `warnings`."""
    front = read_frontmatter(text)
    starts = line_starts(text)
    # What is not YAML is parsed separately: its lines are not headings, and it cannot swallow the note.
    unread = [_parse_part(text, *part, starts, headings=False) for part in front.unread]
    below = max(front.body_start, front.end)
    body_end = drawing_start(text, below, front.values)
    body = _parse_part(text, below, body_end, starts, headings=True)
    properties = read_properties(front.values, [tag for part in (*unread, body) for tag in part.tags])
    of_properties = list(_property_links(front.values, text[: front.end], starts))
    named = {(link.target, link.fragment) for link in of_properties}
    no_titles = HEADINGS if PROPERTY in front.values else ()
    # A heading of level 1 below others names a part of the note, and not the note.
    first = next((h for h in body.headings if h.text and h.text not in no_titles), None)
    title = properties.title or (first.text if first and first.level == 1 else "")
    dates = read_dates(path, front.values)
    warnings = (*front.warnings, *properties.warnings, *dates.warnings)
    return Note(
        path=path,
        title=title[:LONGEST_TITLE] or PurePosixPath(path).stem,
        own_title=title[:LONGEST_TITLE],
        text=text,
        body_start=front.body_start,
        body_end=body_end,
        frontmatter=front.values,
        headings=tuple(body.headings),
        links=tuple(
            with_few_types(
                (
                    *of_properties,
                    *(link for p in unread for link in p.links if (link.target, link.fragment) not in named),
                    *body.links,
                )
            )
        ),
        tags=properties.tags,
        aliases=properties.aliases,
        author=properties.author,
        kind=properties.kind,
        evergreen=properties.evergreen,
        warnings=warnings,
        privacy=own_privacy(
            path=path, text=text, frontmatter=front.values, tags=properties.tags, warnings=warnings
        ),
        dates=dates,
    )


def _parse_part(text: str, start: int, end: int, starts: Sequence[int], *, headings: bool) -> _Found:
    """Find the links and tags, and if requested the headings, between two line starts of a text."""
    found = _Found()
    first_line = bisect_right(starts, start) - 1
    env: dict[str, object] = {}
    section, opener, footnotes = "", Token("", "", 0), 0
    citing: int | None = None  # the level of the heading below which links are citations
    for token in BLOCKS.parse(text[start:end], env):
        if token.type != "inline":
            opener = token
            footnotes += token.nesting if token.type.startswith("footnote_reference") else 0
            continue
        line = first_line + (token.map[0] if token.map else 0)
        heading = headings and opener.type == "heading_open" and opener.level == 0
        children = _inline(token.content, env, markup=heading)
        if heading:
            section = (_shown(children) if children else token.content)[:LONGEST_TITLE]
            level = int(opener.tag[1])
            found.headings.append(NoteHeading(level, section, line + 1, starts[line]))
            if citing is None or level <= citing:
                citing = level if section.strip(" :").lower() in CITING_SECTIONS else None
        cites = citing is not None or footnotes > 0
        found.links.extend(
            replace(link, cites=cites) if cites else link
            for link in _links(
                children, token.content, line + 1, section, by_line=opener.type == "paragraph_open"
            )
        )
        found.tags.extend(child.content for child in children if child.type == "tag")
    return found


def _inline(content: str, env: dict[str, object], *, markup: bool) -> list[Token]:
    """Parse inline Markdown; return nothing if it cannot contain a link, a tag, or relevant markup."""
    if "[" in content or "#" in content or (markup and _MARKUP.search(content)):
        return INLINES.inline.parse(content, INLINES, env, [])
    return []


def _links(
    tokens: Sequence[Token], content: str, line: int, section: str, *, by_line: bool
) -> Iterator[Link]:
    keys = _field_keys(tokens, by_line=by_line) if "::" in content else {}
    counted = 0
    for index, token in enumerate(tokens):
        if "at" not in token.meta:
            continue
        at = token.meta["at"]
        line += content.count("\n", counted, at)
        counted = at
        kind: LinkKind = "wikilink" if token.type == "wikilink" else "markdown"
        if token.meta["embed"]:
            kind = "embed"
        if token.type == "wikilink":
            target, fragment, text = token.meta["link"]
        else:
            where = inner_target(str(token.attrs.get("src" if token.type == "image" else "href", "")))
            if where is None:
                continue
            target, fragment = where
            text = token.content if token.type == "image" else _shown(_until_close(tokens, index))
        yield Link(kind, target, fragment, text, line, section, type=type_of(keys.get(index, "")))


# Of ASCII's punctuation only `-`, `/` and `_`; `std::vector` is no field.
_KEY = rf"((?![ /-])[^\x00-\x1f!-,.:-@\[-^`{{-\x7f]{{1,{LONGEST_TYPE}}})::(?![\w:])"
_FIELD = re.compile(rf" ?{_KEY}")
_LINE_FIELD = re.compile(rf"\s{{0,9}}(?:\[.\] )?{_KEY}")
_BRACKETS = re.compile(r"[\[\]()]")
_CLOSING = {"[": "]", "(": ")"}
_MARKS = {f"{name}_{end}" for name in ("em", "strong", "s") for end in ("open", "close")}


@dataclass(slots=True)
class _Field:
    """A Dataview field in brackets that is still open: its key, its brackets, and its links, by their tokens."""

    key: str
    opening: str
    depth: int = 1
    links: list[int] = field(default_factory=list)


def _field_keys(tokens: Sequence[Token], *, by_line: bool) -> dict[int, str]:
    """Return the key of the Dataview field that each link is in, by the number of the link's token.

    A field is `[key:: ...]` or `(key:: ...)`, or a line of a paragraph that begins with `key::` (`by_line`). Only
    text makes a field: none of it is in code, in a comment, or in a link.
    """
    keys: dict[int, str] = {}
    line, within = "", 0
    opened: _Field | None = None
    for index, token in enumerate(tokens):
        is_text = token.type == "text" and not within
        if token.type in {"softbreak", "hardbreak"}:
            line, opened = "", None
            continue
        if "at" in token.meta:
            if by_line and (found := _LINE_FIELD.match(line)):
                keys[index] = found[1]
            if opened:
                opened.links.append(index)
        elif is_text:
            opened = _after(token.content, opened, keys)
        if token.type in {"link_open", "link_close"}:
            within += token.nesting
        if len(line) <= 2 * LONGEST_TYPE and token.type not in _MARKS:
            line += token.content if is_text else "\0"
    return keys


def _after(text: str, opened: _Field | None, keys: dict[int, str]) -> _Field | None:
    """Return the field that is open after a text, and give the links of one that it closes their key."""
    for found in _BRACKETS.finditer(text):
        if opened is None:
            key = _FIELD.match(text, found.end()) if found[0] in _CLOSING else None
            opened = _Field(key[1], found[0]) if key else None
        elif found[0] == opened.opening:
            opened.depth += 1
        elif found[0] == _CLOSING[opened.opening]:
            opened.depth -= 1
            if not opened.depth:
                keys.update(dict.fromkeys(opened.links, opened.key))
                opened = None
    return opened


def _until_close(tokens: Sequence[Token], opening: int) -> Iterator[Token]:
    # By index: islice would walk from the first token for each link.
    following = (tokens[index] for index in range(opening + 1, len(tokens)))
    return takewhile(lambda token: token.type != "link_close", following)


def _shown(tokens: Iterable[Token]) -> str:
    """Return inline tokens as a reader sees them: without markup, on one line."""
    parts = []
    for token in tokens:
        if token.type == "wikilink":
            parts.append(token.meta["link"][2])
        elif token.type == "tag":
            parts.append(f"#{token.content}")
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
        elif token.type in {"text", "text_special", "code_inline", "image", "math"}:
            parts.append(token.content)
    return "".join(parts).strip()


def _property_links(values: Mapping[str, object], block: str, starts: Sequence[int]) -> Iterator[Link]:
    ends: dict[str, int] = {}  # of the same link before, because both are in the order of the text
    for name, value in values.items():
        for key, item in keyed_strings(name, value):
            for inner in wikilinks(item):
                if (parts := split_wikilink(inner)) is None:
                    continue
                # If YAML unescaped or folded the value, its line is unknown.
                written = f"[[{inner}]]"
                at = max(block.find(written, ends.get(inner, 0)), block.find(written), 0)
                ends[inner] = at + 1
                cites = name.lower() in CITING_PROPERTIES
                yield Link("property", *parts, bisect_right(starts, at), "", name, cites, type_of(key))
