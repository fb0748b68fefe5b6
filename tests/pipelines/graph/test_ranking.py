"""Ranks follow the edges: when they are due, what they are, and what stays while they are computed."""

from __future__ import annotations

import sys
from dataclasses import replace

import networkx as nx
import pytest

from pipelines.cache.graph import RankedBy
from pipelines.child import Child
from pipelines.errors import ApartStoppedError
from pipelines.graph import ranking
from pipelines.graph.ranking import rank_domain, rank_drift, ranks_are_otherwise
from pipelines.model import Domain

PLAIN = Domain("vault", "", legacy=True)
LEIDEN = replace(PLAIN, communities="leiden")


def due(house) -> bool:
    return house.cache.edges.ranks_due()


def fill(house) -> None:
    house.write("hub.md", "# Hub")
    for name in "abcd":
        house.write(f"{name}.md", "---\ntags: [bread]\n---\n[[hub]] [[a]] [[b]] [[c]] [[d]]")
    house.write("alone.md", "[[alone]]")
    house.index()


def test_ranks_are_due_when_the_edges_have_been_quiet_for_two_seconds(house):
    assert not due(house)
    fill(house)
    assert not due(house)
    house.now += 2
    assert due(house)
    rank_domain(house.cache, PLAIN)
    assert not due(house)


def test_ranks_are_due_after_thirty_seconds_however_busy_it_is(house):
    fill(house)
    for n in range(30):
        assert not due(house), n
        house.now += 1
        house.save("a.md", f"[[hub]] {'[[b]] ' * (n + 1)}")
    assert due(house)


def test_ranks_written_before_a_reboot_do_not_wait_for_the_clock(house):
    fill(house)
    house.now = 5.0
    assert due(house)


def test_ranks_are_due_when_a_linked_documents_format_is_no_longer_wanted_and_when_it_is_again(house):
    house.write("list.txt", "Buy milk.")
    house.write("a.md", "[[list.txt]] [[b]]")
    house.write("b.md", "[[a]]")
    for formats in ("md, txt", "md", "md, txt"):
        house.write("_domains.yaml", f"vault:\n  legacy: true\n  formats: [{formats}]\n")
        house.index()
        house.now += 2
        assert due(house), formats
        rank_domain(house.cache, PLAIN)
        assert rank_drift(house.cache, PLAIN) == []


def test_a_note_that_links_and_is_linked_has_a_rank_and_others_have_none(house):
    fill(house)
    assert rank_domain(house.cache, PLAIN).notes == 5
    graph = nx.DiGraph((e.source, e.target) for e in house.cache.graph.read().edges)
    for path, rank in nx.pagerank(graph, tol=1e-12).items():
        assert house.cache.graph.rank_of(path).pagerank == pytest.approx(rank, abs=1e-6)
    assert house.cache.graph.rank_of("alone.md") is None
    assert house.cache.graph.best_ranked(None, 1) == ["hub.md"]
    (community,) = house.cache.graph.communities(2)
    assert (community.notes, community.examples[0]) == (5, "hub.md")
    assert "bread" in community.label


def test_types_change_no_rank(house):
    def ranks():
        rank_domain(house.cache, PLAIN)
        return house.cache.graph.read_ranks()

    notes = {
        "hub.md": "",
        "a.md": "{}[[hub]]{} [[hub]]",
        "b.md": "{}[[hub]]{} [[a]] {}[[a]]{}",
        "c.md": "{}[[b]]{}",
    }
    for path, text in notes.items():
        house.write(path, text.replace("{}", ""))
    house.index()
    before = ranks()
    for path, text in notes.items():
        house.write(path, text.format(*["(made of:: ", ")"] * 2))
    house.index()
    assert {edge.type for edge in house.cache.graph.read_edges()} == {"made_of", None}
    assert ranks() == before


def test_ranks_over_citations_leave_other_links_out(house):
    house.write("a.md", "[[b]]")
    house.write("b.md", "## Sources\n\n[[c]]")
    house.write("c.md", "")
    house.index()
    rank_domain(house.cache, replace(PLAIN, pagerank_over="citations"))
    by = {path: house.cache.graph.rank_of(path).pagerank for path in ("a.md", "b.md", "c.md")}
    assert by["a.md"] is None  # its one link is no citation: for the reranking it is as a note without links
    assert by["c.md"] == pytest.approx(by["b.md"] * 1.85)


def test_edges_that_change_while_ranks_are_computed_leave_them_behind(house):
    fill(house)
    before = house.cache.graph.read()
    house.save("a.md", "[[alone]]")
    house.cache.graph.write_ranks(before.generation, [], {}, RankedBy("", "degree", "leiden"))
    assert house.cache.edges.ranks_behind()
    house.now += 2
    assert due(house)


def test_a_deleted_notes_rank_goes_with_the_next_ranks(house):
    fill(house)
    rank_domain(house.cache, PLAIN)
    (house.root / "d.md").unlink()
    house.index()
    assert house.cache.edges.ranks_behind()
    (community,) = house.cache.graph.communities(9)
    assert (community.notes, "d.md" in community.examples) == (4, False)
    assert house.cache.graph.unranked() == 1
    rank_domain(house.cache, PLAIN)
    assert house.cache.graph.rank_of("d.md") is None


def test_a_community_keeps_its_number_when_a_note_joins_it(house):
    fill(house)
    rank_domain(house.cache, PLAIN)
    (before,) = house.cache.graph.communities(1)
    house.save("new.md", "[[hub]] [[a]] [[b]]")
    rank_domain(house.cache, PLAIN)
    (after,) = house.cache.graph.communities(1)
    assert (after.id, after.notes) == (before.id, before.notes + 1)


def test_a_changed_title_or_tag_recomputes_the_label_of_the_community(house):
    house.save("a.md", "# Garden\n\n[[b]]")
    house.save("b.md", "# Soil\n\n[[a]]")
    rank_domain(house.cache, PLAIN)
    assert not house.cache.edges.ranks_behind()
    house.save("a.md", "# Garden\n\n[[b]] More.")
    assert not house.cache.edges.ranks_behind()
    house.save("a.md", "# River\n\n[[b]] More.")
    assert house.cache.edges.ranks_behind()
    rank_domain(house.cache, PLAIN)
    house.save("b.md", "---\ntags: [boat]\n---\n# Soil\n\n[[a]]")
    assert house.cache.edges.ranks_behind()


def two_clusters(house) -> None:
    for names in ("abcd", "wxyz"):
        for name in names:
            house.write(f"{name}.md", " ".join(f"[[{other}]]" for other in names if other != name))
    house.write("a.md", "[[b]] [[c]] [[d]] [[w]]")
    house.index()


@pytest.fixture
def apart(monkeypatch):
    """Even a small graph is divided in a process of its own."""
    monkeypatch.setattr("pipelines.graph.louvain._FEW_PAIRS", 0)


def divided(house) -> dict[str, int]:
    return {path: community for path, (*_, community) in house.cache.graph.read_ranks().items() if community}


@pytest.mark.parametrize("domain", [PLAIN, LEIDEN])
def test_communities_are_louvains_or_leidens_and_keep_their_numbers(house, domain):
    two_clusters(house)
    assert rank_domain(house.cache, domain).problem is None
    assert house.cache.graph.ranked_by() == RankedBy(
        f"links all {domain.communities}", "eigenvector", domain.communities
    )
    before = divided(house)
    assert {frozenset(p for p in before if before[p] == n) for n in set(before.values())} == {
        frozenset(f"{name}.md" for name in names) for names in ("abcd", "wxyz")
    }
    house.save("new.md", "[[x]] [[y]] [[z]]")
    rank_domain(house.cache, domain)
    assert divided(house) == before | {"new.md": before["x.md"]}
    assert rank_drift(house.cache, domain) == []


@pytest.mark.usefixtures("apart")
def test_a_graph_that_takes_louvain_too_long_is_leidens_until_it_has_fewer_links(house, monkeypatch):
    two_clusters(house)
    with monkeypatch.context() as patched:
        for name, value in (("graph.ranking._LOUVAIN", 0.0), ("child._LOOK", 0.0), ("child._STOP", 0.01)):
            patched.setattr(f"pipelines.{name}_SECONDS", value)
        assert rank_domain(house.cache, PLAIN).problem is None
    expected = house.cache.graph.ranked_by()
    assert expected == RankedBy("links all louvain", "eigenvector", "leiden", 13, expected.slow_at)
    assert not ranks_are_otherwise(house.cache, PLAIN)
    assert rank_drift(house.cache, PLAIN) == []
    house.save("new.md", "[[x]]")
    rank_domain(house.cache, PLAIN)
    assert house.cache.graph.ranked_by() == expected
    assert len(set(divided(house).values())) == 2
    with monkeypatch.context() as patched:
        patched.setattr("pipelines.graph.ranking._AGAIN_SECONDS", 0.0)
        rank_domain(house.cache, PLAIN)
    by_louvain = replace(expected, communities="louvain", slow_pairs=0, slow_at=0.0)
    assert house.cache.graph.ranked_by() == by_louvain
    house.cache.graph.write_ranks(house.cache.graph.read().generation, [], {}, expected)
    house.save("new.md", "")
    house.save("a.md", "[[b]] [[c]] [[d]]")
    rank_domain(house.cache, PLAIN)
    assert house.cache.graph.ranked_by() == by_louvain


def test_other_settings_than_the_ranks_are_by_are_noticed_without_a_change_of_links(house):
    two_clusters(house)
    # There are none yet: they are due for the links' sake.
    assert not ranks_are_otherwise(house.cache, LEIDEN)
    rank_domain(house.cache, PLAIN)
    for changed in (LEIDEN, replace(PLAIN, pagerank_over="citations"), replace(PLAIN, central_over="links")):
        assert ranks_are_otherwise(house.cache, changed)
        assert rank_drift(house.cache, changed) == []
        rank_domain(house.cache, changed)
        assert not ranks_are_otherwise(house.cache, changed)


@pytest.mark.parametrize(
    "change", ["DELETE FROM vault_meta", "UPDATE vault_meta SET value = 'links all leiden'"]
)
def test_ranks_of_an_earlier_version_are_recomputed(house, change):
    two_clusters(house)
    rank_domain(house.cache, PLAIN)
    house.cache.con.execute(f"{change} WHERE key = 'ranked_by'")
    assert ranks_are_otherwise(house.cache, PLAIN)
    assert ranks_are_otherwise(house.cache, LEIDEN)


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("script", ["kill -9 $$", "exit 3", "exit 0", "echo odd"])
def test_a_child_that_fails_leaves_communities_by_leiden_and_says_so(house, tmp_path, monkeypatch, script):
    two_clusters(house)
    program = tmp_path / "interpreter"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(program))
        found = rank_domain(house.cache, PLAIN)
    assert found.notes == 8
    assert "vault: its communities are by Leiden's method" in found.problem
    assert len(set(divided(house).values())) == 2
    assert ranks_are_otherwise(house.cache, PLAIN)
    assert rank_domain(house.cache, PLAIN).problem is None


@pytest.fixture
def bare(monkeypatch):
    """Leiden's library is not installed."""
    monkeypatch.setitem(sys.modules, "graspologic_native", None)
    monkeypatch.delitem(sys.modules, "pipelines.graph.leiden", raising=False)


@pytest.mark.usefixtures("apart", "bare")
@pytest.mark.parametrize("domain", [PLAIN, LEIDEN])
def test_without_leidens_library_louvains_method_has_all_the_time_it_needs(house, monkeypatch, domain):
    for name in ("graph.ranking._LOUVAIN", "child._LOOK", "child._STOP"):
        monkeypatch.setattr(f"pipelines.{name}_SECONDS", 0.01)
    two_clusters(house)
    problem = rank_domain(house.cache, domain).problem
    assert problem is None if domain is PLAIN else "`pip install 'everindex[leiden]'`" in problem
    assert house.cache.graph.ranked_by().communities == "louvain"
    before = divided(house)
    house.save("new.md", "[[x]] [[y]] [[z]]")
    rank_domain(house.cache, domain)
    assert divided(house) == before | {"new.md": before["x.md"]}
    assert not ranks_are_otherwise(house.cache, domain)
    assert rank_drift(house.cache, domain) == []


@pytest.mark.parametrize("domain", [PLAIN, LEIDEN])
def test_ranks_are_otherwise_once_leidens_library_comes_or_goes(house, request, domain):
    two_clusters(house)
    rank_domain(house.cache, domain)
    request.getfixturevalue("bare")
    assert ranks_are_otherwise(house.cache, domain)
    assert rank_drift(house.cache, domain) == []
    rank_domain(house.cache, domain)
    assert not ranks_are_otherwise(house.cache, domain)
    request.getfixturevalue("monkeypatch").undo()
    assert ranks_are_otherwise(house.cache, domain)


@pytest.mark.usefixtures("apart", "bare")
def test_a_child_that_fails_without_leidens_library_leaves_communities_as_they_are(house, monkeypatch):
    two_clusters(house)
    rank_domain(house.cache, PLAIN)
    before = divided(house)
    house.save("new.md", "[[x]] [[y]] [[z]]")
    house.save("a.md", "")
    house.save("b.md", "[[d]]\n\n## Sources\n\n[[c]]")
    for name in "cd":
        house.save(f"{name}.md", "[[b]] [[c]] [[d]]")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "vault: its communities are those of before" in rank_domain(house.cache, PLAIN).problem
    before.pop("a.md")
    assert divided(house) == before
    assert ranks_are_otherwise(house.cache, PLAIN)
    rank_domain(house.cache, replace(PLAIN, central_over="citations"))
    assert divided(house) == {path: before[path] for path in ("b.md", "c.md")}


@pytest.mark.usefixtures("apart")
def test_a_worker_that_stops_leaves_the_ranks_for_its_next_start(house):
    two_clusters(house)
    child = Child()
    child.stop()
    with pytest.raises(ApartStoppedError):
        rank_domain(house.cache, PLAIN, child)
    assert house.cache.edges.ranks_behind()


@pytest.mark.parametrize("program", [None, "/bin/false"], ids=["in another process", "which dies"])
def test_a_large_graph_has_the_ranks_that_this_process_computes(house, monkeypatch, program):
    two_clusters(house)
    rank_domain(house.cache, LEIDEN)
    expected = house.cache.graph.read_ranks()
    house.cache.graph.forget_ranks()
    monkeypatch.setattr(ranking, "_MANY_LINKS", 1)
    here, leiden = [], ranking._leiden
    monkeypatch.setattr(ranking, "_leiden", lambda *given: here.append(1) or leiden(*given))
    if program:
        monkeypatch.setattr(sys, "executable", program)
    assert rank_domain(house.cache, LEIDEN).notes == len(expected)
    assert house.cache.graph.read_ranks() == expected
    assert bool(here) == bool(program)
    assert rank_drift(house.cache, LEIDEN) == []


def test_centrality_and_communities_go_by_the_kinds_asked_for(house):
    house.write("a.md", "[[b]]")
    house.write("b.md", "## Sources\n\n[[c]]")
    house.write("c.md", "![[d]]")
    house.write("d.md", "")
    house.index()
    expected = {"all": "abcd", "links": "abc", "citations": "bc"}
    for over, names in expected.items():
        rank_domain(house.cache, replace(PLAIN, central_over=over))
        assert sorted(divided(house)) == [f"{name}.md" for name in names]
        facts = house.cache.passages.note_facts([f"{name}.md" for name in "abcd"])
        assert {path[0] for path, one in facts.items() if one.centrality is not None} == set(names)
        assert house.cache.graph.unranked() == 4 - len(names)
        assert sum(found.notes for found in house.cache.graph.communities(9)) == len(names)
