"""Split a note into heading-aware chunks for search."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pipelines.errors import ConfigurationError
from pipelines.formats import format_of
from pipelines.model import Block, Chunk, ChunkSettings, EmbeddingContext, Locator, Note, NoteHeading
from pipelines.notes.frontmatter import line_starts

# What a model reads before a passage's text: the note's title, and the headings above the passage.
#
# It never depends on a file's name or folder, so a renamed note embeds nothing.


_BETWEEN = " > "
_SUB = " — "  # as in the label of a record's section
_RECORDS = ("yaml", "json")
# A model with a window of 256 tokens gets 200 words, so this is an eighth of its window.
_TOKENS_PER_HUNDRED_WORDS = 16
_BYTES_PER_TOKEN = 4
_LONGEST_READ = 1_000
_NO_LETTER = re.compile(r"[\W_]+")


def context_finder(note: Note, settings: ChunkSettings) -> Callable[[str, Sequence[str]], str]:
    """Return the function that gives the context of a passage by its text and the headings that enclose it.

    A context is one line without control characters, empty if there is nothing to say: what the text begins with is
    left out. A record (YAML, JSON) has `[kind] [ticker or id] [section — sub-section]`; other notes have
    `title > heading > ...`. It takes at most an eighth of the model's window: long headings are cut, and the outer
    ones left out.
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
    lines = list(filter(None, map(_one_line, headings)))
    each = most // (len(names) + bool(lines) or 1) - len("[] ")
    parts = [f"[{_cut(name, each)}]" for name in names]
    if lines:
        left = most - len(" ".join([*parts, "[]"]).encode())
        while len(lines) > 1 and len(_SUB.join(lines).encode()) > left:
            del lines[0]
        parts.append(f"[{_cut(_SUB.join(lines), left)}]")
    return " ".join(parts)


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


FULL_WINDOW_TOKENS = 512
FULL_TARGET_WORDS = 600
FULL_OVERLAP_WORDS = 80
MAX_CHARS = 6_000
_SECTION_LEVEL = 2
# Han, kana, Hangul and their compatibility forms are written without spaces, so each character is a word.
CJK = (
    r"\u1100-\u11ff\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{CJK}]|[^\s{CJK}]+")


def chunk_settings(
    window_tokens: int, target: int | None, overlap: int | None, context: EmbeddingContext = "off"
) -> ChunkSettings:
    """Choose words per chunk and words of overlap for a model that reads `window_tokens` tokens.

    600 and 80 if the window has at least 512 tokens. A shorter window gets as many words as it can read at 1.28
    tokens per English word, and 15 % of them as overlap: 200 and 30 at 256 tokens. A given value takes precedence; a
    given target alone keeps the overlap's proportion.

    Raises ConfigurationError unless 0 <= overlap < target.
    """
    words, shared = FULL_TARGET_WORDS, FULL_OVERLAP_WORDS
    if window_tokens < FULL_WINDOW_TOKENS:
        words = max(1, window_tokens * 25 // 32)
        shared = words * 15 // 100
    chosen = words if target is None else target
    common = chosen * shared // words if overlap is None else overlap
    if not 0 <= common < chosen:
        raise ConfigurationError(
            f"chunks of {chosen} words cannot overlap by {common}: set an overlap from 0 to below the target"
        )
    return ChunkSettings(chosen, common, MAX_CHARS, context)


def chunk_note(note: Note, settings: ChunkSettings) -> tuple[Chunk, ...]:
    """Split a note's body into its parts, and parts longer than the target with a sliding window.

    The parts of Markdown are its `##` sections and what is outside them; every character of it that is not white
    space is in at least one chunk. The parts of a document are its blocks, without those that have too little text
    for its format. Chunks are in order. A note without text gives one chunk with its names, so that it can be found.
    """
    starts = line_starts(note.text)
    context_of = context_finder(note, settings)
    chunks: list[Chunk] = []
    for part in _parts_of_document(note) if note.blocks else _parts_of_markdown(note):
        for start, end in _windows(note.text, part.start, part.end, settings):
            text = note.text[start:end]
            headings = part.headings(start, end)
            context = context_of(text, headings)
            chunks.append(
                Chunk(
                    text=text,
                    text_hash=hash_of(text, context),
                    section=part.label,
                    heading_path=headings,
                    position=len(chunks),
                    start=start,
                    end=end,
                    first_line=bisect_right(starts, start),
                    last_line=bisect_right(starts, end - 1),
                    place=part.place,
                    context=context,
                )
            )
    return tuple(chunks or _names_alone(note, settings))


def embedded_text(text: str, context: str) -> str:
    """Return what is embedded for a passage."""
    return f"{context}\n{text}" if context else text


def hash_of(text: str, context: str = "") -> str:
    """Return the hash of what is embedded: a passage's text and its context."""
    # This byte occurs in no text, so a context is never taken for the first line of another passage.
    return hashlib.sha256(b"\xff".join(part.encode() for part in (context, text) if part)).hexdigest()


def _names_alone(note: Note, settings: ChunkSettings) -> Iterator[Chunk]:
    """Yield an empty-range chunk for a note without text: its title, aliases and description, one per line."""
    description = note.frontmatter.get("description")
    lines = [note.title, *note.aliases, *([description] if isinstance(description, str) else [])]
    words = (" ".join(line.split()) for line in lines)
    text = "\n".join(filter(None, words))[: settings.max_chars].strip()
    if text:
        yield Chunk(
            text=text,
            text_hash=hash_of(text),
            section=note.title,
            heading_path=(),
            position=0,
            start=note.body_start,
            end=note.body_start,
            first_line=1,
            last_line=1,
        )


class _HeadingPath:
    """The headings that enclose a range; none if a new `#` begins in it. Starts must be asked in ascending order."""

    def __init__(self, headings: tuple[NoteHeading, ...]) -> None:
        self._headings = headings
        self._next = 0
        self._open: list[NoteHeading] = []
        self._tops = [heading.start for heading in headings if heading.level < _SECTION_LEVEL]

    def at(self, start: int, end: int) -> tuple[str, ...]:
        while self._next < len(self._headings) and self._headings[self._next].start <= start:
            heading = self._headings[self._next]
            while self._open and self._open[-1].level >= heading.level:
                self._open.pop()
            self._open.append(heading)
            self._next += 1
        next_top = bisect_right(self._tops, start)
        if next_top < len(self._tops) and self._tops[next_top] < end:
            return ()
        return tuple(heading.text for heading in self._open)


@dataclass(frozen=True, slots=True)
class _NotePart:
    """A part of a note that no chunk exceeds; `headings` returns those that enclose a range in it."""

    label: str
    start: int
    end: int
    headings: Callable[[int, int], tuple[str, ...]]
    place: Locator | None = None


def _parts_of_markdown(note: Note) -> Iterator[_NotePart]:
    """Yield the text before the first `##`, the section of each `##`, and that of each `#` after one.

    The first part may have several `#`, as a short note is read as one passage; then it is called as the note.
    """
    path, headings = _HeadingPath(note.headings), note.headings
    first = next((heading.start for heading in headings if heading.level == _SECTION_LEVEL), note.body_end)
    cuts = [heading for heading in headings if heading.level <= _SECTION_LEVEL and heading.start >= first]
    ends = [*(heading.start for heading in cuts), note.body_end]
    tops = [heading for heading in headings if heading.level < _SECTION_LEVEL and heading.start < ends[0]]
    alone = tops[0].text if tops and tops == list(headings[:1]) else ""
    yield _NotePart(alone or note.title, note.body_start, ends[0], path.at)
    for heading, end in zip(cuts, ends[1:], strict=True):
        yield _NotePart(heading.text or note.title, heading.start, end, path.at)


def _parts_of_document(note: Note) -> list[_NotePart]:
    """Return the blocks with enough text for the format; all of them if none has."""
    form = format_of(note.path)
    least = form.least if form else 0
    parts = [
        _NotePart(_label(note, block), block.start, block.end, partial(_same, block.headings), block.place)
        for block in note.blocks
    ]
    return [part for part in parts if part.end - part.start >= least] or parts


def _label(note: Note, block: Block) -> str:
    """Return what a block is called; what is at the top of a record is called as the note."""
    place = block.place
    if place is None or (place.kind == "key" and not place.name):
        return block.label or note.title
    return block.label or place.shown()


def _same(headings: tuple[str, ...], _start: int, _end: int) -> tuple[str, ...]:
    return headings


def _windows(text: str, first: int, last: int, settings: ChunkSettings) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each window over the words between two offsets."""
    words = _words(text, first, last, settings)
    begin = 0
    while begin < len(words):
        start = words[begin][0]
        end = min(begin + settings.target_words, len(words))
        while words[end - 1][1] - start > settings.max_chars:
            end -= 1
        yield start, words[end - 1][1]
        if end == len(words):
            return
        # A window cut short by the ceiling overlaps in proportion: 80 of 90 words would multiply the text.
        shared = (end - begin) * settings.overlap_words // settings.target_words
        begin = max(begin + 1, end - shared)


def _has_at_most(words: int, text: str) -> bool:
    return len(text) <= words or len(text.split() if text.isascii() else _WORD.findall(text)) <= words


def _words(text: str, first: int, last: int, settings: ChunkSettings) -> list[tuple[int, int]]:
    """Return the start and end of each word; a text that fits into one window counts as one word."""
    if _has_at_most(settings.target_words, text[first:last]):
        start, end = last - len(text[first:last].lstrip()), first + len(text[first:last].rstrip())
        if start < end <= start + settings.max_chars:
            return [(start, end)]
    longest = settings.max_chars
    spans = []
    for word in _WORD.finditer(text, first, last):
        start, end = word.span()
        if end - start <= longest:
            spans.append((start, end))
        else:
            spans += [(cut, min(cut + longest, end)) for cut in range(start, end, longest)]
    return spans
