"""Read `_taxonomy.md`, a domain's vocabulary: tags in groups, their descriptions, their aliases, and renames.

The file is a note that a person writes (docs/taxonomy.md): a heading is a group, a list item is a tag, and the list
below the heading `Renames` gives the tags to rename.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.disk import beneath
from pipelines.errors import TaxonomyError, UnsafePathError
from pipelines.model import TagEntry, TagStatus, Taxonomy
from pipelines.parsing.frontmatter import is_tag
from pipelines.tagging.taxonomy_outline import RENAMES, Item, read_outline

TAXONOMY_FILE = "_taxonomy.md"
TAXONOMY_LIMIT = 1_000_000
"""Upper bound on a taxonomy's bytes: about 20,000 tags, which are read within seconds whatever they are."""

_LONGEST_NAME = 3  # words: more of them before a colon are the beginning of a sentence
_LONGEST_WAY = 100  # steps from an old name to the last one
_COLON = re.compile(r"\s*:[*`]*(?:\s+|$)")
_ARROW = re.compile(r"(?:\s+|^)(?:->|→)(?:\s+|$)")
_DASHED = re.compile(r"\S+ [-–—] ")
_FACTS = re.compile(r"\s*\(([^()]*)\)$")
_FACT = re.compile(r"(?:aliases|alias|status|retired)\b|active$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TaxonomyFile:
    """The vocabulary in use, and the text that it was read from.

    `error` says why a newer file is not used, `refused` is its text.
    """

    taxonomy: Taxonomy
    source: str | None = None
    error: str | None = None
    refused: str | None = None


def load(root: Path, raw: str, last_good: TaxonomyFile | None = None) -> TaxonomyFile:
    """Read a domain's taxonomy, a path below the vault's root; without the file the vocabulary is empty.

    If the file is invalid, `last_good` stays in use (or else an empty vocabulary), with the error recorded.
    """
    path = root / raw
    try:
        text = beneath.read_file(root, raw, TAXONOMY_LIMIT).decode("utf-8-sig")
    except FileNotFoundError:
        return TaxonomyFile(Taxonomy())
    except (OSError, UnsafePathError, UnicodeDecodeError) as error:
        return _invalid(f"{path} cannot be read: {error}", last_good)
    if last_good and text == (last_good.refused if last_good.error else last_good.source):
        return last_good
    try:
        return TaxonomyFile(parse(text, str(path)), text)
    except TaxonomyError as error:
        return _invalid(str(error), last_good, text)


def _invalid(error: str, last_good: TaxonomyFile | None, text: str | None = None) -> TaxonomyFile:
    good = last_good or TaxonomyFile(Taxonomy())
    return TaxonomyFile(good.taxonomy, good.source, error, text)


def parse(text: str, name: str = TAXONOMY_FILE) -> Taxonomy:
    """Parse the text of a `_taxonomy.md`; a rename leads to the last tag of its chain, spelled like that tag.

    Raises TaxonomyError with every error, one `file:line: reason` per line.
    """
    errors: list[tuple[int, str]] = []
    items = read_outline(text)[0]
    entries = tuple(_entries([item for item in items if not item.renames], errors))
    renames = find_renames([item for item in items if item.renames], entries, errors)
    if errors:
        raise TaxonomyError("\n".join(f"{name}:{line}: {reason}" for line, reason in sorted(errors)))
    return Taxonomy(entries, tuple(renames.values()))


def find(taxonomy: Taxonomy, name: str) -> TagEntry | None:
    """Return the entry that has this name as its tag or among its aliases, compared without case."""
    wanted = name.casefold()
    return next((entry for entry in taxonomy.entries if wanted in names_of(entry)), None)


def names_of(entry: TagEntry) -> set[str]:
    """Return a tag and its aliases, casefolded."""
    return {entry.tag.casefold(), *(alias.casefold() for alias in entry.aliases)}


def renamed(tag: str, renames: Mapping[str, str]) -> str | None:
    """Return the name of a tag after all renames (old names casefolded), or None if they form a cycle.

    The longest renamed part of a nested tag decides: with `a` -> `b`, `a/x` becomes `b/x`.
    """
    for _ in range(_LONGEST_WAY):
        parts = tag.split("/")
        heads = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        head = next((head for head in heads if head.casefold() in renames), None)
        if head is None:
            return tag
        new = renames[head.casefold()] + tag[len(head) :]
        if new == tag:
            return tag
        tag = new
    return None


def _is_prose(text: str) -> bool:
    """Say whether an item is a link, a task or an image."""
    return text.startswith(("[", "!", "<")) or "://" in _COLON.split(text, 1)[0]


def _quoted(text: str) -> str:
    """Return a text in quotes as it is written, except for control characters."""
    return repr(text).replace("\\\\", "\\")


def _clean(name: str) -> str:
    return name.strip(" *`").removeprefix("#").strip("/")


def _entries(items: Sequence[Item], errors: list[tuple[int, str]]) -> Iterator[TagEntry]:
    lines: dict[str, int] = {}
    for item in items:
        line = item.first + 1
        try:
            entry = _entry(item)
        except ValueError as error:
            errors.append((line, str(error)))
            continue
        if entry is None:
            continue
        for number, name in enumerate((entry.tag, *entry.aliases)):
            what = f"the alias {_quoted(name)}" if number else _quoted(name)
            if before := lines.get(name.casefold()):
                errors.append((line, f"{what} is already a name on line {before}; remove one of them"))
            lines.setdefault(name.casefold(), line)
        yield entry


def _entry(item: Item) -> TagEntry | None:
    """Parse a tag's list item; return None if it is prose. Raises ValueError with the reason if it is invalid."""
    text, facts = item.text, []
    while (match := _FACTS.search(text)) and any(_FACT.match(part.strip()) for part in match[1].split(";")):
        facts += [part.strip() for part in match[1].split(";")]
        text = text[: match.start()]
    head, *rest = _COLON.split(text, 1)
    meant = facts or (_is_short(head) and (rest or head.startswith("#") or len(head.split()) == 1))
    if not head or _is_prose(text) or not (meant or _DASHED.match(text)):
        return None
    tag = _clean(head)
    if not is_tag(tag):
        raise ValueError(
            f"{_quoted(head)} is not a tag: use no spaces, punctuation or plain numbers; write `- tag: description`"
        )
    aliases, status = _facts(facts)
    return TagEntry(tag, item.section, rest[0] if rest else "", aliases, status, item.first + 1)


def _facts(facts: Sequence[str]) -> tuple[tuple[str, ...], TagStatus]:
    aliases: list[str] = []
    status: TagStatus = "active"
    for fact in facts:
        key, colon, value = (part.strip() for part in fact.partition(":"))
        key, value = key.lower(), value if colon else ""
        if key in ("aliases", "alias") and colon:
            aliases += [alias for part in value.split(",") if (alias := _clean(part))]
        elif (key, value) == ("retired", "") or (key, value.lower()) == ("status", "retired"):
            status = "retired"
        elif (key, value) != ("active", "") and (key, value.lower()) != ("status", "active"):
            raise ValueError(
                f"`({fact})` is not known; write `(aliases: a, b)`, `(retired)` or `(retired; aliases: a, b)`"
            )
    return tuple(aliases), status


def _is_short(text: str) -> bool:
    return len(text.split()) <= _LONGEST_NAME


def _is_meant_as_tag(item: Item) -> bool:
    try:
        return _entry(item) is not None
    except ValueError:
        return True


def _rename(item: Item) -> tuple[str, str] | None:
    """Parse a rename's list item; return None if it is prose. Raises ValueError with the reason if it is invalid."""
    text = item.text
    old, *rest = (_clean(name) for name in _ARROW.split(text))
    if not rest and (_is_prose(text) or not (_is_short(text) or _is_meant_as_tag(item))):
        return None
    if len(rest) != 1 or not is_tag(old) or not is_tag(rest[0]):
        todo = "write `- old -> new`" + ("" if rest else f", or move it above `{RENAMES}` if it is a tag")
        raise ValueError(f"{_quoted(text)} is not a rename of a tag; {todo}")
    if old == rest[0]:
        raise ValueError(f"{_quoted(old)} is renamed to itself; remove the line")
    return old, rest[0]


def find_renames(
    items: Sequence[Item], entries: Sequence[TagEntry], errors: list[tuple[int, str]]
) -> dict[int, tuple[str, str]]:
    """Return the renames by the first line of their item (from 0); add what is wrong with others to `errors`."""
    written: dict[str, tuple[str, str, int]] = {}
    for item in items:
        line = item.first + 1
        try:
            rename = _rename(item)
        except ValueError as error:
            errors.append((line, str(error)))
            continue
        if rename is None:
            continue
        old, new = rename
        if old.casefold() in written:
            before = written[old.casefold()][2]
            errors.append((line, f"{_quoted(old)} is already renamed on line {before}; remove one of them"))
        else:
            written[old.casefold()] = (old, new, line)
    rules = {old: new for old, (_, new, _) in written.items()}
    tags = {entry.tag.casefold(): entry.tag for entry in entries}
    found = {}
    for old, new, line in written.values():
        last = renamed(new, rules)
        if last is None:
            errors.append(
                (line, f"the rename of {_quoted(old)} leads back to itself; remove one of its steps")
            )
        elif last.casefold() not in tags:
            alias = find(Taxonomy(tuple(entries)), last)
            hint = f"it is an alias of {_quoted(alias.tag)}" if alias else "add it, or correct its name"
            why = f"{_quoted(old)} is renamed to {_quoted(last)}, which is not in the vocabulary; {hint}"
            errors.append((line, why))
        else:
            found[line - 1] = (old, tags[last.casefold()])
    return found
