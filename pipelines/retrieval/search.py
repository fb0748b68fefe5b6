"""A question over one or more domains: rank the notes, check the disk, cut excerpts, merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pipelines import lexical, vault
from pipelines.model import Hit
from pipelines.retrieval.excerpts import Excerpt, excerpt
from pipelines.retrieval.fusion import reciprocal_rank_fusion
from pipelines.retrieval.layers import Source, depth_for, rank_notes
from pipelines.store import search as store
from pipelines.store.cache import Cache
from pipelines.store.connection import snapshot


@dataclass(frozen=True, slots=True)
class Result:
    """A note among the answers: its best chunk, and whether the file changed since it was indexed."""

    domain: str
    path: str
    title: str
    section: str
    excerpt: Excerpt
    score: float
    lines: tuple[int, int]
    modified: str
    stale: bool
    scores: Mapping[str, float]


def merge(found: Sequence[Sequence[Result]], k: int) -> list[Result]:
    """Merge what each domain answered into at most `k` notes, by rank (RRF).

    Where ranks are equal (every domain has a first), the one with the better evidence leads.
    """
    if len(found) == 1:
        return list(found[0])
    answers = {(r.domain, r.path): r for results in found for r in results}
    rankings = {str(n): [(r.domain, r.path) for r in results] for n, results in enumerate(found)}
    evidence = _evidence(answers)
    merged = reciprocal_rank_fusion(rankings, dict.fromkeys(rankings, 1.0))
    merged.sort(key=lambda pair: (-pair[1], -evidence[pair[0]]))
    return [replace(answers[key], score=score) for key, score in merged[:k]]


def _evidence(answers: Mapping[tuple[str, str], Result]) -> dict[tuple[str, str], float]:
    """Return what can be compared between domains: cosine and BM25, each as a share of the best one."""
    totals = dict.fromkeys(answers, 0.0)
    for name in ("cosine", "bm25"):
        values = {key: max(0.0, result.scores.get(name, 0.0)) for key, result in answers.items()}
        best = max(values.values(), default=0.0)
        for key, value in values.items():
            totals[key] += value / best if best else 0.0
    return totals


def search(source: Source, query: str, k: int, *, root: Path, present: bool, now: datetime) -> list[Result]:
    """Answer a question with at most `k` notes of a domain, best first. Raises CacheError.

    A note whose file is gone is left out. While the whole vault is away (`present` false) nothing can be
    checked, and every hit is marked stale.
    """
    with snapshot(source.cache.con):
        hits = rank_notes(source, query, depth_for(k), now).hits
        current = (
            _on_disk(source.cache, hits, root) if present else dict.fromkeys((h.path for h in hits), True)
        )
        kept = [hit for hit in hits if hit.path in current][:k]
        rows = store.chunk_rows(source.cache, [hit.chunk_id for hit in kept])
    terms = lexical.query_terms(query)
    return [
        Result(
            domain=source.domain.slug,
            path=hit.path,
            title=row.title,
            section=row.section,
            excerpt=excerpt(row.text, terms),
            score=hit.score,
            lines=(row.first_line, row.last_line),
            modified=row.modified,
            stale=current[hit.path],
            scores=hit.scores,
        )
        for hit in kept
        if (row := rows.get(hit.chunk_id))
    ]


def _on_disk(cache: Cache, hits: Sequence[Hit], root: Path) -> dict[str, bool]:
    """Return for each hit whose file is there whether it changed since it was indexed: one `stat` a hit."""
    current = {}
    for path, (raw, size, mtime_ns, dirty) in cache.ledger.stat_of([hit.path for hit in hits]).items():
        file = vault.look(root, raw)
        if file is not None:
            current[path] = dirty or (file.size, file.mtime_ns) != (size, mtime_ns)
    return current
