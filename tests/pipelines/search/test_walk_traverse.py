from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.cache.graph import Linked
from pipelines.search.thresholds import BGE_LARGE, thresholds_of
from pipelines.search.walk import MOST_HOPS, Effort, Measured, beam_search, deep, fast

FAST, DEEP = fast(BGE_LARGE), deep(BGE_LARGE)


class World:
    """A graph with similarities, ranks, decay weights, and how many embeddings each note has."""

    def __init__(self, edges, similarity, *, ranks=None, weights=None, costs=None):
        self.edges = [(source, target, kind) for source, target, kind in edges]
        self.similarity = similarity
        self.ranks = ranks or {}
        self.weights = weights or {}
        self.costs = costs or {}

    def neighbours(self, paths):
        for source, target, kind in self.edges:
            if source in paths:
                yield Linked(target, source, target, kind, self.ranks.get(target, 0.0))
            if target in paths:
                yield Linked(source, source, target, kind, self.ranks.get(source, 0.0))

    def measure(self, paths, most):
        read, similarity = 0, {}
        for path in paths:
            cost = self.costs.get(path, 1) if self.similarity[path] is not None else 0
            if read + cost > most:
                break
            read += cost
            similarity[path] = self.similarity[path]
        return Measured(similarity, read)

    def weigh(self, paths):
        return {path: self.weights.get(path, 1.0) for path in paths}

    def walk(self, *seeds, effort=FAST, depth=MOST_HOPS):
        return beam_search(seeds, self.neighbours, self.measure, self.weigh, effort, depth)


def star(similarity, **options):
    """A seed that links to every other note."""
    edges = [("seed", path, "wikilink") for path in similarity]
    return World(edges, {"seed": 0.9, **similarity}, **options)


def links(*pairs):
    return [(pair[0], pair[1], "wikilink") for pair in pairs]


def kept(found):
    return {note.path: note.hop for note in found.kept}


def dropped(found):
    return {note.path: note.reason for note in found.dropped}


def test_bge_large_has_the_documents_numbers():
    quick = Effort(seeds=3, beam=5, target=10, prune=0.50, floor=0.65, decay_filters=True, budget=10_000)
    wide = Effort(seeds=8, beam=12, target=50, prune=0.30, floor=None, decay_filters=False, budget=10_000)
    assert fast(BGE_LARGE) == fast(BGE_LARGE, by_note=True) == quick
    assert deep(BGE_LARGE) == wide


@pytest.mark.parametrize("name", ["BAAI/bge-large-en-v1.5", "/models/BGE-large-en-v1.5"])
def test_a_model_is_known_by_the_last_part_of_its_name(name):
    assert thresholds_of(name) == BGE_LARGE


def test_an_unknown_model_has_the_lowest_bars_and_says_so():
    unknown = thresholds_of("example/another-model")
    known = thresholds_of("sentence-transformers/all-MiniLM-L6-v2")
    assert (known.calibrated, unknown.calibrated) == (True, False)
    # Notes that only seem to be copies would be hidden: of an unknown model, only equal texts are.
    assert unknown.alike is None
    assert replace(unknown, calibrated=True, alike=known.alike) == known


def test_the_documents_figure():
    """Hop 1: 4 candidates, 3 kept; hop 2 from these alone: 2 kept, 1 dropped; 5 notes beside the seed."""
    world = World(
        links("sa", "sb", "sc", "sd", "ae", "bf", "cg", "dh"),
        {"s": 0.8, "a": 0.9, "b": 0.7, "c": 0.6, "d": 0.4, "e": 0.8, "f": 0.55, "g": 0.3, "h": 0.99},
    )
    found = world.walk("s")
    assert kept(found) == {"s": 0, "a": 1, "b": 1, "c": 1, "e": 2, "f": 2}
    assert dropped(found) == {"d": "below_prune_threshold", "g": "below_prune_threshold"}
    assert (found.embeddings, found.unread, found.stopped) == (8, 0, "no_more_links")


def test_what_is_exactly_at_the_threshold_is_kept():
    found = star({"at": 0.50, "below": 0.4999}).walk("seed")
    assert kept(found) == {"seed": 0, "at": 1}


def test_deep_mode_keeps_what_is_above_its_lower_threshold():
    world = star({"at": 0.30, "below": 0.29})
    assert dropped(world.walk("seed", effort=DEEP)) == {"below": "below_prune_threshold"}


def test_the_beam_carries_the_five_most_similar_and_says_which_it_left():
    world = star({name: 0.6 + n / 100 for n, name in enumerate("abcdef")})
    world.edges.append(("a", "behind", "wikilink"))
    world.similarity["behind"] = 0.9
    found = world.walk("seed")
    assert list(kept(found)) == ["seed", *"fedcb"]
    assert dropped(found) == {"a": "beam_overflow"}


@pytest.mark.parametrize("edge", [("s", "n"), ("n", "s")])
def test_edges_are_followed_in_both_directions(edge):
    found = World(links(edge), {"s": 0.9, "n": 0.8}).walk("s")
    assert found.kept[1].edge == Linked("n", edge[0], edge[1], "wikilink", 0.0)


def test_no_walk_goes_further_than_four_hops():
    found = World(links("ab", "bc", "cd", "de", "ef"), dict.fromkeys("abcdef", 0.6)).walk("a")
    assert kept(found) == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}
    assert found.stopped == "depth"


@pytest.mark.parametrize(
    ("last", "stopped"),
    [(0.69, "good_enough"), (0.61, "no_more_links")],  # a mean of 0.654, and of 0.646 (below the floor)
)
def test_it_stops_with_ten_notes_of_a_good_mean(last, stopped):
    """The pool: the seed (0.65), four of hop 1 (0.65), five of hop 2, four of them 0.65."""
    names = ["s", *"abcd", *"efgh", "i"]
    edges = links("sa", "sb", "sc", "sd", "ae", "bf", "cg", "dh", "di", "ij")
    world = World(edges, dict.fromkeys(names, 0.65) | {"i": last, "j": 0.1})
    found = world.walk("s")
    assert len(found.kept) == 10
    assert found.stopped == stopped
    assert ("j" in dropped(found)) == (stopped != "good_enough")


def test_nine_good_notes_are_not_enough():
    world = World(
        links("sa", "sb", "sc", "sd", "ae", "bf", "cg", "dh", "hi"), dict.fromkeys("sabcdefgh", 0.9)
    )
    world.similarity["i"] = 0.1
    found = world.walk("s")
    assert (len(found.kept), found.stopped) == (9, "no_more_links")


def test_deep_mode_never_stops_early():
    world = World(links(*(f"{a}{b}" for a, b in zip("abcdef", "bcdefg", strict=True))), {})
    world.similarity = dict.fromkeys("abcdefg", 1.0)
    found = world.walk("a", effort=replace(DEEP, target=1))
    assert (len(found.kept), found.stopped) == (5, "depth")


def test_a_weight_of_zero_drops_a_note_in_fast_mode_and_marks_it_in_deep_mode():
    world = star({"new": 0.8, "old": 0.8}, weights={"old": 0.0})
    assert dropped(world.walk("seed")) == {"old": "decay_zero"}
    found = world.walk("seed", effort=DEEP)
    assert {note.path: (note.reason, note.decay_weight) for note in found.kept} == {
        "seed": ("seed", 1.0),
        "new": ("above_prune_floor", 1.0),
        "old": ("kept_despite_decay_zero", 0.0),
    }


def test_a_note_without_a_vector_is_dropped_and_a_seed_without_one_is_kept():
    found = World(links("sn"), {"s": None, "n": None}).walk("s")
    assert [(note.path, note.similarity) for note in found.kept] == [("s", None)]
    assert dropped(found) == {"n": "no_vector"}


def test_the_edge_is_the_one_from_the_better_note_a_citation_before_others():
    edges = [("s", "a", "wikilink"), ("s", "b", "wikilink"), ("b", "n", "citation")]
    edges += [("a", "n", "wikilink"), ("n", "a", "citation")]
    found = World(edges, {"s": 0.9, "a": 0.8, "b": 0.7, "n": 0.6}).walk("s")
    (edge,) = [note.edge for note in found.kept if note.path == "n"]
    assert (edge.source, edge.target, edge.kind) == ("n", "a", "citation")


def test_every_neighbour_of_a_hub_is_read():
    ranks = {f"n{n:04}": n / 5000 for n in range(5000)}
    best = {f"n{n:04}": 0.9 for n in range(5)}  # those with the lowest PageRank
    world = star(dict.fromkeys(ranks, 0.1) | best, ranks=ranks)
    found = world.walk("seed")
    assert kept(found) == {"seed": 0} | dict.fromkeys(best, 1)
    assert (found.embeddings, found.unread, found.stopped) == (5001, 0, "no_more_links")


def test_of_more_neighbours_than_a_hop_may_read_those_with_the_best_rank_are_read():
    ranks = {f"n{n:04}": n / 5000 for n in range(5000)}
    world = star(dict.fromkeys(ranks, 0.1), ranks=ranks)
    found = world.walk("seed", effort=replace(FAST, budget=50))
    assert set(dropped(found)) == {f"n{n:04}" for n in range(4950, 5000)}
    assert (found.embeddings, found.unread, found.stopped) == (51, 4950, "budget_spent")


def test_a_hub_takes_nothing_from_the_hops_behind_it():
    """Each hop reads 5: of the ten leaves at h1 and at h2 the better half, and the next hub."""
    edges, similarity, ranks = [], {"h0": 1.0}, {}
    for hop in range(1, 4):
        similarity[f"h{hop}"] = ranks[f"h{hop}"] = 1.0
        edges.append((f"h{hop - 1}", f"h{hop}", "wikilink"))
        for n in range(10):
            edges.append((f"h{hop - 1}", f"x{hop}-{n}", "wikilink"))
            similarity[f"x{hop}-{n}"] = 0.0
    found = World(edges, similarity, ranks=ranks).walk("h0", effort=replace(FAST, budget=5))
    assert kept(found) == {"h0": 0, "h1": 1, "h2": 2, "h3": 3}
    assert (found.embeddings, found.unread, found.stopped) == (16, 18, "budget_spent")


def test_a_note_that_was_not_read_can_be_read_at_a_later_hop():
    """Two a hop: the seed's third neighbour is one of `a`, too."""
    world = star({"a": 0.9, "b": 0.8, "c": 0.7}, ranks={"a": 3.0, "b": 2.0, "c": 1.0})
    world.edges.append(("a", "c", "wikilink"))
    found = world.walk("seed", effort=replace(FAST, budget=2))
    assert kept(found) == {"seed": 0, "a": 1, "b": 1, "c": 2}
    assert (found.unread, found.stopped) == (0, "no_more_links")


NAMES = [f"n{n}" for n in range(24)]
similarities = st.dictionaries(
    st.sampled_from(NAMES), st.none() | st.integers(-100, 100).map(lambda n: n / 100)
)


@st.composite
def worlds(draw):
    ends = st.sampled_from(NAMES)
    kinds = st.sampled_from(("citation", "embed", "wikilink"))
    edges = draw(st.lists(st.tuples(ends, ends, kinds), max_size=90))
    return World(
        [edge for edge in edges if edge[0] != edge[1]],
        dict.fromkeys(NAMES, 0.6) | draw(similarities),
        ranks=draw(st.dictionaries(ends, st.floats(0, 1))),
        weights=draw(st.dictionaries(ends, st.sampled_from((0.0, 0.25, 1.0)))),
        costs=draw(st.dictionaries(ends, st.integers(1, 8))),
    )


efforts = st.builds(
    Effort,
    seeds=st.just(3),
    beam=st.integers(1, 6),
    target=st.integers(1, 12),
    prune=st.sampled_from((-1.0, 0.3, 0.5)),
    floor=st.none() | st.sampled_from((0.3, 0.65)),
    decay_filters=st.booleans(),
    budget=st.sampled_from((24, 40, 1_000)),  # enough for three seeds of eight embeddings each
)
seeds = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)


@given(worlds(), seeds, efforts)
def test_a_walk_keeps_its_bounds(world, seeds, effort):
    found = world.walk(*seeds, effort=effort)
    hops = [note.hop for note in found.kept]
    assert max(hops) <= MOST_HOPS
    assert all(hops.count(hop) <= effort.beam for hop in range(1, MOST_HOPS + 1))
    reads = [0] * (MOST_HOPS + 1)
    for note in (*found.kept, *found.dropped):
        reads[note.hop] += world.costs.get(note.path, 1) if note.similarity is not None else 0
    assert max(reads[1:]) <= effort.budget
    looked_at = [note.path for note in (*found.kept, *found.dropped)]
    assert found.embeddings == sum(
        world.costs.get(path, 1) for path in looked_at if world.similarity[path] is not None
    )


@given(worlds(), seeds, efforts)
def test_every_note_that_was_read_is_kept_or_dropped_once_for_a_reason_that_holds(world, seeds, effort):
    found = world.walk(*seeds, effort=effort)
    paths = [note.path for note in (*found.kept, *found.dropped)]
    assert len(paths) == len(set(paths))
    assert {note.path for note in found.kept if note.reason == "seed"} == set(seeds)
    for note in found.kept:
        if note.reason != "seed":
            assert note.similarity >= effort.prune
            assert (note.reason == "kept_despite_decay_zero") == (note.decay_weight <= 0)
            assert note.decay_weight > 0 or not effort.decay_filters
    for note in found.dropped:
        rivals = [other for other in found.kept if other.hop == note.hop]
        assert {
            "no_vector": note.similarity is None,
            "below_prune_threshold": note.similarity is not None and note.similarity < effort.prune,
            "decay_zero": effort.decay_filters and note.decay_weight <= 0,
            "beam_overflow": len(rivals) == effort.beam
            and all(other.similarity >= (note.similarity or 0) for other in rivals),
        }[note.reason]


@given(worlds(), seeds, efforts)
def test_every_step_is_an_edge_from_a_note_that_was_kept_the_hop_before(world, seeds, effort):
    found = world.walk(*seeds, effort=effort)
    hops = kept(found)
    for note in (*found.kept, *found.dropped):
        if note.hop:
            assert (note.edge.source, note.edge.target, note.edge.kind) in world.edges
            near = {note.edge.source, note.edge.target} - {note.path}
            assert {hops[path] for path in near} == {note.hop - 1}


@given(worlds(), seeds, efforts)
def test_no_more_links_is_reported_only_if_every_note_linked_with_a_kept_one_was_read(world, seeds, effort):
    found = world.walk(*seeds, effort=effort)
    looked_at = {note.path for note in (*found.kept, *found.dropped)}
    linked = {edge.path for edge in world.neighbours([note.path for note in found.kept])}
    if found.stopped == "no_more_links":
        assert linked <= looked_at
    assert found.unread <= len(linked - looked_at)
    assert (found.stopped == "budget_spent") <= (found.unread > 0)


@given(worlds(), seeds, efforts, st.randoms(use_true_random=False))
def test_the_order_of_edges_and_seeds_does_not_matter(world, seeds, effort, random):
    expected = world.walk(*seeds, effort=effort)
    random.shuffle(world.edges)
    random.shuffle(seeds)
    assert world.walk(*seeds, effort=effort) == expected


@given(worlds(), seeds, efforts)
def test_a_deeper_walk_finds_what_a_shallower_one_finds(world, seeds, effort):
    shallow, deeper = (world.walk(*seeds, effort=effort, depth=depth) for depth in (2, 4))
    assert deeper.kept[: len(shallow.kept)] == shallow.kept
    assert deeper.dropped[: len(shallow.dropped)] == shallow.dropped


def plainly(world, seeds, effort):
    """The beam search without a budget and without an early stop, written down once more."""
    hops, frontier, seen = dict.fromkeys(seeds, 0), set(seeds), set(seeds)
    for hop in range(1, MOST_HOPS + 1):
        near = {t for s, t, _ in world.edges if s in frontier} | {
            s for s, t, _ in world.edges if t in frontier
        }
        near -= seen
        seen |= near
        good = [
            path
            for path in near
            if world.similarity[path] is not None
            and world.similarity[path] >= effort.prune
            and not (effort.decay_filters and world.weights.get(path, 1.0) == 0)
        ]
        frontier = set(sorted(good, key=lambda path: (-world.similarity[path], path))[: effort.beam])
        hops |= dict.fromkeys(frontier, hop)
    return hops


@settings(max_examples=200)
@given(worlds(), seeds, efforts)
def test_with_enough_budget_it_is_the_plain_beam_search(world, seeds, effort):
    effort = replace(effort, floor=None, budget=10_000)
    assert kept(world.walk(*seeds, effort=effort)) == plainly(world, seeds, effort)
