"""The one shape into which every reader turns a file's bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipelines.errors import DocumentError
from pipelines.model import Block, Locator
from pipelines.notes.encodings import decode, is_utf_16
from pipelines.notes.frontmatter import is_tag
from pipelines.notes.links import inner_target
from pipelines.notes.privacy import PRIVATE

BETWEEN_BLOCKS = "\n\n"
LONGEST_LABEL = 200
"""Characters of a heading or label; every passage stores those above it."""


@dataclass(frozen=True, slots=True)
class DocumentLink:
    """A link to a file of the vault: its target as written, and its offset in the text.

    A target is a path or a name, as in `[[target#fragment]]`. `embed`: the file is shown in place. `type`: as in
    `model.Link`.
    """

    target: str
    at: int
    fragment: str = ""
    text: str = ""
    embed: bool = False
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """What a reader found in a file.

    `text` is the file's own text where it is one, so that lines are the file's; otherwise what was extracted.
    `metadata` has the form of a note's frontmatter: JSON-compatible values. An empty title means the file's name.
    `warnings` are sentences about what was left out. `has_pictures`: pages without text are pictures, which may be
    recognised.
    """

    text: str
    blocks: tuple[Block, ...]
    title: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    links: tuple[DocumentLink, ...] = ()
    warnings: tuple[str, ...] = ()
    has_pictures: bool = False


class Builder:
    """Collects the extracted text of a document, block by block."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._blocks: list[Block] = []
        self._links: list[DocumentLink] = []
        self.size = 0
        """Characters so far."""

    def add(
        self, text: str, label: str = "", headings: tuple[str, ...] = (), place: Locator | None = None
    ) -> int:
        """Add a block, unless its text is blank; return the offset of its first character."""
        text = text.strip()
        if not text:
            return self.size
        if self._parts:
            self._parts.append(BETWEEN_BLOCKS)
            self.size += len(BETWEEN_BLOCKS)
        start = self.size
        self._parts.append(text)
        self.size += len(text)
        shown = tuple(heading[:LONGEST_LABEL] for heading in headings)
        self._blocks.append(Block(start, self.size, label[:LONGEST_LABEL], shown, place))
        return start

    def link(self, link: DocumentLink) -> None:
        """Add a link."""
        self._links.append(link)

    def document(
        self, *, title: str = "", metadata: Mapping[str, object] | None = None, warnings: tuple[str, ...] = ()
    ) -> Document:
        """Return the document of all that was added."""
        return Document(
            text="".join(self._parts),
            blocks=tuple(self._blocks),
            title=title,
            metadata=metadata or {},
            links=tuple(self._links),
            warnings=warnings,
        )


# How much of a document is read; the rest is left out, and a warning says so.


DEEPEST = 100
"""Levels of nesting of JSON, YAML, metadata and symbols."""
MOST_CELLS = 100_000
MOST_CHARACTERS = 5_000_000
MOST_PAGES = 2_000
MOST_SCANNED_PAGES = 20
"""Pages of a file that are read by OCR. A page full of print takes 2 to 3 seconds."""
MOST_SCANNING_SECONDS = 90.0
"""Seconds of computing after which no further page is read by OCR, so that a slow machine gives what it has read."""
MOST_UNPACKED = 200_000_000
"""Bytes of all members of an archive together; a larger one is refused."""


# Decode a text file that need not be UTF-8, into characters that can be stored.


# SQLite ends a text at NUL, and half of a surrogate pair cannot be encoded; JSON and YAML can escape both.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def decode_text(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a file's bytes as a note's are, except that a binary file gives an empty text. Never raises.

    Binary is what has NUL bytes and is neither UTF-8 nor UTF-16 with its byte order mark.
    """
    if b"\0" in data and not is_utf_16(data):
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return "", ("not a text: the file is not UTF-8 and has NUL bytes",)
    return decode(data)


def storable(text: str) -> str:
    """Return a text with what cannot be stored replaced by U+FFFD: NUL and lone surrogates."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)


# The tags of a document that is not Markdown: those of its parts, and the keywords that its properties state.


INSIDE = "_inside"
"""The property with what parts of a document say about privacy, so that it holds for the whole document."""
_MOST_TAGS = 10_000
"""Characters of all tags; the wire takes 65,536 bytes of properties."""
_BETWEEN = re.compile(r"[,;\n]")


def keywords(text: str) -> list[str]:
    """Return the keywords in a property that lists them, separated by commas or semicolons."""
    return [word.strip().removeprefix("#").strip("/") for word in _BETWEEN.split(text) if word.strip()]


def tags_metadata(tags: Iterable[str], others: Iterable[str] = ()) -> dict[str, object]:
    """Return the property with a document's tags; where they are too many, it counts as private.

    Keywords of several words, and `others`, are none of its tags, but decide about privacy as a note's `tags` do.
    """
    distinct = dict.fromkeys(tags)
    proper = [tag for tag in distinct if is_tag(tag)]
    inside = [*(tag for tag in distinct if not is_tag(tag)), *dict.fromkeys(others)]
    if sum(len(tag) + 1 for tag in (*proper, *inside)) > _MOST_TAGS:
        return {PRIVATE: True}
    return ({"tags": proper} if proper else {}) | ({INSIDE: {"tags": inside}} if inside else {})


# Tell addresses that lead to a file of the vault from those that lead elsewhere.


_QUERY = re.compile(r"^([^#?]*)\?[^#]*")
_LONGEST = 4_096


def file_at(address: str) -> tuple[str, str] | None:
    """Return the target and the fragment of a relative address, percent-decoded and without its query, or None."""
    where = inner_target(_QUERY.sub(r"\1", address.strip()[:_LONGEST]))
    return where if where is not None and where[0] else None


# Follow which headings are open while a document is read from its first block to its last.


class OpenHeadings:
    """The headings that enclose the part of a document that is being read."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    @property
    def path(self) -> tuple[str, ...]:
        """The open headings, outermost first."""
        return tuple(text for _, text in self._open)

    def open(self, level: int, text: str) -> tuple[str, ...]:
        """Open a heading, which closes those of its level and below; return the path."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, text))
        return self.path

    def open_all(self, headings: Iterable[tuple[int, str]]) -> tuple[str, ...]:
        """Open the headings of one block, in order; return the path that names the block.

        It ends with the block's first heading, or with the first one under it, and so on: of `# A`, `## B`, `## C` it
        is (A, B), while the blocks that follow are under C.
        """
        named: tuple[str, ...] | None = None
        deepest: int | None = None
        for level, text in headings:
            path = self.open(level, text)
            if named is None or (deepest is not None and level > deepest):
                named, deepest = path, level
            else:
                deepest = None
        return self.path if named is None else named


# Parse JSON from an untrusted source.


def parse_json(path: str, text: str) -> object:
    """Return the value of a file's JSON; characters that cannot be stored are replaced.

    Raises DocumentError if it is not JSON or is nested deeper than 100 levels.
    """
    try:
        return _storable(json.loads(text), 0)
    except RecursionError:
        raise DocumentError(
            f"{path!r} is nested deeper than {DEEPEST} levels; it was probably not saved by its program"
        ) from None
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{path!r} is not valid JSON (line {error.lineno}, column {error.colno}: {error.msg}); "
            "restore it, or save it again in its program"
        ) from None
    except ValueError as error:  # a number of more than 4,300 digits
        raise DocumentError(f"{path!r} has a number that cannot be read ({error}); shorten it") from None


def _storable(value: object, depth: int) -> object:
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_storable(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {storable(name): _storable(item, depth + 1) for name, item in value.items()}
    return value
