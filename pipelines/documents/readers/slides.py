"""Read PowerPoint presentations: a block per slide with its title, texts, tables and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pipelines.documents.document import MOST_CHARACTERS, MOST_PAGES, Builder, Document, DocumentLink, file_at
from pipelines.documents.readers.ooxml import (
    Element,
    Package,
    Relation,
    attribute,
    child,
    core_properties,
    listed,
    local,
    relation_id,
    topmost,
    walk,
)
from pipelines.model import Locator

_TITLES = ("title", "ctrTitle")
_REPEATED = ("dt", "ftr", "hdr", "sldNum", "sldImg")
"""Placeholders that are the same on every slide."""
_LEFT_OUT = ("Fallback",)
"""The copy of a new shape for old programs."""


@dataclass(slots=True)
class _Slide:
    title: str = ""
    lines: list[str] = field(default_factory=list)
    links: list[tuple[str, str, str]] = field(default_factory=list)
    """Target, fragment and text of each."""


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:  # noqa: ARG001 - every reader has them
    """Return a presentation as one block per slide, in the order in which they are shown.

    Raises DocumentError if the file is damaged, encrypted, larger than the limits, or no presentation.
    """
    package = Package(path, data)
    main = package.main_part("presentation", "a PowerPoint presentation (.pptx)")
    title, metadata = core_properties(package)
    parts = list(_parts(package, main))
    builder = Builder()
    warnings: list[str] = []
    if len(parts) > MOST_PAGES:
        warnings.append(f"only the first {MOST_PAGES:,} of {len(parts):,} slides were read")
    for number, part in enumerate(parts[:MOST_PAGES], 1):
        if builder.size >= MOST_CHARACTERS:
            warnings.append(
                f"only the first {number - 1:,} of {len(parts):,} slides were read: they have {builder.size:,}"
                " characters"
            )
            break
        _add(builder, _slide(package, part), number)
    return builder.document(title=title, metadata=metadata, warnings=tuple(warnings))


def _add(builder: Builder, slide: _Slide, number: int) -> None:
    headings = (slide.title,) if slide.title else ()
    text = "\n".join([*headings, *slide.lines])
    start = builder.add(
        text, slide.title or f"Slide {number}", headings, Locator("slide", "", number, number)
    )
    for target, fragment, shown in slide.links:
        builder.link(DocumentLink(target, start + max(0, text.find(shown)), fragment, shown))


def _parts(package: Package, main: str) -> Iterator[str]:
    """Yield the part of each slide in the order of the presentation, hidden ones included."""
    relations = package.relations(main)
    for one in listed(package.tree(main), "sldIdLst"):
        relation = relations.get(relation_id(one))
        if relation is None:
            raise package.damaged(main, "lists a slide that is missing")
        yield relation.target


def _slide(package: Package, part: str) -> _Slide:
    relations = package.relations(part)
    slide = _Slide()
    for shape in _shapes(package.tree(part)):
        kind = _placeholder(shape)
        if kind in _REPEATED:
            continue
        slide.links += _links(shape, relations)
        lines = [*_lines(shape), *_diagram(package, shape, relations)]
        if kind in _TITLES and not slide.title:
            slide.title = " ".join(lines)
        else:
            slide.lines += lines
    notes = [one.target for one in relations.values() if one.kind == "notesSlide"]
    spoken = [line for note in notes for line in _notes(package, note)]
    if spoken:
        slide.lines += ["Notes:", *spoken]
    return slide


def _diagram(package: Package, shape: Element, relations: Mapping[str, Relation]) -> Iterator[str]:
    """Yield the texts of the SmartArt in a frame, which are in a part of their own."""
    for one in topmost(shape, ("relIds",), _LEFT_OUT):
        relation = relations.get(relation_id(one, "dm"))
        if relation:
            yield from _lines(package.tree(relation.target))


def _notes(package: Package, part: str) -> Iterator[str]:
    for shape in _shapes(package.tree(part)):
        if _placeholder(shape) == "body":
            yield from _lines(shape)


def _shapes(root: Element) -> Iterator[Element]:
    """Yield the shapes and frames of a slide, those in groups included."""
    return topmost(root, ("sp", "graphicFrame"), _LEFT_OUT)


def _placeholder(shape: Element) -> str:
    """Return what a shape stands for: `title`, `body` (also of an unnamed kind), `ftr`...; empty for a free one."""
    for properties in shape:
        found = child(properties, "nvPr", "ph")
        if found is not None:
            return attribute(found, "type") or "body"
    return ""


def _lines(shape: Element) -> Iterator[str]:
    """Yield the paragraphs of a shape, and the rows of its table."""
    for one in topmost(shape, ("p", "tr"), _LEFT_OUT):
        if local(one) == "p":
            line = _text(one)
        else:
            cells = (
                " ".join(filter(None, map(_text, topmost(cell, ("p",))))) for cell in topmost(one, ("tc",))
            )
            line = " | ".join(cells)
        if line.strip(" |"):
            yield line.strip()


def _text(paragraph: Element) -> str:
    """Return the text of a paragraph as one line."""
    parts = []
    for one in walk(paragraph, _LEFT_OUT):
        if local(one) == "t":
            parts.append(one.text or "")
        elif local(one) in ("br", "tab"):
            parts.append(" ")
    return " ".join("".join(parts).split())


def _links(shape: Element, relations: Mapping[str, Relation]) -> Iterator[tuple[str, str, str]]:
    """Yield target, fragment and text of the links to files beside the presentation."""
    for one in walk(shape, _LEFT_OUT):
        relation = relations.get(relation_id(one)) if local(one) == "hlinkClick" else None
        address = file_at(relation.target) if relation and relation.external else None
        if address:
            run = one.getparent().getparent()
            yield (*address, _text(run) if local(run) == "r" else "")
