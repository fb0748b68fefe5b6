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

from pipelines.context.compressing import Mode
from pipelines.disk.vault_yaml import LONGEST_NAME, parse_entries, read_text
from pipelines.errors import ContextsFileError, RecipeNotFoundError
from pipelines.parsing.yaml_guard import line_of

CONTEXTS_FILE = "_contexts.yaml"

_LIMIT = 100_000  # bytes
_MOST_RECIPES, _MOST_SLOTS, _MOST_NOTES, _MOST_FILTERS = 100, 10, 24, 20
_LONGEST_QUERY, _LONGEST_VALUE = 1_000, 200
_SMALLEST_BUDGET, _LARGEST_BUDGET = 200, 200_000
_NAME = re.compile(r"\{([^{}]*)\}")
_OPERATORS = re.compile(r'["\u201c\u201d\u201e]|(?<!\S)-+')

_Text = Annotated[str, Field(min_length=1, max_length=_LONGEST_QUERY)]
_Value = Annotated[str, Field(min_length=1, max_length=_LONGEST_VALUE)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Slot(_Strict):
    """A slot of a recipe: a query or the neighbours of the note, filters, and at most `k` notes."""

    name: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None
    query: _Text | None = None
    where: Annotated[dict[str, _Value | int | float | date], Field(max_length=_MOST_FILTERS)] = {}
    neighbours: Literal["links", "community"] | None = None
    k: Annotated[int, Field(ge=1, le=_MOST_NOTES)] = 3


class Recipe(_Strict):
    """A recipe: its slots in order, and what takes the place of the defaults."""

    slots: Annotated[list[Slot], Field(min_length=1, max_length=_MOST_SLOTS)]
    budget: Annotated[int, Field(ge=_SMALLEST_BUDGET, le=_LARGEST_BUDGET)] | None = None
    compress: Mode | None = None


@dataclass(frozen=True, slots=True)
class Filled:
    """A slot with the note's values in place of their names: its heading, question and filters."""

    heading: str
    query: str
    where: tuple[tuple[str, str], ...]
    neighbours: Literal["links", "community"] | None
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
    where = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    if error["type"] != "extra_forbidden":
        return f"{where}: {error['msg']}"
    known = (Slot if "slots" in error["loc"] else Recipe).model_fields
    near = difflib.get_close_matches(str(error["loc"][-1]), known, 1)
    hint = f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(known)}"
    return f"{where}: unknown key{hint}"


def fill(slot: Slot, values: Mapping[str, object], title: str) -> Filled:
    """Return a slot with the values of a note. `title` is the question where the slot has none.

    A value cannot bring operators of a search with it: quotes and minus signs at the start of a word are left out of
    a question. Raises KeyError with the name of a value that the note lacks.
    """
    query = _NAME.sub(lambda m: _OPERATORS.sub(" ", _value(values, m[1])), slot.query or "").strip()
    where = [
        (name, _NAME.sub(lambda m: _value(values, m[1]), value) if isinstance(value, str) else str(value))
        for name, value in slot.where.items()
    ]
    heading = slot.name or query or f"neighbours by {slot.neighbours}"
    return Filled(heading, query or _OPERATORS.sub(" ", title), tuple(where), slot.neighbours, slot.k)


def _value(values: Mapping[str, object], name: str) -> str:
    """Return a value as text of at most 200 characters, a list with commas. Raises KeyError."""
    wanted = name.strip().casefold()
    found = next((value for key, value in values.items() if key.casefold() == wanted), None)
    several = found if isinstance(found, list) else [found]
    texts = [str(one).strip() for one in several if isinstance(one, str | int | float | date)]
    text = " ".join(", ".join(filter(None, texts)).split())[:_LONGEST_VALUE]
    if not text:
        raise KeyError(name.strip())
    return text
