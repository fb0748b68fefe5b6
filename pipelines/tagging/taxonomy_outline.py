"""Find the list items and the sections of a taxonomy's Markdown text, with their lines."""

from __future__ import annotations

import re
from typing import NamedTuple

from markdown_it import MarkdownIt

from pipelines.parsing.frontmatter import read_frontmatter
from pipelines.parsing.lines import line_starts, split_lines

RENAMES = "Renames"
"""The heading of the list of renames."""

# Comments are blanked before the blocks are parsed; a fence is matched so that comments within it do not count. The
# bound prevents quadratic time on comments that never end; as a block of their own they may be longer.
_FENCE_OR_COMMENT = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)|\Z)|<!--.{0,2000}?-->|^[ \t]*%%.*?%%|%%[^\r\n]*?%%",
    re.DOTALL | re.MULTILINE,
)
_MARKUP = re.compile(r"[*`]")
_NO_LINE_END = re.compile(r"[^\r\n]")
_PARSER = MarkdownIt("commonmark").disable("inline")


class Item(NamedTuple):
    """A list item: its first paragraph on one line, its lines (`first` from 0, `end` exclusive), its section."""

    text: str
    first: int
    end: int
    section: str
    renames: bool


class Section(NamedTuple):
    """A heading and its content up to the next heading: lines from 0, `end` exclusive."""

    title: str
    first: int
    end: int
    renames: bool


def read_outline(text: str) -> tuple[list[Item], list[Section]]:
    """Return the list items and the sections outside code, quotes, comments and frontmatter."""
    front = read_frontmatter(text).end
    body = _FENCE_OR_COMMENT.sub(_blank_comment, text[front:])
    shift = len(line_starts(text[:front])) - 1
    tokens = _PARSER.parse(body)
    items: list[Item] = []
    sections = [Section("", shift, shift, renames=False)]
    quotes, renames_level = 0, 0
    for index, token in enumerate(tokens[:-1]):
        quotes += token.nesting if token.type.startswith("blockquote") else 0
        if token.type == "heading_open" and token.level == 0 and token.map:
            title = _MARKUP.sub("", tokens[index + 1].content).strip(" _:")
            level = int(token.tag[1])
            if renames_level == 0 or level <= renames_level:
                renames_level = level if title.casefold() == RENAMES.casefold() else 0
            first = token.map[0] + shift
            sections[-1] = sections[-1]._replace(end=first)
            sections.append(Section(title, first, first, renames=renames_level > 0))
        elif token.type == "list_item_open" and tokens[index + 1].type == "paragraph_open" and not quotes:
            first, end = tokens[index + 1].map or (0, 0)
            content = " ".join(tokens[index + 2].content.split())
            items.append(Item(content, first + shift, end + shift, sections[-1].title, renames_level > 0))
    sections[-1] = sections[-1]._replace(end=len(split_lines(text)))
    return items, sections


def _blank_comment(match: re.Match[str]) -> str:
    return match[0] if match["fence"] else _NO_LINE_END.sub(" ", match[0])
