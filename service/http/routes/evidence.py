"""The routes of evidence."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from service.usecases.evidence import Records
from service.usecases.schemas.evidence import (
    MOST_RECORDS,
    DeletedAnswer,
    NewRecord,
    QuotesToVerify,
    RecordAnswer,
    RecordsAnswer,
    VerifyAnswer,
    WriteBack,
)
from service.usecases.search import SearchService


def add_evidence(app: FastAPI, questions: SearchService) -> None:
    """Add the routes."""
    records = Records(questions)

    @app.post("/verify")
    def verify(body: QuotesToVerify) -> VerifyAnswer:
        """Check for each quote whether the cited note contains it, word for word."""
        return records.verify(body.quotes)

    @app.post("/v1/rx", status_code=201)
    def ask(body: NewRecord) -> RecordAnswer:
        """Search, and store the results as an evidence record."""
        return records.ask(body.question, body.k, body.domain)

    @app.post("/v1/rx/deep")
    def write_back(body: WriteBack) -> RecordAnswer:
        """Store a curated result in a record, replacing an earlier one, and verify each quote."""
        return records.write_back(body)

    @app.get("/v1/rx")
    def newest(limit: Annotated[int, Query(ge=1, le=MOST_RECORDS)] = 100) -> RecordsAnswer:
        """List the newest records."""
        return records.newest(limit)

    @app.get("/v1/rx/{record_id}")
    def show(record_id: str) -> RecordAnswer:
        """Return a record with verified citations, and whether its notes have changed since."""
        return records.show(record_id)

    @app.delete("/v1/rx/{record_id}")
    def delete(record_id: str) -> DeletedAnswer:
        """Delete a record and the texts that it stores."""
        return records.delete(record_id)
