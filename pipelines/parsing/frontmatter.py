"""Parse a note's frontmatter, the YAML block at its top, into plain values, and interpret the known properties."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

import yaml

from pipelines.parsing.yaml_guard import yaml_problem

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
    """Builds YAML values; a date that does not exist (`2026-11-31`) stays text and spoils no other value."""

    def date_or_text(self, node: yaml.ScalarNode) -> object:
        """Return the date or time of a scalar, or its text."""
        try:
            return self.construct_yaml_timestamp(node)
        except ValueError:
            return node.value


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.date_or_text)


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """A note's frontmatter: its values, where the body starts, and where the block ends if there is one.

    An unreadable block has no values, leaves `body_start` at 0 and gives the reason in `warnings`.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    body_start: int = 0
    end: int = 0
    warnings: tuple[str, ...] = ()


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
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return Frontmatter(body_start=1 if text.startswith("\ufeff") else 0)
    try:
        values = _load(text[opening.end() : closing.start()])
    except _UNREADABLE as error:
        reason = yaml_problem(error, lines_above=1)
        return Frontmatter(end=closing.end(), warnings=(f"unreadable frontmatter, kept as text: {reason}",))
    return Frontmatter(values=values, body_start=closing.end(), end=closing.end())


def _load(block: str) -> dict[str, object]:
    if len(block.encode("utf-8", "replace")) > LARGEST_BLOCK:
        raise ValueError(f"larger than {LARGEST_BLOCK} bytes")
    if _SUSPICIOUS.search(block) or len(_NESTING.findall(block)) > DEEPEST:
        _refuse_bombs(block)
    values = plain(yaml.load(block, Loader=_Loader))  # noqa: S506 - a safe loader
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise TypeError("not a list of `name: value` properties")
    return values


def _refuse_bombs(block: str) -> None:
    """Raise ValueError for aliases, which can expand to gigabytes, and for depth that crashes libyaml.

    Events come one at a time, so a bomb is noticed before it is built. This costs a second parse.
    """
    depth = 0
    for event in yaml.parse(block, Loader=yaml.CSafeLoader):
        if getattr(event, "anchor", None) is not None:
            raise ValueError("anchors and aliases are not allowed")
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
    """Yield every string at any depth of a frontmatter value; numbers count as their text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def read_properties(values: Mapping[str, object], inline_tags: Iterable[str]) -> Properties:
    """Read the known properties; names are compared without case, and `inline_tags` follow frontmatter's tags."""
    lower = {name.lower(): value for name, value in values.items()}
    listed = [*_items(lower.get("tags"), _words), *_items(lower.get("tag"), _words)]
    named = [tag.strip().removeprefix("#").strip("/") for tag in listed]
    dropped = [tag for tag in named if tag and not is_tag(tag)]
    tags = distinct([*filter(is_tag, named), *inline_tags])
    aliases = [*_items(lower.get("aliases"), _comma_separated), *_items(lower.get("alias"), _comma_separated)]
    authors = lower.get("author") or lower.get("authors")
    return Properties(
        title=_first(lower.get("title")),
        tags=tags,
        aliases=distinct(alias.strip() for alias in aliases),
        author=", ".join(distinct(_without_brackets(name) for name in strings(authors))) or None,
        kind=_first(lower.get("kind")) or None,
        evergreen=lower.get("evergreen") is True or "evergreen" in {tag.lower() for tag in tags},
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


def _items(value: object, split: Callable[[str], list[str]]) -> list[str]:
    return split(value) if isinstance(value, str) else list(strings(value))


def _words(value: str) -> list[str]:
    return value.replace(",", " ").split()


def _comma_separated(value: str) -> list[str]:
    return value.split(",")


def _first(value: object) -> str:
    return "" if isinstance(value, (list, Mapping)) else next(strings(value), "").strip()


def _without_brackets(name: str) -> str:
    name = name.strip()
    if not (name.startswith("[[") and name.endswith("]]")):
        return name
    link = split_wikilink(name[2:-2])
    return link[2] if link else ""
