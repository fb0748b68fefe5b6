"""The schema of a list of notes."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ListedNote(BaseModel):
    """A note in a list."""

    path: str
    title: str
    domain: str
    kind: str | None
    date: str = Field(description="the day that the filters `since` and `until` compare: YYYY-MM-DD")
    chunks: int


class ListAnswer(BaseModel):
    """The listed notes, and how many they are."""

    notes: list[ListedNote]
    count: int
    configuration: list[str] = Field(
        description="the paths of those that pass, too, but configure a domain instead of being notes: vocabularies"
    )
