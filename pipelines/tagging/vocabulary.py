"""Read `_taxonomy.md`, a domain's vocabulary: tags in groups, their descriptions, their aliases, and renames.

The file is a note that a person writes (docs/review.md): a heading is a group, a list item is a tag, and the list
below the heading `Renames` gives the tags to rename.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from pipelines.errors import TaxonomyError, UnsafePathError
from pipelines.model import TagEntry, TagStatus, Taxonomy
from pipelines.notes.frontmatter import is_tag, line_starts, read_frontmatter, split_lines
from pipelines.notes.lexical import STOPWORDS
from pipelines.store import WritableCache
from pipelines.vault import paths

# Find the list items and the sections of a taxonomy's Markdown text, with their lines.


RENAMES = "Renames"
"""The heading of the list of renames."""

# Comments are blanked before the blocks are parsed; a fence is matched so that comments within it do not count. The
# bound prevents quadratic time on comments that never end; as a block of their own they may be longer.
_FENCE_OR_COMMENT = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)|\Z)|<!--.{0,2000}?-->|^[ \t]*%%.*?%%|%%[^\r\n]*?%%",
    re.DOTALL | re.MULTILINE,
)
_MARKUP = re.compile(r"[*`]")
_NO_LINE_END = re.compile(r"[^\r\n]")
_PARSER = MarkdownIt("commonmark").disable("inline")


class ListItem(NamedTuple):
    """A list item: its first paragraph on one line, its lines (`first` from 0, `end` exclusive), its section."""

    text: str
    first: int
    end: int
    section: str
    renames: bool


class VocabularySection(NamedTuple):
    """A heading and its content up to the next heading: lines from 0, `end` exclusive."""

    title: str
    first: int
    end: int
    renames: bool


def read_outline(text: str) -> tuple[list[ListItem], list[VocabularySection]]:
    """Return the list items and the sections outside code, quotes, comments and frontmatter."""
    front = read_frontmatter(text).end
    body = _FENCE_OR_COMMENT.sub(_blank_comment, text[front:])
    shift = len(line_starts(text[:front])) - 1
    tokens = _PARSER.parse(body)
    items: list[ListItem] = []
    sections = [VocabularySection("", shift, shift, renames=False)]
    quotes, renames_level = 0, 0
    for index, token in enumerate(tokens[:-1]):
        quotes += token.nesting if token.type.startswith("blockquote") else 0
        if token.type == "heading_open" and token.level == 0 and token.map:
            title = _MARKUP.sub("", tokens[index + 1].content).strip(" _:")
            level = int(token.tag[1])
            if renames_level == 0 or level <= renames_level:
                renames_level = level if title.casefold() == RENAMES.casefold() else 0
            first = token.map[0] + shift
            sections[-1] = sections[-1]._replace(end=first)
            sections.append(VocabularySection(title, first, first, renames=renames_level > 0))
        elif token.type == "list_item_open" and tokens[index + 1].type == "paragraph_open" and not quotes:
            first, end = tokens[index + 1].map or (0, 0)
            content = " ".join(tokens[index + 2].content.split())
            items.append(ListItem(content, first + shift, end + shift, sections[-1].title, renames_level > 0))
    sections[-1] = sections[-1]._replace(end=len(split_lines(text)))
    return items, sections


def _blank_comment(match: re.Match[str]) -> str:
    return match[0] if match["fence"] else _NO_LINE_END.sub(" ", match[0])


# What a vocabulary lacks: phrases of titles that many notes share and no tag covers.


MOST = 20
FEWEST_NOTES = 3
"""A phrase that fewer notes share needs no tag."""

_COMMON = 0.2  # a phrase that more of the notes have tells them apart no better than a stop word
_TITLED = 2  # notes that have it in their title, and so are about it
_EXAMPLES = 3
_TRIED = 200
_SHORTEST = 3
_SAME = 0.7  # a word that mostly occurs within a longer phrase is not listed beside it
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Missing:
    """A phrase, how many notes have it, and the paths of a few of them."""

    phrase: str
    notes: int
    examples: tuple[str, ...]


def missing(cache: WritableCache, taxonomy: Taxonomy, leave_out: Collection[str] = ()) -> list[Missing]:
    """Return what the most notes share and no tag of the vocabulary covers; `leave_out` are no notes."""
    covered = {
        _stem(word)
        for entry in taxonomy.entries
        for name in (entry.tag, *entry.aliases)
        for word in _words(name)
    }
    titled: dict[str, set[str]] = {}
    notes = set()
    for path, (title, _) in cache.notes.names().items():
        if path not in leave_out:
            notes.add(path)
            for phrase in _phrases(title, covered):
                titled.setdefault(phrase, set()).add(path)
    candidates = [phrase for phrase, paths in titled.items() if len(paths) >= _TITLED]
    candidates.sort(key=lambda phrase: (-len(titled[phrase]), phrase))
    found: dict[str, set[str]] = {}
    for phrase in sorted(candidates[:_TRIED], key=lambda phrase: -len(phrase.split())):
        paths = cache.search.notes_matching(phrase).intersection(notes)
        if FEWEST_NOTES <= len(paths) <= _COMMON * len(notes) and not _within(phrase, paths, found):
            found[phrase] = paths
    # What many titles have, and few notes besides, is what notes are about.
    best = sorted(found, key=lambda phrase: (-(len(titled[phrase]) ** 2) / len(found[phrase]), phrase))[:MOST]
    return [Missing(one, len(found[one]), _examples(found[one], titled[one])) for one in best]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _stem(word: str) -> str:
    return word.removesuffix("s")


def _phrases(text: str, covered: Collection[str]) -> Iterator[str]:
    """Yield the words and pairs of words of a title that say something no tag says."""
    words = _words(text)
    tells = {
        word: len(word) >= _SHORTEST and word not in STOPWORDS and _stem(word) not in covered
        for word in words
    }
    yield from (word for word in words if tells[word])
    yield from (f"{one} {other}" for one, other in pairwise(words) if tells[one] and tells[other])


def _within(phrase: str, paths: Collection[str], found: dict[str, set[str]]) -> bool:
    """Say whether most of a word's notes have it within a longer phrase that was found."""
    return any(
        phrase in longer.split() and len(others.intersection(paths)) >= _SAME * len(paths)
        for longer, others in found.items()
    )


def _examples(paths: Collection[str], titled: Collection[str]) -> tuple[str, ...]:
    """Return a few of the notes, first those that have the phrase in their title."""
    return tuple(sorted(paths, key=lambda path: (path not in titled, path))[:_EXAMPLES])


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
        text = paths.read_file(root, raw, TAXONOMY_LIMIT).decode("utf-8-sig")
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


def _entries(items: Sequence[ListItem], errors: list[tuple[int, str]]) -> Iterator[TagEntry]:
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


def _entry(item: ListItem) -> TagEntry | None:
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


def _is_meant_as_tag(item: ListItem) -> bool:
    try:
        return _entry(item) is not None
    except ValueError:
        return True


def _rename(item: ListItem) -> tuple[str, str] | None:
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
    items: Sequence[ListItem], entries: Sequence[TagEntry], errors: list[tuple[int, str]]
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


# Add a tag or a rename to a taxonomy's text, and remove the renames that were applied; every other byte stays.


NEW_TAGS = "New"
"""The group of a tag that was added without a group."""


def add_tag(text: str, tag: str, group: str | None = None) -> str:
    """Return a taxonomy's text with a tag added as the last list item of a group, which is created if it is missing.

    Without a group the tag goes to `New`, for a person to sort. A name that exists, also as an alias, is not added;
    every other byte stays. Raises TaxonomyError if the text is invalid, or if tag or group cannot be written.
    """
    before = parse(text)
    if find(before, tag):
        return text
    title = group or NEW_TAGS
    sections = read_outline(text)[1]
    section = next((s for s in sections if s.title.casefold() == title.casefold() and not s.renames), None)
    before_renames = next((s.first for s in sections if s.renames), len(split_lines(text)))
    after = _with_item(text, tag, section, title, before_renames)
    entries = {*_meanings(before), (tag, title.casefold(), "")}
    return _checked(after, entries, before.renames, f"{tag!r} cannot be added to {title!r}")


def add_rename(text: str, old: str, new: str) -> str:
    """Return a taxonomy's text with a rename in its list of renames, which is created if it is missing.

    A new tag that is not in the vocabulary takes the old tag's place there, or is added to `New`. Raises
    TaxonomyError if the text is invalid, if a name is no tag or an alias, or if the old tag has another rename.
    """
    before = parse(text)
    for tag in (old, new):
        if not is_tag(tag):
            raise TaxonomyError(f"{_quoted(tag)} is not a tag: use no spaces, punctuation or plain numbers")
    if (old.casefold(), new.casefold()) in {(one.casefold(), to.casefold()) for one, to in before.renames}:
        return text
    same = find(before, new)
    if same and same.tag.casefold() != new.casefold():
        raise TaxonomyError(f"{_quoted(new)} is an alias of {_quoted(same.tag)}; rename to that tag")
    entry = next((one for one in before.entries if one.tag.casefold() == old.casefold()), None)
    if same is None and entry:
        lines = split_lines(text)
        lines[entry.line - 1] = lines[entry.line - 1].replace(entry.tag, new, 1)
        text = "".join(lines)
    else:
        text = add_tag(text, new)
    section = next((one for one in reversed(read_outline(text)[1]) if one.renames), None)
    after = _with_item(text, f"{old} -> {new}", section, RENAMES, len(split_lines(text)))
    parse(after)
    return after


def _with_item(text: str, item: str, section: VocabularySection | None, title: str, at: int) -> str:
    """Return a text with a last list item in a section, or in a new one of this title at a line."""
    lines, items = split_lines(text), read_outline(text)[0]
    line_end = next((line[len(line.rstrip("\r\n")) :] for line in lines), "") or "\n"
    if section is None:
        new = ["" if at == 0 or not lines[at - 1].strip() else line_end, f"## {title}{line_end}", line_end]
        new += [f"- {item}{line_end}", line_end if at < len(lines) else ""]
    else:
        own = [one for one in items if section.first <= one.first < section.end]
        at = 1 + max(number for number in range(section.first, section.end) if lines[number].strip())
        bullet = re.match(r"[-*+][ \t]+", lines[own[-1].first]) if own else None
        new = [
            "" if own and at == own[-1].end else line_end,
            f"{bullet[0] if bullet else '- '}{item}{line_end}",
        ]
    if at and not lines[at - 1].endswith(("\n", "\r")):
        lines[at - 1] += line_end
    return "".join([*lines[:at], *new, *lines[at:]])


def without_renames(text: str, done: Collection[tuple[str, str]]) -> str:
    """Return a taxonomy's text without the renames (old, new) that were applied; other bytes stay.

    If a renamed tag is in the vocabulary, its item is removed, because the new tag has one; a nested tag gets its new
    name there. Raises TaxonomyError if the text is invalid, or if its lists are too entangled to be edited.
    """
    before = parse(text)
    items, lines = read_outline(text)[0], split_lines(text)
    folded = {(old.casefold(), new.casefold()) for old, new in done}
    found = find_renames([item for item in items if item.renames], before.entries, [])
    gone = {
        line: (old, new) for line, (old, new) in found.items() if (old.casefold(), new.casefold()) in folded
    }
    rules = {old.casefold(): new for old, new in gone.values()}
    taken = {name for entry in before.entries for name in names_of(entry)}
    entries = set()
    for entry in before.entries:
        first = entry.line - 1
        new = renamed(entry.tag, rules) or entry.tag
        if new.casefold() == entry.tag.casefold():
            entries.add((entry.tag, entry.group.casefold(), entry.description))
        elif new.casefold() in taken:
            gone[first] = (entry.tag, new)
        else:
            taken.add(new.casefold())
            lines[first] = lines[first].replace(entry.tag, new, 1)
            entries.add((new, entry.group.casefold(), entry.description))
    dropped = {line for item in items if item.first in gone for line in range(item.first, item.end)}
    after = "".join(line for number, line in enumerate(lines) if number not in dropped)
    left = [pair for pair in before.renames if pair not in gone.values()]
    return _checked(after, entries, left, "the renames that were applied cannot be removed")


def _meanings(taxonomy: Taxonomy) -> set[tuple[str, str, str]]:
    return {(entry.tag, entry.group.casefold(), entry.description) for entry in taxonomy.entries}


def _checked(
    text: str, entries: set[tuple[str, str, str]], renames: Collection[tuple[str, str]], failure: str
) -> str:
    """Return an edited text if it parses as intended. Raises TaxonomyError."""
    after = parse(text)
    if _meanings(after) != entries or [*after.renames] != [*renames]:
        raise TaxonomyError(f"{failure}; edit {TAXONOMY_FILE} by hand")
    return text
