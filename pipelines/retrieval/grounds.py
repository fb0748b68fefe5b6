"""Find support for answers that are not near in meaning: a title, a phrase or a rare word of the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain
from math import isqrt
from operator import add
from pathlib import PurePosixPath

from pipelines import lexical
from pipelines.retrieval.layers import Source
from pipelines.store import passages
from pipelines.store import search as store
from pipelines.store.cache import Cache

_FEW = 3
_ENDINGS = ("ing", "ed", "es", "s")
_SHORTEST_STEM = 3


def with_grounds(
    answers: Mapping[str, Sequence[passages.ChunkRow]], sources: Mapping[str, Source], query: str
) -> dict[str, set[int]]:
    """Return, by domain, the ids of the answers' chunks that the question's own words support. Raises CacheError.

    A word is rare if the number of chunks with it, over all domains asked, is at most three or the square root of the
    number of all chunks.
    """
    alone = {slug: {chunk.chunk_id: [chunk.chunk_id] for chunk in chunks} for slug, chunks in answers.items()}
    grounds = {}
    for slug, (telling, complete) in _words_of(answers, sources, query, alone).items():
        others = sorted(complete - telling)
        grounds[slug] = telling | (_with_title(sources[slug].cache, query, others) if others else set())
    return grounds


def with_words(
    answers: Mapping[str, Sequence[passages.ChunkRow]], sources: Mapping[str, Source], query: str
) -> dict[str, set[int]]:
    """Return what `with_grounds` returns, plus the chunks with all words of the question. Raises CacheError.

    A long section is cut into overlapping windows, which may separate the words of the question. The windows before
    and after a chunk therefore count as part of it.
    """
    windows = {slug: _windows(sources[slug].cache, chunks) for slug, chunks in answers.items()}
    return {
        slug: telling | complete
        for slug, (telling, complete) in _words_of(answers, sources, query, windows).items()
    }


def _windows(cache: Cache, chunks: Sequence[passages.ChunkRow]) -> dict[int, list[int]]:
    """Return, by chunk id, the chunk itself and the chunks before and after it that overlap with it."""
    around = passages.chunks_around(cache, [chunk.chunk_id for chunk in chunks], 1)
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


def _words_of(
    answers: Mapping[str, Sequence[passages.ChunkRow]],
    sources: Mapping[str, Source],
    query: str,
    windows: Mapping[str, Mapping[int, Sequence[int]]],
) -> dict[str, tuple[set[int], set[int]]]:
    """Return, by domain, the chunks supported by a name, phrase or rare word, and those with all words.

    `windows`: by domain and answering chunk, the chunks that have all words if they have them together.
    """
    asked, wanted = _stems(query), lexical.wanted(query)
    named = {
        slug: {chunk.chunk_id for chunk in chunks if _is_named(chunk, asked)}
        for slug, chunks in answers.items()
    }
    if wanted is None:
        return {slug: (own, set()) for slug, own in named.items()}
    phrases = lexical.phrases(query)
    terms = list(dict.fromkeys([*wanted.weights, *phrases]))
    ids = {slug: [*chain.from_iterable(windows.get(slug, {}).values())] for slug in sources}
    found = {
        slug: source.look_up(lexical.Wanted(dict.fromkeys(terms, 1)), ids[slug])
        for slug, source in sources.items()
    }
    over = reduce(add, (one.statistics for one in found.values()))
    most = max(_FEW, isqrt(over.chunks))
    counts = zip(terms, over.having, strict=True)
    telling = {term for term, count in counts if count <= most and term in wanted.weights} | {*phrases}
    words = {}
    for slug, own in named.items():
        having = dict(zip(terms, found[slug].having(ids[slug]), strict=True))
        each = [having[word] for word in wanted.weights]
        complete = {one for one, several in windows[slug].items() if _has_all(several, each)}
        words[slug] = own.union(*(having[term] for term in telling)), complete
    return words


def _has_all(windows: Sequence[int], having: Sequence[set[int]]) -> bool:
    """Say whether the windows together have all words, given by the chunks that have each."""
    return not any(has.isdisjoint(windows) for has in having)


def _with_title(cache: Cache, query: str, chunks: Sequence[int]) -> set[int]:
    """Return the chunks whose note's title or aliases contain all words of the question."""
    wanted = lexical.wanted(query)
    words = " AND ".join(f'"{word}"' for word in wanted.weights) if wanted else ""
    return store.matching_among(cache, f"title : ({words})", chunks)


def _is_named(chunk: passages.ChunkRow, asked: set[str]) -> bool:
    """Say whether the question, given by its stems, contains all words of the note's title or file name."""
    names = (chunk.title, PurePosixPath(chunk.path).stem)
    return any(words and words <= asked for words in map(_stems, names))


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in lexical.telling_words(text)}


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) >= len(ending) + _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word
