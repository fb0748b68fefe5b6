"""Add, remove and rename tags in a note's bytes; every other byte stays as it was.

Only the position of a tag is edited, which `tag_fields` finds. The result is then read again as the rest of Everindex
reads it; if it is not exactly what was meant, the note is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Literal, NoReturn

import yaml

from pipelines.errors import NoteTagsError
from pipelines.model import Note
from pipelines.notes.encodings import decode, encoding_of, is_utf_16, name_of
from pipelines.notes.frontmatter import (
    LINE_END,
    TAG,
    distinct,
    is_tag,
    line_start,
    read_frontmatter,
    read_properties,
    strings,
    yaml_problem,
)
from pipelines.notes.markdown import parse_note
from pipelines.tagging.vocabulary import renamed

# Find the tags in a note's frontmatter, and where they are written.


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


_COMMA = re.compile(r"\s*,")
_DASH = re.compile(r" *-[ \t]+")
_INLINE = re.compile(f"#({TAG.pattern})")
_BRACKETS = re.compile(r"\[([^\[\]]*)\](:?)")
# Words that YAML 1.1 or 1.2 does not read as strings; others that it does not do not begin with a letter.
_YAML_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# The indentation of a list created together with its key, and of one created in an empty block: this shows
# `remove_tags` what it has to remove. A list added below an existing key is indented like the key.
_WITH_KEY, _IN_EMPTY_BLOCK = "  ", " "


def add_tags(data: bytes, tags: Iterable[str]) -> bytes:
    """Return a note's bytes with tags added to `tags` in its frontmatter, in the style already used there.

    Tags that the frontmatter already has (compared without case) are skipped. Raises NoteTagsError if the frontmatter
    is unreadable, or cannot be edited without a risk to its contents.
    """
    wanted = distinct(tags)
    if bad := [tag for tag in wanted if not is_tag(tag) or tag.strip("/") != tag]:
        raise NoteTagsError(f"{bad[0]!r} is not a tag: use no spaces, punctuation or plain numbers")
    has = _read(data)[0] if parse_block(_text(data)) else set()
    for tag in wanted:
        if tag.casefold() not in has:
            has.add(tag.casefold())
            data = _checked(data, _with(_text(data), tag), has)
    return data


def remove_tags(data: bytes, tags: Iterable[str]) -> bytes:
    """Return a note's bytes without these tags in its frontmatter (compared without case; nested tags stay).

    This undoes `add_tags` to the byte, except that a `tags: null` becomes `[]`. Raises NoteTagsError as `add_tags`
    does.
    """
    text, unwanted = _text(data), _folded(tags)
    while found := first_tag(text, lambda name: name.casefold() in unwanted):
        text = _without(text, *found)
    return _checked(data, text, _read(data)[0] - unwanted)


def tags_of_head(head: bytes) -> set[str]:
    """Return the tags, in folded case, of a note that begins like this; none if they cannot be read."""
    try:
        # A head ends behind a byte `\n`, which is half a character of UTF-16.
        whole = head[: len(head) // 2 * 2] if is_utf_16(head) else head
        return _read(whole + "\n---\n".encode(encoding_of(head)[1]))[0]
    except NoteTagsError:
        return set()


def differs_by(data: bytes, after: bytes, tags: Iterable[str]) -> bool:
    """Say whether the frontmatter of a version of a note has what that of the other has, without these tags."""
    try:
        _checked(data, _text(after), _read(data)[0] - _folded(tags))
    except NoteTagsError:
        return False
    return True


def has_none(data: bytes, tags: Iterable[str]) -> bool:
    """Say whether a note surely has none of these tags, nor one nested in them."""
    try:
        return all(rename_tags(data, {tag: f"{tag}-"}) == data for tag in tags)
    except NoteTagsError:
        return False


def rename_tags(data: bytes, renames: Mapping[str, str]) -> bytes:
    """Return a note's bytes with tags renamed, in frontmatter and inline, together with the tags nested in them.

    Old names are compared without case. A list that already has the new tag only loses the old one. A second call
    changes nothing more. Raises NoteTagsError as `add_tags` does, but only for a note that has such a tag (or may
    have one: an unreadable part names it), and if renames form a cycle.
    """
    rules = {old.casefold(): new for old, new in renames.items()}

    def new_name(name: str) -> str:
        if (new := renamed(name, rules)) is None:
            raise NoteTagsError(f"the renames of {name!r} never end; correct them in the taxonomy")
        return new

    text = _text(data)
    note = parse_note("", decode(data)[0])
    in_block = TAG.finditer(text, 0, read_frontmatter(readable_text(text)).end)
    if all(new_name(name) == name for name in (*note.tags, *(bare_name(word[0]) for word in in_block))):
        return data
    while found := first_tag(text, lambda name: new_name(name) != name):
        field, item = found
        taken = {other.name.casefold() for one in tag_fields(text) for other in one.items if other != item}
        new = new_name(item.name)
        has_new = new.casefold() in taken
        text = _without(text, field, item) if has_new else _replaced(text, field, item, new)
    text = _renamed_inline(text, new_name)
    after = _checked(data, text, _folded(map(new_name, _read(data)[0])))
    made = parse_note("", decode(after)[0])
    if _folded(made.tags) != _folded(map(new_name, note.tags)) or _targets(made) != _targets(note):
        raise NoteTagsError("a tag in its text cannot be told apart from other text; rename it by hand")
    return after


def _text(data: bytes) -> str:
    """Decode a note so that encoding restores exactly the same bytes. Raises NoteTagsError if that is impossible."""
    mark, codec = encoding_of(data)
    try:
        text = data[len(mark) :].decode(codec, "surrogateescape")
        if codec == "utf-8" or mark + text.encode(codec, "surrogateescape") == data:
            return text
    except UnicodeError:
        pass
    raise NoteTagsError(f"parts of it are not {name_of(codec)}; save it as UTF-8 to edit its tags")


def _folded(names: Iterable[str]) -> set[str]:
    return {name.casefold() for name in names}


# Editing


def _with(text: str, tag: str) -> str:
    """Write a tag after the existing ones; add the property or the block if it is missing."""
    block = parse_block(text)
    line_end = _next_line(text, 0)[1]
    if block is None:
        top = 1 if text.startswith("\ufeff") else 0
        return text[:top] + _new_block(_scalar(tag), line_end) + text[top:]
    field = next((field for field in block.fields if field.name == "tags"), None)
    if field is None:
        depth = _WITH_KEY if block.closing > block.start else _IN_EMPTY_BLOCK
        key = _new_key(block.column, depth, _scalar(tag), line_end)
        return text[: block.closing] + key + text[block.closing :]
    last = field.items[-1] if field.items else None
    if field.style in ("list", "empty"):
        at, line_end = _next_line(text, last.end if last else field.key_end)
        column = field.start - line_start(text, field.start) if last else block.column
        return f"{text[:at]}{' ' * column}- {_scalar(tag)}{line_end}{text[at:]}"
    if field.style == "null":
        return f"{text[: field.start]}[{_scalar(tag)}]{text[field.end :]}"
    written = _scalar(tag) if field.style == "inline" else tag
    if last is None:
        return text[: field.start + 1] + written + text[field.start + 1 :]
    spaced = field.style == "words" and len(field.items) > 1 and "," not in text[field.start : field.end]
    return f"{text[: last.end]}{' ' if spaced else ', '}{written}{text[last.end :]}"


def _new_block(written: str, line_end: str) -> str:
    return f"---{line_end}{_new_key(0, _WITH_KEY, written, line_end)}---{line_end}"


def _new_key(column: int, depth: str, written: str, line_end: str) -> str:
    return f"{' ' * column}tags:{line_end}{' ' * column}{depth}- {written}{line_end}"


def _scalar(tag: str) -> str:
    """Write a tag so that every YAML parser reads it as a string."""
    plain = tag[0].isalpha() and tag.casefold() not in _YAML_WORDS
    return tag if plain else json.dumps(tag, ensure_ascii=False)


def _next_line(text: str, at: int) -> tuple[int, str]:
    """Return where the next line begins, and the line ending before it."""
    end = LINE_END.search(text, at)
    return (end.end(), end[0]) if end else (len(text), "\n")


def _without(text: str, field: TagField, item: TagItem) -> str:
    """Remove a tag, and with the last one everything that `add_tags` would have created for it."""
    if field.style == "list":
        return _without_line(text, field, item)
    index = field.items.index(item)
    before = field.items[index - 1].end if index else None
    after = field.items[index + 1].start if index + 1 < len(field.items) else None
    if before is not None and "#" not in text[before : item.start]:
        return text[:before] + text[item.end :]
    if after is not None and "#" not in text[item.end : after]:
        return text[: item.start] + text[after:]
    # Either a comment on both sides, which stays, or nothing on either side.
    comma = _COMMA.match(text, item.end) if field.style == "inline" else None
    return text[: item.start] + text[comma.end() if comma else item.end :]


def _without_line(text: str, field: TagField, item: TagItem) -> str:
    start, (end, _) = line_start(text, item.start), _next_line(text, item.end)
    if not _DASH.fullmatch(text, start, item.start):
        refuse("a tag of its list is not on a line of its own")
    block = parse_block(text)
    if block is None or len(field.items) > 1:
        return text[:start] + text[end:]
    written, line_end = text[item.start : item.end], _next_line(text, 0)[1]
    top = 1 if text.startswith("\ufeff") else 0
    if text[top : block.end] == _new_block(written, line_end):
        return text[:top] + text[block.end :]
    key = line_start(text, field.key)
    made = [_new_key(block.column, depth, written, line_end) for depth in (_WITH_KEY, _IN_EMPTY_BLOCK)]
    return text[: key if text[key:end] in made else start] + text[end:]


def _replaced(text: str, field: TagField, item: TagItem, new: str) -> str:
    written = text[item.start : item.end]
    quoted = text[field.start if field.style == "words" else item.start] in "\"'|>"
    among_words = field.style == "words" and len(field.items) > 1
    kept = (quoted or among_words) and item.name in written
    written = written.replace(item.name, new, 1) if kept else _scalar(new)
    return text[: item.start] + written + text[item.end :]


def _renamed_inline(text: str, new_name: Callable[[str], str]) -> str:
    """Rename exactly those inline tags that the parser recognises.

    The parser does not return positions. So each candidate gets a number in its name, and the tags that the parser
    then returns show which candidates it recognised.
    """
    readable = readable_text(text)
    body = read_frontmatter(readable).end
    labels = set(_inside_labels(readable, body))
    candidates = (match for match in _INLINE.finditer(readable, body) if match.start() not in labels)
    found = [match for match in candidates if new_name(bare_name(match[0])) != bare_name(match[0])]
    if not found:
        return text
    folded = readable.casefold()
    mark = next(mark for number in count() if (mark := f"q{number}q") not in folded)
    places = [(match.start(1), match.start(1)) for match in found]
    marked = _spliced(readable, places, [f"{mark}{number}x" for number in range(len(found))])
    numbers = [re.match(rf"{mark}(\d+)x", tag) for tag in parse_note("", marked).tags]
    seen = [found[number] for number in sorted(int(match[1]) for match in numbers if match)]
    new = [match[0].replace(name, new_name(name), 1) for match in seen if (name := bare_name(match[0]))]
    return _spliced(text, [match.span() for match in seen], new)


def _inside_labels(text: str, start: int) -> Iterator[int]:
    """Yield the position of each `#` in the label of a link's definition (`[label]: target`), or of a link to it."""
    brackets = [match for match in _BRACKETS.finditer(text, start) if "#" in match[1]]
    labels = {" ".join(match[1].casefold().split()) for match in brackets if match[2]}
    for match in brackets:
        if " ".join(match[1].casefold().split()) in labels:
            yield from (at for at in range(*match.span(1)) if text[at] == "#")


def _spliced(text: str, spans: list[tuple[int, int]], pieces: list[str]) -> str:
    out, at = [], 0
    for (start, end), piece in zip(spans, pieces, strict=True):
        out += [text[at:start], piece]
        at = end
    return "".join([*out, text[at:]])


# Checking


def _checked(data: bytes, text: str, expected: set[str]) -> bytes:
    """Return the edited note's bytes if its tags read as expected and its other properties as before."""
    mark, codec = encoding_of(data)
    try:
        after = mark + text.encode(codec, "surrogateescape")
    except UnicodeEncodeError as error:
        raise NoteTagsError(
            f"{name_of(codec)}, in which it is written, lacks {error.object[error.start]!r}; save it as UTF-8 first"
        ) from error
    if encoding_of(after) != (mark, codec):
        raise NoteTagsError(f"it would no longer be read as {name_of(codec)}; save it as UTF-8 first")
    if _read(after) != (expected, _read(data)[1]):
        refuse("the change could not be read back")
    return after


def _read(data: bytes) -> tuple[set[str], list[tuple[str, object]]]:
    front = read_frontmatter(decode(data)[0])
    if front.warnings:
        refuse("the change could not be read back")
    others = [(name, value) for name, value in front.values.items() if name.lower() not in TAG_KEYS]
    return _folded(read_properties(front.values, ()).tags), others


def _targets(note: Note) -> list[tuple[str, str, str]]:
    return [(link.kind, link.target, link.fragment) for link in note.links]
