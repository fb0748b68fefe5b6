"""Links and the graph: broken links, notes without links, communities."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import PurePosixPath

from pipelines.cache import graph
from pipelines.cache.cache import Cache
from pipelines.model import Domain
from pipelines.notes.links import suggest
from pipelines.state.note_log import NoteLog, followed
from service.usecases.notes import on_disk, uncounted
from service.usecases.schemas.links import (
    CommunitiesAnswer,
    CommunityRow,
    Edge,
    GraphAnswer,
    LinkRow,
    LinksAnswer,
    Node,
    OrphansAnswer,
    State,
)
from service.usecases.search import SearchService

_SUGGESTIONS = 3
_EXAMPLES = 5


class Graph:
    """Questions about links, over all domains or one."""

    def __init__(self, questions: SearchService) -> None:
        self._questions = questions

    def _readers(self, slug: str | None) -> list[tuple[Domain, Cache]]:
        return self._questions.readers(slug)

    def _vanished(self, domain: Domain) -> Collection[str]:
        """Return the notes whose files vanished, and which the index keeps for a while."""
        return self._questions.resources.vanished().waiting(domain.slug)

    def links(self, state: State, domain: str | None, limit: int) -> LinksAnswer:
        """List links by their state, without those in files that are gone; broken ones with suggestions.

        Raises DomainNotFoundError.
        """
        readers = self._readers(domain)
        everywhere = self._questions.readers()
        gone = {path for owner, _ in everywhere for path in self._vanished(owner)}
        names = [pair for _, cache in everywhere for pair in graph.names(cache) if pair[1] not in gone]
        names += self._former_names({path for _, path in names})
        found: list[LinkRow] = []
        for owner, cache in readers:
            written = graph.links_in_state(cache, state, limit - len(found), gone)
            there = on_disk(self._questions.resources, cache, sorted({link.path for link in written}))
            for link in written:
                if link.path not in there:
                    continue
                is_broken = link.meant is None and graph.may_be_broken(link.path)
                near = suggest(link.target, names, _SUGGESTIONS, link.path) if is_broken else []
                found.append(LinkRow(**asdict(link), domain=owner.slug, suggestions=near))
        return LinksAnswer(links=found, count=len(found))

    def _former_names(self, there: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the file names that notes had before they were renamed, in lower case, with their paths now."""
        renamed = self._questions.resources.stores.of(NoteLog).renamed()
        for old in renamed.keys() - there:
            path = followed(renamed, old, there.__contains__)
            if path in there:
                yield PurePosixPath(old).stem.lower(), path

    def orphans(self, domain: str | None) -> OrphansAnswer:
        """List the notes that link to nothing and that nothing links to. Raises DomainNotFoundError.

        Vocabularies, review queues and notes whose files are gone are left out.
        """
        linked = {path for _, cache in self._readers(None) for path in graph.targets_elsewhere(cache)}
        alone: list[str] = []
        for owner, cache in self._readers(domain):
            found = [path for path in graph.orphans(cache) if path not in linked]
            there = on_disk(self._questions.resources, cache, found) - set(owner.configuration)
            alone += [path for path in found if path in there]
        return OrphansAnswer(paths=alone)

    def communities(self, domain: str | None) -> CommunitiesAnswer:
        """List the communities, largest first, without notes whose files are gone. Raises DomainNotFoundError."""
        readers = self._readers(domain)
        rows = [
            CommunityRow(domain=owner.slug, **asdict(found))
            for owner, cache in readers
            for found in graph.communities(cache, _EXAMPLES, self._vanished(owner))
        ]
        isolated = {
            owner.slug: graph.unranked(cache, uncounted(self._questions.resources, owner))
            for owner, cache in readers
        }
        return CommunitiesAnswer(communities=rows, isolated=isolated)

    def picture(self, slug: str | None, community: int | None, limit: int) -> GraphAnswer:
        """Return the best-ranked notes, without those whose files are gone, and the edges among them.

        Raises DomainNotFoundError.
        """
        nodes: list[Node] = []
        edges: list[Edge] = []
        truncated = False
        for domain, cache in self._readers(slug):
            best = graph.best_ranked(cache, community, limit - len(nodes) + 1)
            truncated = truncated or len(best) > limit - len(nodes)
            there = on_disk(self._questions.resources, cache, best)
            chosen = [path for path in best[: limit - len(nodes)] if path in there]
            nodes += _nodes(domain, cache, chosen)
            edges += _edges(cache, chosen)
        return GraphAnswer(nodes=nodes, edges=edges, truncated=truncated)


def _nodes(domain: Domain, cache: Cache, paths: list[str]) -> list[Node]:
    return [Node(**asdict(found), domain=domain.slug) for found in graph.nodes(cache, paths)]


def _edges(cache: Cache, paths: list[str]) -> list[Edge]:
    return [Edge(**asdict(found)) for found in graph.edges_among(cache, paths)]
