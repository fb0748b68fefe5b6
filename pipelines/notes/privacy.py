"""Decide whether a note may leave the machine. Pure; if it is unknown, the note may not."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from pipelines.model import OwnPrivacy, Privacy
from pipelines.notes.frontmatter import LARGEST_BLOCK, strings
from pipelines.notes.lexical import normal_form

PRIVATE = "private"
"""The name of the property, tag and folder that make a note private without any setting."""

_NO = frozenset({"", "false", "no", "off", "n", "0", "null", "~"})
_LINE_END = re.compile(r"\r\n?|[\v\f\x85\u2028\u2029]")
# A property on a line of its own, after any bullets, quote signs and emphasis, or in brackets. What a parser takes
# for text (frontmatter that is never closed, Dataview's fields) is a property to its author. The bounds prevent
# quadratic time on brackets that never end. The signs before need no backtracking (`*+`): what follows them
# begins with a character that they exclude, or is optional.
_BEFORE, _AFTER = r"(?:[^\w\[({\n]|_)*+", r"(?:[^\w\n]|_){0,20}?"
_LINE = re.compile(rf"^.*{PRIVATE}.*$", re.IGNORECASE | re.MULTILINE)
_WRITTEN = re.compile(
    rf"^{_BEFORE}(?:\d{{1,9}}[.)]{_BEFORE})?(?:\[[^\]\n]?\]{_BEFORE})?(?:[\w-]{{1,40}}\.){{0,5}}"
    rf"private{_AFTER}[:=]+(?P<line>.*)$"
    rf"|[\[({{,]{_AFTER}private{_AFTER}[:=]+(?P<part>[^\])}},;\n]*)"
    rf"|(?<![\w:])private{_AFTER}::(?P<field>[^\])}},;\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_TOML = re.compile(r"\ufeff?\s*\+\+\+[ \t]*\n(?P<block>.*?)^\+\+\+[ \t]*$", re.DOTALL | re.MULTILINE)
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
# Two Arabic phrases that are one character each, by their first letters: 5 MB of them would become 90 MB.
_LONG_LIGATURES = (("\ufdfa", "\u0635\u0644"), ("\ufdfb", "\u062c\u0644"))
_AROUND = re.compile(r"^[\W_]+|[\W_]+$")
_NESTED = (Mapping, list, tuple)
_UNREADABLE = (tomllib.TOMLDecodeError, RecursionError, ValueError)


def may_leave(
    privacy: Privacy,
    *,
    path: str,
    text: str,
    frontmatter: Mapping[str, object],
    tags: Iterable[str],
    warnings: Sequence[str],
) -> str | None:
    """Return why a note must not leave the machine, in words for its owner; None if it may.

    The values are those of the parsed note; `text` is the whole file, because frontmatter may have been taken for
    text.
    """
    if not privacy.llm:
        return "its domain has `llm: off`"
    return _reason(privacy, path, _in_plain_lines(text), frontmatter, tags, warnings)


def own_privacy(
    *,
    path: str,
    text: str,
    frontmatter: Mapping[str, object],
    tags: Iterable[str],
    warnings: Sequence[str],
) -> OwnPrivacy:
    """Return what a note itself says about its privacy; the values are as in `may_leave`."""
    of_note, plain_text = list(tags), _in_plain_lines(text)
    kept = _reason(Privacy(), path, plain_text, frontmatter, of_note, warnings)
    toml = _toml(plain_text) or {}
    said = dict.fromkeys(_plain(tag) for tag in (*of_note, *_own_tags((frontmatter, toml))))
    return OwnPrivacy(kept is not None, _plain(path), tuple(said))


def _reason(
    privacy: Privacy,
    path: str,
    plain_text: str,
    frontmatter: Mapping[str, object],
    tags: Iterable[str],
    warnings: Sequence[str],
) -> str | None:
    toml = _toml(plain_text)
    if toml is None or any("frontmatter" in warning for warning in warnings):
        return "its frontmatter cannot be read, so it may be private"
    said = [*named((frontmatter, toml), PRIVATE), *_written(plain_text)]
    if any(map(_means_yes, said)):
        return "it says that it is private"
    for tag in (*tags, *_own_tags((frontmatter, toml))):
        for listed in (PRIVATE, *privacy.tags):
            if _lies_in(_plain(tag), _plain(listed)):
                return f"the tag {listed!r} is private"
    for folder in (PRIVATE, *privacy.folders):
        if _passes(_plain(path), _plain(folder)):
            return f"the folder {folder!r} is private"
    return None


def compared(privacy: Privacy) -> Privacy:
    """Return settings with their tags and folders in the form of `OwnPrivacy`."""
    return replace(
        privacy, tags=tuple(map(_plain, privacy.tags)), folders=tuple(map(_plain, privacy.folders))
    )


def is_private_place(privacy: Privacy, path: str) -> bool:
    """Say whether a file is private by where it is: its domain, or a folder on its path."""
    place = _plain(path)
    return not privacy.llm or any(_passes(place, _plain(folder)) for folder in (PRIVATE, *privacy.folders))


def _toml(text: str) -> Mapping[str, object] | None:
    """Return the values of TOML frontmatter, empty if there is none; None if it is unreadable."""
    block = _TOML.match(text)
    if block is None:
        return {}
    try:
        return tomllib.loads(block["block"]) if len(block["block"]) <= LARGEST_BLOCK else None
    except _UNREADABLE:
        return None


def named(value: object, name: str) -> Iterator[object]:
    """Yield the values of every property of that name, at any depth, ignoring markup around names."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if _name(str(key)) == name:
                yield item
            if isinstance(item, _NESTED):
                yield from named(item, name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, _NESTED):
                yield from named(item, name)


@lru_cache(maxsize=1024)
def _name(key: str) -> str:
    return _AROUND.sub("", _plain(key))


def _own_tags(frontmatter: object) -> Iterator[str]:
    """Yield the tags in frontmatter, also if the property's name has a stray space or is nested."""
    for name in ("tags", "tag"):
        for value in named(frontmatter, name):
            for words in strings(value):
                yield from words.replace(",", " ").split()


def _written(text: str) -> Iterator[str]:
    """Yield the values of properties of that name that are written in the text, each on one line."""
    for match in (found for line in _LINE.finditer(text) for found in _WRITTEN.finditer(line[0])):
        value = next(value for value in match.groups() if value is not None)
        yield _AROUND.sub("", value.partition(" #")[0])


def _means_yes(value: object) -> bool:
    """Say whether a value may mean yes: anything that is not clearly a no."""
    if isinstance(value, Mapping):
        return bool(value)
    if isinstance(value, (list, tuple)):
        return any(map(_means_yes, value))
    if value is None or isinstance(value, (bool, int, float)):
        return bool(value)
    return _composed(str(value)).strip().casefold() not in _NO


def _in_plain_lines(text: str) -> str:
    return _LINE_END.sub("\n", _composed(text))


def _composed(text: str) -> str:
    """Return a text with look-alike characters unified and invisible ones removed."""
    if text.isascii():
        return text
    for ligature, letters in _LONG_LIGATURES:
        text = text.replace(ligature, letters)
    return _UNSEEN.sub("", normal_form("NFKC", text))


def _plain(name: str) -> str:
    """Return a tag or path for comparison: composed, without case, `#`, slashes at the ends, `./` or `/**`."""
    folded = _composed(_composed(name).strip().replace("\\", "/").casefold())
    return folded.removeprefix("#").removeprefix("./").rstrip("*").strip("/")


def _lies_in(name: str, place: str) -> bool:
    return place in {"", ".", name} or name.startswith(f"{place}/")


def _passes(path: str, folder: str) -> bool:
    """Say whether a path leads through a folder, at any depth."""
    return folder in {"", "."} or f"/{folder}/" in f"/{path}"
