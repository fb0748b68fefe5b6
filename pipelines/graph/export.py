"""Write the graph of notes to a file for other programs: GraphML and GEXF (Gephi), node-link JSON (notebooks)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from typing import Any, Literal

import networkx as nx

from pipelines.model import Domain
from pipelines.store import Cache

Format = Literal["graphml", "gexf", "json"]

# Characters that XML 1.0 cannot represent, and CR, which its readers turn into LF.
_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def linked_notes(domains: Iterable[tuple[Domain, Cache]]) -> nx.MultiDiGraph:
    """Return the notes of domains and the links among them, one edge per kind and type. Raises CacheError.

    A node is named by the note's path and has `title` (also as `label`, for programs that show it), `tags`, `domain`,
    and, if it has a place in its domain's graph, `pagerank`, `centrality`, `community` (its number in the domain) and
    `community_label`. An edge has its `kind`, as `relation` its type if it has one (in GEXF, `type` says whether an
    edge is directed), and as `weight` how often it is written.
    """
    graph = nx.MultiDiGraph()
    edges = []
    for domain, cache in domains:
        with cache.snapshot():
            stored, ranks, labels = cache.graph.read(), cache.graph.read_ranks(), cache.graph.read_labels()
            edges += cache.graph.read_edges()
        for path, title in stored.titles.items():
            facts: dict[str, Any] = {"title": title, "label": title, "tags": list(stored.tags[path])}
            pagerank, centrality, community = ranks.get(path, (0.0, 0.0, 0))
            if pagerank:
                facts["pagerank"] = pagerank
            if community:
                facts |= {"centrality": centrality, "community": community}
                facts["community_label"] = labels.get(community, "")
            graph.add_node(path, domain=domain.slug, **facts)
    for edge in edges:
        if edge.source in graph and edge.target in graph:
            typed = {"relation": edge.type} if edge.type else {}
            key = " ".join((edge.kind, *typed.values()))
            graph.add_edge(edge.source, edge.target, key=key, kind=edge.kind, weight=edge.count, **typed)
    return graph


def as_file(graph: nx.MultiDiGraph, form: Format) -> bytes:
    """Return a graph as the bytes of a file.

    In XML, tags are one text joined by commas, and unrepresentable characters are escaped as in Python.
    """
    if form == "json":
        return (json.dumps(nx.node_link_data(graph, edges="edges"), indent=1) + "\n").encode()
    file = io.BytesIO()
    write = nx.write_gexf if form == "gexf" else nx.write_graphml_xml
    write(_for_xml(graph), file)
    return file.getvalue()


def _for_xml(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    names: dict[str, str] = {}
    taken = set(graph)
    for path in graph:
        name = _safe(path)
        while name != path and name in taken:
            name += "_"
        taken.add(name)
        names[path] = name
    safe = nx.MultiDiGraph()
    for path, facts in graph.nodes(data=True):
        texts = facts | {"tags": ", ".join(facts["tags"])}
        safe.add_node(names[path], **{key: _safe(v) if isinstance(v, str) else v for key, v in texts.items()})
    for source, target, facts in graph.edges(data=True):
        safe.add_edge(names[source], names[target], **facts)
    return safe


def _safe(text: str) -> str:
    return _NO_XML.sub(lambda found: ascii(found[0])[1:-1], text)
