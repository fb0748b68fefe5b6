"""Read the operator's queue back: the decisions, and what else a person wrote. Pure; never raises.

`review_lines` says what each line means. An ambiguous line decides nothing. A line that is neither Everindex's nor a
decision is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipelines.parsing.frontmatter import read_frontmatter
from pipelines.parsing.lines import LINE_END
from pipelines.tagging.review_lines import LineReader
from pipelines.tagging.review_queue import MARKER, Kept, QueuedNote, all_key, render


@dataclass(frozen=True, slots=True)
class Reading:
    """The contents of a page. `typed` and `additions` are (path, tag): in the vocabulary, and not (yet) in it.

    `elsewhere` are marked items that this page did not show, such as those of an older page: whether each is
    accepted. `damaged` says why no deletion was counted; marked items count nevertheless.
    """

    accepted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    typed: tuple[tuple[str, str], ...] = ()
    additions: tuple[tuple[str, str], ...] = ()
    kept: tuple[Kept, ...] = ()
    elsewhere: Mapping[int, bool] = field(default_factory=dict)
    damaged: str | None = None


def read(text: str, known: Sequence[QueuedNote], page: str, find: Callable[[str], str | None]) -> Reading:
    """Return the operator's decisions in a page's text.

    `known` is what the page showed, `page` its name; `find` returns the vocabulary's tag for a typed one, or None.
    Bytes that are not UTF-8 stay unchanged if they are decoded and encoded with `surrogateescape`.
    """
    front = read_frontmatter(text).end
    if MARKER.search(text, 0, front):
        front = 0  # not frontmatter: one rule at the top and another further down
    lines = LINE_END.split(text[front:].removeprefix("\ufeff"))
    reader = LineReader(known, find, lines)
    if not any(match["kind"].lower() == "end" for match in MARKER.finditer(text)):
        reader.read_cut(len(lines) - 1, lines.pop(), render(known, 0, page))
    for number, line in enumerate(lines):
        if line.strip():
            reader.read(number, line)
    top = LINE_END.sub("\n", text[:front]).strip("\ufeff\n")
    reading = _decisions(reader, re.sub(r"\W", "", page).lower())
    return replace(reading, kept=((Kept("", top),) if top else ()) + _blocks(reader.kept, lines))


def _decisions(reader: LineReader, page: str) -> Reading:
    marks = {key: mark for key, said in reader.said.items() if (mark := reader.agree(said)) is not None}
    for path, note in reader.notes.items():
        for tag in note.tags:
            if marks.get(str(tag.id)) == "" and not tag.is_new:
                marks[str(tag.id)] = marks.get(all_key(path), "")
    shown = reader.tags
    gone = {tag.id for key, (tag, _) in shown.items() if key not in marks and not reader.mentions(key)}
    damaged = _damage(reader.pages, page, len(gone), len(shown))
    rejected = {int(key) for key, mark in marks.items() if mark == "-" and key in shown}
    return Reading(
        accepted=frozenset(int(key) for key, mark in marks.items() if mark == "x" and key in shown),
        rejected=frozenset(rejected if damaged else rejected | gone),
        typed=tuple(dict.fromkeys(reader.typed)),
        additions=tuple(dict.fromkeys(reader.additions)),
        elsewhere={
            int(key): mark == "x"
            for key, mark in marks.items()
            if mark and key not in shown and key.isdecimal()
        },
        damaged=damaged,
    )


def _damage(pages: Sequence[tuple[str, str]], page: str, gone: int, shown: int) -> str | None:
    """Return why missing lines are not decisions, or None if they are."""
    if ("page", page) not in pages[:1]:
        return "its beginning is missing, or it is an older page"
    if ("end", page) not in pages[-1:]:
        return "its end is missing"
    if any(name != page for _, name in pages):
        return "parts of another page are in it"
    if gone and 2 * gone >= shown:
        return f"{gone} of its {shown} tags are missing"
    return None


def _blocks(kept: Mapping[int, tuple[str | None, str]], lines: Sequence[str]) -> tuple[Kept, ...]:
    """Join the kept lines under each note; other lines between them become one blank line."""
    texts: dict[str | None, str] = {}
    before: dict[str | None, int] = {}
    for number, (path, text) in sorted(kept.items()):
        if path in texts:
            between = lines[before[path] + 1 : number]
            blank = number - before[path] if not any(line.strip() for line in between) else 2
            texts[path] += "\n" * blank
        texts[path] = texts.get(path, "") + text
        before[path] = number
    return tuple(Kept(path, text) for path, text in texts.items())
