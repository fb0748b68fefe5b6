"""What a record says about itself, in the form of a note's frontmatter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from pipelines.documents.decoding import storable
from pipelines.documents.formats import format_of
from pipelines.documents.readers.record_values import Typed, Value, as_plain
from pipelines.documents.tags import INSIDE
from pipelines.parsing.privacy import PRIVATE, named

OWN = "_meta"
"""The key whose values are properties as if they were at the top."""

KIND_KEYS = ("_meta.type", "_meta.kind", "kind", "type")
"""Where a record's kind is looked up unless the options name its key."""
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


def file_names(value: Value) -> list[str]:
    """Return the texts in a value that are names of files in a format that can be indexed."""
    if isinstance(value, dict):
        return [name for item in value.values() for name in file_names(item)]
    if isinstance(value, list):
        return [name for item in value for name in file_names(item)]
    if not isinstance(value, str) or "://" in value or "[[" in value or len(value.splitlines()) != 1:
        return []
    return [storable(value.strip())] if format_of(value.strip()) else []


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
