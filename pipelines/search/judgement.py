"""Rate each hit of a question strong, weak or none, from all that is known about it.

`match`, `answers` and `is_answer` are this rating at every door. docs/notes/quality.md, "Is it an answer", has the
measurements behind the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from math import log, log1p
from operator import add

from pipelines.cache.passages import ChunkRow
from pipelines.language import Language, language_of
from pipelines.notes.lexical import LexicalQuery
from pipelines.question import Question
from pipelines.search.bm25 import Statistics
from pipelines.search.fusion import Found
from pipelines.search.rank import Source
from pipelines.search.thresholds import Match, thresholds_of
from pipelines.search.vectors import nearest_pieces
from pipelines.store import Cache

JUDGED_TOGETHER = 10
"""Number of hits, from the top, whose best rating is the match of an answer, whatever number is requested."""

WEAK, STRONG = 1.0, 2.0
"""The least evidence of a hit that is a weak or a strong match."""

_AMONG = 0.7
"""The least evidence of a weak match where another hit is one: a vault that answers is likely to do so twice."""

_UNKNOWN = 0.54
"""The nearness of a hit whose cosine says nothing: no vector, or a model or language that was not measured."""

_FOREIGN = 0.64
"""The nearness at the noise of a language that the model separates badly."""

_CERTAIN = 0.999


@dataclass(frozen=True, slots=True)
class _WordMatch:
    """What a passage has of a question's words: their share, weighted by rarity, and whether it has the phrase."""

    share: float
    is_phrase: bool


def judge(found: Sequence[Found], question: Question, sources: Mapping[str, Source]) -> list[Match]:
    """Rate the notes that a question to these domains found, in their order. Raises CacheError.

    The evidence for a hit is its nearness plus `s ln(1 + n)`, where s is the share of the question's n words that
    its passage has, each weighted by its inverse document frequency over all domains asked, so that a word that no
    note has weighs most. The nearness is 0 at the model's weak cosine and 1 at its strong one. A hit that the
    question names, or that has the whole question as a phrase (or a quoted one, if there is nothing else), is strong;
    one with all of its words is not none. If any of the first ten hits is a match, less evidence makes others weak.
    """
    by_domain: dict[str, list[Found]] = {}
    for one in found:
        by_domain.setdefault(one.domain, []).append(one)
    terms, words = question.content, _words(by_domain, sources, question)
    nearness = {slug: _nearness(own, sources[slug], question.language) for slug, own in by_domain.items()}
    evidence = []
    for one in found:
        slug, chunk = one.domain, one.hit.chunk_id
        own = words[slug, chunk]
        is_certain = one.hit.is_named or own.is_phrase
        value = nearness[slug][chunk] + own.share * log1p(len(terms))
        evidence.append(STRONG if is_certain else max(value, WEAK if own.share > _CERTAIN else value))
    weak = _AMONG if max(evidence[:JUDGED_TOGETHER], default=0.0) >= WEAK else WEAK
    return ["strong" if value >= STRONG else "weak" if value >= weak else "none" for value in evidence]


def _nearness(found: Sequence[Found], source: Source, language: Language | None) -> dict[int, float]:
    """Return how near each hit's passage, or its best sentence, is to the question: 0 is weak, 1 is strong."""
    bars = thresholds_of(source.cache.meta.model)
    cosines = {one.hit.chunk_id: one.hit.scores["cosine"] for one in found if "cosine" in one.hit.scores}
    nearness = {one.hit.chunk_id: _UNKNOWN for one in found}
    if source.vector is None or not bars.calibrated:
        return nearness
    best = nearest_pieces(cosines, source.cache.passages.quantized_of_chunks(list(cosines)), source.vector)
    for one in found:
        chunk, own = one.hit.chunk_id, language_of(one.chunk.text)
        spoken = language or own or "en"
        if chunk not in cosines:
            continue
        piece = best.get(chunk, cosines[chunk])
        level = bars.level(spoken, own or spoken)
        if level is not None:
            cosine = max(cosines[chunk], piece - bars.sentence) - level
            nearness[chunk] = (cosine - bars.weak) / (bars.strong - bars.weak)
        elif own in (None, spoken) and spoken in bars.foreign:
            nearness[chunk] = _FOREIGN + piece - bars.foreign[spoken]
    return nearness


def _words(
    by_domain: Mapping[str, Sequence[Found]],
    sources: Mapping[str, Source],
    question: Question,
) -> dict[tuple[str, int], _WordMatch]:
    """Return what each hit has of the question's weighted terms and of its phrases, by domain and passage.

    A long section is cut into overlapping windows, which may separate the words of the question. The windows before
    and after a passage therefore count as part of it.
    """
    terms, phrases = question.content, question.whole_phrases
    windows = {
        slug: _windows(sources[slug].cache, [one.chunk for one in own]) for slug, own in by_domain.items()
    }
    ids = {slug: [*chain.from_iterable(own.values())] for slug, own in windows.items()}
    wanted = LexicalQuery(dict.fromkeys(terms, 1))
    lookups = {slug: source.look_up(wanted, ids.get(slug, ())) for slug, source in sources.items()}
    idfs = _idfs(reduce(add, (one.statistics for one in lookups.values()))) if lookups else []
    worths = [terms[term] * idf for term, idf in zip(terms, idfs, strict=False)]
    evidence = {}
    for slug, own in windows.items():
        having = lookups[slug].having(ids[slug])
        known = dict(zip(terms, having, strict=True))
        said = [_saying(sources[slug].cache, phrase, ids[slug], known) for phrase in phrases]
        for chunk, around in own.items():
            had = sum(worth for worth, has in zip(worths, having, strict=False) if not has.isdisjoint(around))
            is_phrase = any(not chunks.isdisjoint(around) for chunks in said)
            evidence[slug, chunk] = _WordMatch(had / sum(worths) if worths else 0.0, is_phrase)
    return evidence


def _saying(cache: Cache, phrase: str, ids: Sequence[int], having: Mapping[str, set[int]]) -> set[int]:
    """Return which of these chunks contain a phrase; `having` says which have some of its words."""
    words = [having[word] for word in phrase.split() if word in having]
    # Not a list of the whole index, as of a word: no other question has the phrase, and FTS5 takes milliseconds.
    chosen = [chunk for chunk in ids if all(chunk in chunks for chunks in words)]
    return {chunk for chunk, _ in cache.search.occurrences_in(phrase, chosen)} if chosen else set()


def _idfs(over: Statistics) -> list[float]:
    """Return the inverse document frequency of each word, above 0 for any. Robertson and Zaragoza, 2009."""
    return [log(1 + (over.chunks - count + 0.5) / (count + 0.5)) for count in over.having]


def _windows(cache: Cache, chunks: Sequence[ChunkRow]) -> dict[int, list[int]]:
    """Return, by chunk id, the chunk itself and the chunks before and after it that overlap with it."""
    around = cache.passages.chunks_around([chunk.chunk_id for chunk in chunks], 1)
    return {
        chunk.chunk_id: [
            chunk.chunk_id,
            *(
                other.chunk_id
                for other in around.get(chunk.path, ())
                if other.chunk_id != chunk.chunk_id and other.start < chunk.end and chunk.start < other.end
            ),
        ]
        for chunk in chunks
    }
