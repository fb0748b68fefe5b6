"""Find what says nothing of its own: lines that a folder's notes repeat, lists of links, bare headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from pipelines.chunk import CJK

_SHARE = 0.2
_FEWEST_NOTES = 5
_LEAD_IN = 4  # words before a colon, as in "See also:"
_LIST = 2  # links

_HEADINGS = re.compile(
    r"^ {0,3}#{1,6}(?:[ \t].*)?$|^.*\n {0,3}(?:=+|-+)[ \t]*$|^[ \t]*(?:[-*_][ \t]*){3,}$", re.MULTILINE
)
_LINK = re.compile(
    r"!?\[\[[^\[\]]*\]\]|!?\[[^\[\]]*\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])|<?(?:(?<!\w)\w{1,30}://|www\.)[^\s<>|]+>?"
)
_ADDRESS = re.compile(r"(?<!\w)\w{1,30}://|www\.")
_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_TASK = re.compile(r"\[[ xX]\](?:\s|\Z)")
_NAME = re.compile(r"^[ \t]*\[[^\[\]]+\]:|(?<!\S)#[\w/-]+")  # of a footnote or reference, or a tag
_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+")


def repeated_lines(notes: Sequence[str]) -> frozenset[str]:
    """Return the lines, without white space at their ends, that are in more than a fifth of the notes' texts.

    Fewer than five notes say nothing about a template.
    """
    if len(notes) < _FEWEST_NOTES:
        return frozenset()
    counts = Counter(line for note in notes for line in {one.strip() for one in note.splitlines()} if line)
    return frozenset(line for line, count in counts.items() if count > _SHARE * len(notes))


def boilerplate_share(text: str, repeated: Collection[str]) -> float:
    """Return the share of a text's lines, without empty ones, that are repeated lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return sum(line in repeated for line in lines) / len(lines) if lines else 0.0


def says_nothing(markdown: str) -> bool:
    """Say whether a text has nothing but headings, tags and links: at most one word beside each link of a list.

    A single link with words before or after it is a sentence, and so is a task. The one address of a text may be what
    somebody looks for, unless it is a list's.
    """
    words_beside = links = addresses = 0
    for line in _HEADINGS.sub("", markdown).splitlines():
        item = _ITEM.match(line)
        if item and _TASK.match(line, item.end()):
            return False
        rest, own = _LINK.subn(" ", _NAME.sub(" ", line[item.end() :] if item else line))
        lead, colon, after = rest.partition(":")
        if colon and len(_WORD.findall(lead)) <= _LEAD_IN:
            rest = after
        words = len(_WORD.findall(rest))
        if words > own:
            return False
        words_beside, links = words_beside + words, links + own
        addresses += not item and bool(own) and bool(_ADDRESS.search(line))
    return links >= _LIST or not (words_beside or addresses)
