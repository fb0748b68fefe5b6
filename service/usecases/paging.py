"""A page of the answers: near-duplicates folded, and where the answers end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pipelines.cache.vectors import Vector
from pipelines.errors import CacheError
from pipelines.question import Question
from pipelines.search.find import SentenceVectors, Similarities
from pipelines.search.fusion import Found, NoteHit
from pipelines.search.judgement import JUDGED_TOGETHER, judge
from pipelines.search.near_duplicates import Folded, fold_near_duplicates
from pipelines.search.rank import SHALLOWEST, Source
from pipelines.search.thresholds import Match, best_match, is_noise

_SPARE = 5
_DEEPER = 4
_DEEPEST = 2_000  # passages that each retriever gives


@dataclass(frozen=True, slots=True)
class Ranked:
    """The notes that answer a question, best first, and the domains that were asked.

    `failed` says why a domain could not be asked.
    """

    found: list[Found]
    question: Question
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
            for model, vector in self.question.vectors.items()
            if vector is not None
        }
        return {slug: similar[model] for slug, model in self.models.items() if model in similar}


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a question's results, in order, and the ranking from which they were chosen.

    `more`: others follow on the next page; `match`: the rating of the best of the first ten; `sparse`: fewer notes
    than a page has are above the noise.
    `found`: the notes from which they were chosen, in order; `depth`: how many passages each retriever gave at last.
    `by`: the ranking that found each of `shown` best, where there are several; else empty.
    """

    ranked: Ranked
    shown: list[Folded]
    more: bool
    match: Match | None
    sparse: bool
    found: list[Found]
    depth: int
    by: tuple[Ranked, ...] = ()

    @property
    def answers(self) -> list[Folded]:
        """Return the results that are answers: those that are not rated none."""
        return [one for one in self.shown if one.first.match != "none"]


def page_of(
    rank: Callable[[int, int], Ranked],
    k: int,
    offset: int = 0,
    *,
    folded: bool = True,
) -> Page:
    """Return `k` results after the first `offset`.

    `rank` takes a number of notes and a depth, and ranks at most that many notes by the best passages down to that
    depth. All pages are parts of one list, whatever their size, so that they neither repeat nor leave out a note
    while the index stays as it is. What a shallow ranking gives comes first. Only where that is used up does what a
    deeper one adds follow. The match is that of the folded list in either case.
    """
    end = offset + k
    tens = -(-end // JUDGED_TOGETHER) * JUDGED_TOGETHER
    many, depth = tens + _SPARE, SHALLOWEST
    before: list[Found] = []
    while True:
        ranked = rank(many, depth)
        found = followed_by(before, ranked.found)
        distinct = _folded(found, ranked)
        if len(distinct) > tens:
            break
        if len(ranked.found) == many:
            many *= 2
        elif len(found) > len(before) and depth < _DEEPEST:
            before, depth = found, depth * _DEEPER
        else:
            break
    results = distinct if folded else [Folded(one) for one in found]
    first = distinct[:JUDGED_TOGETHER]
    judged = _judged([*first, *results[offset:end]], ranked)
    match, shown = best_match(one.first.match for one in judged[: len(first)]), judged[len(first) :]
    return Page(ranked, shown, len(results) > end, match, _is_sparse(found, ranked, k), found, depth)


def fused(pages: Sequence[Page], k: int, offset: int) -> Page:
    """Return `k` results, after the first `offset`, of the pages that several phrasings of one question gave.

    A note's score is the mean of its scores, 0 where a phrasing did not find it (CombSUM; Fox and Shaw,
    "Combination of Multiple Searches", TREC-2, 1994). It shows the passage of the phrasing that found it best, with
    its best rating.
    """
    results: dict[tuple[str, str], list[tuple[Folded, Ranked]]] = {}
    for page in pages:
        for one in page.shown:
            results.setdefault(_key(one.first), []).append((one, page.ranked))
    every = [_merged(found, len(pages)) for found in results.values()]
    merged: list[tuple[Folded, Ranked]] = []
    listed: set[tuple[str, str]] = set()
    for one, ranked in sorted(every, key=lambda pair: -pair[0].first.hit.score):
        keys = {_key(one.first), *map(_key, one.alike)}
        if not keys & listed:
            merged.append((one, ranked))
            listed |= keys
    shown = merged[offset : offset + k]
    found = [one.first for one, _ in merged]
    sources = {slug: source for page in pages for slug, source in page.ranked.sources.items()}
    failed = {slug: why for page in pages for slug, why in page.ranked.failed.items()}
    return Page(
        replace(pages[0].ranked, found=found, sources=sources, failed=failed),
        [one for one, _ in shown],
        len(merged) > offset + k,
        best_match(one.first.match for one, _ in merged[:JUDGED_TOGETHER]),
        all(page.sparse for page in pages),
        found,
        pages[0].depth,
        tuple(ranked for _, ranked in shown),
    )


def _merged(found: Sequence[tuple[Folded, Ranked]], phrasings: int) -> tuple[Folded, Ranked]:
    """Return a note as several phrasings found it, and the ranking in which its score is the highest."""
    best, ranked = max(found, key=lambda pair: pair[0].first.hit.score)
    signals: dict[str, float] = {}
    for one, _ in found:
        for name, value in one.first.hit.signals.items():
            signals[name] = signals.get(name, 0.0) + value / phrasings
    hit, match = best.first.hit, best_match(one.first.match for one, _ in found)
    first = replace(best.first, hit=NoteHit(hit.path, hit.chunk_id, signals, hit.scores), match=match)
    return replace(best, first=first), ranked


def _key(one: Found) -> tuple[str, str]:
    return one.domain, one.hit.path


def page_of_list(ranked: Ranked, k: int, offset: int) -> Page:
    """Return `k` notes of a list after the first `offset`: all of them pass, so all are answers, copies too."""
    shown = [Folded(one) for one in ranked.found[offset : offset + k]]
    more = len(ranked.found) > offset + k
    return Page(ranked, shown, more, None, sparse=False, found=ranked.found, depth=0)


def followed_by(before: Sequence[Found], deeper: Sequence[Found]) -> list[Found]:
    """Return the notes of a ranking, followed by what a deeper one adds."""
    known = set(map(_key, before))
    return [*before, *(one for one in deeper if _key(one) not in known)]


def _is_sparse(found: Sequence[Found], ranked: Ranked, k: int) -> bool:
    models = ranked.models
    near = sum(not is_noise(models[one.domain], one.hit.scores.get("cosine")) for one in found)
    # While a model loads no cosine is known.
    return near < k and all(vector is not None for vector in ranked.question.vectors.values())


def _folded(found: Sequence[Found], ranked: Ranked) -> list[Folded]:
    """Fold what was found; where vectors cannot be read, by the texts alone."""
    chunks: dict[str, list[int]] = {}
    for one in found:
        chunks.setdefault(one.domain, []).append(one.hit.chunk_id)
    vectors: dict[tuple[str, int], Vector] = {}
    for slug, ids in chunks.items():
        with suppress(CacheError):
            of = ranked.sources[slug].cache.search.vectors_of_chunks(ids)
            vectors |= {(slug, chunk): vector for chunk, vector in of.items()}
    return fold_near_duplicates(found, ranked.question, ranked.models, vectors)


def _judged(results: Sequence[Folded], ranked: Ranked) -> list[Folded]:
    """Rate results; if a domain is unreadable, they stay unrated."""
    sources = {slug: source for slug, source in ranked.sources.items() if slug not in ranked.failed}
    known = {_key(one.first): one.first for one in results}
    rated = [one for one in known.values() if one.domain in sources]
    matches: dict[tuple[str, str], Match] = {}
    with suppress(CacheError):
        ratings = judge(rated, ranked.question, sources)
        matches = {_key(one): match for one, match in zip(rated, ratings, strict=True)}
    return [replace(one, first=replace(one.first, match=matches.get(_key(one.first)))) for one in results]
