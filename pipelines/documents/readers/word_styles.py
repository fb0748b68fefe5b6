"""What the styles of a Word document say about its paragraphs: headings, items of lists, tables of contents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipelines.documents.readers.packages import Element, attribute, child, local

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
