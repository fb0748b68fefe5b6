"""The schemas of notes by title, and of notes like a note."""

from __future__ import annotations

from pydantic import BaseModel, Field

from pipelines.retrieval.titles import Matched

MOST_TITLES = 200
MOST_SIMILAR = 100


class TitleHit(BaseModel):
    """A note that has such a name: which of its names it is, and how that is written."""

    path: str
    title: str
    domain: str
    matched: Matched
    name: str


class TitlesAnswer(BaseModel):
    """The answer of `GET /titles`."""

    query: str
    results: list[TitleHit]
    count: int


class SimilarHit(BaseModel):
    """A note near another; section and lines are those of its nearest passage, of which the cosine is, too."""

    path: str
    title: str
    domain: str
    cosine: float
    section: str
    lines: tuple[int, int]


class SimilarAnswer(BaseModel):
    """The answer of `GET /similar/<path>`."""

    path: str
    results: list[SimilarHit]
    count: int
    reason: str | None = Field(description="why nothing can be said of the note just now; null: it can")
