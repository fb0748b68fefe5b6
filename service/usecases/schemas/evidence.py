"""The shapes of what is asked of evidence records, and of their answers."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.retrieval.citations import Reason, Status
from service.usecases.schemas.search import LONGEST_QUERY

MOST_CITATIONS = 200
LONGEST_QUOTE = 4_000
_LONGEST_NOTES = 100_000
_LONGEST_PATH = 4_096
_MOST_HITS = 50


class _Body(BaseModel):
    """What a client sends: a misspelt field is an error, not a quote that is looked for elsewhere."""

    model_config = ConfigDict(extra="forbid")


class Cited(_Body):
    """A quote, and the note it is of; `text_hash` or `position` names one chunk of that note."""

    path: Annotated[str, Field(min_length=1, max_length=_LONGEST_PATH)]
    quote: Annotated[str | None, Field(max_length=LONGEST_QUOTE)] = None
    text_hash: Annotated[str | None, Field(max_length=64)] = None
    position: Annotated[int | None, Field(ge=0, description="of the chunk in the note, from 0")] = None

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
    """A quote and what came of it."""

    path: str
    quote: str | None
    text_hash: str | None = Field(
        description="of the chunk that has it, or of the only one it was compared with"
    )
    citation_verified: bool
    citation_reason: Reason


class VerifyAnswer(BaseModel):
    """The answer of `POST /verify`."""

    quotes: list[VerifiedQuote]
    citations_status: Status


class Source(BaseModel):
    """Whether the note is as it was; null: nobody can tell just now, or it never was a note."""

    source_changed: bool | None = Field(description="true also where the note is gone")
    source_gone: bool | None


class RecordHit(Source):
    """A note that answered, with the passage that the record keeps."""

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


class RecordCitation(VerifiedQuote, Source):
    """A quote of the write-back; `text` is what `text_hash` names."""

    text: str | None


class RecordAnswer(BaseModel):
    """An evidence record, verified as it is read."""

    id: str
    question: str
    domain: str | None
    match: str | None = Field(description="strong, weak or none; null: nobody can tell")
    asked_at: str
    evidence: list[RecordHit]
    notes: str | None
    curated_at: str | None = Field(description="null until a result was written back")
    citations: list[RecordCitation]
    citations_status: Status


class RecordSummary(BaseModel):
    """A record as a list shows it."""

    id: str
    question: str
    match: str | None
    asked_at: str
    curated_at: str | None
    hits: int
    citations: int


class RecordsAnswer(BaseModel):
    """The answer of `GET /v1/rx`: the newest records, and how many there are in all."""

    records: list[RecordSummary]
    count: int


class DeletedAnswer(BaseModel):
    """The answer of `DELETE /v1/rx/<id>`."""

    deleted: str


MOST_RECORDS = 1_000
