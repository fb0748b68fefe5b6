"""A walk over a real cache: what it reads, and what it leaves out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipelines.cache.cache import SqliteCache
from pipelines.cache.schema import CacheMeta
from pipelines.model import Domain, Relations
from pipelines.search import walk as module
from pipelines.search.thresholds import BGE_LARGE
from pipelines.search.walk import deep, explore, explore_from, explore_types, fast

DIMENSION = 16
DOMAIN = Domain("vault", "")


@pytest.fixture
def cache(tmp_path):
    made = SqliteCache.create(tmp_path / "cache.db", CacheMeta("m", DIMENSION, "p"))
    yield made
    made.close()


def vector(*numbers):
    """A unit vector that begins with these numbers."""
    whole = np.zeros(DIMENSION, np.float32)
    whole[: len(numbers)] = numbers
    return whole / np.linalg.norm(whole)


def add(cache, notes):
    """Write notes as `path: their passages' vectors`."""
    con = cache.con
    con.execute("BEGIN")
    for path, vectors in notes.items():
        con.execute(
            "INSERT INTO vault_node (path, title, frontmatter, tags, aliases, modified_at, evergreen, warnings)"
            " VALUES (?1, ?1, '{}', '[]', '[]', '', 0, '[]')",
            (path,),
        )
        for position, each in enumerate(vectors):
            text_hash = f"{path}#{position}"
            con.execute("INSERT INTO vault_vector VALUES (?, ?, NULL)", (text_hash, each.tobytes()))
            con.execute(
                "INSERT INTO vault_chunk VALUES (NULL, ?, ?, '', '[]', '', ?, 0, 0, 1, 1, 1, NULL, NULL)",
                (path, position, text_hash),
            )
    con.execute("COMMIT")


def link(cache, pairs, kind="wikilink", relation=None):
    cache.con.execute("BEGIN")
    (before,) = cache.con.execute("SELECT count(*) FROM vault_edge").fetchone()
    for number, (source, target) in enumerate(pairs, before):
        cache.con.execute(
            "INSERT INTO vault_edge VALUES (?, ?, ?, ?, 0, ?)", (source, number, target, kind, relation)
        )
    cache.con.execute("COMMIT")


def embeddings_read(cache, walk):
    """Return what a walk found, and how many rows with a vector SQLite gave out meanwhile."""
    blobs = []

    def watch(_, row):
        blobs.extend(value for value in row if isinstance(value, bytes) and len(value) == 4 * DIMENSION)
        return row

    cache.con.row_trace = watch
    try:
        return walk(), len(blobs)
    finally:
        cache.con.row_trace = None


def test_a_notes_similarity_is_its_best_passages(cache):
    add(cache, {"s": [vector(1)], "n": [vector(0, 1), vector(3, 4), vector(0, 0, 1)]})
    link(cache, [("s", "n")])
    found = explore(DOMAIN, cache, ["s"], vector(1), fast(BGE_LARGE), root=None)
    assert [(n.path, round(n.similarity, 6)) for n in found.kept] == [("s", 1.0), ("n", 0.6)]


def test_without_a_question_the_notes_mean_vector_is_it(cache):
    """The mean of (1, 0) and (0, 1) is at 45 degrees: a cosine of 0.7071 to both, and 0 to (0, 0, 1)."""
    add(cache, {"s": [vector(1), vector(0, 1)], "near": [vector(1)], "far": [vector(0, 0, 1)]})
    link(cache, [("s", "near"), ("s", "far")])
    found = explore_from(DOMAIN, cache, "s", fast(BGE_LARGE, by_note=True), depth=1, root=None)
    assert [(n.path, round(n.similarity, 4)) for n in found.kept] == [("s", 0.7071), ("near", 0.7071)]
    assert [(n.path, n.similarity, n.reason) for n in found.dropped] == [
        ("far", 0.0, "below_prune_threshold")
    ]
    assert found.embeddings == 4  # the seed's two are read once


def test_a_note_without_a_vector_is_no_question(cache):
    add(cache, {"s": []})
    assert explore_from(DOMAIN, cache, "s", fast(BGE_LARGE), depth=1, root=None) is None


@pytest.mark.parametrize("effort", [fast(BGE_LARGE), deep(BGE_LARGE)])
def test_every_passage_of_a_hubs_neighbours_is_read_once(cache, effort):
    spokes = [f"n{n:04}" for n in range(400)]
    notes = {path: [vector(0, 1)] * 9 + [vector(0, 1, n)] for n, path in enumerate(spokes)}
    notes["n0399"][9] = vector(1)
    add(cache, {"hub": [vector(1)] * 20, **notes})
    link(cache, [("hub", spoke) for spoke in spokes])
    found, read = embeddings_read(
        cache, lambda: explore(DOMAIN, cache, ["hub"], vector(1), effort, root=None)
    )
    assert found.embeddings == read == 4_020
    assert [note.path for note in found.kept] == ["hub", "n0399"]
    assert (found.unread, found.stopped) == (0, "no_more_links")


def test_more_than_a_hops_budget_is_not_read(cache):
    spokes = [f"n{n:03}" for n in range(90)]
    add(cache, {"hub": [vector(1)] * 50, **{path: [vector(1), vector(1, 2)] for path in spokes}})
    link(cache, [("hub", spoke) for spoke in spokes])
    effort = replace(fast(BGE_LARGE), budget=40)
    found, read = embeddings_read(
        cache, lambda: explore(DOMAIN, cache, ["hub"], vector(1), effort, root=None)
    )
    assert found.embeddings == read == 80  # of the hub and of its spokes
    assert (len(found.kept), found.unread, found.stopped) == (6, 50, "budget_spent")


def test_the_mean_of_a_note_of_thousands_of_passages_costs_no_more_than_the_budget(cache):
    add(cache, {"s": [vector(1)] * 60})
    effort = replace(fast(BGE_LARGE, by_note=True), budget=40)
    found, read = embeddings_read(cache, lambda: explore_from(DOMAIN, cache, "s", effort, depth=1, root=None))
    assert found.embeddings == read == 40


def test_one_passage_of_each_note_is_read_before_more_of_the_best(cache):
    """Of 50 for a hop 40 go to the first passages, 9 to the rest of the best note, 1 to the next one's."""
    spokes = {f"n{n:02}": [vector(1, n)] + [vector(0, 1)] * 9 for n in range(40)}
    spokes["n01"][2] = vector(1)
    spokes["n02"][2] = vector(1)
    add(cache, {"s": [vector(1)], **spokes})
    link(cache, [("s", spoke) for spoke in spokes])
    effort = replace(fast(BGE_LARGE), budget=52)
    found = explore(DOMAIN, cache, ["s"], vector(1), effort, depth=1, root=None)
    looked_at: list[Any] = [*found.kept, *found.dropped]
    similarity = {note.path: note.similarity for note in looked_at}
    assert len(similarity) == 41
    assert found.embeddings == 53
    assert similarity["n01"] == pytest.approx(1.0)  # its first passage has 0.71
    assert similarity["n02"] == pytest.approx(1 / np.sqrt(5))


def test_backlinks_are_followed_and_say_their_kind(cache):
    add(cache, {"s": [vector(1)], "up": [vector(1)], "down": [vector(1)]})
    link(cache, [("up", "s")], "citation")
    link(cache, [("s", "down")], "embed")
    found = explore(DOMAIN, cache, ["s"], vector(1), fast(BGE_LARGE), root=None)
    assert {(n.edge.source, n.edge.target, n.edge.kind) for n in found.kept if n.edge} == {
        ("up", "s", "citation"),
        ("s", "down", "embed"),
    }


def test_a_link_to_a_file_that_is_no_note_of_the_domain_leads_nowhere(cache):
    add(cache, {"s": [vector(1)]})
    link(cache, [("s", "picture.png"), ("s", "s"), ("s", "other-domain.md")])
    found = explore(DOMAIN, cache, ["s"], vector(1), fast(BGE_LARGE), root=None)
    assert ([n.path for n in found.kept], found.dropped, found.unread) == (["s"], (), 0)


def test_a_note_whose_file_is_gone_is_left_out_unless_the_vault_is_unavailable(house):
    for name, text in {"A": "[[B]] [[C]] garden soil", "B": "garden soil", "C": "garden soil"}.items():
        house.write(f"{name}.md", text)
    house.index()
    (house.root / "B.md").unlink()
    question = house.cache.vectors.of(
        [h for (h,) in house.cache.con.execute("SELECT text_hash FROM vault_chunk WHERE path = 'B.md'")]
    ).popitem()[1]
    for root, expected in ((house.root, {"A.md", "C.md"}), (None, {"A.md", "B.md", "C.md"})):
        found = explore(DOMAIN, house.cache, ["A.md"], question, fast(BGE_LARGE), root=root)
        looked_at: list[Any] = [*found.kept, *found.dropped]
        assert {note.path for note in looked_at} == expected


TRADED = replace(DOMAIN, relations=Relations({"supplier": "customer", "customer": "supplier"}))


def reached(cache, path, *types, domain=TRADED, depth=1, **more):
    found = explore_types(domain, cache, path, types, depth=depth, root=None, **more)
    return {note.path: note.hop for note in found.kept[1:]}, found


def chain(cache):
    """Firms, each supplied by the next one, which also knows it; two of them compete."""
    add(cache, {path: [] for path in ("a", "b", "c", "d")})
    link(cache, [("a", "b"), ("b", "c"), ("c", "d")], relation="supplier")
    link(cache, [("a", "d"), ("b", "d")])
    link(cache, [("d", "a")], relation="rival")


def test_a_walk_along_types_follows_no_other_edge_and_needs_no_vector(cache):
    chain(cache)
    assert reached(cache, "a", "supplier", depth=4)[0] == {"b": 1, "c": 2, "d": 3}
    assert reached(cache, "a", "supplier", depth=2)[1].stopped == "depth"
    assert reached(cache, "a", "rival", depth=2)[0] == {"d": 1}
    assert reached(cache, "a", "rival", "supplier")[0] == {"b": 1, "d": 1}
    kept, found = reached(cache, "a", "owner")
    assert (kept, found.stopped, found.embeddings) == ({}, "no_more_links", 0)


def test_an_edge_is_walked_backwards_by_the_inverse_of_its_type(cache):
    chain(cache)
    assert reached(cache, "d", "customer", depth=4)[0] == {"c": 1, "b": 2, "a": 3}
    assert reached(cache, "d", "supplier")[0] == {}
    assert reached(cache, "d", "supplier", domain=DOMAIN)[0] == {"c": 1}, (
        "without an inverse, by its own type"
    )


def test_a_walk_along_types_does_not_go_through_hidden_notes_and_ends(cache, monkeypatch):
    chain(cache)
    assert reached(cache, "a", "supplier", depth=4, hidden={"c"})[0] == {"b": 1}
    monkeypatch.setattr(module, "MOST_OF_TYPES", 3)
    kept, found = reached(cache, "a", "supplier", "rival", depth=4)
    assert (kept, found.unread, found.stopped) == ({"b": 1, "d": 1}, 1, "budget_spent")


def test_a_walk_with_a_question_and_types_keeps_what_is_near_along_these_edges(cache):
    add(cache, {"s": [vector(1)], "n": [vector(1, 1)], "far": [vector(0, 1)], "other": [vector(1)]})
    link(cache, [("s", "n"), ("s", "far")], relation="supplier")
    link(cache, [("s", "other")])
    found = explore(TRADED, cache, ["s"], vector(1), fast(BGE_LARGE), root=None, types={"supplier"})
    assert [note.path for note in found.kept] == ["s", "n"]
    assert [note.path for note in found.dropped] == ["far"]
