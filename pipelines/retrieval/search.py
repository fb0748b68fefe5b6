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
from pipelines.retrieval.merging import Asked, cosines_of
from pipelines.retrieval.newest import newest
from pipelines.retrieval.splitting import Sentence, split_sentences, whole_sentences
from pipelines.retrieval.stages import stage
from pipelines.retrieval.thresholds import Match
from pipelines.store import passages
from pipelines.store.sentences import Quantized, quantized_of_chunks

_BEYOND = 400  # characters before and after a passage, for the sentences that it cuts off
_Stat = tuple[str, int, int, bool]
Similarities = Callable[[Sequence[str], Quantized | None], Sequence[float] | None]
"""Return sentences' similarities to the question, by their vectors if prepared; None if it would take too long."""


@dataclass(frozen=True, slots=True)
class Found:
    """A note among the answers: its best chunk, its place in each layer, whether the file changed since indexing.

    `stale` is None if that is unknown, because the vault is unavailable. `sentences` are the quantized vectors of the
    chunk's sentences if they are prepared. `match`: its rating, None before it is judged. `around`: the text before
    and after the chunk.
    """

    domain: str
    hit: Hit
    chunk: passages.ChunkRow
    ranks: Mapping[str, int]
    stale: bool | None
    sentences: Quantized | None
    match: Match | None = None
    around: tuple[str, str] = ("", "")


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
    return _first(asked, lambda: asked.rank(query, depth or depth_for(k), now), k, root, present=present)


def find_newest(
    sources: Sequence[Source], query: str, k: int, *, root: Path, present: bool
) -> tuple[list[Found], dict[str, CacheError]]:
    """Return the `k` newest notes that pass what a question has besides words, as `find` does the best."""
    asked = Asked(sources)
    return _first(asked, lambda: newest(asked, query), k, root, present=present)


def _first(
    asked: Asked, order: Callable[[], Sequence[Placed]], k: int, root: Path, *, present: bool
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
) -> tuple[dict[int, passages.ChunkRow], dict[int, tuple[str, str]], dict[int, Quantized], dict[int, float]]:
    hits, cache = [one.hit for one in kept if one.source is source], source.cache
    ids = [hit.chunk_id for hit in hits]
    return (
        passages.chunk_rows(cache, ids),
        passages.text_around(cache, ids, _BEYOND),
        quantized_of_chunks(cache, ids),
        cosines_of(source, hits),
    )


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
        cut.append((_excerpt_of(one, sentences, terms, similar), similar is not None))
    return cut


def _excerpt_of(
    one: Found, sentences: Sequence[Sentence], terms: Sequence[str], similar: Sequence[float] | None
) -> Excerpt:
    """Cut the excerpt of a hit's passage; its ranges are in the passage."""
    own, (before, after) = one.chunk.text, one.around
    text, at = before + own + after, len(before)
    shown = excerpt(read_passage(one.hit.path, text), whole_sentences(text, at, sentences), terms, similar)
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
