"""A domain's ranks and communities: computed from its edges, written back at once."""

from __future__ import annotations

from pipelines.model import PagerankOver
from pipelines.store.cache import Cache
from pipelines.store.ranks import read_communities, read_graph, write_ranks


def rank_domain(cache: Cache, over: PagerankOver) -> int:
    """Compute a domain's ranks and communities anew; return how many notes have one. Raises CacheError."""
    from pipelines.graph import label_communities, rank_notes  # noqa: PLC0415 - compiled libraries, slow to load

    stored = read_graph(cache)
    edges = [(e.source, e.target, e.kind, e.count) for e in stored.edges]
    found = rank_notes(stored.titles, edges, over=over, previous=read_communities(cache))
    labels = label_communities(found.communities, titles=stored.titles, tags=stored.tags)
    ranks = [
        (path, rank.pagerank, rank.centrality, rank.community)
        for path, rank in found.notes.items()
        if rank is not None
    ]
    write_ranks(cache, stored.generation, ranks, labels, found.centrality_by)
    return len(ranks)
