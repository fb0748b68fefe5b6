"""Explain why a note is among the answers to a question, or is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.retrieval.layers import Source, depth_for
from pipelines.retrieval.restrict import why_not
from pipelines.retrieval.search import Found
from pipelines.store import passages
from pipelines.store import search as store
from pipelines.store.connection import snapshot


@dataclass(frozen=True, slots=True)
class Standing:
    """How an indexed note relates to a question.

    `found` is the layers' result and `place` its position among all candidates (from 1), if a retriever returned it
    and its file exists; `left_out` says why the question's operators exclude it. `cosine` and `bm25` are those of its
    best passage for each, whether a retriever returned it or not; `nearer` counts the passages of its domain that are
    nearer in meaning.
    """

    found: Found | None
    place: int | None
    cosine: float | None
    nearer: int | None
    bm25: float | None
    depth: int
    candidates: int
    left_out: str | None = None


def standing(source: Source, query: str, path: str, k: int, found: Sequence[Found]) -> Standing:
    """Find the place of a note of this domain among all candidates for `k` results. Raises CacheError."""
    cache = source.cache
    with snapshot(cache.con):
        chunks = [chunk.chunk_id for chunk in passages.chunks_of(cache, path)]
        cosines = store.cosines(cache, source.vector, chunks) if source.vector is not None else {}
        best = max(cosines.values(), default=None)
        nearer = (
            store.passages_nearer(cache, source.vector, best)
            if source.vector is not None and best is not None
            else None
        )
        matches = source.matches(query)(1, chunks)
        left_out = why_not(cache, query, path)
    place = next((place for place, one in enumerate(found, start=1) if one.hit.path == path), None)
    return Standing(
        found=found[place - 1] if place else None,
        place=place,
        cosine=best,
        nearer=nearer,
        bm25=matches[0][1] if matches else None,
        depth=depth_for(k),
        candidates=len(found),
        left_out=left_out,
    )


def reason(standing: Standing, shown: int, result: int | None, before: str | None) -> str:
    """Say why the note is or is not among the results, of which `shown` are shown.

    `result` is its place among them, `before` the similar note that it is folded behind, if any.
    """
    if before is not None:
        return f"it is folded behind {before}, result {result}, whose best passage says the same"
    if standing.found is None and standing.left_out:
        return standing.left_out
    if standing.found is None or standing.place is None:
        by_meaning = (
            "no passage of it has a vector yet"
            if standing.nearer is None
            else f"its best passage is number {standing.nearer + 1} by meaning"
        )
        by_word = (
            "none has a word of the question" if standing.bm25 is None else "others match its words better"
        )
        return (
            f"neither retriever returned it: {by_meaning}, {by_word}; each returns {standing.depth} passages"
        )
    among = f"it is number {standing.place} of {standing.candidates} candidates"
    if result is not None:
        return among
    ranks = standing.found.ranks
    best = min((rank, name) for name, rank in ranks.items())
    last = list(ranks)[-1]
    return (
        f"{among}, and {shown} are shown; "
        f"its best layer was {best[1]!r} (number {best[0]}), and {last!r} decided"
    )
