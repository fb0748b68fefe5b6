"""The schemas of notes by title, and of similar notes."""

from __future__ import annotations

from pydantic import BaseModel, Field

from pipelines.search.names import Matched
from service.usecases.schemas.locator import Place

MOST_TITLES = 200
MOST_SIMILAR = 100


class TitleHit(BaseModel):
    """A note found by name: which kind of name matched, and the name as written."""

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
    """A similar note; `cosine`, `section`, `lines` and `place` are those of its nearest passage."""

    path: str
    title: str
    domain: str
    cosine: float
    section: str
    lines: tuple[int, int]
    place: Place | None = Field(None, description="where it is in a document that is not Markdown")


class SimilarAnswer(BaseModel):
    """The answer of `GET /similar/<path>`."""

    path: str
    results: list[SimilarHit]
    count: int
    reason: str | None = Field(description="why similar notes cannot be found now; null: they can")
