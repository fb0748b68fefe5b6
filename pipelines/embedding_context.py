"""What a model reads before a passage's text: the note's title, and the headings above the passage.

It never depends on a file's name or folder, so a renamed note embeds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pipelines.documents.formats import format_of
from pipelines.model import ChunkSettings, Note

_BETWEEN = " > "
_RECORDS = ("yaml", "json")
# A model with a window of 256 tokens gets 200 words, so this is an eighth of its window.
_TOKENS_PER_HUNDRED_WORDS = 16
_BYTES_PER_TOKEN = 4
_LONGEST_READ = 1_000
_NO_LETTER = re.compile(r"[\W_]+")


def context_finder(note: Note, settings: ChunkSettings) -> Callable[[str, Sequence[str]], str]:
    """Return the function that gives the context of a passage by its text and the headings that enclose it.

    A context is one line without control characters, empty if there is nothing to say: what the text begins with is
    left out. A record (YAML, JSON) has `[kind] [ticker or id] [section]`; other notes have `title > heading > ...`.
    It takes at most an eighth of the model's window: long headings are cut, and the outer ones left out.
    """
    if settings.context == "off":
        return lambda _text, _headings: ""
    most = settings.target_words * _TOKENS_PER_HUNDRED_WORDS // 100 * _BYTES_PER_TOKEN
    form = format_of(note.path)
    if form is not None and form.name in _RECORDS:
        known = [note.kind, note.frontmatter.get("ticker") or note.frontmatter.get("id")]
        names = [name for value in known if isinstance(value, str) and (name := _one_line(value))]
        return lambda _text, headings: _of_record(names, headings, most)
    title = _one_line(note.own_title)
    named = [title] if title else []
    if settings.context == "title":
        return lambda text, _headings: _breadcrumb(named, text, most)
    return lambda text, headings: _breadcrumb(_path(named, headings), text, most)


def _of_record(names: Sequence[str], headings: Sequence[str], most: int) -> str:
    label = _one_line(headings[-1]) if headings else ""
    parts = [*names, label] if label else names
    each = most // max(1, len(parts)) - len("[] ")
    return " ".join(f"[{_cut(part, each)}]" for part in parts)


def _path(named: Sequence[str], headings: Sequence[str]) -> list[str]:
    """Return title and headings, without a first heading that repeats the title."""
    lines = list(filter(None, map(_one_line, headings)))
    if named and lines and _letters(named[0]) == _letters(lines[0]):
        return lines
    return [*named, *lines]


def _breadcrumb(parts: Sequence[str], text: str, most: int) -> str:
    left = list(parts)
    first = _letters(_one_line(text.partition("\n")[0]))
    while left and _letters(left[-1]) == first:
        left.pop()
    if not left:
        return ""
    if len(left) == 1:
        return _cut(left[0], most)
    left = [_cut(part, (most - len(_BETWEEN)) // 2) for part in left]
    while len(left) > 2 and len(_BETWEEN.join(left).encode()) > most:  # noqa: PLR2004 - title and nearest heading
        del left[1]
    return _BETWEEN.join(left)


def _one_line(text: str) -> str:
    """Return the beginning of a text as one line, without characters that have no shape."""
    shown = "".join(sign if sign.isprintable() else " " for sign in text[:_LONGEST_READ])
    return " ".join(shown.split())


def _letters(text: str) -> str:
    return _NO_LETTER.sub("", text).casefold()


def _cut(text: str, most: int) -> str:
    """Return as many of a text's words as fit into this many bytes; a single longer word is cut."""
    if len(text.encode()) <= most:
        return text
    fitting = text.encode()[:most].decode(errors="ignore")
    whole, space, _ = fitting.rpartition(" ")
    return whole if space else fitting
