"""Read Word documents: a block per section, under the headings that enclose it.

Word has no stable pages, so that the lines of the extracted text say where a passage is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from pipelines.documents.document import MOST_CHARACTERS, Builder, Document, DocumentLink, file_at
from pipelines.documents.readers.ooxml import (
    Element,
    Package,
    attribute,
    child,
    core_properties,
    local,
    relation_id,
    topmost,
    walk,
)

# The text of Word's paragraphs and tables, without what was deleted, and the links in it.


_LEFT_OUT = ("pPr", "rPr", "del", "moveFrom", "instrText", "rt", "Fallback")
"""Properties, deleted and moved text, codes of fields, reading aids over characters, copies for old programs."""
_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote"}
_WRITTEN = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}

Mark = Callable[[str, str], str]
"""Returns the mark that replaces a reference to a note, given its kind (`footnote`, `endnote`) and id."""


@dataclass(slots=True)
class LinkedText:
    """A paragraph's or a row's text, and the links in it: the id of the relation, and the text of each."""

    text: str = ""
    links: list[tuple[str, str]] = field(default_factory=list)


def text_of(paragraph: Element, mark: Mark) -> LinkedText:
    """Return the text of a paragraph; a line break in it is one in the text."""
    found = LinkedText()
    parts = []
    for one in walk(paragraph, _LEFT_OUT):
        name = local(one)
        if name == "t":
            parts.append(one.text or "")
        elif name in _NOTES:
            parts.append(mark(_NOTES[name], attribute(one, "id")))
        elif name == "hyperlink":
            found.links.append((relation_id(one), _words(one)))
        elif name == "p" and one is not paragraph:
            # A text box.
            parts.append("\n")
        else:
            parts.append(_WRITTEN.get(name, ""))
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    found.text = "\n".join(filter(None, lines))
    return found


def rows_of(table: Element, mark: Mark) -> Iterator[LinkedText]:
    """Yield each row of a table as one line; a table in a cell becomes the text of that cell."""
    for row in topmost(table, ("tr",), _LEFT_OUT):
        if child(row, "trPr", "del") is not None:
            continue
        line = LinkedText()
        cells = []
        for cell in topmost(row, ("tc",), _LEFT_OUT):
            paragraphs = [text_of(one, mark) for one in topmost(cell, ("p",), _LEFT_OUT)]
            cells.append(" ".join(" ".join(one.text for one in paragraphs).split()))
            line.links += [link for one in paragraphs for link in one.links]
        if any(cells):
            line.text = " | ".join(cells).strip()
            yield line


def _words(element: Element) -> str:
    texts = (one.text or "" for one in walk(element, _LEFT_OUT) if local(one) == "t")
    return " ".join("".join(texts).split())


# What the styles of a Word document say about its paragraphs: headings, items of lists, tables of contents.


_HEADING = re.compile(r"heading ([1-9])")
_BODY_LEVEL = 9
"""The outline level of text that is no heading."""


@dataclass(frozen=True, slots=True)
class Style:
    """The role of a paragraph: `level` of a heading from 1, or 0 for text; `listed`: it is an item of a list.

    `name` is the name of the style in lower case. Word writes the names of its own styles in English, whatever
    language it shows.
    """

    level: int = 0
    listed: bool = False
    name: str = ""


def read_styles(root: Element) -> Mapping[str, Style]:
    """Return the styles of a part `styles.xml` by their ids, each with what it takes from those it is based on."""
    written = {attribute(one, "styleId"): one for one in root if local(one) == "style"}
    return {key: _style(one, written) for key, one in written.items()}


def style_of(properties: Element | None, styles: Mapping[str, Style]) -> Style:
    """Return the role of a paragraph from its properties, which come before its style."""
    style = styles.get(value(child(properties, "pStyle")), Style())
    level, listed = _outline(properties), _numbered(properties)
    return Style(
        style.level if level is None else level, style.listed if listed is None else listed, style.name
    )


def value(element: Element | None) -> str:
    """Return the `val` of an element, as most of Word's properties have it; empty without the element."""
    return "" if element is None else attribute(element, "val")


def _style(element: Element, written: Mapping[str, Element]) -> Style:
    level: int | None = None
    listed: bool | None = None
    for one in _ancestry(element, written):
        heading = _HEADING.fullmatch(_name(one))
        if level is None:
            level = int(heading[1]) if heading else _outline(child(one, "pPr"))
        if listed is None:
            listed = _numbered(child(one, "pPr"))
    return Style(level or 0, bool(listed), _name(element))


def _ancestry(element: Element | None, written: Mapping[str, Element]) -> Iterator[Element]:
    """Yield a style, the one that it is based on, and so on; a circle ends where it closes."""
    seen = set()
    while element is not None and attribute(element, "styleId") not in seen:
        yield element
        seen.add(attribute(element, "styleId"))
        element = written.get(value(child(element, "basedOn")))


def _name(style: Element) -> str:
    return value(child(style, "name")).lower()


def _outline(properties: Element | None) -> int | None:
    """Return the level that properties state, 0 for text, or None if they state none."""
    stated = value(child(properties, "outlineLvl"))
    if not re.fullmatch("[0-9]", stated):
        return None
    return 0 if int(stated) == _BODY_LEVEL else int(stated) + 1


def _numbered(properties: Element | None) -> bool | None:
    """Say whether properties number a paragraph or give it a bullet; None if they say nothing."""
    numbering = child(properties, "numPr")
    return None if numbering is None else value(child(numbering, "numId")) != "0"


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

    def _add(self, found: LinkedText) -> None:
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
