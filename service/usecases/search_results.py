"""Turn the results of retrieval into the schemas of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pipelines.errors import CacheError
from pipelines.filters import Filters
from pipelines.search.excerpts import Excerpt
from pipelines.search.explain import Standing, nothing_left, reason
from pipelines.search.fusion import Hit
from pipelines.search.near_duplicates import Folded
from pipelines.search.rank import Source
from pipelines.search.spelling import corrected
from service.usecases.nearest_values import unknown_values
from service.usecases.paging import Ranked
from service.usecases.schemas.locator import place_of
from service.usecases.schemas.search import AlikeNote, Explanation, Layer, SearchHit
from workers.resources import Resources

_DIGITS = 6
_COSINE_DIGITS = 4
_SCORES = {
    "meaning": "cosine",
    "words": "bm25",
    "fused": "fused",
    "symbols": "symbols",
    "filenames": "filenames",
    "imported": "imported",
    "decayed": "decayed",
    "attended": "attended",
    "reranked": "reranked",
    "called": "called",
    "named": "titled",
    "merged": "merged",
}
_PARTS = {
    "symbols": ("symbol",),
    "imported": ("references",),
    "decayed": ("decay",),
    "attended": ("attention",),
    "reranked": ("value", "pagerank", "centrality", "votes", "recency"),
    "called": ("name_share",),
    "named": ("named", "defined"),
}


def search_hit(folded: Folded, shown: Excerpt, chosen_by_meaning: bool, *, explain: bool) -> SearchHit:  # noqa: FBT001
    """Return an answer's note with those that are like it, and with its layers if they were asked for."""
    found = folded.first
    chunk = found.chunk
    return SearchHit(
        path=chunk.path,
        title=chunk.title,
        section=chunk.section,
        excerpt=shown.text,
        marks=list(shown.marks),
        ranges=[]
        if chunk.is_names_alone
        else [(chunk.start + s, chunk.start + e) for s, e in shown.sentences],
        score=score_of(found.hit),
        match=found.match,
        similarity=similarity_of(found.hit),
        lines=(chunk.first_line, chunk.last_line),
        place=place_of(chunk.place),
        modified=chunk.modified,
        published=chunk.published,
        stale=found.stale,
        domain=found.domain,
        excerpt_by="meaning" if chosen_by_meaning else "words",
        signals=signals_of(found.hit) if explain else None,
        layers=layers_of(found.hit, found.ranks) if explain else None,
        alike=[
            AlikeNote(
                path=one.chunk.path,
                title=one.chunk.title,
                domain=one.domain,
                score=round(one.hit.score, _DIGITS),
            )
            for one in folded.alike
        ],
    )


def score_of(hit: Hit) -> float:
    """Return a hit's score as it is shown."""
    return round(hit.score, _DIGITS)


def similarity_of(hit: Hit) -> float | None:
    """Return the cosine of a hit's passage and the question as it is shown; None while it is unknown."""
    cosine = hit.scores.get("cosine")
    return None if cosine is None else round(cosine, _COSINE_DIGITS)


def signals_of(hit: Hit) -> dict[str, float]:
    """Return what each signal adds to a hit's score: rounded, the largest one so that the sum is the shown score.

    A signal that adds nothing is left out.
    """
    shown = {name: round(value, _DIGITS) for name, value in hit.signals.items()}
    if shown:
        largest = max(shown, key=lambda name: abs(shown[name]))
        others = sum(value for name, value in shown.items() if name != largest)
        shown[largest] = round(score_of(hit) - others, _DIGITS)
    return {name: value for name, value in shown.items() if value}


def layers_of(hit: Hit, ranks: Mapping[str, int]) -> list[Layer]:
    """Return a hit's rank and score in each layer, in order."""
    return [
        Layer(
            layer=name,
            rank=rank,
            score=round(hit.scores.get(_SCORES[name], 0.0), 6),
            parts={part: round(hit.scores[part], 6) for part in _PARTS.get(name, ()) if part in hit.scores},
        )
        for name, rank in ranks.items()
    ]


def explanation(
    path: str, domain: str, state: str, standing: Standing, shown: Sequence[Folded], gone: str | None
) -> Explanation:
    """Return why a note is among the results of a search, or is not."""
    found = standing.found
    place, before = _place(path, shown)
    return Explanation(
        path=path,
        domain=domain,
        state=state,
        result=place if before is None else None,
        score=score_of(found.hit) if found else None,
        signals=signals_of(found.hit) if found else {},
        layers=layers_of(found.hit, found.ranks) if found else [],
        passages_nearer=standing.nearer,
        cosine=standing.cosine,
        bm25=standing.bm25,
        depth=standing.depth,
        reason=gone or reason(standing, len(shown), place, before),
    )


def _place(path: str, shown: Sequence[Folded]) -> tuple[int | None, str | None]:
    """Return a note's place among the results (from 1), and the note that it is folded behind, if it is."""
    for place, one in enumerate(shown, start=1):
        if one.first.hit.path == path:
            return place, None
        if path in [other.hit.path for other in one.alike]:
            return place, one.first.hit.path
    return None, None


def why_nothing(ranked: Ranked, query: str, filters: Filters) -> str | None:
    """Say why a question's quotes, minus signs and filters leave no note in the domains that answered."""
    answered = _answered(ranked)
    # The ranking read the same tables; if they break only now, there is no certain reason.
    with suppress(CacheError):
        unknown = unknown_values([(source.cache, source.hidden) for source in answered], filters)
        return "; ".join(unknown) or nothing_left(answered, query, filtered=filters != Filters())
    return None


def meant_by(ranked: Ranked, query: str, resources: Resources) -> str | None:
    """Return the question with its misspelt words corrected by the domains that answered.

    None if there are none, or if no model is loaded that knows how words are spelled.
    """
    loaded = [model for model, vector in ranked.vectors.items() if vector is not None]
    with suppress(CacheError):
        return (
            corrected(_answered(ranked), query, resources.embedders.get(loaded[0]).count_tokens)
            if loaded
            else None
        )
    return None


def _answered(ranked: Ranked) -> list[Source]:
    return [source for slug, source in ranked.sources.items() if slug not in ranked.failed]


def unindexed(known: Mapping[str, Any], path: str, depth: int) -> Explanation:
    """Return the explanation of a path that no index has; `known` is what `why` says of it."""
    return Explanation(
        path=path,
        domain=known["domain"],
        state=known["state"],
        result=None,
        score=None,
        signals={},
        layers=[],
        passages_nearer=None,
        cosine=None,
        bm25=None,
        depth=depth,
        reason=f"it is not indexed: {known['reason']}",
    )
