"""The schemas of the answers to requests that change which notes are indexed."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from service.usecases.schemas.search import example

LONGEST_TITLE, LONGEST_TEXT = 200, 500_000
_DEEPEST = 10
_LONGEST_NAME = 100
_LARGEST_INTEGER = 2**63 - 1
_OWN = ("title", "kind", "source")

IndexState = Literal["queued", "pending", "indexed", "parked"]


class IndexAnswer(BaseModel):
    """The answer of `POST /index`."""

    model_config = example(
        path="Concepts/Moats.md", domain="finance", state="indexed", findable=True, reason=None, took_ms=184.0
    )

    path: str
    domain: str
    state: IndexState = Field(
        description="queued: a worker will look at it; pending: it is recorded, and not indexed yet; parked: it "
        "cannot be indexed"
    )
    findable: bool = Field(description="whether a search finds the version that is on the disk now")
    reason: str | None = Field(description="why it is not findable yet, or not by meaning; null: it is")
    took_ms: float


class IgnoredAnswer(BaseModel):
    """The answer of `DELETE /documents/<path>`: the line that now ignores the note, and its file in the vault."""

    model_config = example(path="Drafts/Idea.md", file=".everindexignore", line="/Drafts/Idea.md")

    path: str
    file: str
    line: str


class NewNote(BaseModel):
    """The body of `POST /notes`."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE)]
    text: Annotated[str, Field(max_length=LONGEST_TEXT, description="Markdown")]
    kind: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    source: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None
    properties: Annotated[dict[str, JsonValue], Field(max_length=100)] = {}

    @field_validator("title")
    @classmethod
    def _is_a_line(cls, title: str) -> str:
        if not title.strip() or not title.isprintable():
            raise ValueError("a title is one line of visible text")
        return title

    @field_validator("text", "kind", "source")
    @classmethod
    def _can_be_written(cls, text: str | None) -> str | None:
        return None if text is None else _writable(text)

    @field_validator("properties")
    @classmethod
    def _are_properties(cls, properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name, value in properties.items():
            if not (name.isprintable() and name == name.strip() and 0 < len(name) <= _LONGEST_NAME):
                raise ValueError(
                    f"the name of a property is one line of at most {_LONGEST_NAME} visible signs"
                )
            if name.casefold() in _OWN:
                raise ValueError(f"{name} is a field of its own, not a property")
            _check(value, 1)
        return properties

    def frontmatter(self) -> dict[str, object]:
        """Return all properties of the note, the title first."""
        given = {"title": self.title, "kind": self.kind, "source": self.source}
        return {**{name: value for name, value in given.items() if value is not None}, **self.properties}


def _check(value: JsonValue, depth: int) -> None:
    """Refuse what would not be read from a note as it was given. Raises ValueError."""
    if depth > _DEEPEST:
        raise ValueError(f"a property is nested more than {_DEEPEST} levels deep")
    if isinstance(value, str):
        _writable(value)
    elif isinstance(value, list):
        for one in value:
            _check(one, depth + 1)
    elif isinstance(value, dict):
        for name, one in value.items():
            _writable(name)
            _check(one, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is not finite")
    elif isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        raise ValueError("a number has more than 64 bits")


def _writable(text: str) -> str:
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise ValueError("NUL and half a surrogate pair cannot be written into a note")
    return text


class WrittenNote(BaseModel):
    """The answer of `POST /notes`: the new note's path, and the address to POST to until a search finds it."""

    model_config = example(path="Inbox/Moats.md", index="/index?path=Inbox%2FMoats.md&wait=1")

    path: str
    index: str
