"""Read Word documents: a block per section, under the headings that enclose it.

Word has no stable pages, so that the lines of the extracted text say where a passage is.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from pipelines.documents.addresses import file_at
from pipelines.documents.document import Builder, Document, DocumentLink
from pipelines.documents.limits import MOST_CHARACTERS
from pipelines.documents.readers.core_properties import core_properties
from pipelines.documents.readers.packages import Element, Package, attribute, child, local, topmost
from pipelines.documents.readers.word_paragraphs import Found, rows_of, text_of
from pipelines.documents.readers.word_styles import Style, read_styles, style_of, value

_CONTENTS = "toc "
"""How the names of the styles of a table of contents begin: its lines repeat the headings."""
_DEEPEST_ITEM = 8


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001 - every reader has them
    """Return a Word document as one block per section, with the notes that the section refers to at its end.

    Raises DocumentError if the file is damaged, encrypted, larger than the limits, or no Word document.
    """
    package = Package(path, data)
    main = package.main_part("document", "a Word document (.docx)")
    title, metadata = core_properties(package)
    sections = _Sections(package, main)
    warnings = []
    for element in package.outermost(main, "p", "tbl"):
        if sections.size >= MOST_CHARACTERS:
            warnings.append(f"only about {MOST_CHARACTERS:,} characters were read, up to {sections.place}")
            break
        if local(element) == "tbl":
            sections.add_table(element)
        else:
            sections.add_paragraph(element)
    sections.end()
    return sections.builder.document(
        title=sections.title or title, metadata=metadata, warnings=tuple(warnings)
    )


class _Sections:
    """Collects the lines of a section until the next heading ends it."""

    def __init__(self, package: Package, main: str) -> None:
        self.builder = Builder()
        self.title = ""
        """The text of the first paragraph in Word's style for titles."""
        self._relations = package.relations(main)
        parts = {one.kind: one.target for one in self._relations.values() if not one.external}
        self._styles: Mapping[str, Style] = (
            read_styles(package.tree(parts["styles"])) if "styles" in parts else {}
        )
        self._notes = {
            (kind, attribute(note, "id")): note
            for kind in ("footnote", "endnote")
            if f"{kind}s" in parts
            for note in package.tree(parts[f"{kind}s"])
        }
        self._numbers: dict[tuple[str, str], int] = {}
        self._headings: list[tuple[int, str]] = []
        self._lines: list[str] = []
        self._below: list[str] = []
        self._links: list[DocumentLink] = []
        self._length = 0

    @property
    def size(self) -> int:
        """Return the number of characters so far."""
        return self.builder.size + self._length

    @property
    def place(self) -> str:
        """Return where the text has come to, in words."""
        return f"the section {self._headings[-1][1]!r}" if self._headings else "a place without headings"

    def add_paragraph(self, paragraph: Element) -> None:
        """Add a paragraph; a heading ends the section before it."""
        properties = child(paragraph, "pPr")
        style = style_of(properties, self._styles)
        words = (
            "" if style.name.startswith(_CONTENTS) else " ".join(text_of(paragraph, _no_mark).text.split())
        )
        if not words:
            return
        if style.level:
            # Before its notes are found: they belong to the new section.
            self.end()
            above = takewhile(lambda heading: heading[0] < style.level, self._headings)
            self._headings = [*above, (style.level, words)]
        elif style.name == "title":
            self.title = self.title or words
        found = text_of(paragraph, self._mark)
        if style.level or style.listed:
            found.text = " ".join(found.text.split())
        if style.listed and not style.level:
            level = value(child(properties, "numPr", "ilvl"))
            depth = min(int(level), _DEEPEST_ITEM) if level.isdecimal() else 0
            found.text = f"{'  ' * depth}- {found.text}"
        self._add(found)

    def add_table(self, table: Element) -> None:
        """Add the rows of a table."""
        for found in rows_of(table, self._mark):
            self._add(found)

    def end(self) -> None:
        """Add the section to the document."""
        headings = tuple(text for _, text in self._headings)
        start = self.builder.add(
            "\n".join([*self._lines, *self._below]), headings[-1] if headings else "", headings
        )
        for link in self._links:
            self.builder.link(DocumentLink(link.target, start + link.at, link.fragment, link.text))
        self._lines, self._below, self._links, self._length = [], [], [], 0

    def _add(self, found: Found) -> None:
        for relation, shown in found.links:
            stated = self._relations.get(relation)
            address = file_at(stated.target) if stated and stated.external else None
            if address:
                at = self._length + max(0, found.text.find(shown))
                self._links.append(DocumentLink(address[0], at, address[1], shown))
        self._lines.append(found.text)
        self._length += len(found.text) + 1

    def _mark(self, kind: str, key: str) -> str:
        """Return the mark of a note, and put the note below the section."""
        note = self._notes.get((kind, key))
        if note is None:
            return ""
        if (kind, key) not in self._numbers:
            self._numbers[kind, key] = len(self._numbers) + 1
            texts = (text_of(one, _no_mark).text for one in topmost(note, ("p",)))
            self._below.append(f"[^{self._numbers[kind, key]}]: {' '.join(' '.join(texts).split())}")
            self._length += len(self._below[-1])
        return f"[^{self._numbers[kind, key]}]"


def _no_mark(_kind: str, _key: str) -> str:
    return ""
