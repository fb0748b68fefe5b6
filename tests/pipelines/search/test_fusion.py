from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.search.fusion import RRF_K, convex_combination, reciprocal_rank_fusion

NAMES = ["vector", "lexical", "links"]
RANKINGS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.integers(0, 9), unique=True, max_size=10), min_size=1, max_size=3
)
WEIGHTS = st.fixed_dictionaries({name: st.sampled_from([0.05, 0.5, 1.0, 2.0]) for name in NAMES})


def fuse(rankings, weights=None, **kwargs):
    return sums(reciprocal_rank_fusion(rankings, weights or dict.fromkeys(rankings, 1.0), **kwargs))


def combine(cosines, bm25s, **others):
    return sums(convex_combination({"meaning": cosines, "words": bm25s, **others}))


def sums(fused):
    return [(item, sum(signals.values())) for item, signals in fused]


def test_two_rankings_are_fused_as_worked_by_hand():
    fused = fuse({"vector": ["a", "b", "c"], "lexical": ["c", "a", "d"]}, {"vector": 1.0, "lexical": 0.5})
    assert [item for item, _ in fused] == ["a", "c", "b", "d"]
    assert dict(fused) == pytest.approx(
        {
            "a": 0.02445795,  # 1/61 + 0.5/62
            "c": 0.02406974,  # 1/63 + 0.5/61
            "b": 0.01612903,  # 1/62
            "d": 0.00793651,  # 0.5/63
        },
        abs=1e-8,
    )


def test_ranks_count_from_one_and_the_constant_is_sixty():
    assert RRF_K == 60
    assert fuse({"vector": ["a"]}) == [("a", 1 / 61)]
    assert fuse({"vector": ["a"]}, k=0) == [("a", 1.0)]


def test_agreement_beats_one_first_place():
    assert fuse({"vector": ["a", "b"], "lexical": ["c", "b"]})[0][0] == "b"


def test_a_light_ranking_cannot_turn_the_order_of_a_heavy_one():
    fused = fuse({"vector": ["a", "b"], "lexical": ["b", "x", "y", "a"]}, {"vector": 1.0, "lexical": 0.05})
    assert [item for item, _ in fused][:2] == ["a", "b"]


def test_ties_keep_the_order_in_which_the_rankings_were_given():
    assert [item for item, _ in fuse({"vector": ["a"], "lexical": ["b"]})] == ["a", "b"]
    assert [item for item, _ in fuse({"lexical": ["b"], "vector": ["a"]})] == ["b", "a"]


def test_nothing_found_is_nothing_fused():
    assert fuse({}) == []
    assert fuse({"vector": [], "lexical": []}) == []


def test_a_ranking_without_a_weight_is_an_error():
    with pytest.raises(KeyError, match="lexical"):
        fuse({"lexical": ["a"]}, {"vector": 1.0})


@given(RANKINGS, WEIGHTS)
def test_every_item_comes_once_and_best_first(rankings, weights):
    fused = fuse(rankings, weights)
    assert sorted(item for item, _ in fused) == sorted(set().union(*rankings.values()))
    assert all(first >= second for (_, first), (_, second) in pairwise(fused))


@given(RANKINGS, WEIGHTS)
def test_a_score_lies_between_the_last_place_in_one_and_the_first_in_all(rankings, weights):
    for item, score in fuse(rankings, weights):
        held = [name for name in rankings if item in rankings[name]]
        longest = max(len(rankings[name]) for name in held)
        assert score >= min(weights[name] for name in held) / (RRF_K + longest) - 1e-12
        assert score <= sum(weights[name] for name in held) / (RRF_K + 1) + 1e-12


@given(RANKINGS, WEIGHTS, st.permutations(NAMES))
def test_scores_do_not_depend_on_the_order_of_the_rankings(rankings, weights, order):
    turned = {name: rankings[name] for name in order if name in rankings}
    assert dict(fuse(turned, weights)) == pytest.approx(dict(fuse(rankings, weights)))


@given(RANKINGS, WEIGHTS, st.sampled_from([0.25, 2.0, 8.0]))
def test_only_the_ratio_of_the_weights_decides_the_order(rankings, weights, factor):
    scaled = {name: weight * factor for name, weight in weights.items()}
    assert [i for i, _ in fuse(rankings, scaled)] == [i for i, _ in fuse(rankings, weights)]


@given(RANKINGS, WEIGHTS, st.data())
def test_a_better_rank_never_lowers_a_score(rankings, weights, data):
    name = data.draw(st.sampled_from(sorted(rankings)))
    ranking = rankings[name]
    if len(ranking) < 2:
        return
    at = data.draw(st.integers(1, len(ranking) - 1))
    raised = [*ranking[: at - 1], ranking[at], ranking[at - 1], *ranking[at + 1 :]]
    assert (
        dict(fuse(rankings | {name: raised}, weights))[ranking[at]]
        > dict(fuse(rankings, weights))[ranking[at]]
    )


# The source document's rank of what a list lacks, worked by hand

SOURCES = {"words": ["a", "b", "c"], "meaning": ["b", "d"], "usage": ["c"]}
SHARES = {"words": 0.4, "meaning": 0.4, "usage": 0.2}


@pytest.mark.parametrize(
    ("absent", "scores"),
    [
        # 0.4/61 + 0.4/63 + 0.2/62, 0.4/62 + 0.4/61 + 0.2/62, 0.4/63 + 0.4/63 + 0.2/61, 0.4/64 + 0.4/62 + 0.2/62
        ("penalty", {"a": 0.016132, "b": 0.016235, "c": 0.015977, "d": 0.015927}),
        ("nothing", {"a": 0.006557, "b": 0.013009, "c": 0.009628, "d": 0.006452}),
    ],
)
def test_what_a_list_lacks_gets_nothing_or_the_rank_after_its_last(absent, scores):
    fused = dict(fuse(SOURCES, SHARES, absent=absent))
    assert fused == pytest.approx(scores, abs=5e-7)


def test_an_empty_list_says_nothing_of_any_item():
    assert fuse({"words": ["a"], "meaning": []}, SHARES, absent="penalty") == [("a", 0.4 / 61)]


# Convex combination

SCORES = st.dictionaries(st.integers(0, 9), st.floats(-1, 30), max_size=10)


def test_two_scores_are_combined_as_worked_by_hand():
    fused = combine({"a": 0.8, "b": 0.6, "c": 0.2}, {"c": 12.0, "a": 3.0, "d": 6.0})
    assert [item for item, _ in fused] == ["a", "c", "b", "d"]
    assert dict(fused) == pytest.approx(
        {
            "a": 0.625,  # 0.5 * 0.8/0.8 + 0.5 * 3/12
            "c": 0.625,  # 0.5 * 0.2/0.8 + 0.5 * 12/12
            "b": 0.375,  # 0.5 * 0.6/0.8
            "d": 0.25,  # 0.5 * 6/12
        }
    )


def test_all_parts_count_the_same():
    fused = combine({"a": 0.5, "b": 0.25}, {"b": 2.0}, sentences={"a": 0.4, "b": 0.8})
    assert dict(fused) == pytest.approx(
        {
            "a": 0.5,  # 0.5/0.5 / 3 + 0.4/0.8 / 3
            "b": 2.5 / 3,  # 0.25/0.5 / 3 + 2/2 / 3 + 0.8/0.8 / 3
        }
    )


def test_a_cosine_below_zero_counts_as_none():
    assert dict(combine({"a": -0.2, "b": 0.4}, {})) == pytest.approx({"a": 0.0, "b": 0.5})


def test_without_any_cosine_the_words_alone_decide():
    assert [item for item, _ in combine({}, {"a": 1.0, "b": 2.0})] == ["b", "a"]


@given(SCORES, SCORES, st.none() | SCORES)
def test_combined_scores_lie_between_zero_and_one_and_descend(cosines, bm25s, sentences):
    fused = combine(cosines, bm25s, **({} if sentences is None else {"sentences": sentences}))
    scores = [score for _, score in fused]
    assert {item for item, _ in fused} == cosines.keys() | bm25s.keys() | (sentences or {}).keys()
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in scores)
    assert scores == sorted(scores, reverse=True)


@given(SCORES, SCORES, st.randoms())
def test_combined_scores_do_not_depend_on_the_order_of_what_was_found(cosines, bm25s, random):
    mixed = list(cosines.items())
    random.shuffle(mixed)
    assert dict(combine(dict(mixed), bm25s)) == dict(combine(cosines, bm25s))


@given(SCORES, SCORES, st.floats(0.01, 5))
def test_a_better_bm25_never_lowers_an_item(cosines, bm25s, more):
    for item in bm25s:
        before = [i for i, _ in combine(cosines, bm25s)].index(item)
        raised = {**bm25s, item: bm25s[item] + more}
        scores = dict(combine(cosines, raised))
        better = sum(score > scores[item] + 1e-9 for score in scores.values())
        assert better <= before


def test_each_retriever_says_what_it_adds():
    assert convex_combination({"meaning": {"a": 0.4}, "words": {"a": 3.0, "b": 6.0}}) == [
        ("a", {"meaning": 0.5, "words": 0.25}),
        ("b", {"words": 0.5}),
    ]
    assert reciprocal_rank_fusion({"meaning": ["a"], "words": ["a"]}, {"meaning": 1.0, "words": 0.5}) == [
        ("a", {"meaning": 1 / 61, "words": 0.5 / 61})
    ]
