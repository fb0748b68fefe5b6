"""Parse YAML and JSON into plain trees that keep numbers and dates as they are written.

Aliases and application tags are never followed: nothing is expanded and no object is constructed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from pipelines.documents.document import DEEPEST, MOST_CHARACTERS, storable
from pipelines.errors import DocumentError
from pipelines.notes.frontmatter import YAML_SURPRISES, as_written, plain, yaml_problem

MOST_VALUES = 100_000

_TAG = "tag:yaml.org,2002:"
_TYPES = {_TAG + name for name in ("bool", "float", "int", "null", "str", "timestamp")}
_BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_RESOLVER = Resolver()
_DIGITS_OF_AN_INTEGER = 18
_DEEPEST_LINE = 4


@dataclass(frozen=True, slots=True)
class Typed:
    """A number, truth value or date: its text as written, and its JSON-compatible value."""

    text: str
    value: object

    @property
    def is_number(self) -> bool:
        """Say whether the value is a number."""
        return isinstance(self.value, (int, float)) and not isinstance(self.value, bool)


Leaf: TypeAlias = "str | Typed | bool | None"
Value: TypeAlias = "dict[str, Value] | list[Value] | Leaf"
Lines: TypeAlias = dict[tuple[int, tuple[str, ...]], int]
"""On which line of a YAML file keys begin: by the number of their document, and the keys down to them."""


def parse(path: str, data: bytes) -> tuple[list[Value], Lines]:
    """Return the documents of a YAML or JSON file, and the lines of its keys; a file without text has none.

    Keys of JSON have no lines, nor have those in lists, below the fourth level, and after the first 100,000.

    Raises DocumentError for what cannot be parsed, an alias, a repeated key, a key that is a list or mapping, and
    more than 100 levels of nesting.
    """
    text = _decoded(path, data)
    if not text.strip():
        return [], {}
    if path.lower().endswith(".json"):
        documents, lines = [_from_json(path, text)], Lines()
    else:
        documents, lines = _from_yaml(path, text)
    _refuse_depth(path, documents)
    return documents, lines


def _decoded(path: str, data: bytes) -> str:
    encoding = next((name for mark, name in _BOMS.items() if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path!r} is not text in UTF-8; save it as UTF-8") from error


def _from_json(path: str, text: str) -> Value:
    def mapping(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise DocumentError(f"{path!r}: the key {twice!r} is written twice in one object; remove one")
        return found

    def integer(digits: str) -> Typed:
        return Typed(digits, int(digits) if len(digits) <= _DIGITS_OF_AN_INTEGER else digits)

    try:
        value: Value = json.loads(
            text,
            object_pairs_hook=mapping,
            parse_int=integer,
            parse_float=lambda digits: Typed(digits, plain(float(digits))),
            parse_constant=lambda name: Typed(name, name),
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DocumentError(f"{path!r} is not valid JSON: {where}: {error.msg}; correct it there") from error
    except RecursionError as error:
        raise _too_deep(path) from error
    return value


def _from_yaml(path: str, text: str) -> tuple[list[Value], Lines]:
    tree = _Tree(path)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            tree.add(event)
    except (yaml.YAMLError, *YAML_SURPRISES) as error:
        raise DocumentError(f"{path!r} is not valid YAML: {yaml_problem(error)}; correct it there") from error
    return tree.documents, tree.lines


class _Tree:
    """Builds the documents of a YAML stream from its events, one at a time, so that a bomb is never built."""

    def __init__(self, path: str) -> None:
        self.documents: list[Value] = []
        self.lines = Lines()
        self._path = path
        self._open: list[dict[str, Value] | list[Value]] = []
        self._keys: list[str | None] = []
        # Under which key each open list or mapping is; None for the outermost and those in lists.
        self._above: list[str | None] = []

    def add(self, event: yaml.Event) -> None:
        """Add the next event.

        Raises DocumentError.
        """
        if isinstance(event, yaml.ScalarEvent):
            self._place(event, event.value if self._expects_key() else _leaf(event))
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) == DEEPEST:
                raise _too_deep(self._path)
            new: dict[str, Value] | list[Value] = {} if isinstance(event, yaml.MappingStartEvent) else []
            above = self._keys[-1] if self._keys else None
            self._place(event, new)
            self._above.append(above)
            self._open.append(new)
            self._keys.append(None)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
            self._above.pop()
            self._keys.pop()
        elif isinstance(event, yaml.AliasEvent):
            raise DocumentError(
                f"{self._at(event)}: the alias `*{event.anchor}` is not followed, because a few aliases can expand "
                "to gigabytes; write the value out"
            )

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], dict) and self._keys[-1] is None

    def _place(self, event: yaml.Event, value: Value) -> None:
        if not self._open:
            self.documents.append(value)
            return
        parent, key = self._open[-1], self._keys[-1]
        if isinstance(parent, list):
            parent.append(value)
        elif key is not None:
            parent[key] = value
            self._keys[-1] = None
        elif not isinstance(value, str):
            raise DocumentError(
                f"{self._at(event)}: a list or mapping is used as a key; write a name instead"
            )
        elif value in parent:
            raise DocumentError(f"{self._at(event)}: the key {value!r} is written twice; remove one")
        else:
            self._keys[-1] = value
            self._note_line(event, value)

    def _note_line(self, event: yaml.Event, key: str) -> None:
        """Note on which line a key is, unless it is too deep for a section or in a list."""
        if event.start_mark and len(self._above) <= _DEEPEST_LINE and len(self.lines) < MOST_VALUES:
            keys = tuple(storable(each) for each in (*self._above[1:], key) if each is not None)
            if len(keys) == len(self._above):
                self.lines[len(self.documents), keys] = event.start_mark.line + 1

    def _at(self, event: yaml.Event) -> str:
        return f"{self._path!r}, line {event.start_mark.line + 1}" if event.start_mark else repr(self._path)


def _leaf(event: yaml.ScalarEvent) -> Leaf:
    """Return a scalar; one with a tag of an application is text, and binary data is left out."""
    text: str = event.value
    tag = event.tag
    if tag is None or tag == "!":
        # Its stub has no types.
        tag = _RESOLVER.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
    if tag in {_TAG + "null", _TAG + "binary"}:
        return None
    if tag == _TAG + "str" or tag not in _TYPES:
        return text
    try:
        return Typed(text, plain(SafeConstructor().construct_object(yaml.ScalarNode(tag, text))))
    except (yaml.YAMLError, *YAML_SURPRISES, ArithmeticError):
        return text


def _refuse_depth(path: str, documents: list[Value]) -> None:
    level = _nested(documents)
    for _ in range(DEEPEST):
        level = [item for value in level for item in _nested(value)]
        if not level:
            return
    raise _too_deep(path)


def _nested(value: Value) -> list[Value]:
    """Return the lists and mappings that are items of a value."""
    items: Iterable[Value] = value.values() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = value
    return [item for item in items if isinstance(item, (dict, list))]


def _too_deep(path: str) -> DocumentError:
    return DocumentError(f"{path!r} is nested more than {DEEPEST} levels deep; make it flatter")


def as_plain(value: Value) -> object:
    """Return a value as JSON-compatible values, by the rules of a note's properties: `1.10` and `NO` are text."""
    if isinstance(value, dict):
        return {storable(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_plain(item) for item in value]
    if isinstance(value, str):
        return storable(value)
    return as_written(value.text) if isinstance(value, Typed) else value


class Limit:
    """Cuts values after the first 100,000 of them, or after 5,000,000 characters, counted over all calls."""

    def __init__(self) -> None:
        self._values = MOST_VALUES
        self._characters = MOST_CHARACTERS
        self.reached = False
        """Whether something was cut."""

    def cut(self, value: Value) -> Value:
        """Return a value as far as the limit allows, in a form that can be stored and with each scalar as text."""
        if isinstance(value, dict):
            return {storable(key): item for key, item in self._each(value.items())}
        if isinstance(value, list):
            return [item for _, item in self._each(("", item) for item in value)]
        if value is None:
            return None
        self._values -= 1
        if isinstance(value, bool):
            return Typed(str(value).lower(), value)
        text = value if isinstance(value, str) else value.text
        self._characters -= len(text)
        if self._characters < 0:
            self.reached = True
            return storable(text[: len(text) + self._characters]) or None
        return storable(value) if isinstance(value, str) else value

    def _each(self, pairs: Iterable[tuple[str, Value]]) -> Iterator[tuple[str, Value]]:
        for key, item in pairs:
            if self._values <= 0 or self._characters <= 0:
                self.reached = True
                return
            self._characters -= len(key)
            yield key, self.cut(item)
