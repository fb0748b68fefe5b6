"""Ranks follow the edges: when they are due, what they are, and what stays while they are computed."""

from __future__ import annotations

import networkx as nx
import pytest

from pipelines.ranking import rank_domain
from pipelines.store import neighbours, ranks


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
    rank_domain(house.cache, "links")
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


def test_a_note_that_links_and_is_linked_has_a_rank_and_others_have_none(house):
    fill(house)
    assert rank_domain(house.cache, "links") == 5
    graph = nx.DiGraph((e.source, e.target) for e in ranks.read_graph(house.cache).edges)
    for path, rank in nx.pagerank(graph, tol=1e-12).items():
        assert neighbours.rank_of(house.cache, path).pagerank == pytest.approx(rank, abs=1e-6)
    assert neighbours.rank_of(house.cache, "alone.md") is None
    assert neighbours.best_ranked(house.cache, None, 1) == ["hub.md"]
    (community,) = neighbours.communities(house.cache, 2)
    assert (community.notes, community.examples[0]) == (5, "hub.md")
    assert "bread" in community.label


def test_ranks_over_citations_leave_other_links_out(house):
    house.write("a.md", "[[b]]")
    house.write("b.md", "## Sources\n\n[[c]]")
    house.write("c.md", "")
    house.index()
    rank_domain(house.cache, "citations")
    by = {path: neighbours.rank_of(house.cache, path).pagerank for path in ("a.md", "b.md", "c.md")}
    assert by["a.md"] == pytest.approx(by["b.md"])
    assert by["c.md"] > by["b.md"]


def test_edges_that_change_while_ranks_are_computed_leave_them_behind(house):
    fill(house)
    before = ranks.read_graph(house.cache)
    house.save("a.md", "[[alone]]")
    ranks.write_ranks(house.cache, before.generation, [], {}, "degree")
    assert house.cache.edges.ranks_behind()
    house.now += 2
    assert due(house)


def test_a_deleted_notes_rank_goes_with_the_next_ranks(house):
    fill(house)
    rank_domain(house.cache, "links")
    (house.root / "d.md").unlink()
    house.index()
    assert house.cache.edges.ranks_behind()
    rank_domain(house.cache, "links")
    assert neighbours.rank_of(house.cache, "d.md") is None


def test_a_community_keeps_its_number_when_a_note_joins_it(house):
    fill(house)
    rank_domain(house.cache, "links")
    (before,) = neighbours.communities(house.cache, 1)
    house.save("new.md", "[[hub]] [[a]] [[b]]")
    rank_domain(house.cache, "links")
    (after,) = neighbours.communities(house.cache, 1)
    assert (after.id, after.notes) == (before.id, before.notes + 1)
