"""Parse a note's frontmatter, the YAML block at its top, into plain values, and interpret the known properties.

A value without quotes is the text that is written: `No`, `1.10`, `007`, `12:30`. Only what loses nothing by it is
read as another value: `true`, `false`, `null`, and numbers as Python writes them (`5`, `1.5`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise

import yaml

from pipelines.errors import DomainsFileError

# Read a vault's YAML safely: refuse dangerous documents before they are built, and find the line of a key.


YAML_SURPRISES = (ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What PyYAML raises besides its own errors: if a tag does not fit its value, whatever the conversion raises."""

_DEEPEST = 20


def yaml_problem(error: Exception, lines_above: int = 0) -> str:
    """Return in one line what is wrong with a YAML text, and where.

    `lines_above` is the number of lines of the file above the text, so that lines are counted from the top of the
    file.
    """
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None or error.problem is None:
        return " ".join(str(error).split()) or type(error).__name__
    at = error.problem_mark
    said = f"line {at.line + 1 + lines_above}, column {at.column + 1}: {error.problem}"
    begun = error.context_mark
    if error.context is None or begun is None or begun.line == at.line:
        return said
    return f"{said} ({error.context} from line {begun.line + 1 + lines_above} on)"


def refuse_bombs(text: str, name: str) -> None:
    """Refuse YAML that is made to exhaust memory: aliases (a few lines expand to gigabytes) and endless nesting.

    Raises DomainsFileError, YAMLError.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise DomainsFileError(f"{name}: nested more than {_DEEPEST} levels deep")
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise DomainsFileError(f"{name}:{line}: YAML aliases (`*x`) are not allowed here")


def refuse_twice(node: yaml.Node | None, name: str) -> None:
    """Refuse a mapping with a repeated key, because YAML would silently drop the first one."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if str(key.value) in seen:
            raise DomainsFileError(f"{name}:{key.start_mark.line + 1}: {key.value!r} is written twice")
        seen.add(str(key.value))
        refuse_twice(value, name)


def line_of(node: yaml.Node | None, keys: Sequence[object]) -> int:
    """Return the line (from 1) of a key path, followed as deep as it exists."""
    line = 1
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == str(key)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line + 1
        else:
            break
    return line


# The lines of a Markdown text: `\n`, `\r\n` and `\r` end a line.


LINE_END = re.compile(r"\r\n?|\n")


def line_starts(text: str) -> list[int]:
    """Return the offset at which each line of a text starts."""
    return [0, *(end.end() for end in LINE_END.finditer(text))]


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, each with its end."""
    return [text[start:end] for start, end in pairwise([*line_starts(text), len(text)]) if end > start]


def line_start(text: str, at: int) -> int:
    """Return the offset at which the line around another offset starts."""
    start = text.rfind("\n", 0, at) + 1
    # Only from there: most texts have no `\r`, and looking for one would read from here to their beginning.
    return max(start, text.rfind("\r", start, at) + 1)


LARGEST_BLOCK = 65_536
DEEPEST = 100
_SUSPICIOUS = re.compile(rf"[*&]| {{{DEEPEST}}}")
_NESTING = re.compile(r"[\[{]|[-?:][ \t]")
_OPENING = re.compile(r"\ufeff?---[ \t]*(?:\r\n?|\n)")
_CLOSING = re.compile(r"(?<![^\r\n])---[ \t]*(?:\r\n?|\n|\Z)")
# U+200D stays allowed because it joins emoji; the other ranges are spaces and punctuation, including those of CJK.
_NO_TAG_CHARACTER = (
    r"\s!-,.:-@\[-^`{-~\u2000-\u200c\u200e-\u206f\u2e00-\u2e7f\u3000-\u3003\u3008-\u3011\u3014-\u301f"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffd"
)
TAG = re.compile(rf"[^{_NO_TAG_CHARACTER}]+")
_LARGEST_INTEGER = 2**63 - 1
_TRUTH = {"true": True, "false": False}
_NUMBER = re.compile(r"-?[0-9]{1,19}(?:\.[0-9]{1,25})?(?:e[+-][0-9]{2,3})?")
_YES = frozenset({"true", "yes", "on"})
# Of a frontmatter with unreadable lines: how many are named, and how many are left out of one property.
_MOST_NAMED = 20
_MOST_LEFT_OUT = 8
_LONGEST_SHOWN = 100
_NAMED = re.compile(r"( *)(?![#\-\]}:][ \t]|#)[^\s:][^\r\n]*?:(?:[ \t\r\n]|\Z)")
# Explicit tags (`!!int ""`, `!!bool x`) make PyYAML's constructors raise many kinds of errors besides its own.
_UNREADABLE = (
    yaml.YAMLError,
    RecursionError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    TypeError,
)


class _Loader(yaml.CSafeLoader):
    """Builds YAML values, in which a scalar without quotes is what `as_written` returns."""

    def written(self, node: yaml.ScalarNode) -> object:
        """Return the value of a scalar that may be a number or a truth value."""
        return as_written(node.value)


def as_written(text: str) -> str | bool | float:
    """Return a truth value or a number if nothing of the text is lost by it (`true`, `5`, `1.5`), else the text."""
    if text in _TRUTH:
        return _TRUTH[text]
    if _NUMBER.fullmatch(text) is None:
        return text
    number = int(text) if text.lstrip("-").isdecimal() else float(text)
    is_kept = str(number) == text and (isinstance(number, float) or abs(number) <= _LARGEST_INTEGER)
    return number if is_kept else text


_WRITTEN = "!written"
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first_signs in (
    (_WRITTEN, _NUMBER.pattern, "-0123456789"),
    (_WRITTEN, "true|false", "tf"),
    ("tag:yaml.org,2002:null", "null|~|", ("n", "~", "")),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first_signs))
_Loader.add_constructor(_WRITTEN, _Loader.written)


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """A note's frontmatter: its values, where the body starts, and where the block ends if there is one.

    Of a block with unreadable lines, `values` has what can be read, `unread` the offsets of the properties with such
    lines, and `warnings` the reasons; the whole block is text then, so `body_start` is 0.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    body_start: int = 0
    end: int = 0
    warnings: tuple[str, ...] = ()
    unread: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A property as it is written: its name, its value, and its line in the block, from 0."""

    name: str
    value: object
    line: int


@dataclass(frozen=True, slots=True)
class _Unread:
    """Lines of a block that cannot be read, from 0 and exclusive of `end`, the reason, and the property's lines."""

    start: int
    end: int
    reason: str
    part: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties that Everindex knows, read from frontmatter values."""

    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    author: str | None
    kind: str | None
    evergreen: bool
    warnings: tuple[str, ...]


def read_frontmatter(text: str) -> Frontmatter:
    """Parse the block between a `---` on the first line and the next `---` line; never raises."""
    start, end, body_start = _find_block(text)
    if start == body_start:
        return Frontmatter(body_start=body_start)
    block = text[start:end]
    try:
        values, warnings = _merged(_load(block))
    except _UNREADABLE as error:
        return _partly(block, start, body_start, error)
    return Frontmatter(values, body_start=body_start, end=body_start, warnings=tuple(warnings))


def body_of(text: str) -> str:
    """Return what follows the frontmatter, which is not parsed."""
    return text[_find_block(text)[2] :]


def _find_block(text: str) -> tuple[int, int, int]:
    """Return where the block starts and ends, and where the body starts: all the same where there is no block."""
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return (1, 1, 1) if text.startswith("\ufeff") else (0, 0, 0)
    return opening.end(), closing.start(), closing.end()


def _load(block: str) -> list[_Entry]:
    """Return the properties of a block; raises one of `_UNREADABLE`."""
    if _is_too_large(block):
        raise ValueError(f"larger than {LARGEST_BLOCK} bytes")
    if _SUSPICIOUS.search(block) or len(_NESTING.findall(block)) > DEEPEST:
        _refuse_bombs(block)
    loader = _Loader(block)
    node = loader.get_single_node()
    if not isinstance(node, yaml.MappingNode):
        if node is None or loader.construct_object(node, deep=True) is None:
            return []
        raise TypeError("not a list of `name: value` properties")
    entries = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(
                "while constructing a mapping", node.start_mark, "found unhashable key", key.start_mark
            )
        name = _key(loader.construct_object(key))
        entries.append(_Entry(name, plain(loader.construct_object(value, deep=True)), key.start_mark.line))
    return entries


def _is_too_large(block: str) -> bool:
    return len(block.encode("utf-8", "replace")) > LARGEST_BLOCK


def _merged(entries: Iterable[_Entry]) -> tuple[dict[str, object], list[str]]:
    """Return the properties by name, and a warning for each name that is written more than once.

    The last one counts, as in Obsidian, except where that could lose a tag or an alias or open a private note.
    """
    by_name: dict[str, list[_Entry]] = {}
    for entry in entries:
        by_name.setdefault(entry.name, []).append(entry)
    values, warnings = {}, []
    for name, same in by_name.items():
        values[name] = same[-1].value
        if len(same) == 1:
            continue
        counts = "the last one counts"
        split = _TOGETHER.get(name.strip().casefold())
        if split is not None:
            values[name] = [item for entry in same for item in split(entry.value)]
            counts = "all of them count"
        lines = f"on lines {same[0].line + 2} and {same[-1].line + 2}"
        times = "twice" if len(same) == 2 else f"{len(same)} times, first and last"  # noqa: PLR2004 - two lines
        warnings.append(f"`{name[:_LONGEST_SHOWN]}` is written {times} {lines}; {counts}")
    return values, _few(warnings, "properties are written more than once")


def _few(warnings: list[str], what: str) -> list[str]:
    """Return the first warnings, and how many more there are."""
    more = len(warnings) - _MOST_NAMED
    return [*warnings[:_MOST_NAMED], f"{more} more {what}"] if more > 0 else warnings


def _partly(block: str, start: int, end: int, error: Exception) -> Frontmatter:
    """Return what can be read of a block that cannot be read as a whole."""
    unreadable = "unreadable frontmatter"
    lines = split_lines(block)
    entries, unread = ([], []) if _is_too_large(block) else _load_each(lines)
    if not entries or not unread:
        reason = yaml_problem(error, lines_above=1)
        return Frontmatter(end=end, warnings=(f"{unreadable}, kept as text: {reason}",), unread=((0, end),))
    values, twice = _merged(entries)
    offsets = [start, *(start := start + len(line) for line in lines)]
    warnings = [
        f"{unreadable} {_shown(one)}, kept as text: {one.reason}; try quotes around the value"
        for one in unread
    ]
    parts = dict.fromkeys(one.part for one in unread)
    return Frontmatter(
        values,
        end=end,
        warnings=(*warnings, *twice),
        unread=tuple((offsets[first], offsets[last]) for first, last in parts),
    )


def _shown(unread: _Unread) -> str:
    first, last = unread.start + 2, unread.end + 1
    return f"on line {first}" if first == last else f"on lines {first} to {last}"


def _load_each(lines: Sequence[str]) -> tuple[list[_Entry], list[_Unread]]:
    """Return the properties that can be read one by one, and the lines of the others."""
    entries: list[_Entry] = []
    unread: list[_Unread] = []
    for start, end in pairwise([*_starts(lines), len(lines)]):
        if len(unread) >= _MOST_NAMED:
            reason = f"more than {_MOST_NAMED} properties above cannot be read"
            unread.append(_Unread(start, len(lines), reason, (start, len(lines))))
            break
        good, bad = _load_most(lines[start:end])
        entries += [replace(entry, line=start + entry.line) for entry in good]
        unread += [_Unread(start + one.start, start + one.end, one.reason, (start, end)) for one in bad]
    return entries, unread


def _starts(lines: Sequence[str]) -> list[int]:
    """Return the first line and those with which a property begins: the least indented of those with a name."""
    names = {number: name for number, line in enumerate(lines) if (name := _NAMED.match(line))}
    least = min((len(name[1]) for name in names.values()), default=0)
    return sorted({0, *(number for number, name in names.items() if len(name[1]) == least)})


def _load_most(lines: Sequence[str]) -> tuple[list[_Entry], list[_Unread]]:
    """Return a property, without the lines below its name that YAML cannot read."""
    left = list(range(len(lines)))
    unread: list[_Unread] = []
    while True:
        try:
            return _load("".join(lines[number] for number in left)), sorted(unread, key=lambda one: one.start)
        except _UNREADABLE as error:
            reason = getattr(error, "problem", None) or yaml_problem(error)
            at = _line_of(error, len(left))
            if at is None or len(unread) == _MOST_LEFT_OUT:
                return [], [_Unread(0, len(lines), reason)]
            number = left.pop(at)
            unread.append(_Unread(number, number + 1, reason))


def _line_of(error: Exception, lines: int) -> int | None:
    """Return the line below the first one at which YAML cannot be read, if it is known."""
    marks = [getattr(error, "problem_mark", None), getattr(error, "context_mark", None)]
    # What never ends, such as a quotation, is noticed later than where it began.
    ordered = reversed(marks) if isinstance(error, yaml.scanner.ScannerError) else marks
    return next((mark.line for mark in ordered if mark is not None and 0 < mark.line < lines), None)


def _refuse_bombs(block: str) -> None:
    """Raise one of `_UNREADABLE` for aliases, which can expand to gigabytes, and for depth that crashes libyaml.

    Events come one at a time, so a bomb is noticed before it is built. This costs a second parse.
    """
    depth = 0
    for event in yaml.parse(block, Loader=yaml.CSafeLoader):
        if getattr(event, "anchor", None) is not None:
            raise yaml.MarkedYAMLError(
                problem="anchors and aliases are not allowed",
                problem_mark=event.start_mark,  # type: ignore[arg-type]  # the stub knows no marks of libyaml
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST} levels")


def plain(value: object) -> object:
    """Return a YAML value as JSON-compatible values: dates as ISO strings, keys as strings, sets as lists."""
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, set):
        # The same file must give the same values in every process.
        return sorted(map(plain, value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, date):
        return value.isoformat()
    too_large = isinstance(value, int) and abs(value) > _LARGEST_INTEGER
    not_a_number = isinstance(value, float) and not math.isfinite(value)
    return str(value) if too_large or not_a_number else value


def _key(key: object) -> str:
    value = plain(key)
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


def split_wikilink(inner: str) -> tuple[str, str, str] | None:
    r"""Split the text between `[[` and `]]` into (target, fragment, displayed text).

    Returns None if it has no target (`[[]]`, `[[|x]]`, `[[#]]`). A table's `\\|` is a `|`.
    """
    where, _, shown = inner.partition("|")
    where = where.removesuffix("\\").strip()
    target, _, fragment = where.partition("#")
    target, fragment = target.strip(), fragment.strip()
    if not target and not fragment:
        return None
    return target, fragment, shown.strip() or where


def strings(value: object) -> Iterator[str]:
    """Yield every string at any depth of a frontmatter value; numbers and truth values count as their text."""
    return (text for _, text in keyed_strings("", value))


def keyed_strings(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the same strings, each with the nearest key above it; `key` is that of the value."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, (int, float)):
        yield key, str(value).lower() if isinstance(value, bool) else str(value)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from keyed_strings(name, item)
    elif isinstance(value, list):
        for item in value:
            yield from keyed_strings(key, item)


def read_properties(values: Mapping[str, object], inline_tags: Iterable[str]) -> Properties:
    """Read the known properties; names are compared without case, and `inline_tags` follow frontmatter's tags."""
    lower = {name.lower(): value for name, value in values.items()}
    listed = [tag for name in ("tags", "tag") for tag in _named(values, name, _words)]
    named = [tag.strip().removeprefix("#").strip("/") for tag in listed]
    dropped = [tag for tag in named if tag and not is_tag(tag)]
    tags = distinct([*filter(is_tag, named), *inline_tags])
    aliases = [alias for name in ("aliases", "alias") for alias in _named(values, name, _comma_separated)]
    authors = lower.get("author") or lower.get("authors")
    return Properties(
        title=_first(lower.get("title")),
        tags=tags,
        aliases=distinct(alias.strip() for alias in aliases),
        author=", ".join(distinct(_without_brackets(name) for name in strings(authors))) or None,
        kind=_first(lower.get("kind")) or None,
        evergreen=_first(lower.get("evergreen")).lower() in _YES
        or "evergreen" in {tag.lower() for tag in tags},
        warnings=tuple(f"not a tag, left out: {tag!r}" for tag in dropped),
    )


def is_tag(tag: str) -> bool:
    """Say whether a name (without `#`) can be a tag: no spaces or punctuation, and not only digits."""
    return TAG.fullmatch(tag) is not None and not tag.replace("/", "").isdecimal()


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return the non-empty names once each, compared without case, in their first spelling."""
    first: dict[str, str] = {}
    for name in names:
        if name:
            first.setdefault(name.casefold(), name)
    return tuple(first.values())


def _named(values: Mapping[str, object], name: str, split: Callable[[object], list[str]]) -> Iterator[str]:
    """Yield the items of every property of that name, in whatever case it is written."""
    for key, value in values.items():
        if key.lower() == name:
            yield from split(value)


def _words(value: object) -> list[str]:
    return value.replace(",", " ").split() if isinstance(value, str) else list(strings(value))


def _comma_separated(value: object) -> list[str]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else list(strings(value))


_TOGETHER: Mapping[str, Callable[[object], Sequence[object]]] = {
    **dict.fromkeys(("tags", "tag"), _words),
    **dict.fromkeys(("aliases", "alias"), _comma_separated),
    "private": lambda value: [value],
}
"""The properties that all count where they are written more than once, and how each is made a list."""


def _first(value: object) -> str:
    return "" if isinstance(value, (list, Mapping)) else next(strings(value), "").strip()


def _without_brackets(name: str) -> str:
    name = name.strip()
    if not (name.startswith("[[") and name.endswith("]]")):
        return name
    link = split_wikilink(name[2:-2])
    return link[2] if link else ""
