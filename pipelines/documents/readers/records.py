"""Read records in YAML and JSON: a block per top-level key, and properties from `_meta` and short values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pipelines.documents.decoding import storable
from pipelines.documents.document import Builder, Document, DocumentLink
from pipelines.documents.readers.flattening import NO_UNITS, Units, flatten, humanized, item_text
from pipelines.documents.readers.record_metadata import KIND_KEYS, at, file_names, properties_of, text_at
from pipelines.documents.readers.record_values import Limit, Lines, Value, parse
from pipelines.locator import Locator
from pipelines.parsing.frontmatter import split_wikilink

LONGEST_SECTION = 1_500
"""Tokens of a section above which each of its keys has a block of its own, at four bytes per token."""
ROWS = 20
"""Entries of a list at the top that share a block."""

_BYTES_PER_TOKEN = 4
_LINKING = ("_links", "_graph")
_LONGEST_SHORT = 200
_LEAST = 20
_LONGEST_PATH = 200
_WIKILINK = re.compile(r"(?P<embed>!?)\[\[(?P<inner>[^\[\]\n]{1,1000})\]\]")


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of a record: its keys from the outermost, its value, its headings and its text.

    `keys` are empty for the values at the top; `begins` are the keys with which it begins in the file.
    """

    keys: tuple[str, ...]
    value: Value
    headings: tuple[str, ...]
    text: str
    begins: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Estimate the tokens of the text."""
        return math.ceil(len(self.text.encode()) / _BYTES_PER_TOKEN)

    @property
    def is_short(self) -> bool:
        """Say whether the text is too short for a block of its own."""
        return len(self.text) < _LEAST or (len(self.text) <= _LONGEST_SHORT and "\n" not in self.text)


def read(path: str, data: bytes, options: Mapping[str, object]) -> Document:
    """Return the document of a record.

    The options are `types` (by kind: its `sections` and `units`), `skip` (top-level keys that are no text), and the
    dotted keys `id`, `kind` and `date`. Short values at the top share a block. Of several YAML documents in a file,
    the first mapping has the properties, and the sections of the later ones are under "Document 2" and so on.

    Raises DocumentError for what `parse` refuses.
    """
    documents, lines = parse(path, data)
    records = [value for value in documents if isinstance(value, dict)]
    properties, warnings = properties_of(records[0] if records else {}, documents, options)
    limit = Limit()
    builder = Builder()
    for number, value in enumerate(documents, 1):
        _add(builder, limit.cut(value), number, options, lines)
    if limit.reached:
        warnings.append("only the first 100,000 values or 5,000,000 characters were read")
    document = builder.document(metadata=properties, warnings=tuple(warnings))
    return replace(document, links=(*_file_links(records), *_wikilinks(documents, document.text)))


def _add(builder: Builder, value: Value, number: int, options: Mapping[str, object], lines: Lines) -> None:
    """Add the blocks of one document of the file."""
    above = (f"Document {number}",) if number > 1 else ()
    if isinstance(value, list):
        for start in range(0, len(value), ROWS):
            rows = value[start : start + ROWS]
            text = "\n".join(filter(None, map(item_text, rows)))
            name = above[-1] if above else ""
            builder.add(text, name, above, Locator("rows", name, start + 1, start + len(rows)))
    elif isinstance(value, dict):
        for section in _sections(value, above, options):
            line = _line_of(section.begins, number, lines)
            builder.add(section.text, *_heading(section.headings), _place(section.keys, above, line))
    else:
        builder.add(item_text(value), *_heading(above))


def _heading(headings: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return label and headings of a block: `Key — Sub` for a key in a key."""
    return " — ".join(headings), headings


def _place(keys: tuple[str, ...], above: tuple[str, ...], line: int) -> Locator:
    parts = [*above, ".".join(keys)] if keys else above
    return Locator("key", ": ".join(parts)[:_LONGEST_PATH], line, line)


def _line_of(keys: tuple[str, ...], number: int, lines: Lines) -> int:
    """Return the line of a key, or of the key above it whose line is known; 0 without one."""
    above = (keys[:length] for length in range(len(keys), 0, -1))
    return next((lines[number, known] for known in above if (number, known) in lines), 0)


def _sections(
    record: dict[str, Value], above: tuple[str, ...], options: Mapping[str, object]
) -> Iterator[_Section]:
    """Yield the sections of a record: those that the options name for its type, or else all."""
    chosen, units = _type_of(record, options)
    skipped = options.get("skip")
    left_out = set(map(str, skipped)) if isinstance(skipped, list) else set()
    if chosen is None:
        keys = [key for key in record if not key.startswith("_") and key not in left_out]
        found = [_section((), key, record[key], above, units) for key in keys]
        for section in _gathered((), above, found):
            yield from _split(section, above, units)
        return
    for entry in chosen:
        keys = entry.removesuffix(".*").split(".")
        value = at(record, ".".join(keys))
        if keys[0] in left_out:
            continue
        if entry.endswith(".*") and isinstance(value, dict):
            for key, item in value.items():
                yield _section(tuple(keys), key, item, above, units)
        else:
            yield from _split(_section(tuple(keys[:-1]), keys[-1], value, above, units), above, units)


def _type_of(record: dict[str, Value], options: Mapping[str, object]) -> tuple[list[str] | None, Units]:
    """Return the sections (None: all) and the units of a record's type."""
    types = options.get("types")
    kind = text_at(record, options.get("kind"), KIND_KEYS)
    chosen = types.get(kind) if isinstance(types, Mapping) else None
    if not isinstance(chosen, Mapping):
        return None, NO_UNITS
    sections, units = chosen.get("sections"), chosen.get("units")
    return (
        [str(entry) for entry in sections] if isinstance(sections, list) else None,
        {str(key): str(unit) for key, unit in units.items()} if isinstance(units, Mapping) else NO_UNITS,
    )


def _section(
    parents: tuple[str, ...], key: str, value: Value, above: tuple[str, ...], units: Units
) -> _Section:
    keys = (*parents, key)
    headings = (*above, *(humanized(each, units) for each in keys))
    return _Section(keys, value, headings, flatten(key, value, units), keys)


def _split(section: _Section, above: tuple[str, ...], units: Units) -> Iterator[_Section]:
    """Yield a section, or the keys of a mapping that is too long for one block."""
    if not isinstance(section.value, dict) or section.tokens <= LONGEST_SECTION:
        yield section
        return
    parts = [_section(section.keys, key, item, above, units) for key, item in section.value.items()]
    yield from _gathered(section.keys, section.headings, parts)


def _gathered(
    keys: tuple[str, ...], headings: tuple[str, ...], sections: list[_Section]
) -> Iterator[_Section]:
    """Yield what is too short for a block of its own as one section, at the place of the first, and the rest."""
    short = [section for section in sections if section.is_short]
    for section in sections:
        if not section.is_short:
            yield section
        elif section is short[0]:
            lines = "\n".join(filter(None, (each.text for each in short)))
            yield _Section(keys, None, headings, lines, section.begins)


def _file_links(records: list[dict[str, Value]]) -> Iterator[DocumentLink]:
    """Yield the files that `_links` and `_graph` name; they have no place in the text."""
    names = (name for record in records for key in _LINKING for name in file_names(record.get(key)))
    for name in dict.fromkeys(names):
        yield DocumentLink(name, 0)


def _wikilinks(documents: list[Value], text: str) -> Iterator[DocumentLink]:
    """Yield the `[[links]]` of the text, and those of values that are no text."""
    in_text = set()
    for match in _WIKILINK.finditer(text):
        in_text.add(match[0])
        yield from _link(match, match.start())
    elsewhere = (match for value in _strings(documents) for match in _WIKILINK.finditer(value))
    for match in {match[0]: match for match in elsewhere if match[0] not in in_text}.values():
        yield from _link(match, 0)


def _link(match: re.Match[str], at: int) -> Iterator[DocumentLink]:
    link = split_wikilink(match["inner"])
    if link is not None:
        target, fragment, shown = link
        yield DocumentLink(target, at, fragment, shown, bool(match["embed"]))


def _strings(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        yield storable(value)
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
