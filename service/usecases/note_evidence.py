"""The evidence records that name a note, as far as they are about it."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.search.quotes import check_citations
from pipelines.state.evidence import Evidence, EvidenceRecord

_MOST_QUOTES = 20


@dataclass(frozen=True, slots=True)
class NoteQuote:
    """A quote from the note, and whether the passages that its record stores contain it."""

    text: str
    verified: bool


@dataclass(frozen=True, slots=True)
class NoteEvidence:
    """A record that names the note; times are UTC, ISO 8601.

    `lines` are those of the passage that answered, as they were at the time; None if the note was only cited.
    `curated_at` is None until a result is written back. `quotes` are the first 20.
    """

    id: str
    question: str
    asked_at: str
    curated_at: str | None
    lines: tuple[int, int] | None
    quotes: tuple[NoteQuote, ...]


def evidence_of_note(store: Evidence, path: str, limit: int) -> list[NoteEvidence]:
    """Return up to `limit` records that name a note, newest first."""
    return [_about(path, record) for record in store.naming(path, limit)]


def _about(path: str, record: EvidenceRecord) -> NoteEvidence:
    lines = next(((hit.first_line, hit.last_line) for hit in record.hits if hit.path == path), None)
    cited = [one for one in record.citations if one.path == path and one.quote][:_MOST_QUOTES]
    checks = check_citations([(one.quote, one.text_hashes) for one in cited], record.texts)
    quotes = (
        NoteQuote(str(one.quote), check.reason == "match") for one, check in zip(cited, checks, strict=True)
    )
    return NoteEvidence(record.id, record.question, record.asked_at, record.curated_at, lines, tuple(quotes))
