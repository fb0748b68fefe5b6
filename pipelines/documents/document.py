"""The one shape into which every reader turns a file's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.locator import Block, Locator

BETWEEN_BLOCKS = "\n\n"
LONGEST_LABEL = 200
"""Characters of a heading or label; every passage stores those above it."""


@dataclass(frozen=True, slots=True)
class DocumentLink:
    """A link to a file of the vault: its target as written, and its offset in the text.

    A target is a path or a name, as in `[[target#fragment]]`. `embed`: the file is shown in place.
    """

    target: str
    at: int
    fragment: str = ""
    text: str = ""
    embed: bool = False


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
