"""Communities by networkx's Louvain: its own, the same each time, computed in another process."""

from __future__ import annotations

import os

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.child import Child
from pipelines.graph.centrality import link_graph
from pipelines.graph.louvain import SEED, divide_pairs, louvain


def graph_of(pairs, kind="wikilink", **over):
    edges = [(f"{a:03}.md", f"{b:03}.md", kind, 1) for a, b in pairs]
    return link_graph(sorted({end for edge in edges for end in edge[:2]}), edges, over="links", **over)


@pytest.mark.parametrize("few", [0, 1_000])
def test_the_communities_are_networkxs_in_this_process_or_in_another(few, monkeypatch):
    monkeypatch.setattr("pipelines.graph.louvain._FEW_PAIRS", few)
    pairs = sorted(nx.powerlaw_cluster_graph(80, 3, 0.5, seed=1).edges)
    expected = nx.community.louvain_communities(nx.Graph(pairs), seed=SEED)
    found = louvain(graph_of(pairs), Child())
    assert {frozenset(group) for group in found} == {
        frozenset(f"{at:03}.md" for at in group) for group in expected
    }
    assert [len(group) for group in found] == sorted(map(len, expected), reverse=True)


def test_it_is_computed_in_another_process():
    assert Child().call(os.getpid) != os.getpid()


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20), st.randoms(use_true_random=False)
)
def test_each_linked_note_has_one_community_whatever_the_order(pairs, random):
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    found = louvain(graph_of(pairs), Child())
    members = [path for group in found for path in group]
    assert sorted(members) == sorted({f"{end:03}.md" for pair in pairs for end in pair})
    turned = [pair[::-1] for pair in random.sample(pairs, len(pairs))]
    assert louvain(graph_of(turned), Child()) == found


def test_without_an_edge_of_the_kind_there_is_nothing_to_divide():
    assert louvain(graph_of([(0, 1)], "wikilink", central_over="citations"), Child()) == []


@pytest.mark.parametrize("pairs", [[], [(0, 1)], [(0, 1), (2, 3)]])
def test_small_graphs_are_divided(pairs):
    assert sorted(map(sorted, divide_pairs(pairs))) == [list(pair) for pair in pairs]
