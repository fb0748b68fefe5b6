"""Between domains of different models ranks decide, but a note that is no match stays below the strong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search.domains import Placed, merge_by_rank
from pipelines.search.fusion import NoteHit
from pipelines.search.rank import Ranking, Source
from tests.pipelines.conftest import housed

NOTES = {
    "strong.md": "# Price\n\nAbout the price.",
    "phrase.md": "A patient ledger keeps it.",
    "rare.md": "A walrus is seen once.",
    "nothing.md": "Something else.",
    **{f"common/{n}.md": f"A common garden, {n}." for n in range(60)},
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("guard"), tiny_embedder, NOTES) as house:
        yield house.cache


def group(cache, slug, notes):
    """Return the ranking of a domain: its notes, each with whether the question names it, which makes it strong."""
    source = Source(Domain(slug, "", legacy=True), cache, None)
    return [
        Placed(
            source,
            Ranking([], {}),
            NoteHit(
                path,
                min(row.chunk_id for row in cache.passages.chunks_of(path)),
                {"meaning": 0.5},
                {"named": 1.2} if is_named else {},
            ),
        )
        for path, is_named in notes.items()
    ]


def paths(ranked):
    return [place.hit.path for place in ranked]


@pytest.mark.parametrize(
    ("query", "is_below"), [("zebra", True), ("walrus", False), ("a walrus seen", False)]
)
def test_a_note_that_is_no_match_stays_below_the_strong_ones(cache, query, is_below):
    groups = [
        group(cache, "d", {"rare.md": False}),
        group(cache, "e", {"strong.md": True, "phrase.md": True}),
    ]
    assert (paths(merge_by_rank(groups, read_question(query)))[-1] == "rare.md") == is_below


@given(
    st.dictionaries(st.sampled_from(sorted(NOTES)), st.booleans(), max_size=12),
    st.dictionaries(st.sampled_from(sorted(NOTES)), st.booleans(), max_size=12),
    st.text(alphabet='abc walrus"-garden', max_size=40),
)
def test_what_gave_way_is_below_every_strong_match_and_scores_descend(cache, one, other, query):
    groups = [several for several in (group(cache, "d", one), group(cache, "e", other)) if several]
    ranked = merge_by_rank(groups, read_question(query))
    assert sorted(paths(ranked)) == sorted([*one, *other])
    scores = [place.hit.score for place in ranked]
    if len(groups) > 1:
        assert scores == sorted(scores, reverse=True)
    gave_way = [n for n, place in enumerate(ranked) if "groundless" in place.hit.signals]
    assert not any(ranked[n].hit.is_named for n in gave_way)
    assert not gave_way or not any(place.hit.is_named for place in ranked[gave_way[0] :])


def test_of_the_firsts_of_two_models_the_strong_match_leads(cache):
    one, strong = group(cache, "d", {"nothing.md": False}), group(cache, "e", {"rare.md": True})
    for groups in ([one, strong], [strong, one]):
        assert paths(merge_by_rank(groups, read_question("?"))) == ["rare.md", "nothing.md"]


def test_one_group_alone_stays_as_it_is(cache):
    alone = group(cache, "d", {"nothing.md": False, "rare.md": True})
    assert merge_by_rank([alone], read_question("?")) == alone
    assert merge_by_rank([], read_question("?")) == []
