"""A page of the answers: near-duplicates folded, and where the answers end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pipelines.errors import CacheError
from pipelines.retrieval.alike import Folded, fold
from pipelines.retrieval.cut_off import JUDGED_TOGETHER, cut_off
from pipelines.retrieval.layers import SHALLOWEST, Source
from pipelines.retrieval.search import Found, Similarities
from pipelines.retrieval.sentences import SentenceVectors
from pipelines.retrieval.thresholds import Match, best_match, is_noise
from pipelines.store.cache import Vector
from pipelines.store.search import vectors_of_chunks

_SPARE = 5
_DEEPER = 4
_DEEPEST = 2_000  # passages that each retriever gives


@dataclass(frozen=True, slots=True)
class Ranked:
    """The notes that answer a question, best first, and by what: its vector by model, and the domains asked.

    `failed` says why a domain could not be asked.
    """

    found: list[Found]
    vectors: Mapping[str, Vector | None]
    sources: Mapping[str, Source]
    failed: Mapping[str, str]

    @property
    def models(self) -> dict[str, str]:
        """Return the model of each domain."""
        return {slug: source.cache.meta.model for slug, source in self.sources.items()}

    def similarities(self, sentences: Mapping[str, SentenceVectors]) -> dict[str, Similarities]:
        """Return what chooses the sentences of each domain's excerpts, where its model is loaded."""
        similar = {
            model: sentences[model].similarities(vector)
            for model, vector in self.vectors.items()
            if vector is not None
        }
        return {slug: similar[model] for slug, model in self.models.items() if model in similar}


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a question's results, in order, and the ranking from which they were chosen.

    `answers`: how many of them come up to the last answer; `more`: others follow on the next page;
    `match`: how near the best of the first ten is; `sparse`: fewer notes than a page has are above the noise.
    `found`: the notes from which they were chosen, in order; `depth`: how many passages each retriever gave at last.
    """

    ranked: Ranked
    shown: list[Folded]
    answers: int
    more: bool
    match: Match | None
    sparse: bool
    found: list[Found]
    depth: int


def page_of(
    rank: Callable[[int, int], Ranked],
    query: str,
    k: int,
    offset: int = 0,
    *,
    folded: bool = True,
) -> Page:
    """Return `k` results after the first `offset`.

    `rank` takes a number of notes and a depth, and ranks at most that many notes by the best passages down to that
    depth. All pages are parts of one list, whatever their size, so that they neither repeat nor leave out a note
    while the index stays as it is. What a shallow ranking gives comes first. Only where that is used up does what a
    deeper one adds follow. Whole tens are ranked and judged, so that which notes are answers does not depend on `k`.
    The match is that of the folded list in either case.
    """
    end = offset + k
    tens = -(-end // JUDGED_TOGETHER) * JUDGED_TOGETHER
    many, depth = tens + _SPARE, SHALLOWEST
    before: list[Found] = []
    while True:
        ranked = rank(many, depth)
        found = followed_by(before, ranked.found)
        distinct = _folded(found, ranked, query)
        if len(distinct) > tens:
            break
        if len(ranked.found) == many:
            many *= 2
        elif len(found) > len(before) and depth < _DEEPEST:
            before, depth = found, depth * _DEEPER
        else:
            break
    match = best_match(one.first.match for one in distinct[:JUDGED_TOGETHER])
    results = distinct if folded else [Folded(one) for one in found]
    shown = results[offset:end]
    last = _last_answer([one.first for one in results[:tens]], match, ranked.sources, query)
    answers = max(0, min(last, end) - offset)
    return Page(ranked, shown, answers, len(results) > end, match, _is_sparse(found, ranked, k), found, depth)


def page_of_list(ranked: Ranked, k: int, offset: int) -> Page:
    """Return `k` notes of a list after the first `offset`: all of them pass, so all are answers, copies too."""
    shown = [Folded(one) for one in ranked.found[offset : offset + k]]
    more = len(ranked.found) > offset + k
    return Page(ranked, shown, len(shown), more, None, sparse=False, found=ranked.found, depth=0)


def followed_by(before: Sequence[Found], deeper: Sequence[Found]) -> list[Found]:
    """Return the notes of a ranking, followed by what a deeper one adds."""
    known = {(one.domain, one.hit.path) for one in before}
    return [*before, *(one for one in deeper if (one.domain, one.hit.path) not in known)]


def _is_sparse(found: Sequence[Found], ranked: Ranked, k: int) -> bool:
    models = ranked.models
    near = sum(not is_noise(models[one.domain], one.hit.scores.get("cosine")) for one in found)
    # While a model loads no cosine is known.
    return near < k and all(vector is not None for vector in ranked.vectors.values())


def _folded(found: Sequence[Found], ranked: Ranked, query: str) -> list[Folded]:
    """Fold what was found; where vectors cannot be read, by the texts alone."""
    chunks: dict[str, list[int]] = {}
    for one in found:
        chunks.setdefault(one.domain, []).append(one.hit.chunk_id)
    vectors: dict[tuple[str, int], Vector] = {}
    for slug, ids in chunks.items():
        with suppress(CacheError):
            of = vectors_of_chunks(ranked.sources[slug].cache, ids)
            vectors |= {(slug, chunk): vector for chunk, vector in of.items()}
    return fold(found, query, ranked.models, vectors)


def _last_answer(
    results: Sequence[Found], match: Match | None, sources: Mapping[str, Source], query: str
) -> int:
    """Return the position of the last result that is an answer, or of the last result if a domain is unreadable."""
    try:
        return cut_off(results, match, sources, query)
    except CacheError:
        return len(results)
