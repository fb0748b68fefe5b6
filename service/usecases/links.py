"""Links and the graph: broken links, notes without links, communities."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pipelines.cache.cache import SqliteCache
from pipelines.cache.graph import may_be_broken
from pipelines.cache.vectors import Vector, mean_vector
from pipelines.errors import AlreadyThereError, CacheMissingError, EvidenceNotFoundError, NotComparableError
from pipelines.model import Domain
from pipelines.notes.links import suggest, types_of
from pipelines.question import Question, read_question
from pipelines.search.operators import notes_that_fail, passing_chunks
from pipelines.search.rank import Source
from pipelines.search.thresholds import thresholds_of
from pipelines.search.walk import (
    Dropped,
    Effort,
    Kept,
    WalkResult,
    compare,
    deep,
    explore,
    explore_from,
    explore_types,
    fast,
    retrieve,
)
from pipelines.state.evidence import Evidence
from pipelines.state.note_log import NoteLog, followed
from pipelines.vault import files
from service.schemas.links import (
    CommunitiesAnswer,
    CommunityRow,
    DeepAnswer,
    DomainRetrieval,
    DroppedNode,
    Edge,
    GraphAnswer,
    KeptNode,
    LinkRow,
    LinksAnswer,
    Methods,
    Mode,
    Node,
    OrphansAnswer,
    State,
    TraverseAnswer,
    Walk,
    Way,
)
from service.usecases.audience import named_domains
from service.usecases.search import View
from service.usecases.status import on_disk, uncounted
from workers.resources import Resources

if TYPE_CHECKING:
    from pipelines.graph.export import Format

_SUGGESTIONS = 3
_EXAMPLES = 5


def _names(cache: SqliteCache) -> list[tuple[str, str]]:
    """Return every file name, title and alias in lower case, with the path of its note."""
    return [
        (name.lower(), path)
        for path, (title, aliases) in sorted(cache.notes.names().items())
        for name in dict.fromkeys((PurePosixPath(path).stem, title, *json.loads(aliases)))
    ]


class Links:
    """Questions about links, over all domains or one."""

    def __init__(self, view: View) -> None:
        self._view = view

    def _vanished(self, domain: Domain) -> Collection[str]:
        """Return the notes whose files vanished, and which the index keeps for a while."""
        return self._view.resources.vanished().waiting(domain.slug)

    def links(self, state: State, domain: str | None, limit: int, types: Collection[str] = ()) -> LinksAnswer:
        """List links by their state, without those in files that are gone; broken ones with suggestions.

        `types`: only those of one of these types. Raises DomainNotFoundError.
        """
        readers = self._view.readers(domain)
        everywhere = self._view.readers()
        gone = {path for owner, _ in everywhere for path in self._vanished(owner)}
        names = [pair for _, cache in everywhere for pair in _names(cache) if pair[1] not in gone]
        names += self._former_names({path for _, path in names})
        found: list[LinkRow] = []
        for owner, cache in readers:
            written = cache.graph.links_in_state(state, limit - len(found), gone, types_of(types))
            there = on_disk(self._view.resources, cache, sorted({link.path for link in written}))
            for link in written:
                if link.path not in there:
                    continue
                is_broken = link.meant is None and may_be_broken(link.path)
                near = suggest(link.target, names, _SUGGESTIONS, link.path) if is_broken else []
                found.append(LinkRow(**asdict(link), domain=owner.slug, suggestions=near))
        return LinksAnswer(links=found, count=len(found))

    def _former_names(self, there: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the file names that notes had before they were renamed, in lower case, with their paths now."""
        renamed = self._view.resources.stores.of(NoteLog).renamed()
        for old in renamed.keys() - there:
            path = followed(renamed, old, there.__contains__)
            if path in there:
                yield PurePosixPath(old).stem.lower(), path

    def orphans(self, domain: str | None) -> OrphansAnswer:
        """List the notes that link to nothing and that nothing links to. Raises DomainNotFoundError.

        Vocabularies, review queues and notes whose files are gone are left out.
        """
        linked = {path for _, cache in self._view.readers() for path in cache.graph.targets_elsewhere()}
        alone: list[str] = []
        for owner, cache in self._view.readers(domain):
            found = [path for path in cache.graph.orphans() if path not in linked]
            there = on_disk(self._view.resources, cache, found) - set(owner.configuration)
            alone += [path for path in found if path in there]
        return OrphansAnswer(paths=alone)

    def communities(self, domain: str | None) -> CommunitiesAnswer:
        """List the communities, largest first, without notes whose files are gone. Raises DomainNotFoundError."""
        readers = self._view.readers(domain)
        rows = [
            CommunityRow(domain=owner.slug, **asdict(found))
            for owner, cache in readers
            for found in cache.graph.communities(_EXAMPLES, self._vanished(owner))
        ]
        isolated = {
            owner.slug: cache.graph.unranked(uncounted(self._view.resources, owner))
            for owner, cache in readers
        }
        methods = {
            owner.slug: Methods.model_validate(by)
            for owner, cache in readers
            if (by := cache.graph.ranked_by())
        }
        return CommunitiesAnswer(communities=rows, isolated=isolated, methods=methods)

    def picture(
        self, slug: str | None, community: int | None, limit: int, types: Collection[str] = ()
    ) -> GraphAnswer:
        """Return the best-ranked notes, without those whose files are gone, and the edges among them.

        With `types`, only the edges of these types among them, and their notes. Raises DomainNotFoundError.
        """
        wanted = types_of(types)
        nodes: list[Node] = []
        edges: list[Edge] = []
        truncated = False
        for domain, cache in self._view.readers(slug):
            best = cache.graph.best_ranked(community, limit - len(nodes) + 1)
            truncated = truncated or len(best) > limit - len(nodes)
            there = on_disk(self._view.resources, cache, best)
            chosen = [path for path in best[: limit - len(nodes)] if path in there]
            edges += (own := _edges(domain, cache, chosen, wanted))
            ends = {end for edge in own for end in (edge.source, edge.target)}
            nodes += _nodes(domain, cache, [path for path in chosen if not wanted or path in ends])
        return GraphAnswer(nodes=nodes, edges=edges, truncated=truncated)


def _nodes(domain: Domain, cache: SqliteCache, paths: list[str]) -> list[Node]:
    return [Node(**asdict(found), domain=domain.slug) for found in cache.graph.nodes(paths)]


def _edges(domain: Domain, cache: SqliteCache, paths: list[str], types: Collection[str]) -> list[Edge]:
    """Return the edges among notes; with `types`, those that have one of these from either end."""
    return [
        Edge(**asdict(found), relation=domain.relations.name(found.type))
        for found in cache.graph.edges_among(paths)
        if not types or not {found.type, domain.relations.back(found.type)}.isdisjoint(types)
    ]


# Export the graph of a vault to a file.


def export_graph(resources: Resources, file: Path, form: Format, slug: str | None) -> tuple[int, int]:
    """Write the graph of all domains, or one, to a new file; return how many notes and links it has.

    Notes whose files vanished are left out. Raises DomainNotFoundError, CacheError, AlreadyThereError, OSError; no
    file is left then.
    """
    from pipelines.graph.export import as_file, linked_notes  # noqa: PLC0415 - networkx takes .1 s to load

    caches = _caches(resources, slug)
    graph = linked_notes(caches)
    for domain, _ in caches:
        graph.remove_nodes_from(resources.vanished().waiting(domain.slug))
    written = as_file(graph, form)
    try:
        target = file.open("xb")
    except FileExistsError as error:
        raise AlreadyThereError(f"{file} exists already; choose another file, or remove it first") from error
    try:
        with target:
            target.write(written)
    except OSError:
        with suppress(OSError):
            file.unlink()
        raise
    return len(graph), graph.number_of_edges()


def _caches(resources: Resources, slug: str | None) -> list[tuple[Domain, SqliteCache]]:
    """Return the indexed domains. A damaged one is an error, because a partial export must not look complete."""
    found = []
    for domain in named_domains(resources, slug):
        with suppress(CacheMissingError):
            found.append((domain, resources.reader(domain)))
    return found


# Walks along links: a note's surroundings, and deep retrieval.


class Traversal:
    """Walks over the caches, each within one domain."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._resources = view.resources

    def traverse(
        self, path: str, depth: int, question: Question, types: Collection[str] = ()
    ) -> TraverseAnswer:
        """Walk from a note, whatever it is, over notes that pass the filters; with `types`, along these edges alone.

        A question without a text stands for what the note says; with `types`, every note that is reached is kept
        then. Raises NoteNotFoundError, NotComparableError, DomainNotFoundError.
        """
        for slug in question.filters.domains:
            named_domains(self._resources, slug)
        path = files.note_key(path)
        domain, cache = self._view.holder(path)
        vector = self._vector(cache, question) if question.text else None
        compared = vector
        if vector is None and question.filters.min_similarity is not None:
            compared = mean_vector(cache.notes.vectors_of(path))
        left_out = self._left_out(domain, cache, question, compared)
        hidden = {*left_out} - {path}
        return self._traverse(
            domain, cache, path, depth, question.text or None, vector, hidden, types_of(types)
        )

    def _left_out(
        self, domain: Domain, cache: SqliteCache, question: Question, vector: Vector | None
    ) -> Collection[str]:
        """Return the paths of the notes to which a walk does not come."""
        filters = question.filters
        if filters.name_communities:
            self._view.audience.require_communities(domain.slug)
        if filters.domains and domain.slug not in filters.domains:
            return cache.notes.names().keys()
        return notes_that_fail(cache, filters, self._view.audience.hidden(domain.slug), vector)

    def _traverse(
        self,
        domain: Domain,
        cache: SqliteCache,
        path: str,
        depth: int,
        query: str | None,
        vector: Vector | None,
        hidden: Collection[str],
        types: Collection[str],
    ) -> TraverseAnswer:
        root = self._resources.root if self._resources.present() else None
        effort = fast(thresholds_of(cache.meta.model), by_note=vector is None)
        how: dict[str, Any] = {"depth": depth, "root": root, "hidden": hidden}
        started = time.perf_counter()
        found: WalkResult | None
        if vector is not None:
            found = explore(domain, cache, [path], vector, effort, types=types, **how)
        elif types:
            found = explore_types(domain, cache, path, types, **how)
        else:
            found = explore_from(domain, cache, path, effort, **how)
        if found is None:
            why = "it is not embedded yet" if cache.meta.embeds else "its domain has `embedding: none`"
            raise NotComparableError(f"{path} has no vector to compare with ({why}); ask with a question (q)")
        walk = _walk(domain, cache, found, effort, started, types)
        return TraverseAnswer(**dict(walk), path=path, domain=domain.slug, depth=depth, query=query)

    def deep(self, asked: Question, mode: Mode) -> DeepAnswer:
        """Search and walk on over notes that pass the filters. `asked`: a question, or an evidence record's id.

        Only notes that pass the question's operators are found, and walked through.
        Only who sees all notes may name a record: its question is the owner's. Raises DomainNotFoundError.
        """
        domains = asked.filters.domains
        readers = [one for slug in domains or (None,) for one in self._view.readers(slug)]
        question, record = self._question(asked) if self._view.audience.sees_all else (asked, None)
        if not question.text:  # operators alone say nothing that could be near or far
            question = replace(question, text=question.typed)
        return DeepAnswer(
            question=question.typed,
            record=record,
            mode=mode,
            domains=[self._retrieve(owner, cache, question, mode) for owner, cache in readers],
            index=self._view.index_state(domains),
        )

    def _retrieve(
        self, domain: Domain, cache: SqliteCache, question: Question, mode: Mode
    ) -> DomainRetrieval:
        vector, hidden = self._vector(cache, question), self._view.audience.hidden(domain.slug)
        left_out = self._left_out(domain, cache, question, vector)
        only = passing_chunks(cache, question.filters, hidden, vector)
        source = Source(domain, cache, vector, only, hidden=hidden)
        bars = thresholds_of(cache.meta.model)
        efforts = {"fast": fast(bars), "deep": deep(bars)}
        walks: dict[str, Walk] = {}
        found: dict[str, WalkResult] = {}
        for name in ("fast", "deep") if mode == "compare" else (mode,):
            started = time.perf_counter()
            found[name] = retrieve(
                source,
                question,
                efforts[name],
                root=self._resources.root,
                present=self._resources.present(),
                now=datetime.now(UTC),
                left_out=left_out,
            )
            walks[name] = _walk(domain, cache, found[name], efforts[name], started)
        difference = compare(found["fast"], found["deep"]) if mode == "compare" else None
        return DomainRetrieval(
            domain=domain.slug,
            fast=walks.get("fast"),
            deep=walks.get("deep"),
            added=list(difference.added) if difference else None,
            lost=list(difference.lost) if difference else None,
        )

    def _question(self, asked: Question) -> tuple[Question, str | None]:
        """Return the question that is meant, and the record that has it."""
        with closing(Evidence(self._resources.store)) as records:
            try:
                return read_question(records.get(asked.typed).question, asked.filters), asked.typed
            except EvidenceNotFoundError:
                return asked, None

    def _vector(self, cache: SqliteCache, question: Question) -> Vector:
        model = cache.meta.model
        vector = question.vectors.get(model)
        if vector is None:
            self._view.load_models()
            vector = question.vectors[model] = self._resources.embedders.get(model).encode_query(
                question.asked
            )
        return vector


def _walk(
    domain: Domain,
    cache: SqliteCache,
    found: WalkResult,
    effort: Effort,
    started: float,
    types: Collection[str] = (),
) -> Walk:
    kept = [note.path for note in found.kept]
    looked_at = [*kept, *(note.path for note in found.dropped)]
    points = {point.path: asdict(point) for point in cache.graph.nodes(looked_at)}

    def facts(note: Kept | Dropped) -> dict[str, Any]:
        edge = note.edge
        return points[note.path] | {
            "domain": domain.slug,
            "hop": note.hop,
            "similarity": None if note.similarity is None else round(note.similarity, 4),
            "decay_weight": note.decay_weight,
            "decay_zero": note.decay_weight <= 0,
            "edge": Way(
                kind=edge.kind,
                source=edge.source,
                target=edge.target,
                type=edge.type,
                relation=domain.relations.name(edge.type),
            )
            if edge
            else None,
        }

    # A note that was deleted this moment has no point any more.
    return Walk(
        nodes=[KeptNode(**facts(n), retain_reason=n.reason) for n in found.kept if n.path in points],
        edges=_edges(domain, cache, kept, types),
        dropped=[DroppedNode(**facts(n), drop_reason=n.reason) for n in found.dropped if n.path in points],
        embeddings_read=found.embeddings,
        unread=found.unread,
        stopped=found.stopped,
        prune=effort.prune,
        floor=effort.floor,
        target=effort.target,
        calibrated=thresholds_of(cache.meta.model).calibrated,
        took_ms=round((time.perf_counter() - started) * 1000, 1),
    )
