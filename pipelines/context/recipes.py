"""Read `_contexts.yaml`: recipes for blocks, whose questions are filled from a note's frontmatter."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.context.compress import CompressionMode
from pipelines.domains import LONGEST_NAME, parse_entries, read_text
from pipelines.errors import ContextsFileError, RecipeNotFoundError
from pipelines.notes.frontmatter import line_of
from pipelines.notes.links import LONGEST_TYPE, types_of
from pipelines.search.walk import MOST_HOPS

CONTEXTS_FILE = "_contexts.yaml"

_LIMIT = 100_000  # bytes
_MOST_RECIPES, _MOST_SLOTS, _MOST_NOTES, _MOST_FILTERS = 100, 10, 24, 20
_LONGEST_QUERY, _LONGEST_VALUE = 1_000, 200
_SMALLEST_BUDGET, _LARGEST_BUDGET = 200, 200_000
_LONGEST_SHOWN = 60
_NAME = re.compile(r"\{([^{}]*)\}")
_OPERATORS = re.compile(r'["\u201c\u201d\u201e]|(?<!\S)-+')

_Text = Annotated[str, Field(min_length=1, max_length=_LONGEST_QUERY)]
_Value = Annotated[str, Field(min_length=1, max_length=_LONGEST_VALUE)] | int | float | date
_MOST_VALUES, _MOST_TYPES = 50, 20


class _RecipeModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_Type = Annotated[str, Field(min_length=1, max_length=LONGEST_TYPE)]


class OfTypes(_RecipeModel):
    """The notes that are reached along links of these types, at most `depth` links away."""

    type: _Type | Annotated[list[_Type], Field(min_length=1, max_length=_MOST_TYPES)]
    depth: Annotated[int, Field(ge=1, le=MOST_HOPS)] = 1

    @property
    def types(self) -> tuple[str, ...]:
        """The types, as the index has them."""
        return tuple(sorted(types_of([self.type] if isinstance(self.type, str) else self.type)))


Neighbours = Literal["links", "community"] | OfTypes | None


class Slot(_RecipeModel):
    """A slot of a recipe: a query or the neighbours of the note, filters, and at most `k` notes."""

    name: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None
    query: _Text | None = None
    where: Annotated[
        dict[str, _Value | Annotated[list[_Value], Field(min_length=1, max_length=_MOST_VALUES)]],
        Field(max_length=_MOST_FILTERS),
    ] = {}
    neighbours: Neighbours = None
    k: Annotated[int, Field(ge=1, le=_MOST_NOTES)] = 3


class Recipe(_RecipeModel):
    """A recipe: its slots in order, and what takes the place of the defaults."""

    slots: Annotated[list[Slot], Field(min_length=1, max_length=_MOST_SLOTS)]
    budget: Annotated[int, Field(ge=_SMALLEST_BUDGET, le=_LARGEST_BUDGET)] | None = None
    compress: CompressionMode | None = None


@dataclass(frozen=True, slots=True)
class Filled:
    """A slot with the note's values in place of their names: its heading, question and filters."""

    heading: str
    query: str
    where: tuple[tuple[str, str], ...]
    neighbours: Neighbours
    k: int


def read_recipe(root: Path, name: str) -> Recipe:
    """Return a recipe of the vault. Raises ContextsFileError, RecipeNotFoundError."""
    recipes = read_recipes(root)
    if recipes is None:
        raise RecipeNotFoundError(f"there is no recipe {name!r}: the vault has no {CONTEXTS_FILE}")
    if name not in recipes:
        raise RecipeNotFoundError(f"there is no recipe {name!r}; {CONTEXTS_FILE} has {', '.join(recipes)}")
    return recipes[name]


def read_recipes(root: Path) -> dict[str, Recipe] | None:
    """Return the recipes of the vault by name, or None if it has no file of them. Raises ContextsFileError."""
    text = read_text(root, CONTEXTS_FILE, _LIMIT, ContextsFileError)
    return None if text is None else parse(text)


def parse(text: str, name: str = CONTEXTS_FILE) -> dict[str, Recipe]:
    """Parse the text of a `_contexts.yaml`. Raises ContextsFileError with file, line and reason."""
    data, node = parse_entries(
        text, name, ContextsFileError, "`<recipe>:` followed by its slots", _MOST_RECIPES
    )
    return {str(key): _recipe(key, value, node, name) for key, value in data.items()}


def _recipe(key: object, value: object, node: yaml.Node | None, name: str) -> Recipe:
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_NAME:
        line = line_of(node, (key,))
        raise ContextsFileError(f"{name}:{line}: a recipe's name is a text of at most {LONGEST_NAME} signs")
    try:
        recipe = Recipe.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        line = line_of(node, (key, *first["loc"]))
        raise ContextsFileError(f"{name}:{line}: {key}{_reason(first)}") from error
    for number, slot in enumerate(recipe.slots):
        if slot.query is None and slot.neighbours is None:
            line = line_of(node, (key, "slots", number))
            raise ContextsFileError(f"{name}:{line}: a slot needs `query`, `neighbours`, or both")
    return recipe


def _reason(error: Any) -> str:
    """Say what is wrong with a key, and for an unknown one the nearest that is known."""
    loc = error["loc"]
    # What follows names the kinds of values that were tried.
    if "where" in loc[:-1]:
        loc = loc[: loc.index("where") + 2]
    elif "neighbours" in loc:
        loc = loc[: loc.index("neighbours") + 1]
    where = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in loc)
    if error["type"] == "extra_forbidden":
        known = (Slot if "slots" in loc else Recipe).model_fields
        near = difflib.get_close_matches(str(loc[-1]), known, 1)
        hint = f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(known)}"
        return f"{where}: unknown key{hint}"
    # The innermost key that has an expectation of its own: `where` for its filters, the recipe for its root.
    key = next((part for part in reversed(loc) if part in _EXPECTED), "")
    return f"{where}: {_EXPECTED[key]}; it is {_shown(error['input'])}"


_EXPECTED = {
    "": "expected the keys `slots`, `budget` and `compress`",
    "slots": f"expected a list of one to {_MOST_SLOTS} slots, each with `query`, `neighbours`, or both",
    "budget": f"expected a whole number of tokens from {_SMALLEST_BUDGET} to {_LARGEST_BUDGET}",
    "compress": "expected `none`, `light` or `strong`",
    "name": f"expected a text of at most {LONGEST_NAME} characters",
    "query": f"expected a text of 1 to {_LONGEST_QUERY} characters",
    "where": (
        f"expected at most {_MOST_FILTERS} filters by name, each with a value (a text of at most {_LONGEST_VALUE}"
        f" characters, a number or a date) or a list of one to {_MOST_VALUES} values"
    ),
    "neighbours": (
        "expected `links`, `community`, or `{type: ...}` with a type or a list of types, and `depth`"
        f" from 1 to {MOST_HOPS}"
    ),
    "k": f"expected a whole number of notes from 1 to {_MOST_NOTES}",
}
"""What a key's value has to be, by the key."""


def _shown(value: object) -> str:
    """Return a value as a message shows it."""
    if value is None:
        return "empty"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def fill(slot: Slot, values: Mapping[str, object], title: str) -> Filled:
    """Return a slot with the values of a note. `title` is the question where the slot has none.

    A value cannot bring operators of a search with it: quotes and minus signs at the start of a word are left out of
    a question. Raises KeyError with the name of a value that the note lacks.
    """
    query = _NAME.sub(lambda m: _OPERATORS.sub(" ", _value(values, m[1])), slot.query or "").strip()
    where = [
        (name, filled)
        for name, value in slot.where.items()
        for one in (value if isinstance(value, list) else [value])
        for filled in _filled(one, values)
    ]
    near = slot.neighbours
    by = " and ".join(near.types) if isinstance(near, OfTypes) else near
    heading = slot.name or query or f"neighbours by {by}"
    return Filled(heading, query or _OPERATORS.sub(" ", title), tuple(where), slot.neighbours, slot.k)


def _filled(value: object, values: Mapping[str, object]) -> list[str]:
    """Return a filter's value with those of a note; the name of a list alone stands for each of its values."""
    if not isinstance(value, str):
        return [str(value)]
    alone = _NAME.fullmatch(value.strip())
    if alone:
        return _texts(values, alone[1])
    return [_NAME.sub(lambda m: _value(values, m[1]), value)]


def _value(values: Mapping[str, object], name: str) -> str:
    """Return a value as text of at most 200 characters, a list with commas. Raises KeyError."""
    return ", ".join(_texts(values, name))[:_LONGEST_VALUE]


def _texts(values: Mapping[str, object], name: str) -> list[str]:
    """Return a value, or those of a list, as texts of at most 200 characters. Raises KeyError if there is none."""
    wanted = name.strip().casefold()
    found = next((value for key, value in values.items() if key.casefold() == wanted), None)
    several = found if isinstance(found, list) else [found]
    texts = (" ".join(str(one).split()) for one in several if isinstance(one, str | int | float | date))
    filled = [text[:_LONGEST_VALUE] for text in texts if text]
    if not filled:
        raise KeyError(name.strip())
    return filled
