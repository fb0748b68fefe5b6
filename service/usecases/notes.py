"""Single notes, as the index has them, and which of them are on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from pipelines.cache import graph, passages
from pipelines.cache.cache import Cache
from pipelines.model import Domain
from pipelines.vault import files as vault
from service.usecases.audience import OWNER, Audience
from service.usecases.schemas.locator import place_of
from service.usecases.schemas.notes import Dates, NodeAnswer, NodeChunk
from workers.resources import Resources

Backlinks = Callable[[str, Audience], list[dict[str, Any]]]


def describe_note(
    domain: Domain, cache: Cache, path: str, backlinks: Backlinks, audience: Audience = OWNER
) -> NodeAnswer | None:
    """Return a note's row, links and chunks, or None if its domain has no such note.

    A link to a file that the asker does not see is a broken one. A community's label is made of titles and tags of
    all its notes, so only who sees all notes gets it.
    """
    node = passages.node(cache, path)
    row = cache.ledger.row(path)
    if node is None:
        return None
    rank = graph.rank_of(cache, path)
    written = graph.links_of(cache, path)
    named = audience.named({link.meant for link in written if link.meant is not None})
    return NodeAnswer(
        **asdict(node) | {"dates": dates_of(node)},
        domain=domain.slug,
        links=passages.links_of(cache, path),
        outlinks=[asdict(other) for other in graph.outlinks(cache, path) if other.path in named],
        backlinks=backlinks(path, audience),
        unresolved=[
            asdict(replace(link, meant=None, ambiguous=False))
            for link in written
            if link.meant not in named and graph.may_be_broken(path)
        ],
        pagerank=rank.pagerank if rank else None,
        centrality=rank.centrality if rank else None,
        community=rank.community if rank else None,
        community_label=rank.label if rank and audience.sees_all else None,
        chunks=[_chunk(row) for row in passages.chunks_of(cache, path)],
        indexed_at=row.indexed_at if row else None,
    )


def dates_of(node: passages.NodeRow) -> Dates:
    """Return when a note was created and changed, with the sources in words."""
    return Dates(**asdict(node.dates), said=node.dates.said)


def _chunk(row: passages.ChunkRow) -> NodeChunk:
    return NodeChunk(
        section=row.section,
        heading_path=list(row.heading_path),
        lines=(row.first_line, row.last_line),
        place=place_of(row.place),
        range=(row.start, row.end),
        text=row.text,
    )


def uncounted(resources: Resources, domain: Domain) -> set[str]:
    """Return the indexed files that count as no notes.

    These are a domain's vocabularies and review queues, and notes whose files vanished: the index keeps them for a
    while, and no answer has them.
    """
    return {*domain.configuration, *resources.vanished().waiting(domain.slug)}


def on_disk(resources: Resources, cache: Cache, paths: Sequence[str]) -> set[str]:
    """Return those of the paths whose files are there; all while the whole vault is unavailable."""
    if not resources.present():
        return set(paths)
    files = cache.ledger.stat_of(paths).items()
    return {path for path, (raw, *_) in files if vault.look(resources.root, raw)}
