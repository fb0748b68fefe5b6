"""Evidence records in `state.db`: what an answer rested on, kept whatever happens to the notes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from pipelines.errors import EvidenceNotFoundError
from pipelines.model import Place
from pipelines.sqlite import first, one, records, select, snapshot, transaction
from pipelines.state.state import open_state


@dataclass(frozen=True, slots=True)
class EvidenceHit:
    """A note that answered: its best passage (None if it was already gone), and the hash of the note's bytes."""

    domain: str
    path: str
    title: str
    section: str
    first_line: int
    last_line: int
    excerpt: str
    score: float
    chunk: int | None
    text_hash: str | None
    source_hash: str | None


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote, the passages that it is compared with, and the hash of the bytes that these were cut from."""

    path: str
    quote: str | None
    text_hashes: tuple[str, ...]
    source_hash: str | None


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """A question, the notes that answered it, and what was made of it; `texts` are its passages by hash.

    `match` says how well the notes answered (strong, weak, none; None: unknown). `curated_at` is None until a result
    is written back.
    """

    id: str
    question: str
    domain: str | None
    match: str | None
    asked_at: str
    hits: tuple[EvidenceHit, ...]
    texts: Mapping[str, str]
    notes: str | None = None
    curated_at: str | None = None
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidenceSummary:
    """A record as shown in a list."""

    id: str
    question: str
    match: str | None
    asked_at: str
    curated_at: str | None
    hits: int
    citations: int


class Evidence:
    """A connection to the records in a vault's `state.db`."""

    def __init__(self, place: Place) -> None:
        self._con = open_state(place)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()

    def add(self, record: EvidenceRecord) -> None:
        """Store a new record. Raises StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute(
                "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(record.id, record.question, record.domain, record.match, record.asked_at),
                    *(record.notes, record.curated_at),
                ),
            )
            self._con.executemany(
                "INSERT INTO evidence_hit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(record.id, position, *astuple(hit)) for position, hit in enumerate(record.hits)],
            )
            self._write_citations(record.id, record.citations, record.texts)

    def curate(
        self,
        record_id: str,
        citations: Sequence[Citation],
        texts: Mapping[str, str],
        *,
        notes: str | None,
        at: str,
    ) -> None:
        """Write a curated result into a record; an earlier result, and the passages that only it needed, are deleted.

        Raises EvidenceNotFoundError, StorageUnavailableError.
        """
        with transaction(self._con):
            self._con.execute(
                "UPDATE evidence SET notes = ?, curated_at = ? WHERE id = ?", (notes, at, record_id)
            )
            if not self._con.changes():
                raise _missing(record_id)
            self._con.execute("DELETE FROM evidence_citation WHERE record = ?", (record_id,))
            self._con.execute(
                "DELETE FROM evidence_text WHERE record = :record AND text_hash NOT IN"
                " (SELECT text_hash FROM evidence_hit WHERE record = :record AND text_hash IS NOT NULL)",
                {"record": record_id},
            )
            self._write_citations(record_id, citations, texts)

    def _write_citations(
        self, record_id: str, citations: Sequence[Citation], texts: Mapping[str, str]
    ) -> None:
        self._con.executemany(
            "INSERT INTO evidence_citation VALUES (?, ?, ?, ?, ?, ?)",
            [
                (record_id, n, cited.path, cited.quote, json.dumps(cited.text_hashes), cited.source_hash)
                for n, cited in enumerate(citations)
            ],
        )
        self._con.executemany(
            "INSERT INTO evidence_text VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(record_id, text_hash, text) for text_hash, text in texts.items()],
        )

    def get(self, record_id: str) -> EvidenceRecord:
        """Return a record. Raises EvidenceNotFoundError."""
        with snapshot(self._con):
            found = first(
                self._con,
                "SELECT question, domain, match, asked_at, notes, curated_at FROM evidence WHERE id = ?",
                (record_id,),
            )
            if found is None:
                raise _missing(record_id)
            question, domain, match, asked_at, notes, curated_at = found
            return EvidenceRecord(
                id=record_id,
                question=question,
                domain=domain,
                match=match,
                asked_at=asked_at,
                hits=self._hits(record_id),
                texts=self._texts(record_id),
                notes=notes,
                curated_at=curated_at,
                citations=self._citations(record_id),
            )

    def _hits(self, record_id: str) -> tuple[EvidenceHit, ...]:
        found = records(
            self._con,
            EvidenceHit,
            "SELECT domain, path, title, section, first_line, last_line, excerpt, score, chunk, text_hash,"
            " source_hash FROM evidence_hit WHERE record = ? ORDER BY position",
            (record_id,),
        )
        return tuple(found)

    def _texts(self, record_id: str) -> dict[str, str]:
        return dict(
            select(self._con, "SELECT text_hash, text FROM evidence_text WHERE record = ?", (record_id,))
        )

    def _citations(self, record_id: str) -> tuple[Citation, ...]:
        found = select(
            self._con,
            "SELECT path, quote, text_hashes, source_hash FROM evidence_citation WHERE record = ? ORDER BY position",
            (record_id,),
        )
        return tuple(
            Citation(path, quote, tuple(json.loads(text_hashes)), source_hash)
            for path, quote, text_hashes, source_hash in found
        )

    def naming(self, path: str, limit: int) -> list[EvidenceRecord]:
        """Return up to `limit` records that a note answered, or whose citations are of it, newest first."""
        with snapshot(self._con):
            found = select(
                self._con,
                "SELECT id FROM evidence WHERE id IN (SELECT record FROM evidence_hit WHERE path = :path"
                " UNION SELECT record FROM evidence_citation WHERE path = :path)"
                " ORDER BY rowid DESC LIMIT :limit",
                {"path": path, "limit": limit},
            )
            return [self.get(record_id) for (record_id,) in found]

    def newest(self, limit: int) -> list[EvidenceSummary]:
        """Return up to `limit` records, newest first."""
        return records(
            self._con,
            EvidenceSummary,
            "SELECT id, question, match, asked_at, curated_at,"
            " (SELECT count(*) FROM evidence_hit WHERE record = id) AS hits,"
            " (SELECT count(*) FROM evidence_citation WHERE record = id) AS citations"
            " FROM evidence ORDER BY rowid DESC LIMIT ?",
            (limit,),
        )

    def count(self) -> int:
        """Count the records."""
        (count,) = one(self._con, "SELECT count(*) FROM evidence")
        return int(count)

    def delete(self, record_id: str) -> None:
        """Delete a record with everything stored for it. Raises EvidenceNotFoundError, StorageUnavailableError."""
        with transaction(self._con):
            self._con.execute("DELETE FROM evidence WHERE id = ?", (record_id,))
            if not self._con.changes():
                raise _missing(record_id)
            for table in ("evidence_hit", "evidence_citation", "evidence_text"):
                self._con.execute(f"DELETE FROM {table} WHERE record = ?", (record_id,))


def _missing(record_id: str) -> EvidenceNotFoundError:
    return EvidenceNotFoundError(
        f"there is no evidence record {record_id!r}; `everindex evidence list` lists the existing ones"
    )
