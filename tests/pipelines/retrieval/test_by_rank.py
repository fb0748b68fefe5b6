"""Between domains of different models ranks decide; an answer needs a near meaning, or a title, phrase or rare word of the question."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import Domain
from pipelines.retrieval.by_rank import Placed, merge_by_rank
from pipelines.retrieval.hit import Hit
from pipelines.retrieval.layers import Ranking, Source
from pipelines.retrieval.thresholds import Match
from pipelines.store import passages
from tests.pipelines.conftest import housed

STRONG = ("strong.md", "price.md")
NOTES = {
    "strong.md": "# Price\n\nAbout the price.",
    "price.md": "# Cost\n\nAbout the cost.",
    "Capital Allocation.md": "---\naliases: [CAPX]\n---\nWhere it goes.",
    "phrase.md": "A patient ledger keeps it.",
    "words.md": "It is patient. This is a ledger.",
    "identifier.md": "The code is E4042-B here.",
    "number.md": "The code is 4042 there, and no other.",
    "chinese.md": "# 食品\n\n发酵食品和豆腐。",
    "rare.md": "A walrus is seen once.",
    "Moats and Pricing Power.md": "On firms.",
    "nothing.md": "Something else.",
    **{f"common/{n}.md": f"A common garden, {n}." for n in range(60)},
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("guard"), tiny_embedder, NOTES) as house:
        yield house.cache


@dataclass(frozen=True)
class Judged(Placed):
    """A note that is as near in meaning as the test says."""

    verdict: Match | None = None

    @property
    def match(self):
        return self.verdict


def group(cache, slug, matches):
    """Return the ranking of a domain: its notes, each with how near it is in meaning."""
    source = Source(Domain(slug, "", legacy=True), cache, None)
    ids = {path: min(row.chunk_id for row in passages.chunks_of(cache, path)) for path in matches}
    return [
        Judged(source, Ranking([], {}), Hit(path, ids[path], {"meaning": 0.5}), verdict=match)
        for path, match in matches.items()
    ]


def merged(groups, query, others=()):
    sources = [several[0].source for several in groups if several]
    return merge_by_rank(groups, query, [*sources, *others])


def groundless(cache, query, path, match="none", others=()):
    weak, strong = group(cache, "d", {path: match}), group(cache, "e", dict.fromkeys(STRONG, "strong"))
    ranked = merged([weak, strong], query, others)
    return ranked[-1].hit.path == path


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("capital allocation", "Capital Allocation.md"),
        ("what is capital allocation about", "Capital Allocation.md"),
        ("Allocation capital", "Capital Allocation.md"),
        ("CAPX", "Capital Allocation.md"),
        ("moat and price powers", "nothing.md"),
        ("pricing power moat", "Moats and Pricing Power.md"),
        ("moat pricing power of common firms", "Moats and Pricing Power.md"),
        ('"patient ledger" common', "phrase.md"),
        ("E4042-B", "identifier.md"),
        ("豆腐", "chinese.md"),
        ("发酵食品怎么做", "chinese.md"),
        ("a common walrus", "rare.md"),
        ("WALRUS", "rare.md"),
        ('"common garden"', "common/1.md"),
    ],
)
def test_a_title_a_phrase_or_a_rare_word_supports_an_answer(cache, query, path):
    assert groundless(cache, query, path) == (path == "nothing.md")


@pytest.mark.parametrize("match", ["weak", "none"])
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("common garden", "common/1.md"),
        ("common garden of capital", "common/1.md"),
        ('"patient ledger of common"', "words.md"),
        ("walrus", "nothing.md"),
        ("", "nothing.md"),
        ("?!", "nothing.md"),
        ("the of", "nothing.md"),
        ("壹貳參", "chinese.md"),
    ],
)
def test_common_words_and_none_are_no_ground(cache, query, path, match):
    assert groundless(cache, query, path, match)


def test_a_word_is_as_rare_as_it_is_in_all_domains_together(cache):
    others = [Source(Domain(slug, "", legacy=True), cache, None) for slug in "fgh"]
    assert not groundless(cache, "common walrus", "rare.md", others=others)  # five of 350
    assert groundless(cache, "common", "common/3.md")  # sixty of seventy


@pytest.mark.parametrize("match", ["strong", None])
def test_what_is_strong_or_was_never_judged_needs_no_ground(cache, match):
    assert not groundless(cache, "something", "nothing.md", match)


MATCHES = st.dictionaries(
    st.sampled_from(sorted(NOTES)), st.sampled_from(["strong", "weak", "none", None]), max_size=12
)


@given(MATCHES, MATCHES, st.text(alphabet='abc walrus"-豆腐发酵 E4042', max_size=40))
def test_a_groundless_answer_is_always_below_the_strong_ones(cache, one, other, query):
    groups = [several for several in (group(cache, "d", one), group(cache, "e", other)) if several]
    ranked = merge_by_rank(groups, query, [several[0].source for several in groups])
    assert sorted(place.hit.path for place in ranked) == sorted([*one, *other])
    scores = [place.hit.score for place in ranked]
    if len(groups) > 1:
        assert scores == sorted(scores, reverse=True)
    gave_way = [n for n, place in enumerate(ranked) if "groundless" in place.hit.signals]
    assert all(ranked[n].match in ("weak", "none") for n in gave_way)
    assert not gave_way or all(place.match != "strong" for place in ranked[gave_way[0] :])


def test_a_groundless_answer_stays_below_a_strong_match_where_scores_are_rounded(cache):
    source = Source(Domain("d", "", legacy=True), cache, None)
    other = Source(Domain("e", "", legacy=True), cache, None)
    for last in range(60, 90):
        placed = [
            [
                Judged(one, Ranking([], {}), Hit("nothing.md", n, {"meaning": 0.5}), verdict=match)
                for n, match in enumerate([first, *[None] * last, final])
            ]
            for one, first, final in ((source, "weak", None), (other, None, "strong"))
        ]
        ranked = merge_by_rank(placed, "?", [source, other])
        (strong,) = [one.hit.score for one in ranked if one.match == "strong"]
        (weak,) = [one.hit.score for one in ranked if one.match == "weak"]
        assert weak <= strong


def test_of_the_firsts_of_two_models_the_strong_match_leads(cache):
    weak, strong = group(cache, "d", {"nothing.md": "weak"}), group(cache, "e", {"rare.md": "strong"})
    for groups in ([weak, strong], [strong, weak]):
        assert [one.hit.path for one in merged(groups, "?")] == ["rare.md", "nothing.md"]


def test_one_group_alone_stays_as_it_is(cache):
    alone = group(cache, "d", {"nothing.md": "none", "rare.md": "strong"})
    assert merge_by_rank([alone], "?", []) == alone
    assert merge_by_rank([], "?", []) == []
