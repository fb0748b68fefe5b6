"""Where in a file a passage is, by the kind of the place."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, Field

from pipelines.model import Locator as StoredLocator
from pipelines.model import LocatorKind


class Lines(BaseModel):
    """The lines of a text file, from the first to the last, which are counted from 1."""

    kind: Literal["lines"] = "lines"
    first: int = Field(ge=1)
    last: int = Field(ge=1)


Locator = Lines
"""Where `read` finds a passage: lines of the note, or of the text that was read from a document."""


class Place(BaseModel):
    """Where a passage is in a document as its own program shows it: a page, rows of a sheet, a key.

    `shown` says it in words, as in `p. 3` or `[Costs] rows 21-40`. Numbers count from 1; 0: the kind has none.
    Those of a symbol are lines of the file, those of a key the line on which it begins (0 in JSON).
    """

    kind: LocatorKind
    name: str
    first: int
    last: int
    shown: str


class Part(BaseModel):
    """A part of a document, by its place as `Place.shown` says it, and the lines of its text."""

    place: str
    lines: Lines


def place_of(stored: StoredLocator | None) -> Place | None:
    """Return a stored place as answers show it."""
    return Place(**asdict(stored), shown=stored.shown()) if stored else None
