"""Why a note is among the answers to a question, or is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.retrieval.layers import Source, depth_for
from pipelines.retrieval.restrict import why_not
from pipelines.retrieval.search import Found
from pipelines.store import search as store
from pipelines.store.connection import snapshot


@dataclass(frozen=True, slots=True)
class Standing:
    """How an indexed note stands to a question.

    `found` is what the layers made of it and `place` where it stands among all candidates (from 1), if any retriever
    gave it and its file is there; `left_out` says why the question's operators leave it out. `cosine` and `bm25` are
    of its best passages for each, whether given or not; `nearer` counts the passages of its domain that are nearer in
    meaning.
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
    """Find where a note of this domain stands among all candidates for `k` results. Raises CacheError."""
    cache = source.cache
    with snapshot(cache.con):
        chunks = [chunk.chunk_id for chunk in store.chunks_of(cache, path)]
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
    """Say in words why the note is among the results, of which so many are shown, or is not.

    `result` is its place among them, `before` the note like it that it stands behind, if any.
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
        return f"neither retriever gave it: {by_meaning}, {by_word}; each gives {standing.depth} passages"
    among = f"it is number {standing.place} of {standing.candidates} candidates"
    if result is not None:
        return among
    ranks = standing.found.ranks
    best = min((rank, name) for name, rank in ranks.items())
    last = list(ranks)[-1]
    return (
        f"{among}, and {shown} are shown; "
        f"it stood best in the layer {best[1]!r} (number {best[0]}), and {last!r} decided"
    )
