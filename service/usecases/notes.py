"""Single notes, as the index has them, and which of them are on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from pipelines import vault
from pipelines.model import Domain
from pipelines.store import neighbours, passages
from pipelines.store.cache import Cache
from service.usecases.schemas.notes import NodeAnswer, NodeChunk
from workers.resources import Resources


def describe_note(
    domain: Domain, cache: Cache, path: str, backlinks: Callable[[str], list[dict[str, Any]]]
) -> NodeAnswer | None:
    """Return a note's row, links and chunks, or None if its domain has no such note."""
    node = passages.node(cache, path)
    row = cache.ledger.row(path)
    if node is None:
        return None
    rank = neighbours.rank_of(cache, path)
    return NodeAnswer(
        **asdict(node),
        domain=domain.slug,
        links=passages.links_of(cache, path),
        outlinks=[asdict(other) for other in neighbours.outlinks(cache, path)],
        backlinks=backlinks(path),
        unresolved=[asdict(link) for link in neighbours.broken_links_of(cache, path)],
        pagerank=rank.pagerank if rank else None,
        centrality=rank.centrality if rank else None,
        community=rank.community if rank else None,
        community_label=rank.label if rank else None,
        chunks=[
            NodeChunk(
                section=c.section,
                heading_path=list(c.heading_path),
                lines=(c.first_line, c.last_line),
                range=(c.start, c.end),
                text=c.text,
            )
            for c in passages.chunks_of(cache, path)
        ],
        indexed_at=row.indexed_at if row else None,
    )


def on_disk(resources: Resources, cache: Cache, paths: Sequence[str]) -> set[str]:
    """Return those of the paths whose files are there; all while the whole vault is away."""
    if not resources.present():
        return set(paths)
    files = cache.ledger.stat_of(paths).items()
    return {path for path, (raw, *_) in files if vault.look(resources.root, raw)}
