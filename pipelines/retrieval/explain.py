"""Why a note is among the answers to a question, or is not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipelines.model import Hit
from pipelines.retrieval.layers import Ranking, Source, depth_for, rank_notes
from pipelines.store import search as store
from pipelines.store.connection import snapshot


@dataclass(frozen=True, slots=True)
class Standing:
    """How an indexed note stands to a question.

    `hit` and `ranks` are what the layers made of it, if any retriever gave it; `cosine` and `bm25` are of its best
    passages for each, whether given or not; `nearer` counts the passages of the domain that are nearer in meaning.
    """

    hit: Hit | None
    ranks: dict[str, int]
    cosine: float | None
    nearer: int | None
    bm25: float | None
    depth: int
    candidates: int


def standing(source: Source, query: str, path: str, k: int, now: datetime) -> Standing:
    """Find where a note of the domain stands when a question is asked for `k` results. Raises CacheError."""
    cache = source.cache
    with snapshot(cache.con):
        ranking: Ranking = rank_notes(source, query, depth_for(k), now)
        chunks = [chunk.chunk_id for chunk in store.chunks_of(cache, path)]
        cosines = store.cosines(cache, source.vector, chunks) if source.vector is not None else {}
        best = max(cosines.values(), default=None)
        nearer = (
            store.passages_nearer(cache, source.vector, best)
            if source.vector is not None and best is not None
            else None
        )
        matches = source.matches(query)(1, chunks)
    return Standing(
        hit=next((hit for hit in ranking.hits if hit.path == path), None),
        ranks=ranking.ranks_of(path),
        cosine=best,
        nearer=nearer,
        bm25=matches[0][1] if matches else None,
        depth=depth_for(k),
        candidates=len(ranking.hits),
    )


def reason(found: Standing, k: int) -> str:
    """Say in words why the note is among the first `k`, or is not."""
    if found.hit is None:
        by_meaning = (
            "no passage of it has a vector yet"
            if found.nearer is None
            else f"its best passage is number {found.nearer + 1} by meaning"
        )
        by_word = "none has a word of the question" if found.bm25 is None else "others match its words better"
        return f"neither retriever gave it: {by_meaning}, {by_word}; each gives {found.depth} passages"
    place = list(found.ranks.values())[-1]
    if place <= k:
        return f"it is number {place} of {found.candidates} candidates"
    best = min((rank, name) for name, rank in found.ranks.items())
    last = list(found.ranks)[-1]
    return (
        f"it is number {place} of {found.candidates} candidates, and {k} are shown; "
        f"it stood best in the layer {best[1]!r} (number {best[0]}), and {last!r} decided"
    )
