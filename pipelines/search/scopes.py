"""Read `_scopes.yaml`: filters of the vault under a name, which narrow the question that names them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path

import yaml

from pipelines.domains import LONGEST_NAME, parse_entries, read_text
from pipelines.errors import FilterError, ScopesFileError
from pipelines.filters import NAMES, Filters, is_filter, parse_filters
from pipelines.notes.frontmatter import line_of

SCOPES_FILE = "_scopes.yaml"

_LIMIT = 100_000  # bytes
_MOST_SCOPES = 100
# A scope chooses notes. Parts of notes, and nearness to a question, belong to the question.
_OF_A_QUESTION = ("section", "min_similarity", "scope")
_KNOWN = tuple(name for name in NAMES if name not in _OF_A_QUESTION)
_PROPERTY = "property."


def scopes_of(root: Path) -> Callable[[str], Filters]:
    """Return what looks up a scope of the vault by its name, in the file as it is then.

    It raises ScopesFileError, and FilterError with the names that there are.
    """

    def find(name: str) -> Filters:
        scopes = read_scopes(root)
        if scopes is None:
            raise FilterError(f"there is no scope {name!r}: the vault has no {SCOPES_FILE}")
        if name not in scopes:
            raise FilterError(f"there is no scope {name!r}; {SCOPES_FILE} has {', '.join(scopes)}")
        return scopes[name]

    return find


def read_scopes(root: Path) -> dict[str, Filters] | None:
    """Return the scopes of the vault by name, or None if it has no file of them. Raises ScopesFileError."""
    text = read_text(root, SCOPES_FILE, _LIMIT, ScopesFileError)
    return None if text is None else dict(parse(text))


@lru_cache(maxsize=8)
def parse(text: str, file: str = SCOPES_FILE) -> tuple[tuple[str, Filters], ...]:
    """Parse the text of a `_scopes.yaml`. Raises ScopesFileError with file, line and reason."""
    data, node = parse_entries(
        text, file, ScopesFileError, "`<scope>:` followed by its filters", _MOST_SCOPES
    )
    return tuple(
        (_named(key, node, file), _scope(str(key), value, node, file)) for key, value in data.items()
    )


def _named(key: object, node: yaml.Node | None, file: str) -> str:
    if isinstance(key, str) and 0 < len(key) <= LONGEST_NAME and key.isprintable() and key == key.strip():
        return key
    line = line_of(node, (key,))
    raise ScopesFileError(f"{file}:{line}: a scope's name is one line of at most {LONGEST_NAME} signs")


def filters_of(root: Path, parameters: Sequence[tuple[str, str]]) -> Filters:
    """Parse filters as `parse_filters` does, with the scopes of a vault's `_scopes.yaml`."""
    return parse_filters(parameters, scopes_of(root))


def _scope(scope: str, value: object, node: yaml.Node | None, file: str) -> Filters:
    if not isinstance(value, dict) or not value:
        raise ScopesFileError(
            f"{file}:{line_of(node, (scope,))}: {scope}: expected filters, as in `folder: Notes`"
        )
    pairs: list[tuple[str, str]] = []
    for name, given in value.items():
        where = f"{file}:{line_of(node, (scope, name))}: {scope}.{name}"
        if not (isinstance(name, str) and is_filter(name) and name not in _OF_A_QUESTION):
            near = difflib.get_close_matches(str(name), _KNOWN, 1)
            hint = (
                f"did you mean `{near[0]}`?" if near else f"known are {', '.join(_KNOWN)}, {_PROPERTY}<name>"
            )
            raise ScopesFileError(f"{where}: unknown key; {hint}")
        own = [(name, _text(one, where)) for one in (given if isinstance(given, list) else [given])]
        try:
            parse_filters(own)  # so that an error names the line
        except FilterError as error:
            raise ScopesFileError(f"{where}: {error}") from error
        pairs += own
    try:
        return parse_filters(pairs)
    except FilterError as error:
        raise ScopesFileError(f"{file}:{line_of(node, (scope,))}: {scope}: {error}") from error


def _text(value: object, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float | date):
        return str(value)
    raise ScopesFileError(f"{where}: expected a value or a list of values")
