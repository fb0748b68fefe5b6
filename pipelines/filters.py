"""Read and check the filters of a question."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Literal, get_args

from pipelines.errors import FilterError
from pipelines.formats import FORMATS as FILES
from pipelines.formats import NAMES as FORMATS
from pipelines.notes.frontmatter import as_written, is_tag, line_start
from pipelines.notes.lexical import normal_form

HAS = ("link", "embed", "tag", "alias", "property", "backlink", "broken-link", "task", "warning")
"""The values of the filter `has`."""

Band = Literal["duplicate", "primary", "supporting", "weak"]
"""How near two texts are, the nearest first: copies, evidence, support, and what helps only where there is little."""
BANDS: tuple[Band, ...] = get_args(Band)

_PROPERTY = "property."
_DECIMAL = re.compile(r"-?(?:[01](?:\.[0-9]{1,10})?|\.[0-9]{1,10})", re.ASCII)
_MOST = 50
_MOST_PATHS = 1_000
_LONGEST_ID = 18  # digits that fit into an SQLite integer
_TASK = re.compile(r"\[[ xX]\](?=\s|\Z)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t](.*)$", re.MULTILINE)
_CLOSING = re.compile(r"[ \t]+#+\Z")
_LIST_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+")


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on a note. Values that are compared without regard to case are folded (`fold`) here.

    Of several domains, folders, authors, kinds, formats, communities, sections or paths, and of several properties
    (name, value) with one name, any may match; tags, titles, files and `has` must all match. `since` and `until` are
    ISO dates, inclusive. `sections` are parts of headings, or whole ones in quotes: of a note, only passages below
    such a heading count. `paths` are whole, `in_paths` parts of paths. `min_similarity` is the lowest cosine of a
    passage and the question, or what the model's threshold calls so. The conditions on a note of all `scopes` must
    hold as well, of `either` (unless empty) those of one, and of `without` those of none. `Filters()` accepts every
    note.
    """

    scopes: tuple[Filters, ...] = ()
    domains: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    communities: tuple[int, ...] = ()
    has: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    in_paths: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    either: tuple[Filters, ...] = ()
    without: tuple[Filters, ...] = ()
    min_similarity: float | Band | None = None

    @property
    def name_communities(self) -> bool:
        """Say whether a condition, also one that is nested or negated, is on communities."""
        nested = (*self.scopes, *self.either, *self.without)
        return bool(self.communities) or any(one.name_communities for one in nested)


NO_FILTERS = Filters()
"""They accept every note."""


def fold(text: str) -> str:
    """Return a text in the form in which it is compared: composed (NFC), without case."""
    return normal_form("NFC", text).casefold()


def as_number(value: str) -> tuple[str | None, str | None]:
    """Return a property's value if it is stored as an integer, and if it is stored as another number."""
    kind = type(as_written(value))
    return value if kind is int else None, value if kind is float else None


def has_task(text: str) -> bool:
    """Say whether a line of a Markdown text is a task: a list item that begins with `[ ]` or `[x]`."""
    return any(
        _LIST_ITEM.fullmatch(text, line_start(text, box.start()), box.start()) for box in _TASK.finditer(text)
    )


def has_heading(text: str, wanted: str) -> bool:
    """Say whether a heading in a Markdown text contains a folded text, or is it if it is in quotes, in any case."""
    headings = [fold(heading[1].strip()) for heading in _HEADING.finditer(text)]
    exact = exact_heading(wanted)
    if exact is None:
        return any(wanted in heading for heading in headings)
    return any(exact in (heading, _CLOSING.sub("", heading)) for heading in headings)


def exact_heading(section: str) -> str | None:
    """Return the heading that a value of the filter `section` means exactly, which is in quotes; else None."""
    is_quoted = len(section) > len('""') and section[0] == section[-1] == '"'
    return section[1:-1].strip() if is_quoted else None


def _no_scopes(name: str) -> Filters:
    raise FilterError(f"scope {name!r} cannot be used here; only a question names scopes")


def parse_filters(
    parameters: Sequence[tuple[str, str]], find_scope: Callable[[str], Filters] = _no_scopes
) -> Filters:
    """Parse filters as given in a question's URL: (name, value) pairs, in which names may repeat.

    A minus before a name leaves out the notes that pass. `find_scope` returns the filters of a named scope. Raises
    FilterError for an unknown name, an invalid value, a
    second `since` or `until`, too many filters, or scopes of other domains; and what `find_scope` raises.
    """
    _require_few(parameters)
    given: dict[str, list[str]] = {}
    properties, without = [], []
    for name, value in parameters:
        if not value.strip():
            raise FilterError(f"the filter {name} has no value; give it one, or leave it out")
        if name.startswith("-") and is_filter(name):
            without.append(parse_filters([(name.removeprefix("-"), value)]))
        elif name.startswith(_PROPERTY) and name != _PROPERTY:
            properties.append((fold(name.removeprefix(_PROPERTY)), fold(value.strip())))
        else:
            given.setdefault(name, []).append(value.strip())
    if unknown := sorted(set(given) - set(NAMES)):
        if meant := _OTHER_NAMES.get(unknown[0]):
            raise FilterError(f"{unknown[0]!r} is called {meant!r} here")
        known = ", ".join((*NAMES, f"{_PROPERTY}<name>"))
        raise FilterError(f"there is no filter {unknown[0]!r}; the filters are {known}")
    since, until = _days(given)
    paths = _each(given, "path", _path)
    scopes = tuple(map(find_scope, dict.fromkeys(given.get("scope", ()))))
    return Filters(
        scopes=scopes,
        domains=_common([tuple(given.get("domain", ())), *(scope.domains for scope in scopes)]),
        folders=_each(given, "folder", _folder),
        tags=_each(given, "tag", _tag),
        authors=_each(given, "author", fold),
        kinds=_each(given, "kind", fold),
        formats=_each(given, "format", _format),
        since=since,
        until=until,
        properties=tuple(properties),
        communities=tuple(map(_community, given.get("community", ()))),
        has=_each(given, "has", _has),
        sections=_each(given, "section", fold),
        paths=tuple(path for path in paths if _is_whole(path)),
        in_paths=tuple(fold(path) for path in paths if not _is_whole(path)),
        titles=_each(given, "title", fold),
        files=_each(given, "file", fold),
        without=tuple(without),
        min_similarity=_min_similarity(given.get("min_similarity", [])),
    )


def _require_few(parameters: Sequence[tuple[str, str]]) -> None:
    paths = sum(name == "path" for name, _ in parameters)
    if len(parameters) - paths > _MOST:
        raise FilterError(f"{len(parameters) - paths} filters were given; at most {_MOST} are allowed")
    if paths > _MOST_PATHS:
        raise FilterError(f"{paths} paths were given; at most {_MOST_PATHS} are allowed")


NAMES = (
    *("scope", "domain", "folder", "tag", "author", "kind", "format", "since", "until", "community", "has"),
    *("section", "path", "title", "file", "min_similarity"),
)
"""The filters, except for those by a property, `property.<name>`."""
# These choose caches, passages or other filters; all others are conditions on a note, which may be negated.
_NEVER_NEGATED = ("scope", "domain", "section", "min_similarity")


def is_filter(name: str) -> bool:
    """Say whether a filter has this name, which begins with a minus where the filter is negated."""
    plain = name.removeprefix("-")
    if plain in NAMES:
        return plain == name or plain not in _NEVER_NEGATED
    return plain.startswith(_PROPERTY) and plain != _PROPERTY


def require_no_question(filters: Filters) -> None:
    """Raise FilterError if filters compare passages with a question, which a list of notes does not have."""
    if filters.min_similarity is not None:
        raise FilterError(
            "min_similarity compares passages with a question, and a list has none; leave it out"
        )


_OTHER_NAMES = {"top_k": "k", "limit": "k", "query": "q", "question": "q"}
"""What other programs call the parameters of a search, which come here because every other name is a filter."""


def _common(several: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the domains that are in each of several choices; an empty choice is all domains."""
    chosen = [domains for domains in several if domains]
    common = tuple(one for one in dict.fromkeys(chain(*chosen)) if all(one in domains for domains in chosen))
    if chosen and not common:
        named = "; ".join(", ".join(domains) for domains in chosen)
        raise FilterError(
            f"no domain is in all of what is asked for ({named}); leave out a domain or a scope"
        )
    return common


def _each(given: dict[str, list[str]], name: str, read: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(map(read, given.get(name, ())))


def _folder(value: str) -> str:
    parts = [part for part in value.split("/") if part]
    if not parts:
        raise FilterError("folder is the whole vault; name a folder in it, or leave it out")
    return fold("/".join(parts))


def _tag(value: str) -> str:
    name = value.removeprefix("#").strip("/")
    if not is_tag(name):
        raise FilterError(f"tag cannot be {value!r}: a tag has no spaces or punctuation, and not only digits")
    return fold(name)


def _community(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= _LONGEST_ID):
        raise FilterError(
            f"community is {value!r}, not a community's number; `everindex graph --communities` lists them"
        )
    return int(value)


def _format(value: str) -> str:
    name = value.lower().removeprefix(".")
    if name not in FORMATS:
        raise FilterError(f"format cannot be {value!r}; it is one of {', '.join(FORMATS)}")
    return name


def _has(value: str) -> str:
    wanted = value.lower()
    if wanted not in HAS:
        raise FilterError(f"has cannot be {value!r}; it is one of {', '.join(HAS)}")
    return wanted


def _path(value: str) -> str:
    return unicodedata.normalize("NFC", value.removeprefix("./").strip("/"))


def _is_whole(path: str) -> bool:
    """Say whether a path may be a note's: it ends as a file does that can be indexed, or is empty."""
    return not path or path.lower().endswith(tuple(end for one in FILES for end in one.suffixes))


def _min_similarity(values: Sequence[str]) -> float | Band | None:
    if len(values) > 1:
        raise FilterError(f"min_similarity was given {len(values)} times; give it once")
    for value in values:
        for band in BANDS:
            if value == band:
                return band
        number = float(value) if _DECIMAL.fullmatch(value) else math.nan
        if not -1 <= number <= 1:
            raise FilterError(
                f"min_similarity is {value!r}; it is {', '.join(BANDS)}, or a number from -1 to 1"
            )
        return number
    return None


def _days(given: dict[str, list[str]]) -> tuple[str | None, str | None]:
    since, until = _day("since", given), _day("until", given)
    if since and until and since > until:
        raise FilterError(f"since ({since}) is later than until ({until}): no note could be both; swap them")
    return since, until


def _day(name: str, given: dict[str, list[str]]) -> str | None:
    values = given.get(name, [])
    if len(values) > 1:
        raise FilterError(f"{name} was given {len(values)} times; give it once")
    try:
        return date.fromisoformat(values[0]).isoformat() if values else None
    except ValueError:
        raise FilterError(f"{name} is {values[0]!r}, not a date; write it as 2026-01-31") from None
