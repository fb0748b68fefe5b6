"""Evidence records: a question with the passages that answered it, a curated result, and verified quotes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache

from pipelines.cache.passages import ChunkRow, whole_sections
from pipelines.errors import NotARegularFileError, NoteError, NoteVanishedError
from pipelines.filters import Filters
from pipelines.model import Locator, now_iso
from pipelines.question import read_question
from pipelines.search.quotes import Reason, check_citations, check_quote, status_of
from pipelines.state.evidence import Citation, Evidence, EvidenceHit, EvidenceRecord
from pipelines.vault import files
from service.schemas.evidence import (
    Cited,
    DeletedAnswer,
    RecordAnswer,
    RecordCitation,
    RecordHit,
    RecordsAnswer,
    RecordSummary,
    SourceState,
    VerifiedQuote,
    VerifyAnswer,
    WriteBack,
)
from service.schemas.search import SearchHit, place_of
from service.usecases.search import View
from workers.attention import chosen

# Turn evidence as it is stored and checked into the schemas of the answers.


def shown_hit(
    hit: EvidenceHit, texts: Mapping[str, str], source: SourceState, place: Locator | None = None
) -> RecordHit:
    """Return a hit of a record with the passage that the record stores; `texts` are its passages by hash."""
    return RecordHit(
        path=hit.path,
        title=hit.title,
        section=hit.section,
        domain=hit.domain,
        lines=(hit.first_line, hit.last_line),
        excerpt=hit.excerpt,
        score=hit.score,
        position=hit.chunk,
        text_hash=hit.text_hash,
        text=texts[hit.text_hash] if hit.text_hash else None,
        place=place_of(place),
        **source.model_dump(),
    )


def verified(cited: Citation, reason: Reason, place: Locator | None = None) -> VerifiedQuote:
    """Return a quote with its verdict, and its place in a document."""
    return VerifiedQuote(
        path=cited.path,
        quote=cited.quote,
        text_hash=cited.text_hashes[0] if len(cited.text_hashes) == 1 else None,
        citation_verified=reason == "match",
        citation_reason=reason,
        place=place_of(place),
    )


@dataclass(frozen=True, slots=True)
class _Passage:
    """A chunk's text, from the index or from a record, and the hash of the file that it was cut from."""

    text: str
    text_hash: str
    position: int | None
    source_hash: str | None


_Indexed = list[tuple[ChunkRow, _Passage]]


class Records:
    """The evidence use cases, over the caches and `state.db`."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._resources = view.resources

    @contextmanager
    def _store(self) -> Iterator[Evidence]:
        store = Evidence(self._resources.store)
        try:
            yield store
        finally:
            store.close()

    def verify(self, quotes: Sequence[Cited]) -> VerifyAnswer:
        """Verify quotes against the current index."""
        indexed = cache(self._indexed)
        answers = []
        for cited in quotes:
            citation, _, reason = _resolve(cited, None, indexed)
            place = _place(citation.text_hashes, indexed(citation.path)) if reason == "match" else None
            answers.append(verified(citation, reason, place))
        return VerifyAnswer(quotes=answers, citations_status=status_of(a.citation_reason for a in answers))

    def ask(self, question: str, k: int = 10, domain: str | None = None) -> RecordAnswer:
        """Search, and store the results in a new record. Raises DomainNotFoundError."""
        answer = self._view.search(read_question(question, Filters(domains=(domain,) if domain else ())), k)
        texts: dict[str, str] = {}
        hits = []
        for hit in answer.results:
            passage = _best_passage(hit, self._indexed(hit.path))
            if passage:
                texts[passage.text_hash] = passage.text
            hits.append(_hit(hit, passage))
        record = EvidenceRecord(
            id=secrets.token_hex(6),
            question=question,
            domain=domain,
            match=answer.match,
            asked_at=now_iso("seconds"),
            hits=tuple(hits),
            texts=texts,
        )
        with self._store() as store:
            store.add(record)
        return self._shown(record)

    def write_back(self, result: WriteBack) -> RecordAnswer:
        """Store a curated result, replacing an earlier one of the record. Raises EvidenceNotFoundError."""
        with self._store() as store:
            record = store.get(result.id)
            indexed = cache(self._indexed)
            citations: list[Citation] = []
            texts: dict[str, str] = {}
            held = set()
            for cited in result.citations:
                citation, compared, reason = _resolve(cited, record, indexed)
                citations.append(citation)
                texts |= compared
                if compared and reason in ("match", "no_quote"):
                    held.add(citation.path)
            store.curate(result.id, citations, texts, notes=result.notes, at=now_iso("seconds"))
            chosen(self._resources, held, "cited")
            return self._shown(store.get(result.id))

    def show(self, record_id: str) -> RecordAnswer:
        """Return a record with verified citations. Raises EvidenceNotFoundError."""
        with self._store() as store:
            return self._shown(store.get(record_id))

    def newest(self, limit: int) -> RecordsAnswer:
        """List the newest records."""
        with self._store() as store:
            records = [RecordSummary(**asdict(found)) for found in store.newest(limit)]
            return RecordsAnswer(records=records, count=store.count())

    def delete(self, record_id: str) -> DeletedAnswer:
        """Delete a record. Raises EvidenceNotFoundError."""
        with self._store() as store:
            store.delete(record_id)
        return DeletedAnswer(deleted=record_id)

    def _indexed(self, path: str) -> _Indexed:
        """Return a note's chunks as they are indexed now."""
        for domain, cache_ in self._view.readers():
            with cache_.snapshot():
                row = cache_.ledger.row(path)
                chunks = (
                    cache_.passages.chunks_of(path) if self._view.audience.sees(domain.slug, path) else []
                )
            if chunks:
                source_hash = row.indexed_hash if row else None
                return [
                    (c, _Passage(c.text, hashlib.sha256(c.text.encode()).hexdigest(), position, source_hash))
                    for position, c in enumerate(chunks)
                ]
        return []

    def _shown(self, record: EvidenceRecord) -> RecordAnswer:
        source, indexed = cache(self._reader_of_sources()), cache(self._indexed)
        checks = check_citations([(one.quote, one.text_hashes) for one in record.citations], record.texts)
        citations = [
            RecordCitation(
                **verified(cited, check.reason, _place(cited.text_hashes, indexed(cited.path))).model_dump(),
                **source(cited.path, cited.source_hash).model_dump(),
                text=record.texts[cited.text_hashes[0]] if len(cited.text_hashes) == 1 else None,
            )
            for cited, check in zip(record.citations, checks, strict=True)
        ]
        return RecordAnswer(
            id=record.id,
            question=record.question,
            domain=record.domain,
            match=record.match,
            asked_at=record.asked_at,
            evidence=[
                shown_hit(
                    hit,
                    record.texts,
                    source(hit.path, hit.source_hash),
                    _place((hit.text_hash,), indexed(hit.path)),
                )
                for hit in record.hits
            ],
            notes=record.notes,
            curated_at=record.curated_at,
            citations=citations,
            citations_status=status_of(cited.citation_reason for cited in citations),
        )

    def _reader_of_sources(self) -> Callable[[str, str | None], SourceState]:
        """Return a function that compares a note on disk with an earlier hash of its bytes."""
        present = self._resources.present()
        unknown = SourceState(source_changed=None, source_gone=None)

        def source(path: str, then: str | None) -> SourceState:
            if then is None or not present:
                return unknown
            try:
                now = files.read(
                    self._resources.root, self._file_name(path), self._resources.settings.max_note_bytes
                )
            except (NoteVanishedError, NotARegularFileError):
                return SourceState(source_changed=True, source_gone=True)
            except NoteError:
                return unknown  # unreadable, or being written
            return SourceState(source_changed=now.sha256 != then, source_gone=False)

        return source

    def _file_name(self, path: str) -> str:
        """Return the file name of a note, which can differ from its key."""
        for _, cache_ in self._view.readers():
            known = cache_.ledger.stat_of([path])
            if known:
                return known[path][0]
        return path


def _place(text_hashes: tuple[str | None, ...], indexed: _Indexed) -> Locator | None:
    """Return the place of the passage with this hash, if it is one and in a document's index now."""
    found = (chunk.place for chunk, passage in indexed if text_hashes == (passage.text_hash,))
    return next(found, None)


def _best_passage(hit: SearchHit, indexed: _Indexed) -> _Passage | None:
    """Return the chunk that a hit shows, or None where the note has changed since it was found.

    Several chunks of one long line have the same line numbers; the excerpt's offset tells them apart.
    """
    for chunk, passage in indexed:
        within = all(chunk.start <= start and end <= chunk.end for start, end in hit.ranges)
        if (chunk.first_line, chunk.last_line) == hit.lines and within:
            return passage
    return None


def _resolve(
    cited: Cited, record: EvidenceRecord | None, indexed: Callable[[str], _Indexed]
) -> tuple[Citation, dict[str, str], Reason]:
    """Return a quote, the passages it is compared with (those of the record, then the note's chunks), and the result.

    If a passage contains the quote, return only that one. A quote that goes from one passage to the next is compared
    with their whole section.
    """
    path = files.note_key(cited.path)
    present = [passage for _, passage in indexed(path)]
    passages = [*(_kept_passages(record, path) if record else []), *present]
    if cited.text_hash is not None:
        passages = [p for p in passages if p.text_hash == cited.text_hash][:1]
    elif cited.position is not None:
        passages = [p for p in passages if p.position == cited.position][:1]
    check = check_quote(cited.quote, [p.text for p in passages])
    if check.reason == "not_found" and cited.text_hash is None and cited.position is None:
        sections = whole_sections([chunk for chunk, _ in indexed(path)])
        across = check_quote(cited.quote, sections)
        if across.found_in is not None:
            passages, check = [_section(text, present[0].source_hash) for text in sections], across
    if check.found_in is not None:
        passages = [passages[check.found_in]]
    newest = (passages or present)[-1:]
    texts = {p.text_hash: p.text for p in passages}
    source_hash = newest[0].source_hash if newest else None
    return Citation(path, cited.quote, tuple(texts), source_hash), texts, check.reason


def _section(text: str, source_hash: str | None) -> _Passage:
    return _Passage(text, hashlib.sha256(text.encode()).hexdigest(), None, source_hash)


def _kept_passages(record: EvidenceRecord, path: str) -> list[_Passage]:
    return [
        _Passage(
            text=record.texts[hit.text_hash],
            text_hash=hit.text_hash,
            position=hit.chunk,
            source_hash=hit.source_hash,
        )
        for hit in record.hits
        if hit.path == path and hit.text_hash is not None
    ]


def _hit(hit: SearchHit, passage: _Passage | None) -> EvidenceHit:
    return EvidenceHit(
        domain=hit.domain,
        path=hit.path,
        title=hit.title,
        section=hit.section,
        first_line=hit.lines[0],
        last_line=hit.lines[1],
        excerpt=hit.excerpt,
        score=hit.score,
        chunk=passage.position if passage else None,
        text_hash=passage.text_hash if passage else None,
        source_hash=passage.source_hash if passage else None,
    )
