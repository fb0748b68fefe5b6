"""Explain why a note is among the answers to a question or is not, and why no note is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pipelines.filters import NO_FILTERS
from pipelines.question import Question, Signs
from pipelines.search.fusion import Found
from pipelines.search.operators import notes_left_out, notes_with_any, quoted, quoted_each, why_not
from pipelines.search.rank import Source


@dataclass(frozen=True, slots=True)
class Standing:
    """How an indexed note relates to a question.

    `found` is the layers' result and `place` its position among all candidates (from 1), if a retriever returned it
    and its file exists; `left_out` says why the question's signs exclude it. `cosine` and `bm25` are those of its
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


def standing(source: Source, question: Question, path: str, depth: int, found: Sequence[Found]) -> Standing:
    """Find the place of a note of this domain among all candidates, from `depth` passages per retriever.

    Raises CacheError.
    """
    cache = source.cache
    with cache.snapshot():
        chunks = [chunk.chunk_id for chunk in cache.passages.chunks_of(path)]
        cosines = cache.search.cosines(source.vector, chunks) if source.vector is not None else {}
        best = max(cosines.values(), default=None)
        nearer = (
            cache.search.passages_nearer(source.vector, best, source.only)
            if source.vector is not None and best is not None
            else None
        )
        matches = source.matches(question)(1, chunks)
        left_out = why_not(cache, question, path)
    place = next((place for place, one in enumerate(found, start=1) if one.hit.path == path), None)
    return Standing(
        found=found[place - 1] if place else None,
        place=place,
        cosine=best,
        nearer=nearer,
        bm25=matches[0][1] if matches else None,
        depth=depth,
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
    if not ranks:
        return f"{among}, the newest first, and {shown} are shown"
    best = min((rank, name) for name, rank in ranks.items())
    last = list(ranks)[-1]
    return (
        f"{among}, and {shown} are shown; "
        f"its best layer was {best[1]!r} (number {best[0]}), and {last!r} decided"
    )


def nothing_left(sources: Sequence[Source], question: Question) -> str | None:
    """Say why a question's quotes, minus signs and filters leave no note; None if they are not the reason.

    Raises CacheError.
    """
    signs, filtered = question.signs, question.filters != NO_FILTERS
    passing = set[str]().union(*map(_notes_of, sources)) if filtered or signs else set[str]()
    if filtered and not passing:
        return "no note passes the filters"
    if not signs or any(source.is_name(question) for source in sources):
        return None  # signs in a note's name are none
    if not (signs.asks or filtered):
        return "the question says only what to leave out; also say what to look for"
    if not passing:
        return None
    having = {phrases: passing & _any_with(sources, phrases) for phrases in signs.required}
    unwanted = set[str]().union(*(notes_left_out(source.cache, signs) for source in sources))
    if passing.intersection(*having.values()) - unwanted:
        return None
    return _fault(signs, having, " that passes the filters" if filtered else "")


def _fault(signs: Signs, having: Mapping[tuple[str, ...], set[str]], which: str) -> str:
    """Say which of the signs that leave no note do so. `having`: the notes `which` have each required phrase."""
    if lacking := list(chain(*(phrases for phrases, paths in having.items() if not paths))):
        without = "without the quotes, notes about its words are found"
        return f"no note{which} has the phrase {quoted(lacking, 'or')}; {without}"
    if having and not set.intersection(*having.values()):
        return f"no note{which} has all of the phrases {quoted_each(signs.required)}"
    unwanted = (
        f"{quoted((*signs.unwanted_words, *signs.unwanted_phrases), 'or')}, which the question leaves out"
    )
    if not having:
        return f"every note{which} has {unwanted}"
    kept = f"{which} and has" if which else " that has"
    return f"every note{kept} {quoted_each(signs.required)} also has {unwanted}"


def _notes_of(source: Source) -> set[str]:
    """Return the paths of the notes that may be found in a domain by more than their name."""
    return source.cache.search.notes_of(source.only).difference(source.domain.configuration)


def _any_with(sources: Sequence[Source], phrases: Sequence[str]) -> set[str]:
    return set[str]().union(*(notes_with_any(source.cache, phrases) for source in sources))
