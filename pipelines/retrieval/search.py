"""A question over one or more domains: rank the notes, check the disk, merge, cut excerpts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from pipelines import lexical, vault
from pipelines.model import Hit
from pipelines.retrieval.excerpts import Excerpt, excerpt, split_sentences
from pipelines.retrieval.fusion import reciprocal_rank_fusion
from pipelines.retrieval.layers import Source, depth_for, rank_notes
from pipelines.store import search as store
from pipelines.store.cache import Cache
from pipelines.store.connection import snapshot
from pipelines.store.sentences import Codes, codes_of_chunks

Similarities = Callable[[Sequence[str], Codes | None], Sequence[float] | None]
"""How similar sentences, prepared ones by their codes, are to the question; None where that would take too long."""


@dataclass(frozen=True, slots=True)
class Found:
    """A note among the answers: its best chunk, its place in each layer, whether the file changed since.

    `sentences` are the codes of the chunk's sentences where they are prepared.
    """

    domain: str
    hit: Hit
    chunk: store.ChunkRow
    ranks: Mapping[str, int]
    stale: bool
    sentences: Codes | None


def find(source: Source, query: str, k: int, *, root: Path, present: bool, now: datetime) -> list[Found]:
    """Answer a question with at most `k` notes of a domain, best first. Raises CacheError.

    A note whose file is gone is left out. While the whole vault is away (`present` false) nothing can be
    checked, and every hit is marked stale.
    """
    with snapshot(source.cache.con):
        ranking = rank_notes(source, query, depth_for(k), now)
        hits = ranking.hits
        kept = (
            list(islice(_on_disk(source.cache, hits, root), k))
            if present
            else [(hit, True) for hit in hits[:k]]
        )
        chunks = [hit.chunk_id for hit, _ in kept]
        rows, codes = store.chunk_rows(source.cache, chunks), codes_of_chunks(source.cache, chunks)
    return [
        Found(
            source.domain.slug,
            hit,
            row,
            ranking.ranks_of(hit.path),
            stale,
            codes.get(hit.chunk_id),
        )
        for hit, stale in kept
        if (row := rows.get(hit.chunk_id))
    ]


def merge(found: Sequence[Sequence[Found]], k: int) -> list[Found]:
    """Merge what each domain answered into at most `k` notes, by rank (RRF).

    Where ranks are equal (every domain has a first), the one with the better evidence leads.
    """
    if len(found) == 1:
        return list(found[0])
    answers = {(one.domain, one.hit.path): one for several in found for one in several}
    rankings = {str(n): [(one.domain, one.hit.path) for one in several] for n, several in enumerate(found)}
    evidence = _evidence(answers)
    merged = reciprocal_rank_fusion(rankings, dict.fromkeys(rankings, 1.0))
    merged.sort(key=lambda pair: (-pair[1], -evidence[pair[0]]))
    return [replace(answers[key], hit=replace(answers[key].hit, score=score)) for key, score in merged[:k]]


def _evidence(answers: Mapping[tuple[str, str], Found]) -> dict[tuple[str, str], float]:
    """Return what can be compared between domains: cosine and BM25, each as a share of the best one."""
    totals = dict.fromkeys(answers, 0.0)
    for name in ("cosine", "bm25"):
        values = {key: max(0.0, one.hit.scores.get(name, 0.0)) for key, one in answers.items()}
        best = max(values.values(), default=0.0)
        for key, value in values.items():
            totals[key] += value / best if best else 0.0
    return totals


def excerpts(
    found: Sequence[Found], query: str, similarities: Mapping[str, Similarities]
) -> list[tuple[Excerpt, bool]]:
    """Cut each answer's excerpt, by its domain's similarities; say of each whether they chose it."""
    terms = lexical.query_terms(query)
    cut = []
    for one in found:
        sentences = split_sentences(one.chunk.text)
        similar = (
            similarities[one.domain]([s.text for s in sentences], one.sentences)
            if one.domain in similarities
            else None
        )
        cut.append((excerpt(sentences, terms, similar), similar is not None))
    return cut


def _on_disk(cache: Cache, hits: Sequence[Hit], root: Path) -> Iterator[tuple[Hit, bool]]:
    """Yield each hit whose file is there, and whether that changed since it was indexed: one `stat` a note."""
    files = cache.ledger.stat_of([hit.path for hit in hits])
    for hit in hits:
        if hit.path in files:
            raw, size, mtime_ns, dirty = files[hit.path]
            file = vault.look(root, raw)
            if file is not None:
                yield hit, dirty or (file.size, file.mtime_ns) != (size, mtime_ns)
