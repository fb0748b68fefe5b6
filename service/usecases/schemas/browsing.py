"""The schemas of what the search page offers besides answers: notes to start from, and filters to narrow down."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ListedNote(BaseModel):
    """A note in a list; `changed` is null in a list by links, `links` in a list by time."""

    path: str
    title: str
    domain: str
    changed: str | None = None
    links: int | None = Field(default=None, description="how many notes of any domain link to it")


class Start(BaseModel):
    """What the page shows before a question: notes changed last, and notes with the most links to them."""

    recent: list[ListedNote]
    most_linked: list[ListedNote]


class Facet(BaseModel):
    """A filter that narrows the answers down, and how many of the found notes pass it."""

    filter: str
    value: str
    label: str
    count: int


class PassageLine(BaseModel):
    """A line of a passage as plain text; `answers`: a sentence of the excerpt begins on it."""

    text: str
    answers: bool


class Passage(BaseModel):
    """A passage of a note; without lines if the note has changed and the place of the passage is unknown."""

    path: str
    lines: list[PassageLine]
