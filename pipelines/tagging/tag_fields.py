"""Find the tags in a note's frontmatter, and where they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn

import yaml

from pipelines.errors import NoteTagsError
from pipelines.parsing.frontmatter import read_frontmatter, strings
from pipelines.parsing.lines import LINE_END
from pipelines.parsing.yaml_guard import yaml_problem

_MOST_TAGS = 500  # each edit reads the block again
TAG_KEYS = ("tags", "tag")
_Style = Literal["list", "inline", "words", "empty", "null"]
_OPENING = re.compile(r"\ufeff?---[ \t]*(?:\r\n?|\n|\Z)")
_UNREADABLE = re.compile("[\0\udc80-\udcff]")
_WORD = re.compile(r"[^\s,]+")


@dataclass(frozen=True, slots=True)
class TagItem:
    """A tag as it is written: its name, and its position including quotes, `#` and slashes."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TagField:
    """The property `tags` or `tag`: the positions of its key and value, its style, its items."""

    name: str
    key: int
    key_end: int
    start: int
    end: int
    style: _Style
    items: tuple[TagItem, ...]


@dataclass(frozen=True, slots=True)
class TagBlock:
    """A note's frontmatter: the lines between the two `---`, its end, the column of its keys."""

    start: int
    closing: int
    end: int
    column: int
    fields: tuple[TagField, ...]


def readable_text(text: str) -> str:
    """Replace characters that are not text, one for one, so that positions stay the same."""
    return _UNREADABLE.sub("\ufffd", text)


def parse_block(text: str) -> TagBlock | None:
    """Return the frontmatter with its tags, or None if the note has no frontmatter.

    Raises NoteTagsError if the frontmatter is unreadable, or if its tags are not plain text.
    """
    readable = readable_text(text)
    front = read_frontmatter(readable)
    if front.unread:
        raise NoteTagsError(f"{front.warnings[0]}; correct the frontmatter first")
    opening = _OPENING.match(readable)
    if opening is None:
        return None
    if not front.end:
        raise NoteTagsError("the frontmatter that begins on line 1 never ends; close it with a line `---`")
    closing = readable.rindex("---", opening.end(), front.end)
    block = readable[opening.end() : closing]
    try:
        root = yaml.compose(block, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise NoteTagsError(
            f"the frontmatter cannot be read: {yaml_problem(error, 1)}; correct it first"
        ) from error
    if not isinstance(root, yaml.MappingNode):
        return TagBlock(opening.end(), closing, front.end, 0, ())
    _refuse_twice(root)
    fields = [
        _field(readable, opening.end(), name, key, value, front.values.get(key.value))
        for key, value in root.value
        if isinstance(key, yaml.ScalarNode) and (name := key.value.lower()) in TAG_KEYS
    ]
    return TagBlock(opening.end(), closing, front.end, root.start_mark.column, tuple(fields))


def _refuse_twice(root: yaml.MappingNode) -> None:
    """Raise NoteTagsError if a property is written twice."""
    seen = set()
    for key, _ in root.value:
        name = str(key.value).lower() if str(key.value).lower() in TAG_KEYS else str(key.value)
        if name in seen:
            raise NoteTagsError(f"the frontmatter has {key.value!r} twice; remove one of them")
        seen.add(name)


def tag_fields(text: str) -> tuple[TagField, ...]:
    """Return the properties of a note that hold its tags. Raises NoteTagsError as `parse_block` does."""
    block = parse_block(text)
    return block.fields if block else ()


def first_tag(text: str, wanted: Callable[[str], bool]) -> tuple[TagField, TagItem] | None:
    """Return the first tag in the frontmatter whose name is wanted."""
    return next(((f, item) for f in tag_fields(text) for item in f.items if wanted(item.name)), None)


def _field(text: str, offset: int, name: str, key: yaml.Node, node: yaml.Node, value: object) -> TagField:
    start, end = _span(node, offset)
    style: _Style = "words"
    items: Iterable[TagItem] = ()
    if text[start:end].startswith("!"):
        refuse("it has a YAML type (`!...`)")
    if isinstance(node, yaml.SequenceNode):
        style = "inline" if node.flow_style else "list"
        items = _listed(text, offset, node, value if isinstance(value, list) else [])
    elif isinstance(node, yaml.MappingNode):
        refuse("it holds `name: value` pairs")
    elif value is None:
        style = "null" if end > start else "empty"
    else:
        items = _words(text, start, end)
    found = tuple(items)
    if len(found) > _MOST_TAGS:
        refuse(f"it holds more than {_MOST_TAGS} tags")
    return TagField(name, *_span(key, offset), start, end, style, found)


def _span(node: yaml.Node, offset: int) -> tuple[int, int]:
    return offset + node.start_mark.index, offset + node.end_mark.index


def refuse(why: str) -> NoReturn:
    """Raise NoteTagsError with the reason, a clause, and what to do."""
    raise NoteTagsError(f"`tags` cannot be edited: {why}; write it as a list of tags")


def _listed(text: str, offset: int, node: yaml.SequenceNode, values: list[object]) -> Iterator[TagItem]:
    for child, value in zip(node.value, values, strict=True):
        start, end = _span(child, offset)
        if not isinstance(child, yaml.ScalarNode) or text[start:end].startswith("!"):
            refuse("it holds more than plain tags")
        yield TagItem(bare_name(next(strings(value), "")), start, end)


def _words(text: str, start: int, end: int) -> Iterator[TagItem]:
    if text[start] in "\"'":
        start, end = start + 1, end - 1
    elif text[start] in "|>":
        header = LINE_END.search(text, start, end)
        start = header.end() if header else end
    for word in _WORD.finditer(text, start, end):
        yield TagItem(bare_name(word[0]), *word.span())


def bare_name(written: str) -> str:
    """Return the name of a tag as it is written, without `#` and slashes around it."""
    return written.strip().removeprefix("#").strip("/")
