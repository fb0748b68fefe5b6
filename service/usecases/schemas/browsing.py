"""The schemas of what the search page offers besides answers: notes to begin with, and filters that narrow down."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ListedNote(BaseModel):
    """A note in a list; `changed` is null where the list is not about time, `links` where it is not about links."""

    path: str
    title: str
    domain: str
    changed: str | None = None
    links: int | None = Field(default=None, description="how many notes of its domain link to it")


class Start(BaseModel):
    """What is shown before a question is asked."""

    recent: list[ListedNote]
    most_linked: list[ListedNote]


class Facet(BaseModel):
    """A filter that would narrow answers down, and how many of the given notes pass it."""

    filter: str
    value: str
    label: str
    count: int


class PassageLine(BaseModel):
    """A line of a passage as plain text; `answers`: a sentence of the answer begins on it."""

    text: str
    answers: bool


class Passage(BaseModel):
    """A passage of a note; without lines if the note has changed, so that its place is not known any more."""

    path: str
    lines: list[PassageLine]
