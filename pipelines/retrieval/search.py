"""Answer a question from one or more domains: rank the notes, check the disk, merge, cut excerpts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from pipelines import lexical
from pipelines.disk import vault
from pipelines.errors import CacheError
from pipelines.retrieval.by_rank import Placed
from pipelines.retrieval.excerpts import Excerpt, excerpt, read_passage
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.layers import Source, depth_for
from pipelines.retrieval.merging import Asked
from pipelines.retrieval.splitting import split_sentences
from pipelines.retrieval.stages import stage
from pipelines.retrieval.thresholds import Match
from pipelines.store import passages
from pipelines.store.sentences import Quantized, quantized_of_chunks

_Stat = tuple[str, int, int, bool]
Similarities = Callable[[Sequence[str], Quantized | None], Sequence[float] | None]
"""Return sentences' similarities to the question, by their vectors if prepared; None if it would take too long."""


@dataclass(frozen=True, slots=True)
class Found:
    """A note among the answers: its best chunk, its place in each layer, whether the file changed since indexing.

    `stale` is None if that is unknown, because the vault is unavailable. `sentences` are the quantized vectors of the
    chunk's sentences if they are prepared. `match`: how near it is in meaning, None if that is unknown.
    """

    domain: str
    hit: Hit
    chunk: passages.ChunkRow
    ranks: Mapping[str, int]
    stale: bool | None
    sentences: Quantized | None
    match: Match | None = None


def find(
    sources: Sequence[Source],
    query: str,
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
    asked = Asked(sources)
    kept: list[tuple[Placed, bool | None]]
    with asked.snapshots():
        ranked = asked.rank(query, depth or depth_for(k), now)
        if present:
            files = asked.each(lambda s: s.cache.ledger.stat_of(_paths_of(s, ranked)))
            kept = [*islice(_on_disk(ranked, files, root), k)]
        else:
            kept = [(one, None) for one in ranked[:k]]
        chunks = asked.each(lambda s: _chunks_of(s, [one for one, _ in kept]))
    found = []
    for one, stale in kept:
        slug, chunk_id = one.source.domain.slug, one.hit.chunk_id
        rows, quantized = chunks.get(slug, ({}, {}))
        if row := rows.get(chunk_id):
            found.append(Found(slug, one.hit, row, one.ranks, stale, quantized.get(chunk_id), one.match))
    return found, asked.failed


def _paths_of(source: Source, ranked: Sequence[Placed]) -> list[str]:
    return [one.hit.path for one in ranked if one.source is source]


def _chunks_of(
    source: Source, kept: Sequence[Placed]
) -> tuple[dict[int, passages.ChunkRow], dict[int, Quantized]]:
    ids = [one.hit.chunk_id for one in kept if one.source is source]
    return passages.chunk_rows(source.cache, ids), quantized_of_chunks(source.cache, ids)


@stage("excerpts")
def excerpts(
    found: Sequence[Found], query: str, similarities: Mapping[str, Similarities]
) -> list[tuple[Excerpt, bool]]:
    """Cut each answer's excerpt, by its domain's similarities; also return whether these chose the sentences."""
    terms = lexical.query_terms(query)
    cut = []
    for one in found:
        sentences = split_sentences(one.chunk.text)
        similar = (
            similarities[one.domain]([s.text for s in sentences], one.sentences)
            if one.domain in similarities
            else None
        )
        shown = excerpt(read_passage(one.hit.path, one.chunk.text), sentences, terms, similar)
        if one.chunk.is_names_alone and not shown.text:
            shown = replace(shown, text=one.chunk.title)  # a name may look like Markdown
        cut.append((shown, similar is not None))
    return cut


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
