"""What deep mode adds: wide where fast is narrow, decay as a feature, and a comparison of the two."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipelines.cache.graph import Linked
from pipelines.model import Decay, Domain
from pipelines.question import read_question
from pipelines.search.rank import Source
from pipelines.search.thresholds import BGE_LARGE
from pipelines.search.walk import Dropped, Kept, WalkResult, compare, deep, fast, retrieve

NOW = datetime(2026, 11, 21, tzinfo=UTC)
EDGE = Linked("n", "s", "n", "wikilink", 0.0)


def kept(path, hop=1, similarity=0.6):
    return Kept(path, hop, similarity, 1.0, EDGE if hop else None, "above_prune_floor" if hop else "seed")


def walk(*notes):
    return WalkResult(notes, (), 0, 0, "no_more_links")


def test_the_difference_is_what_only_one_walk_kept():
    dropped = Dropped("c", 1, 0.4, 1.0, EDGE, "below_prune_threshold")
    narrow = replace(walk(kept("a", 0), kept("b"), kept("x")), dropped=(dropped,))
    wide = walk(kept("a", 0), kept("b"), kept("c", 1, 0.4), kept("d", 2, 0.5), kept("e", 2, None))
    difference = compare(narrow, wide)
    assert difference.added == ("d", "c", "e")
    assert difference.lost == ("x",)


def test_equal_walks_have_no_difference():
    assert compare(walk(kept("a")), walk(kept("a"))) == compare(walk(), walk())


@pytest.fixture
def garden(house):
    """Three notes of one author, the two older ones decayed to nothing, and one that links to them all."""
    for name, text in {
        "Index": "[[New]] [[Old]] [[Older]] garden soil compost",
        "New": "---\nauthor: Ann\npublished: 2026-05-01\n---\ngarden soil",
        "Old": "---\nauthor: Ann\npublished: 2025-05-01\n---\ngarden soil tomato",
        "Older": "---\nauthor: Ann\npublished: 2024-05-01\n---\ngarden soil winter",
    }.items():
        house.write(f"{name}.md", text)
    house.index()
    return house


DECAYING = Domain("vault", "", decay=Decay(mode="ranked_grouped", ladder=(1.0, 0.0)))
OPEN = replace(BGE_LARGE, prune=-1.0, noise=-1.0)


def asked(garden, tiny_embedder, effort):
    source = Source(DECAYING, garden.cache, tiny_embedder.encode_query("compost"))
    return retrieve(
        source,
        read_question("compost"),
        replace(effort, seeds=1),
        root=garden.root,
        present=True,
        now=NOW,
    )


def test_the_walk_begins_with_the_searchs_best_notes(garden, tiny_embedder):
    found = asked(garden, tiny_embedder, fast(OPEN))
    assert [(note.path, note.reason) for note in found.kept if note.hop == 0] == [("Index.md", "seed")]


def test_fast_mode_filters_by_decay_and_deep_mode_flags_it(garden, tiny_embedder):
    narrow, wide = (asked(garden, tiny_embedder, effort) for effort in (fast(OPEN), deep(OPEN)))
    assert {note.path: note.reason for note in narrow.dropped} == {
        "Old.md": "decay_zero",
        "Older.md": "decay_zero",
    }
    assert {note.path: (note.reason, note.decay_weight) for note in wide.kept if note.hop} == {
        "New.md": ("above_prune_floor", 1.0),
        "Old.md": ("kept_despite_decay_zero", 0.0),
        "Older.md": ("kept_despite_decay_zero", 0.0),
    }
    assert wide.dropped == ()
    assert set(compare(narrow, wide).added) == {"Old.md", "Older.md"}


def test_an_empty_domain_has_nothing_to_walk_from(house, tiny_embedder):
    house.index()
    found = asked(house, tiny_embedder, deep(OPEN))
    assert found == WalkResult((), (), 0, 0, "no_more_links")
