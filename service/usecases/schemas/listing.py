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
    warnings: list[str] = Field(description="the parts of the note that could not be read, and why")


class ListAnswer(BaseModel):
    """The listed notes, and how many they are."""

    notes: list[ListedNote]
    count: int
    reason: str | None = Field(None, description="why the list is empty, if a tag is that no note has")
    configuration: list[str] = Field(
        description="the paths of those that pass, too, but configure a domain instead of being notes: vocabularies"
    )
