"""markdown-it-py as Obsidian reads Markdown: parsers for blocks and inlines with rules for Obsidian's additions.

Math and comments are read by one of these rules instead of a plugin, because the plugin searches to the end of the
file for every `$$` that is never closed.
"""

import re
from collections.abc import Callable, Iterator

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline, image, link
from mdit_py_plugins.footnote import footnote_plugin

from pipelines.parsing.frontmatter import TAG, is_tag, split_wikilink

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
