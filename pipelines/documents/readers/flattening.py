"""Flatten the sections of a record into lines that people and embedding models read. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pipelines.documents.readers.record_values import Leaf, Typed, Value

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
