"""What retrieval found, in the shapes of the query worker's answers."""

from __future__ import annotations

from pipelines.model import Hit
from pipelines.retrieval.excerpts import Excerpt
from pipelines.retrieval.explain import Standing, reason
from pipelines.retrieval.search import Found
from service.answers import Explanation, Layer, SearchHit

_SCORES = {
    "vector": "cosine",
    "lexical": "bm25",
    "fused": "fused",
    "decayed": "decayed",
    "reranked": "reranked",
}
_PARTS = {"decayed": ("decay",), "reranked": ("value", "pagerank", "centrality", "recency")}


def search_hit(found: Found, shown: Excerpt, chosen_by_meaning: bool, *, explain: bool) -> SearchHit:  # noqa: FBT001
    """Return an answer's note, with its layers if they were asked for."""
    chunk = found.chunk
    return SearchHit(
        path=chunk.path,
        title=chunk.title,
        section=chunk.section,
        excerpt=shown.text,
        marks=list(shown.marks),
        ranges=[(chunk.start + start, chunk.start + end) for start, end in shown.sentences],
        score=round(found.hit.score, 6),
        lines=(chunk.first_line, chunk.last_line),
        modified=chunk.modified,
        stale=found.stale,
        domain=found.domain,
        excerpt_by="meaning" if chosen_by_meaning else "words",
        layers=layers_of(found.hit, dict(found.ranks)) if explain else None,
    )


def layers_of(hit: Hit, ranks: dict[str, int]) -> list[Layer]:
    """Return what each layer made of a hit, in order."""
    return [
        Layer(
            layer=name,
            rank=rank,
            score=round(hit.scores.get(_SCORES[name], 0.0), 6),
            parts={part: round(hit.scores[part], 6) for part in _PARTS.get(name, ()) if part in hit.scores},
        )
        for name, rank in ranks.items()
    ]


def explanation(path: str, domain: str, state: str, found: Standing, k: int) -> Explanation:
    """Return why a note is among the answers, or is not."""
    place = list(found.ranks.values())[-1] if found.hit else None
    return Explanation(
        path=path,
        domain=domain,
        state=state,
        result=place if place is not None and place <= k else None,
        layers=layers_of(found.hit, found.ranks) if found.hit else [],
        passages_nearer=found.nearer,
        cosine=found.cosine,
        bm25=found.bm25,
        depth=found.depth,
        reason=reason(found, k),
    )
