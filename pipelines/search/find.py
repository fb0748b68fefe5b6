"""Answer a question from one or more domains: rank the notes, check the disk, merge, cut excerpts."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipelines.cache.passages import ChunkRow, Quantized
from pipelines.cache.vectors import Vector
from pipelines.errors import BadVectorError, CacheError, ModelUnavailableError
from pipelines.question import Question
from pipelines.search.domains import FederatedSearch, Placed, cosines_of, newest
from pipelines.search.excerpts import (
    Excerpt,
    Sentence,
    excerpt,
    read_passage,
    split_sentences,
    whole_sentences,
)
from pipelines.search.fusion import Found, SecondOpinion, stage
from pipelines.search.rank import Source, depth_for
from pipelines.search.vectors import quantize
from pipelines.store import Cache
from pipelines.vault import files as vault

_BEYOND = 400  # characters before and after a passage, for the sentences that it cuts off
_Stat = tuple[str, int, int, bool]
Similarities = Callable[[Sequence[str], Quantized | None], Sequence[float] | None]
"""Return sentences' similarities to the question, by their vectors if prepared; None if it would take too long."""


def find(
    sources: Sequence[Source],
    question: Question,
    k: int,
    *,
    root: Path,
    present: bool,
    now: datetime,
    depth: int | None = None,
) -> tuple[list[Found], dict[str, CacheError]]:
    """Return the `k` best notes of some domains for a question, and the error of each domain that failed.

    `depth`: how many passages each retriever returns, if not what `k` needs. A note whose file is gone is left out.
    While the vault is unavailable (`present` false), nothing can be checked: no hit is left out or called stale.
    """
    asked = FederatedSearch(sources)
    return _first(asked, lambda: asked.rank(question, depth or depth_for(k), now), k, root, present=present)


def find_newest(
    sources: Sequence[Source], question: Question, k: int, *, root: Path, present: bool
) -> tuple[list[Found], dict[str, CacheError]]:
    """Return the `k` newest notes that pass what a question has besides words, as `find` does the best."""
    asked = FederatedSearch(sources)
    return _first(asked, lambda: newest(asked, question), k, root, present=present)


def _first(
    asked: FederatedSearch, order: Callable[[], Sequence[Placed]], k: int, root: Path, *, present: bool
) -> tuple[list[Found], dict[str, CacheError]]:
    kept: list[tuple[Placed, bool | None]]
    with asked.snapshots():
        ranked = order()
        if present:
            files = asked.each(lambda s: s.cache.ledger.stat_of(_paths_of(s, ranked)))
            kept = [*islice(_on_disk(ranked, files, root), k)]
        else:
            kept = [(one, None) for one in ranked[:k]]
        chunks = asked.each(lambda s: _chunks_of(s, [one for one, _ in kept]))
    found = []
    for one, stale in kept:
        slug, chunk_id = one.source.domain.slug, one.hit.chunk_id
        rows, around, quantized, cosines = chunks.get(slug, ({}, {}, {}, {}))
        if row := rows.get(chunk_id):
            own, hit = quantized.get(chunk_id), one.hit.after({}, cosine=cosines.get(chunk_id))
            found.append(Found(slug, hit, row, one.ranks, stale, own, around=around[chunk_id]))
    return found, asked.failed


def _paths_of(source: Source, ranked: Sequence[Placed]) -> list[str]:
    return [one.hit.path for one in ranked if one.source is source]


def _chunks_of(
    source: Source, kept: Sequence[Placed]
) -> tuple[dict[int, ChunkRow], dict[int, tuple[str, str]], dict[int, Quantized], dict[int, float]]:
    hits, cache = [one.hit for one in kept if one.source is source], source.cache
    ids = [hit.chunk_id for hit in hits]
    return (
        cache.passages.chunk_rows(ids),
        cache.passages.text_around(ids, _BEYOND),
        cache.passages.quantized_of_chunks(ids),
        cosines_of(source, hits),
    )


@stage("excerpts")
def excerpts(
    found: Sequence[Found], question: Question, similarities: Mapping[str, Similarities]
) -> list[tuple[Excerpt, bool]]:
    """Cut each answer's excerpt, by its domain's similarities; also return whether these chose the sentences."""
    cut = []
    for one in found:
        sentences = split_sentences(one.chunk.text)
        similar = (
            similarities[one.domain]([s.text for s in sentences], one.sentences)
            if one.domain in similarities
            else None
        )
        cut.append((_excerpt_of(one, sentences, question.marked, similar), similar is not None))
    return cut


def _excerpt_of(
    one: Found, sentences: Sequence[Sentence], terms: Sequence[str], similar: Sequence[float] | None
) -> Excerpt:
    """Cut the excerpt of a hit's passage; its ranges are in the passage."""
    own, (before, after) = one.chunk.text, one.around
    text, at = before + own + after, len(before)
    whole = whole_sentences(text, at, sentences) if before or after else sentences
    shown = excerpt(read_passage(one.hit.path, text), whole, terms, similar)
    ranges = tuple((max(start - at, 0), min(end - at, len(own))) for start, end in shown.sentences)
    if shown.text:
        return replace(shown, sentences=ranges)
    # A name may look like Markdown; and a passage of nothing but embeds is shown as it is written.
    written = " ".join(" ".join(own[start:end] for start, end in ranges).split())
    return Excerpt(one.chunk.title if one.chunk.is_names_alone else written[:_BEYOND], (), ranges)


def _on_disk(
    ranked: Sequence[Placed], files: Mapping[str, Mapping[str, _Stat]], root: Path
) -> Iterator[tuple[Placed, bool]]:
    """Yield each hit whose file exists, and whether the file changed since it was indexed: one `stat` per note."""
    for one in ranked:
        known = files.get(one.source.domain.slug, {}).get(one.hit.path)
        if known is not None:
            raw, size, mtime_ns, dirty = known
            file = vault.look(root, raw)
            if file is not None:
                yield one, dirty or (file.size, file.mtime_ns) != (size, mtime_ns)


# The vectors of sentences: prepared after indexing, or computed within a question's time budget.


BUDGET_SECONDS = 0.03
"""Time budget for encoding one answer's sentences; past it, excerpts are chosen by matching words."""
_KEPT = 20_000
# About thirty sentences: the longest that a save has to wait.
_TEXTS_AT_ONCE = 4
_TEXTS_AHEAD = 256

Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""Return one unit vector per text, with the prefix of questions: shape (len(texts), dimension)."""


def prepare(cache: Cache, encode: Encode, enough: Callable[[], bool]) -> int:
    """Encode and store the sentences of texts that have none yet, until `enough`; return how many sentences."""
    done = 0
    passages = cache.passages  # once: a cache in PostgreSQL first takes in all changes, each time
    for texts in _until_enough(passages.pending_sentences, enough):
        split = {text_hash: [s.text for s in split_sentences(text)] for text_hash, text in texts.items()}
        # Store an empty result for a text whose sentences have no vectors, so that it is not retried for ever.
        quantized = {text_hash: np.empty((0, cache.meta.dimension), np.int8) for text_hash in texts}
        sentences = list(dict.fromkeys(s for several in split.values() for s in several))
        with suppress(BadVectorError):
            of = dict(zip(sentences, quantize(encode(sentences))[0], strict=True))
            quantized |= {
                text_hash: np.array([of[s] for s in several]) for text_hash, several in split.items()
            }
        passages.keep_quantized(quantized)
        done += len(sentences)
    return done


def _until_enough(
    pending: Callable[[int], dict[str, str]], enough: Callable[[], bool]
) -> Iterator[dict[str, str]]:
    """Yield pending texts, a few at a time, until `enough`.

    They are read ahead, because a query passes over all entries of its index that are done and not yet vacuumed.
    """
    while texts := list(pending(_TEXTS_AHEAD).items()):
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            yield dict(texts[start : start + _TEXTS_AT_ONCE])
            if enough():
                return


# A second model ranks the best notes again: by vectors of passages, prepared likewise, or by reading both together.


_SECOND_DEPTH, _PAIRS_DEPTH = 50, 20


def prepare_second(cache: Cache, model: str, encode: Encode, enough: Callable[[], bool]) -> int:
    """Encode texts that wait for the second model as passages, and store that, until `enough`; return how many."""
    done = 0
    for texts in _until_enough(cache.second.pending, enough):
        # As for sentences, what has no vector is not retried for ever.
        quantized = {text_hash: np.empty(0, np.int8) for text_hash in texts}
        with suppress(BadVectorError):
            quantized |= zip(texts, quantize(encode(list(texts.values())))[0], strict=True)
        cache.second.keep(model, quantized)
        done += len(texts)
    return done


def no_opinion(why: str) -> SecondOpinion:
    """Return the opinion of a model that cannot be asked now."""
    return SecondOpinion(lambda _: None, _SECOND_DEPTH, why)


def by_vectors(cache: Cache, model: str, question: Callable[[], Vector | None]) -> SecondOpinion:
    """Return the opinion by the prepared vectors of a second model; it has none while any of them is missing.

    To encode passages while a question waits would take too long.
    """

    def scores(ids: Sequence[int]) -> dict[int, float] | None:
        known = cache.second.of_chunks(model, ids)
        asked = question() if len(known) == len(ids) else None
        if asked is None:
            return None
        there = {chunk: vector for chunk, vector in known.items() if len(vector) == len(asked)}
        return dict(zip(there, _cosines(np.stack(list(there.values())), asked), strict=True)) if there else {}

    waits = (
        "passages still get their vectors"
        if cache.meta.embeds
        else "notes found by words alone have no vectors"
    )
    return SecondOpinion(scores, _SECOND_DEPTH, f"{waits} by {model}")


def by_pairs(cache: Cache, score: Callable[[Sequence[str]], Sequence[float] | None]) -> SecondOpinion:
    """Return the opinion by a cross-encoder: `score` rates texts with the question, None while it fails."""

    def scores(ids: Sequence[int]) -> dict[int, float] | None:
        texts = {chunk: row.text for chunk, row in cache.passages.chunk_rows(ids).items()}
        found = score(list(texts.values()))
        return None if found is None else dict(zip(texts, found, strict=True))

    return SecondOpinion(scores, _PAIRS_DEPTH, "the cross-encoder failed (the log says why)")


def _cosines(quantized: Quantized, question: Vector) -> list[float]:
    vectors = quantized.astype(np.float32)
    found: list[float] = (vectors @ question / np.linalg.norm(vectors, axis=1)).tolist()
    return found


class SentenceVectors:
    """The vectors of the last 20,000 sentences, by one model. Safe to use from several threads.

    Without `encode`, only sentences that are prepared have similarities.
    """

    def __init__(self, encode: Encode | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._encode = encode
        self._clock = clock
        self._kept: OrderedDict[str, npt.NDArray[np.float16]] = OrderedDict()
        self._turn = threading.Lock()

    def similarities(self, question: Vector) -> Similarities:
        """Return the function that computes sentences' similarities to a question; its time budget starts now."""
        deadline = self._clock() + BUDGET_SECONDS

        def similar(sentences: Sequence[str], prepared: Quantized | None) -> list[float] | None:
            if prepared is not None and len(prepared) == len(sentences):
                return _cosines(prepared, question)
            with self._turn:
                new = [s for s in dict.fromkeys(sentences) if s not in self._kept]
                if new and self._clock() >= deadline:
                    return None
            try:
                if new and self._encode is None:
                    return None
                if new and self._encode:
                    self._keep(new, self._encode(new))
            except (BadVectorError, ModelUnavailableError):
                return None
            with self._turn:
                vectors = [self._kept.get(s) for s in sentences]
            if any(vector is None for vector in vectors):
                return None  # other threads evicted some of them meanwhile
            return [float(vector.astype(np.float32) @ question) for vector in vectors if vector is not None]

        return similar

    def _keep(self, sentences: Sequence[str], vectors: npt.NDArray[np.float32]) -> None:
        with self._turn:
            self._kept |= zip(sentences, vectors.astype(np.float16), strict=True)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
