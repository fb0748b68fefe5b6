"""Read records in YAML and JSON: a block per top-level key, and properties from `_meta` and short values."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pipelines.documents.document import INSIDE, Builder, Document, DocumentLink, storable
from pipelines.documents.readers.record_values import Leaf, Limit, Lines, Typed, Value, as_plain, parse
from pipelines.formats import format_of
from pipelines.model import Locator
from pipelines.notes.frontmatter import split_wikilink
from pipelines.notes.links import type_of
from pipelines.notes.privacy import PRIVATE, named

# Flatten the sections of a record into lines that people and embedding models read. Pure.


Units = Mapping[str, str]
"""How numbers are written, by key or by the end of keys.

A name that begins with `_` stands for all keys that end with it, and is left out of their labels. In the value, `{}`
stands for the number as written and `{+}` for the number with its sign. A value without either is added to the label.
"""
NO_UNITS: Units = {}

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z]{4})(?=\d)")
_BETWEEN = re.compile(r"[\s_-]+")
_PERIODS = re.compile(r"\d+[a-z]|[a-z]\d+")
_SMALL = "a an and as at by for from in of on or per the to vs with"
_UPPER = (
    "AI API CAGR CEO CFO COO CPI CPU CSS CSV DCF EBIT EBITDA EMA EPS ESG ETF EU EUR FCF FOMC FX GAAP GBP GDP GPU "
    "HTML HTTP ID IPO IRR JSON KPI LLM MACD OKR OS PDF PE ROE ROI RSI SLA SMA SQL TTM UK UI URL USD UTC VIX VWAP "
    "XML YAML YTD"
)
_MIXED = "MoM PnL QoQ YoY"
_SMALL_WORDS = frozenset(_SMALL.split())
_SPELLED = {word.lower(): word for word in (*_UPPER.split(), *_MIXED.split())}
_LONGEST_ROW_NAME = 60


def humanized(key: str, units: Units = NO_UNITS) -> str:
    """Return a key as a heading: `bear_case_analysis` as "Bear Case Analysis"."""
    words = [
        word if index and word in _SMALL_WORDS else _capital(word)
        for index, word in enumerate(_words(key, units))
    ]
    return _with_suffix(" ".join(words), key, units)


def flatten(key: str, value: Value, units: Units = NO_UNITS) -> str:
    """Return a section as text, empty if it has no values.

    A scalar gives `Key: value`, and a list of scalars `Key: a, b, c`. A mapping or a list of mappings gives a
    paragraph under its heading, with a line per entry; so does each of the same kind in a section, as
    `Section — Entry:`. Below that, a nested mapping gives `Parent.child: value`.
    """
    heading = humanized(key, units)
    if not isinstance(value, dict):
        return "\n".join(_entry((key,), value, units, heading))
    own: list[str] = []
    parts: list[str] = []
    for name, item in value.items():
        if not _is_nested(item):
            own += _entry((name,), item, units)
        elif lines := _body((), item, units):
            parts.append("\n".join([f"{heading} — {humanized(name, units)}:", *lines]))
    if own:
        parts.insert(0, "\n".join([f"{heading}:", *own]))
    return "\n\n".join(parts)


def item_text(value: Value, units: Units = NO_UNITS) -> str:
    """Return an entry of a list as text: a mapping as one row, followed by the rows of the lists in it."""
    return "\n".join(_body((), [value], units))


def _entry(path: tuple[str, ...], value: Value, units: Units, heading: str = "") -> list[str]:
    """Return the lines of a named value."""
    label = heading if heading and _is_nested(value) else _line_label(path, units)
    if isinstance(value, dict):
        return _body(path, value, units)
    if not isinstance(value, list):
        text = _written(path[-1], value, units)
        return [f"{label}: {text}"] if text else []
    if not _is_nested(value):
        texts = filter(
            None, (_written(path[-1], item, units) for item in value if not isinstance(item, (dict, list)))
        )
        line = ", ".join(texts)
        return [f"{label}: {line}"] if line else []
    lines = _body((), value, units)
    return [f"{label}:", *lines] if lines else []


def _body(path: tuple[str, ...], value: Value, units: Units) -> list[str]:
    """Return the lines of a mapping or list without its heading."""
    if isinstance(value, dict):
        return [line for name, item in value.items() for line in _entry((*path, name), item, units)]
    lines: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            lines += _row(item, units)
        elif isinstance(item, list):
            lines += (
                _body((), item, units) if _is_nested(item) else [", ".join(filter(None, map(_text, item)))]
            )
        else:
            lines.append(_text(item))
    return list(filter(None, lines))


def _row(row: dict[str, Value], units: Units) -> list[str]:
    """Return a mapping of a list as a line, named by its first value if that is a short text."""
    pairs: list[str] = []
    below: list[str] = []
    name = ""
    for index, (path, value) in enumerate(_leaves((), row)):
        if isinstance(value, list):
            below += _entry(path, value, units)
            continue
        text = " ".join(_written(path[-1], value, units).split())
        if not text:
            continue
        if index == 0 and isinstance(value, str) and len(text) <= _LONGEST_ROW_NAME and len(row) > 1:
            name = text
        else:
            label = ".".join(_lower_label(part, units) for part in path)
            pairs.append(f"{label} {text}" if isinstance(value, Typed) else f"{label}: {text}")
    line = ", ".join(pairs)
    named = f"{name}: {line}" if name and line else name or line
    return [*([named] if named else []), *below]


def _leaves(
    path: tuple[str, ...], value: dict[str, Value]
) -> Iterator[tuple[tuple[str, ...], Leaf | list[Value]]]:
    """Yield the path and value of each scalar and list in nested mappings; a list of scalars is one text."""
    for name, item in value.items():
        if isinstance(item, dict):
            yield from _leaves((*path, name), item)
        elif isinstance(item, list) and not _is_nested(item):
            # A text with its own form, so that it never becomes the row's name.
            joined = ", ".join(filter(None, map(_text, item)))
            yield (*path, name), Typed(joined, joined) if joined else None
        else:
            yield (*path, name), item


def _is_nested(value: Value) -> bool:
    """Say whether a value is a mapping, or a list that has mappings or lists in it."""
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)
    )


def _text(value: Value) -> str:
    if isinstance(value, Typed):
        return value.text
    return value.strip() if isinstance(value, str) else ""


def _written(key: str, value: Value, units: Units) -> str:
    """Return a scalar as written, a number with the unit of its key."""
    text = _text(value)
    pattern = _unit(key, units)
    if not (isinstance(value, Typed) and value.is_number and "{" in pattern):
        return text
    signed = text if text.startswith(("+", "-")) else f"+{text}"
    return pattern.replace("{+}", signed).replace("{}", text)


def _unit(key: str, units: Units) -> str:
    return units.get(key) or units.get(_suffix(key, units), "")


def _suffix(key: str, units: Units) -> str:
    """Return the longest end of a key that has a unit of its own."""
    ends = (name for name in units if name.startswith("_") and key.endswith(name) and key != name)
    return max(ends, key=len, default="")


def _with_suffix(label: str, key: str, units: Units) -> str:
    pattern = _unit(key, units)
    return f"{label} {pattern}" if pattern and "{" not in pattern else label


def _words(key: str, units: Units) -> list[str]:
    """Return the words of a key: those of camelCase in lower case, and known ones as they are usually spelled."""
    stem = key.removesuffix(_suffix(key, units))
    parted = _HUMP.sub(" ", stem)
    words = [word for word in _BETWEEN.split(parted) if word]
    return [_spelled(word, from_hump=parted != stem) for word in words] or [key]


def _spelled(word: str, *, from_hump: bool) -> str:
    lower = word.lower()
    if from_hump and word == word.title():
        word = lower
    if word == lower and lower in _SPELLED:
        return _SPELLED[lower]
    return word.upper() if _PERIODS.fullmatch(word) else word


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:] if word.islower() else word


def _lower_label(key: str, units: Units) -> str:
    return _with_suffix(" ".join(_words(key, units)), key, units)


def _line_label(path: tuple[str, ...], units: Units) -> str:
    words = ".".join(_lower_label(part, units) for part in path)
    first, space, rest = words.partition(" ")
    return _capital(first) + space + rest


# What a record says about itself, in the form of a note's frontmatter.


OWN = "_meta"
"""The key whose values are properties as if they were at the top."""

KIND_KEYS = ("_meta.type", "_meta.kind", "kind", "type")
"""The keys that may hold a record's kind, unless the options name its key."""
_DATE_KEYS = ("date", "_meta.date", "_meta.doc_date", "_meta.created", "_meta.created_at")
_ID_KEYS = ("_meta.id",)
_ABOUT_PRIVACY = (PRIVATE, "tags", "tag")
_LONGEST_TEXT = 1_000
_LONGEST_LIST = 100
# The wire and the cache take 65,536; what sections say about privacy has the rest.
_LARGEST_PROPERTIES = 40_000
_LARGEST_INSIDE = 20_000


def properties_of(
    record: dict[str, Value], everything: list[Value], options: Mapping[str, object]
) -> tuple[dict[str, object], list[str]]:
    """Return a record's properties and warnings about what was left out.

    They are its scalars and lists of scalars, those of `_meta`, and its other keys that begin with `_`. `options` may
    name the keys of `id`, `kind` and `date` by their paths. `everything` is searched for what makes a record private.
    """
    found: dict[str, object] = {}
    own = record.get(OWN)
    for key, value in chain(record.items(), own.items() if isinstance(own, dict) else ()):
        if key != OWN and (_is_short(value) or key.startswith("_") or value is None):
            found.setdefault(storable(key), as_plain(value))
    kind = text_at(record, options.get("kind"), KIND_KEYS)
    date = text_at(record, options.get("date"), _DATE_KEYS)
    identity = text_at(record, options.get("id"), _ID_KEYS)
    aliases = found.get("aliases") or []
    if identity:
        aliases = [*(aliases if isinstance(aliases, list) else [aliases]), identity]
    chosen = {"id": identity, "kind": kind, "date": date, "aliases": aliases}
    # The most important come first, because the last are left out where there are too many.
    found = {key: value for key, value in chosen.items() if value} | {
        key: value for key, value in found.items() if key not in chosen or not chosen[key]
    }
    return _within_limits(found, _inside(everything, found))


def text_at(record: dict[str, Value], chosen: object, usual: Iterable[str]) -> str:
    """Return the text of the first scalar among dotted keys: the chosen one, or else the usual ones."""
    for path in [chosen] if isinstance(chosen, str) and chosen else usual:
        value = at(record, path)
        if isinstance(value, Typed):
            # A date has its form of ISO 8601, a number the form in which it is written.
            return value.value if isinstance(value.value, str) else value.text
        if isinstance(value, str) and value.strip():
            return storable(value.strip())[:_LONGEST_TEXT]
    return ""


def at(record: dict[str, Value], path: str) -> Value:
    """Return the value at a dotted key, None without one."""
    value: Value = record
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_file_name(text: str) -> bool:
    """Say whether a text is the name of a file in a format that can be indexed."""
    return "://" not in text and "[[" not in text and len(text.splitlines()) == 1 and bool(format_of(text))


def _is_short(value: Value) -> bool:
    if isinstance(value, list):
        return len(value) <= _LONGEST_LIST and all(
            not isinstance(item, (dict, list)) and _is_short(item) for item in value
        )
    return isinstance(value, (Typed, bool)) or (isinstance(value, str) and len(value) <= _LONGEST_TEXT)


def _inside(everything: list[Value], known: Mapping[str, object]) -> dict[str, object]:
    """Return each distinct value of properties named `private`, `tags` or `tag`, at any depth, unless it is known."""
    telling = list(_telling(everything))
    said: dict[str, object] = {}
    for name in _ABOUT_PRIVACY:
        already = {json.dumps(item) for item in _each(named(known, name))}
        values = map(as_plain, _each(named(telling, name)))
        new = {written: item for item in values if (written := json.dumps(item)) not in already}
        if new:
            said[name] = list(new.values())
    return said


def _telling(value: Value) -> Iterator[dict[str, Value]]:
    """Yield the properties whose names may be those that decide about privacy; a quick check rules out most names."""
    if isinstance(value, list):
        for item in value:
            yield from _telling(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not key.isascii() or any(name in key.lower() for name in _ABOUT_PRIVACY):
                yield {key: item}
            if isinstance(item, (dict, list)):
                yield from _telling(item)


def _each(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [value]


def _within_limits(
    properties: dict[str, object], inside: dict[str, object]
) -> tuple[dict[str, object], list[str]]:
    kept: dict[str, object] = {}
    left_out: list[str] = []
    size = 0
    for key, value in properties.items():
        size += len(json.dumps({key: value}))
        if size <= _LARGEST_PROPERTIES:
            kept[key] = value
        else:
            size -= len(json.dumps({key: value}))
            left_out.append(key)
    warnings = [f"{len(left_out):,} properties are too large and were left out"] if left_out else []
    if len(json.dumps(inside)) > _LARGEST_INSIDE:
        # Which of its tags are private is unknown here, so it must not leave the machine.
        inside = {PRIVATE: True}
        warnings.append("it has too many tags and `private` values to be kept, so it counts as private")
    if inside:
        kept[INSIDE] = inside
    return kept, warnings


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
    found = (
        (text.strip(), type_of(key))
        for record in records
        for linking in _LINKING
        for key, text in _strings(record.get(linking), "")
        if _is_file_name(text.strip())
    )
    for name, relation in dict.fromkeys(found):
        yield DocumentLink(name, 0, type=relation)


def _wikilinks(documents: list[Value], text: str) -> Iterator[DocumentLink]:
    """Yield the `[[links]]` of the text, and those of values that are no text, each typed by its nearest key."""
    keys: dict[str, deque[str]] = {}
    for key, value in _strings(documents, ""):
        for match in _WIKILINK.finditer(value):
            keys.setdefault(match[0], deque()).append(key)
    known = set()
    for match in _WIKILINK.finditer(text):
        left = keys.get(match[0])
        key = left.popleft() if left else ""
        known.add((match[0], key))
        yield from _link(match, match.start(), key)
    elsewhere = ((written, key) for written, left in keys.items() for key in left)
    for written, key in dict.fromkeys(elsewhere):
        found = _WIKILINK.fullmatch(written)
        if found and (written, key) not in known:
            yield from _link(found, 0, key)


def _link(match: re.Match[str], at: int, key: str) -> Iterator[DocumentLink]:
    link = split_wikilink(match["inner"])
    if link is not None:
        target, fragment, shown = link
        yield DocumentLink(target, at, fragment, shown, bool(match["embed"]), type_of(key))


def _strings(value: Value, key: str) -> Iterator[tuple[str, str]]:
    """Yield the texts in a value with their nearest keys; what is below a key that is never text comes last."""
    if isinstance(value, str):
        yield key, storable(value)
    elif isinstance(value, dict):
        for name, item in sorted(value.items(), key=lambda one: one[0].startswith("_")):
            yield from _strings(item, storable(name))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
