"""Turn evidence as it is stored and checked into the schemas of the answers."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.model import Locator
from pipelines.search.quotes import Reason
from pipelines.state.evidence import Citation, EvidenceHit
from service.usecases.schemas.evidence import RecordHit, Source, VerifiedQuote
from service.usecases.schemas.locator import place_of


def shown_hit(
    hit: EvidenceHit, texts: Mapping[str, str], source: Source, place: Locator | None = None
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
