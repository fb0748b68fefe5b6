"""A hit is rated by its nearness and by the question's words: strong, weak or none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search import judgement
from pipelines.search.bm25 import WordPostings
from pipelines.search.fusion import Found, NoteHit
from pipelines.search.rank import Source
from tests.pipelines.conftest import housed

NOTES = {
    "nothing.md": "Something else.",
    "identifier.md": "The code is E4042-B here, in v2.10.3 of foo_bar.",
    "chinese.md": "# 食品\n\n发酵食品和豆腐。",
    "Capital Allocation.md": "---\naliases: [CAPX]\n---\nWhere it goes.",
    "The Salt Road.md": "Some lines about caravans.",
    "phrase.md": "A patient ledger keeps it.",
    "words.md": "It is patient. This is a ledger.",
    "german.md": "Die Zecke wird mit einer Zange gezogen, und die Wunde wird danach gereinigt.",
    "long.md": f"A gate. {'Some more of it. ' * 20}A garden.",
    **{f"common/{n}.md": f"A common garden and its gate, {n}." for n in range(60)},
}


@pytest.fixture(scope="module")
def house(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("judged"), tiny_embedder, NOTES) as house:
        yield house


@pytest.fixture(scope="module", params=["file", "memory"])
def source(request, house):
    """Return the domain, its words read from the file or held in memory."""
    words = WordPostings() if request.param == "memory" else None
    if words is not None:
        words.follow(house.cache)
    return Source(Domain("d", ""), house.cache, None, words=words)


def judge(source, hits, query):
    return judgement.judge(hits, read_question(query), {"d": source})


def hit_of(source, path, **scores):
    chunk = source.cache.passages.chunks_of(path)[0]
    return Found("d", NoteHit(path, chunk.chunk_id, {"meaning": 0.5}, scores), chunk)


def rated(source, query, *paths):
    return judge(source, [hit_of(source, path) for path in paths], query)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("E4042-B", "identifier.md"),
        ("v2.10.3", "identifier.md"),
        ("foo_bar", "identifier.md"),
        ('"the salt road"', "The Salt Road.md"),
        ("patient ledger", "phrase.md"),
        ('"patient ledger" -walrus', "phrase.md"),
        ('"keeps it"', "phrase.md"),
        ('"patient ledger" OR "antique car"', "phrase.md"),
        ("发酵食品", "chinese.md"),
    ],
)
def test_a_passage_with_the_whole_question_as_a_phrase_is_a_strong_match(source, query, path):
    assert rated(source, query, "nothing.md", path) == ["none", "strong"]


def test_a_note_that_the_question_names_is_a_strong_match(source):
    assert judge(source, [hit_of(source, "nothing.md", named=1.2), hit_of(source, "phrase.md")], "x") == [
        "strong",
        "none",
    ]


@pytest.mark.parametrize(
    ("query", "path"),
    [("garden", "common/1.md"), ("walking gate", "nothing.md"), ("ledger patient", "words.md")],
)
def test_a_passage_with_all_of_the_words_is_a_match_however_common_they_are(source, query, path):
    assert (rated(source, query, path) != ["none"]) == (path != "nothing.md")


def test_words_on_both_sides_of_where_a_section_is_cut_count_together(source):
    before, after = source.cache.passages.chunks_of("long.md")
    assert ("gate" in before.text, "garden" in before.text) == (True, False)
    assert ("gate" in after.text, "garden" in after.text) == (False, True)
    assert rated(source, "garden gate", "long.md") != ["none"]


@pytest.mark.parametrize(
    "query",
    ["garden passport renewal fee", "how do walruses keep a garden warm in the arctic winter", "?!", ""],
)
def test_a_common_word_beside_unknown_ones_is_no_match(source, query):
    assert rated(source, query, "common/1.md", "nothing.md") == ["none", "none"]


def test_function_words_of_other_languages_are_no_unknown_words(source):
    assert rated(source, "Wie wird die Zecke gezogen?", "german.md", "nothing.md") == ["weak", "none"]


@pytest.fixture
def english(source, monkeypatch):
    """Return a domain whose model has thresholds, which hold for English."""
    meta = replace(source.cache.meta, model="all-MiniLM-L6-v2")
    monkeypatch.setattr(source.cache, "meta", meta)
    return replace(source, vector=np.ones(meta.dimension, np.float32))


@pytest.mark.parametrize(("cosine", "match"), [(0.9, "strong"), (0.58, "weak"), (0.3, "none")])
def test_nearness_alone_decides_where_no_word_is_shared(english, cosine, match):
    assert judge(english, [hit_of(english, "words.md", cosine=cosine)], "what zebras eat") == [match]


def test_words_make_up_for_what_a_hit_lacks_in_nearness(english):
    assert judge(english, [hit_of(english, "words.md", cosine=0.45)], "ledger of zebras") == ["weak"]
    assert judge(english, [hit_of(english, "words.md", cosine=0.45)], "herds of zebras") == ["none"]


def test_where_a_hit_is_a_match_less_evidence_makes_others_weak_ones(english):
    near, farther = hit_of(english, "words.md", cosine=0.6), hit_of(english, "nothing.md", cosine=0.46)
    assert judge(english, [farther], "what zebras eat") == ["none"]
    assert judge(english, [near, farther], "what zebras eat") == ["weak", "weak"]


def test_a_cosine_that_is_high_for_every_chinese_question_is_no_match(english):
    assert judge(english, [hit_of(english, "chinese.md", cosine=0.8)], "瑞士与哪些国家接壤") == ["none"]
    assert judge(english, [hit_of(english, "chinese.md", cosine=0.8)], "发酵食品怎么做") != ["none"]


def test_a_cosine_between_two_languages_says_nothing(english):
    assert judge(english, [hit_of(english, "chinese.md", cosine=0.9)], "what do zebras eat") == ["none"]


@pytest.fixture
def multilingual(english, monkeypatch):
    """Return a domain whose model is measured in all languages, and between them."""
    monkeypatch.setattr(english.cache, "meta", replace(english.cache.meta, model="multilingual-e5-small"))
    return english


@pytest.mark.parametrize(
    ("query", "path", "cosine"),
    [
        ("Was fressen Zebras und wie schlafen sie?", "words.md", 0.83),
        ("what do zebras eat", "german.md", 0.83),
        ("what do zebras eat", "chinese.md", 0.83),
        ("斑马吃什么", "words.md", 0.85),
    ],
)
def test_a_multilingual_model_finds_matches_across_languages(multilingual, query, path, cosine):
    assert judge(multilingual, [hit_of(multilingual, path, cosine=cosine)], query) == ["weak"]
    assert judge(multilingual, [hit_of(multilingual, path, cosine=0.79)], query) == ["none"]


@pytest.mark.parametrize(
    ("query", "path", "noise", "match"),
    [
        ("what do zebras eat", "words.md", 0.84, 0.88),
        ("Was fressen Zebras und wie schlafen sie?", "german.md", 0.84, 0.88),
        ("斑马吃什么", "chinese.md", 0.88, 0.90),
    ],
)
def test_nonsense_is_no_match_in_any_language_of_a_multilingual_model(
    multilingual, query, path, noise, match
):
    assert judge(multilingual, [hit_of(multilingual, path, cosine=noise)], query) == ["none"]
    assert judge(multilingual, [hit_of(multilingual, path, cosine=match)], query) == ["weak"]


ORDER = ("none", "weak", "strong")


@given(
    st.text(alphabet='abc walrus garden gate patient ledger-"发酵食品', max_size=40),
    st.lists(st.sampled_from(sorted(NOTES)), min_size=1, max_size=6, unique=True),
    st.floats(-1, 1),
    st.floats(0, 0.5),
)
def test_a_nearer_hit_is_never_rated_lower(house, query, paths, cosine, nearer):
    source = Source(Domain("d", ""), house.cache, np.ones(house.cache.meta.dimension, np.float32))
    one = judge(source, [hit_of(source, path, cosine=cosine) for path in paths], query)
    other = judge(source, [hit_of(source, path, cosine=cosine + nearer) for path in paths], query)
    assert all(ORDER.index(before) <= ORDER.index(after) for before, after in zip(one, other, strict=True))


def test_a_word_is_as_rare_as_it_is_in_all_domains_together(source, tmp_path, tiny_embedder):
    ledgers = {f"{n}.md": "A ledger of many." for n in range(200)}
    with housed(tmp_path, tiny_embedder, ledgers) as house:
        other = Source(Domain("e", "", legacy=True), house.cache, None)
        hit = hit_of(source, "phrase.md")
        question = read_question("ledger of walruses and gates")
        assert judgement.judge([hit], question, {"d": source}) == ["weak"]
        assert judgement.judge([hit], question, {"d": source, "e": other}) == ["none"]
