"""Parse a Markdown file into a Note: text, properties, headings, links and tags, by Obsidian's rules.

The block parser finds the blocks. The inline parser then runs only on those that can contain a link or a tag.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import PurePosixPath

from markdown_it.token import Token

from pipelines.model import Heading, Link, LinkKind, Note
from pipelines.parsing import excalidraw
from pipelines.parsing.dates import read_dates
from pipelines.parsing.encodings import decode
from pipelines.parsing.frontmatter import read_frontmatter, read_properties, split_wikilink, strings
from pipelines.parsing.lines import line_starts
from pipelines.parsing.links import inner_target
from pipelines.parsing.markdown_parsers import BLOCKS, INLINES, wikilinks
from pipelines.parsing.privacy import own_privacy

LONGEST_TITLE = 500
"""Characters of a note's title and of a heading: every passage and link holds those above it."""
CITING_PROPERTIES = {"cites", "source", "sources", "references", "up"}
CITING_SECTIONS = {"sources", "references", "citations", "bibliography"}
_MARKUP = re.compile(r"[\[\]\\`*_~<&!$%#\n]")


@dataclass(slots=True)
class _Found:
    headings: list[Heading] = field(default_factory=list)
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
    body_end = excalidraw.drawing_start(text, below, front.values)
    body = _parse_part(text, below, body_end, starts, headings=True)
    properties = read_properties(front.values, [tag for part in (*unread, body) for tag in part.tags])
    of_properties = list(_property_links(front.values, text[: front.end], starts))
    named = {(link.target, link.fragment) for link in of_properties}
    no_titles = excalidraw.HEADINGS if excalidraw.PROPERTY in front.values else ()
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
        links=(
            *of_properties,
            *(link for part in unread for link in part.links if (link.target, link.fragment) not in named),
            *body.links,
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
            found.headings.append(Heading(level, section, line + 1, starts[line]))
            if citing is None or level <= citing:
                citing = level if section.strip(" :").lower() in CITING_SECTIONS else None
        cites = citing is not None or footnotes > 0
        found.links.extend(
            replace(link, cites=cites) if cites else link
            for link in _links(children, token.content, line + 1, section)
        )
        found.tags.extend(child.content for child in children if child.type == "tag")
    return found


def _inline(content: str, env: dict[str, object], *, markup: bool) -> list[Token]:
    """Parse inline Markdown; return nothing if it cannot contain a link, a tag, or relevant markup."""
    if "[" in content or "#" in content or (markup and _MARKUP.search(content)):
        return INLINES.inline.parse(content, INLINES, env, [])
    return []


def _links(tokens: Sequence[Token], content: str, line: int, section: str) -> Iterator[Link]:
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
        yield Link(kind, target, fragment, text, line, section)


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
        for item in strings(value):
            for inner in wikilinks(item):
                if (parts := split_wikilink(inner)) is None:
                    continue
                # If YAML unescaped or folded the value, its line is unknown.
                written = f"[[{inner}]]"
                at = max(block.find(written, ends.get(inner, 0)), block.find(written), 0)
                ends[inner] = at + 1
                cites = name.lower() in CITING_PROPERTIES
                yield Link("property", *parts, bisect_right(starts, at), "", name, cites)
