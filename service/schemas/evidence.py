"""The schemas of quote checks and evidence records: requests and answers."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.search.quotes import QuoteStatus, Reason
from service.schemas.search import LONGEST_QUERY, Place

MOST_CITATIONS = 200
LONGEST_QUOTE = 4_000
_LONGEST_NOTES = 100_000
_LONGEST_PATH = 4_096
_MOST_HITS = 50


class _Body(BaseModel):
    """A request body. An unknown field is an error, so that no misspelt one is ignored."""

    model_config = ConfigDict(extra="forbid")


class Cited(_Body):
    """A quote and the note it is from; `text_hash` or `position` narrows it to one chunk of that note."""

    path: Annotated[str, Field(min_length=1, max_length=_LONGEST_PATH)]
    quote: Annotated[str | None, Field(max_length=LONGEST_QUOTE)] = None
    text_hash: Annotated[str | None, Field(max_length=64)] = None
    position: Annotated[int | None, Field(ge=0, description="the chunk's number in the note, from 0")] = None

    @model_validator(mode="after")
    def _names_a_chunk_once(self) -> Self:
        if self.text_hash is not None and self.position is not None:
            raise ValueError("name the chunk by text_hash or by position, not by both")
        return self


class QuotesToVerify(_Body):
    """The body of `POST /verify`."""

    quotes: Annotated[list[Cited], Field(max_length=MOST_CITATIONS)]


class NewRecord(_Body):
    """The body of `POST /v1/rx`."""

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]
    k: Annotated[int, Field(ge=1, le=_MOST_HITS)] = 10
    domain: str | None = None


class WriteBack(_Body):
    """The body of `POST /v1/rx/deep`."""

    id: str
    citations: Annotated[list[Cited], Field(max_length=MOST_CITATIONS)] = []
    notes: Annotated[str | None, Field(max_length=_LONGEST_NOTES)] = None


class VerifiedQuote(BaseModel):
    """A quote, and whether the note contains it."""

    path: str
    quote: str | None
    text_hash: str | None = Field(
        description="hash of the chunk that contains the quote, or of the only one compared with it"
    )
    citation_verified: bool
    citation_reason: Reason
    place: Place | None = Field(
        None, description="where in a document that is not Markdown the quote was found"
    )


class VerifyAnswer(BaseModel):
    """The answer of `POST /verify`."""

    quotes: list[VerifiedQuote]
    citations_status: QuoteStatus


class SourceState(BaseModel):
    """Whether the note has changed since; null: unknown now, or there never was such a note."""

    source_changed: bool | None = Field(description="true also if the note is gone")
    source_gone: bool | None


class RecordHit(SourceState):
    """A note among the answers, with the passage that the record stores."""

    path: str
    title: str
    section: str
    domain: str
    lines: tuple[int, int]
    excerpt: str
    score: float
    position: int | None
    text_hash: str | None
    text: str | None
    place: Place | None = Field(
        None, description="where in a document that is not Markdown the passage is; null if it changed since"
    )


class RecordCitation(VerifiedQuote, SourceState):
    """A quote of the curated result; `text` is the chunk that `text_hash` identifies."""

    text: str | None


class RecordAnswer(BaseModel):
    """An evidence record. Its quotes are verified each time it is read. Times are UTC, ISO 8601."""

    id: str
    question: str
    domain: str | None
    match: str | None = Field(
        description="strong, weak or none; null: nothing was found, or by filters alone"
    )
    asked_at: str
    evidence: list[RecordHit]
    notes: str | None
    curated_at: str | None = Field(description="when a result was written back; null: not yet")
    citations: list[RecordCitation]
    citations_status: QuoteStatus


class RecordSummary(BaseModel):
    """A record in a list, with its numbers of hits and quotes."""

    id: str
    question: str
    match: str | None
    asked_at: str
    curated_at: str | None
    hits: int
    citations: int


class RecordsAnswer(BaseModel):
    """The answer of `GET /v1/rx`: the newest records, and the number of all records."""

    records: list[RecordSummary]
    count: int


class DeletedAnswer(BaseModel):
    """The answer of `DELETE /v1/rx/<id>`: the id of the deleted record."""

    deleted: str


MOST_RECORDS = 1_000
