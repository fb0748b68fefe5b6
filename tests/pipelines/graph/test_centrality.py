import math
import random
import subprocess
import sys
from collections import Counter
from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipelines.graph.centrality import (
    NoteRank,
    centrality,
    keep_ids,
    link_graph,
    pagerank,
    rank_notes,
)
from pipelines.graph.leiden import divide

KINDS = ("citation", "wikilink", "embed")


def wikilinks(pairs):
    return [(source, target, "wikilink", 1) for source, target in pairs]


def notes_of(edges):
    return sorted({end for source, target, *_ in edges for end in (source, target)})


def graph_of(edges, *, over="links"):
    return link_graph(notes_of(edges), edges, over=over)


def undirected(edges):
    graph = nx.Graph()
    graph.add_edges_from((source, target) for source, target, *_ in edges if source != target)
    return graph


def directed(edges, kinds=("citation", "wikilink")):
    """The same notes as nodes, whatever their edges' kinds."""
    graph = nx.DiGraph()
    graph.add_nodes_from(undirected(edges))
    graph.add_edges_from(
        (source, target) for source, target, kind, _ in edges if kind in kinds and source != target
    )
    return graph


def named(graph):
    """Links of a networkx graph, in directions of no pattern."""
    turn = random.Random(1)  # noqa: S311
    pairs = [(f"{one:05}.md", f"{other:05}.md") for one, other in graph.edges]
    return wikilinks([pair[::-1] if turn.random() < 0.5 else pair for pair in pairs])


def ranks(edges, *, over="links"):
    graph = graph_of(edges, over=over)
    return dict(zip(graph.paths, pagerank(graph).tolist(), strict=True))


def central(edges):
    graph = graph_of(edges)
    values, by = centrality(graph)
    return dict(zip(graph.paths, values.tolist(), strict=True)), by


def disjoint(*graphs):
    return nx.disjoint_union_all(graphs)


def scale_free(count, seed=1):
    return nx.powerlaw_cluster_graph(count, 3, 0.5, seed=seed)


def some_edges(most_notes=10, most_edges=25):
    """Any edges between few notes: parallel ones, loops, several components, notes that link nowhere."""
    note = st.integers(0, most_notes - 1).map("n{:02}.md".format)
    return st.lists(st.tuples(note, note, st.sampled_from(KINDS), st.integers(1, 4)), max_size=most_edges)


# What counts


def test_without_links_there_is_nothing_to_rank():
    for paths in ([], ["a.md", "b.md"]):
        found = rank_notes(paths, [], over="links", divide=divide, previous={"a.md": 3})
        assert (found.notes, found.communities) == (dict.fromkeys(paths), {})


def test_an_isolated_note_has_no_rank_and_no_community():
    edges = [*wikilinks([("a.md", "b.md"), ("self.md", "self.md")]), ("gone.md", "alone.md", "wikilink", 1)]
    found = rank_notes(
        ["alone.md", "a.md", "b.md", "self.md"], edges, over="links", divide=divide, previous={"alone.md": 7}
    )
    assert found.notes["alone.md"] is None
    assert found.notes["self.md"] is None
    assert found.notes["b.md"] == NoteRank(pytest.approx(1.85 / 2.85), pytest.approx(math.sqrt(0.5)), 8)
    assert found.communities == {8: ("a.md", "b.md")}
    assert "gone.md" not in found.notes


def test_an_edge_counts_once_however_often_it_is_written():
    once = wikilinks([("a", "b"), ("a", "c"), ("b", "c")])
    often = [*once, ("a", "c", "wikilink", 9), ("a", "c", "citation", 2)]
    assert ranks(often) == ranks(once)
    assert central(often) == central(once)
    assert divide(graph_of(often), {}) == divide(graph_of(once), {})


def test_a_note_gains_nothing_by_linking_itself():
    edges = wikilinks([("a", "b"), ("b", "c"), ("c", "a")])
    assert ranks([*edges, ("a", "a", "wikilink", 5)]) == ranks(edges)
    assert central([*edges, ("a", "a", "wikilink", 5)]) == central(edges)


def test_pagerank_follows_the_kinds_asked_for_and_centrality_all():
    edges = [("a", "b", "citation", 1), ("b", "c", "wikilink", 1), ("c", "a", "embed", 1)]
    total = 1 + 1.85 + 1
    assert ranks(edges, over="citations") == pytest.approx(
        {"a": 1 / total, "b": 1.85 / total, "c": 1 / total}
    )
    last = 1 + 0.85 * 1.85
    total = 1 + 1.85 + last
    assert ranks(edges, over="links") == pytest.approx({"a": 1 / total, "b": 1.85 / total, "c": last / total})
    assert central(edges)[0] == pytest.approx(dict.fromkeys("abc", math.sqrt(1 / 3)))


def test_ranks_and_communities_need_neither_scipy_nor_leidens_library():
    code = """if True:
        import sys
        sys.modules.update(scipy=None, graspologic_native=None)
        from pipelines.child import Child
        from pipelines.graph.centrality import rank_notes
        from pipelines.graph.louvain import louvain
        edges = [("a", "b", "wikilink", 1), ("b", "c", "wikilink", 1), ("x", "y", "wikilink", 1)]
        divide = lambda graph, previous: louvain(graph, Child())
        found = rank_notes("abcxy", edges, over="links", divide=divide, previous={"x": 7})
        print(found.centrality_by, found.communities, found.notes["a"].pagerank)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("eigenvector {8: ('a', 'b', 'c'), 7: ('x', 'y')} 0.1")


# PageRank


def test_a_hub_has_the_rank_that_its_links_give_it():
    found = ranks(wikilinks([(leaf, "hub") for leaf in "abcd"]))
    hub = 1 + 4 * 0.85
    assert found == pytest.approx({**dict.fromkeys("abcd", 1 / (4 + hub)), "hub": hub / (4 + hub)}, abs=1e-12)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_in_a_circle_all_have_the_same_rank(size):
    edges = wikilinks([(str(at), str((at + 1) % size)) for at in range(size)])
    assert list(ranks(edges).values()) == pytest.approx([1 / size] * size, abs=1e-10)


@pytest.mark.parametrize("over", ["links", "citations"])
@given(edges=some_edges())
@settings(max_examples=60)
def test_pagerank_is_that_of_networkx(edges, over):
    kinds = ("citation", "wikilink") if over == "links" else ("citation",)
    reference = directed(edges, kinds)
    expected = nx.pagerank(reference, alpha=0.85, tol=1e-12, max_iter=1_000) if reference else {}
    assert ranks(edges, over=over) == pytest.approx(expected, abs=1e-9)


def test_pagerank_is_the_exact_vector_to_a_billionth_in_sum():
    edges = named(disjoint(scale_free(300), nx.star_graph(40), nx.cycle_graph(31)))
    reference = directed(edges)
    order = sorted(reference)
    step = nx.to_numpy_array(reference, nodelist=order)
    out = step.sum(axis=1, keepdims=True)
    step = np.where(out > 0, step / np.where(out > 0, out, 1), 1 / len(order))
    exact = np.linalg.solve(np.eye(len(order)) - 0.85 * step.T, np.full(len(order), 0.15 / len(order)))
    found = ranks(edges)
    assert sum(abs(found[path] - value) for path, value in zip(order, exact, strict=True)) < 1e-9


# Centrality


def test_a_stars_hub_is_as_central_as_all_its_leaves():
    found, by = central(wikilinks([("hub", leaf) for leaf in "abcd"]))
    leaves = dict.fromkeys("abcd", math.sqrt(1 / 8))
    assert (found, by) == (pytest.approx({"hub": math.sqrt(1 / 2), **leaves}), "eigenvector")


@pytest.mark.parametrize("size", [2, 3, 4, 5, 300])
def test_in_a_circle_all_are_equally_central_also_where_it_is_bipartite(size):
    found, by = central(named(nx.cycle_graph(size) if size > 2 else nx.path_graph(2)))
    assert by == "eigenvector"
    assert list(found.values()) == pytest.approx([math.sqrt(1 / size)] * size)


def test_the_component_with_the_largest_eigenvalue_has_all_the_centrality():
    found, _ = central(wikilinks([("a", "b"), ("b", "c"), ("c", "a"), ("x", "y"), ("y", "z")]))
    assert found == pytest.approx({**dict.fromkeys("abc", math.sqrt(1 / 3)), **dict.fromkeys("xyz", 0.0)})
    assert found["x"] == 0


def test_components_with_the_same_eigenvalue_share_it_by_the_sums_of_their_vectors():
    # A star of four leaves and a circle have the eigenvalue 2. Unit vectors: hub and leaves as above, the sum is
    # 3 / sqrt(2); the circle's 1 / sqrt(5) each, the sum is sqrt(5).
    star = [("hub", leaf) for leaf in "abcd"]
    circle = [(str(at), str((at + 1) % 5)) for at in range(5)]
    found, _ = central(wikilinks(star + circle))
    length = math.sqrt(4.5 + 5)
    expected = {"hub": 1.5, **dict.fromkeys("abcd", 0.75), **dict.fromkeys("01234", 1.0)}
    assert found == pytest.approx({path: value / length for path, value in expected.items()})


def reference_centrality(edges):
    try:
        return nx.eigenvector_centrality(undirected(edges), max_iter=5_000, tol=1e-15)
    except nx.PowerIterationFailedConvergence:
        return None


@given(edges=some_edges())
@settings(max_examples=100)
def test_centrality_is_that_of_networkx(edges):
    assume(undirected(edges))
    expected = reference_centrality(edges)
    assume(expected is not None)
    assert central(edges) == (pytest.approx(expected, abs=1e-9), "eigenvector")


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(scale_free(2_000), id="scale-free"),
        pytest.param(disjoint(*[scale_free(120)] * 3, scale_free(90), nx.star_graph(9)), id="three-the-same"),
        pytest.param(disjoint(*[nx.path_graph(3)] * 200), id="many-the-same"),
        pytest.param(disjoint(*[nx.gnm_random_graph(19, 30, seed=3)] * 3), id="the-same-without-symmetry"),
        pytest.param(nx.complete_bipartite_graph(7, 19), id="bipartite"),
        pytest.param(nx.balanced_tree(3, 5), id="tree"),
        pytest.param(nx.ring_of_cliques(12, 6), id="cliques"),
    ],
)
def test_centrality_is_that_of_networkx_on_larger_graphs(graph):
    edges = named(graph)
    assert central(edges) == (pytest.approx(reference_centrality(edges), abs=1e-8), "eigenvector")


def test_a_long_chain_is_most_central_in_its_middle():
    found, by = central(named(nx.path_graph(400)))
    assert by == "eigenvector"
    exact = [math.sqrt(2 / 401) * math.sin(at * math.pi / 401) for at in range(1, 401)]
    assert list(found.values()) == pytest.approx(exact, abs=1e-9)


def test_where_the_solver_does_not_converge_centrality_is_the_degrees():
    edges = named(nx.path_graph(3_000))
    found, by = central(edges)
    assert by == "degree"
    assert found == pytest.approx(nx.degree_centrality(undirected(edges)))


# Communities


def cliques(count, size):
    """Cliques in a ring, one link between neighbours."""
    return named(nx.ring_of_cliques(count, size))


def test_cliques_are_communities():
    edges = cliques(8, 5)
    notes = notes_of(edges)
    assert divide(graph_of(edges), {}) == [tuple(notes[at : at + 5]) for at in range(0, 40, 5)]


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(nx.karate_club_graph(), id="karate"),
        pytest.param(nx.florentine_families_graph(), id="florentine"),
        pytest.param(nx.random_labeled_tree(80, seed=4), id="tree"),
        pytest.param(nx.gnm_random_graph(60, 100, seed=4), id="random"),
        pytest.param(nx.barabasi_albert_graph(400, 3, seed=4), id="preferential"),
        pytest.param(scale_free(2_000), id="scale-free"),
        pytest.param(disjoint(scale_free(200), nx.cycle_graph(9), nx.star_graph(5)), id="components"),
    ],
)
def test_modularity_is_not_below_that_of_networkx(graph):
    edges = named(nx.convert_node_labels_to_integers(graph))
    reference = undirected(edges)
    best = max(
        nx.community.modularity(reference, nx.community.louvain_communities(reference, seed=seed))
        for seed in range(3)
    )
    assert nx.community.modularity(reference, divide(graph_of(edges), {})) > best - 0.005


def divided(edges, previous):
    """The communities, by id."""
    return keep_ids(divide(graph_of(edges), previous), previous)


def ids(communities):
    return {path: number for number, group in communities.items() for path in group}


@given(edges=some_edges(20, 40), numbers=st.lists(st.integers(1, 9), max_size=20))
def test_each_linked_note_has_one_community_which_is_connected(edges, numbers):
    previous = {f"n{at:02}.md": number for at, number in enumerate(numbers)}
    reference = undirected(edges)
    groups = divide(graph_of(edges), previous)
    assert sorted(path for group in groups for path in group) == sorted(reference)
    assert all(nx.is_connected(reference.subgraph(group)) for group in groups)
    assert [len(group) for group in groups] == sorted(map(len, groups), reverse=True)


@given(edges=some_edges(20, 40), order=st.randoms(use_true_random=False))
def test_the_order_of_notes_and_edges_does_not_matter(edges, order):
    paths = notes_of(edges)
    found = rank_notes(paths, edges, over="links", divide=divide, previous={})
    order.shuffle(paths)
    order.shuffle(edges)
    assert rank_notes(paths, edges, over="links", divide=divide, previous={}) == found


def test_a_division_that_is_worse_than_one_from_scratch_is_given_up():
    chain = graph_of(wikilinks(pairwise("abcdefgh")))
    stuck = {**dict.fromkeys("abcdef", 1), **dict.fromkeys("gh", 2)}
    assert divide(chain, stuck) == divide(chain, {}) == [tuple("abc"), tuple("fgh"), tuple("de")]


# Ids that stay


def test_the_first_ids_go_by_size():
    groups = [("a", "b", "c"), ("d", "e"), ("f", "g")]
    assert keep_ids(groups, {}) == {1: groups[0], 2: groups[1], 3: groups[2]}


def test_a_community_keeps_its_id_while_most_of_its_members_stay():
    previous = {"a": 4, "b": 4, "c": 4, "x": 9, "y": 9}
    assert keep_ids([("x", "y", "c"), ("a", "b", "new")], previous) == {
        9: ("x", "y", "c"),
        4: ("a", "b", "new"),
    }


def test_half_is_not_most():
    previous = dict.fromkeys("abcd", 5)
    assert keep_ids([("a", "b"), ("c", "d")], previous) == {6: ("a", "b"), 7: ("c", "d")}


def test_where_two_become_one_the_larger_gives_the_id_which_no_other_takes():
    previous = {**dict.fromkeys("abc", 1), **dict.fromkeys("xyz", 2), **dict.fromkeys("vw", 3)}
    found = keep_ids([("a", "b", "c", "x", "y"), ("z", "n"), ("v", "w")], previous)
    assert found == {1: ("a", "b", "c", "x", "y"), 4: ("z", "n"), 3: ("v", "w")}


def test_notes_that_are_gone_do_not_count():
    previous = dict.fromkeys("abcdef", 2)
    assert keep_ids([("a", "b")], previous) == {2: ("a", "b")}


@given(
    previous=st.dictionaries(st.integers(0, 15).map(str), st.integers(1, 6)),
    now=st.lists(st.integers(0, 5), min_size=16, max_size=16),
)
def test_ids_are_kept_by_most_members_and_never_taken_over(previous, now):
    groups = {}
    for at, group in enumerate(now):
        groups.setdefault(group, []).append(str(at))
    groups = [tuple(group) for group in groups.values()]
    found = keep_ids(groups, previous)
    assert sorted(found.values()) == sorted(groups)
    of = ids(found)
    for old in set(previous.values()):
        members = [path for path, number in previous.items() if number == old]
        here = Counter(of[path] for path in members)
        where, stayed = here.most_common(1)[0]
        if 2 * stayed <= len(members):
            assert old not in found
        else:
            rivals = Counter(previous[path] for path in found[where] if path in previous)
            assert where == old or rivals[where] >= stayed
    new = set(found) - set(previous.values())
    assert all(number > max(previous.values(), default=0) for number in new)


@given(data=st.data())
@settings(max_examples=30)
def test_a_small_change_moves_no_other_note(data):
    edges = cliques(7, 6)
    before = ids(divided(edges, {}))
    inner = [edge for edge in edges if before[edge[0]] == before[edge[1]]]
    note = data.draw(st.sampled_from(sorted(before)))
    other = data.draw(st.sampled_from(sorted(set(before) - {note})))
    gone = data.draw(st.sampled_from(inner))
    after = {
        "link": [*edges, (note, other, "wikilink", 1)],
        "unlink": [edge for edge in edges if edge != gone],
        "new": [*edges, ("new.md", note, "wikilink", 1)],
        "delete": [edge for edge in edges if note not in edge],
    }[data.draw(st.sampled_from(["link", "unlink", "new", "delete"]))]
    found = ids(divided(after, before))
    assert found.pop("new.md", before[note]) == before[note]
    assert found == {path: number for path, number in before.items() if path in found}


def test_communities_settle_and_few_notes_move_when_little_changes():
    edges = named(scale_free(1_000))
    now = ids(divided(edges, {}))
    for _ in range(5):
        now = ids(divided(edges, now))
    assert ids(divided(edges, now)) == now
    pick = random.Random(2)  # noqa: S311
    more = [*edges, *wikilinks([pick.sample(sorted(now), 2) for _ in range(3)])]
    moved = sum(found != now[path] for path, found in ids(divided(more, now)).items())
    assert moved < len(now) / 10


def test_a_path_need_not_be_valid_unicode():
    edges = wikilinks([(f"\udcff{one}", f"\udcff{other}") for one, other in combinations(range(4), 2)])
    now = ids(divided(edges, {}))
    assert len(now) == 4
    assert ids(divided(edges, now)) == now
