"""Add a tag to a taxonomy's text, and remove the renames that were applied; every other byte stays."""

from __future__ import annotations

import re
from collections.abc import Collection

from pipelines.errors import TaxonomyError
from pipelines.model import Taxonomy
from pipelines.parsing.lines import split_lines
from pipelines.tagging.taxonomy import TAXONOMY_FILE, find, find_renames, names_of, parse, renamed
from pipelines.tagging.taxonomy_outline import read_outline

NEW_TAGS = "New"
"""The group of a tag that was added without a group."""


def add_tag(text: str, tag: str, group: str | None = None) -> str:
    """Return a taxonomy's text with a tag added as the last list item of a group, which is created if it is missing.

    Without a group the tag goes to `New`, for a person to sort. A name that exists, also as an alias, is not added;
    every other byte stays. Raises TaxonomyError if the text is invalid, or if tag or group cannot be written.
    """
    before = parse(text)
    if find(before, tag):
        return text
    title = group or NEW_TAGS
    lines, (items, sections) = split_lines(text), read_outline(text)
    line_end = next((line[len(line.rstrip("\r\n")) :] for line in lines), "") or "\n"
    section = next((s for s in sections if s.title.casefold() == title.casefold() and not s.renames), None)
    if section is None:
        at = next((s.first for s in sections if s.renames), len(lines))
        new = ["" if at == 0 or not lines[at - 1].strip() else line_end, f"## {title}{line_end}", line_end]
        new += [f"- {tag}{line_end}", line_end if at < len(lines) else ""]
    else:
        own = [item for item in items if section.first <= item.first < section.end]
        at = 1 + max(number for number in range(section.first, section.end) if lines[number].strip())
        bullet = re.match(r"[-*+][ \t]+", lines[own[-1].first]) if own else None
        new = [
            "" if own and at == own[-1].end else line_end,
            f"{bullet[0] if bullet else '- '}{tag}{line_end}",
        ]
    if at and not lines[at - 1].endswith(("\n", "\r")):
        lines[at - 1] += line_end
    after = "".join([*lines[:at], *new, *lines[at:]])
    entries = {*_meanings(before), (tag, title.casefold(), "")}
    return _checked(after, entries, before.renames, f"{tag!r} cannot be added to {title!r}")


def without_renames(text: str, done: Collection[tuple[str, str]]) -> str:
    """Return a taxonomy's text without the renames (old, new) that were applied; other bytes stay.

    If a renamed tag is in the vocabulary, its item is removed, because the new tag has one; a nested tag gets its new
    name there. Raises TaxonomyError if the text is invalid, or if its lists are too entangled to be edited.
    """
    before = parse(text)
    items, lines = read_outline(text)[0], split_lines(text)
    folded = {(old.casefold(), new.casefold()) for old, new in done}
    found = find_renames([item for item in items if item.renames], before.entries, [])
    gone = {
        line: (old, new) for line, (old, new) in found.items() if (old.casefold(), new.casefold()) in folded
    }
    rules = {old.casefold(): new for old, new in gone.values()}
    taken = {name for entry in before.entries for name in names_of(entry)}
    entries = set()
    for entry in before.entries:
        first = entry.line - 1
        new = renamed(entry.tag, rules) or entry.tag
        if new.casefold() == entry.tag.casefold():
            entries.add((entry.tag, entry.group.casefold(), entry.description))
        elif new.casefold() in taken:
            gone[first] = (entry.tag, new)
        else:
            taken.add(new.casefold())
            lines[first] = lines[first].replace(entry.tag, new, 1)
            entries.add((new, entry.group.casefold(), entry.description))
    dropped = {line for item in items if item.first in gone for line in range(item.first, item.end)}
    after = "".join(line for number, line in enumerate(lines) if number not in dropped)
    left = [pair for pair in before.renames if pair not in gone.values()]
    return _checked(after, entries, left, "the renames that were applied cannot be removed")


def _meanings(taxonomy: Taxonomy) -> set[tuple[str, str, str]]:
    return {(entry.tag, entry.group.casefold(), entry.description) for entry in taxonomy.entries}


def _checked(
    text: str, entries: set[tuple[str, str, str]], renames: Collection[tuple[str, str]], failure: str
) -> str:
    """Return an edited text if it parses as intended. Raises TaxonomyError."""
    after = parse(text)
    if _meanings(after) != entries or [*after.renames] != [*renames]:
        raise TaxonomyError(f"{failure}; edit {TAXONOMY_FILE} by hand")
    return text
