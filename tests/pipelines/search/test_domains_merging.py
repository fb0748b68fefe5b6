"""Several domains are one answer: each keeps its order, and comparable evidence decides where its notes go."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cache.passages import SqlPassages
from pipelines.errors import CacheCorruptError
from pipelines.model import Decay, Domain
from pipelines.question import read_question
from pipelines.search import rank as layers
from pipelines.search.bm25 import WordPostings, read_words
from pipelines.search.domains import FederatedSearch
from pipelines.search.rank import Source, depth_for, rank_notes
from tests.pipelines.conftest import housed

NOW = datetime(2026, 11, 22, tzinfo=UTC)
WORDS = ("river", "harvest", "boat", "winter", "E4042", "garden", "豆腐", "the")
FOLDERS = {
    "garden": ["The garden in winter.", "A garden, a garden, and a harvest.", "Tofu: 豆腐.", "Compost."],
    "river": ["A boat on the river.", "The river in winter, with a boat and E4042.", "A sail."],
    "reports": [
        f"---\nauthor: Ann\npublished_at: {y}-01-01\n---\nThe harvest of {y}." for y in range(2020, 2026)
    ],
    "empty": [],
}


@pytest.fixture(scope="module")
def houses(tmp_path_factory, tiny_embedder):
    folders = {
        slug: {f"{slug} {n}.md": text for n, text in enumerate(texts)} for slug, texts in FOLDERS.items()
    }
    folders["whole"] = {k: v for one in folders.values() for k, v in one.items()}
    with ExitStack() as opened:
        yield {
            slug: opened.enter_context(housed(tmp_path_factory.mktemp(slug), tiny_embedder, notes))
            for slug, notes in folders.items()
        }


def source(house, slug, query, **settings):
    vector = house.embedder._embedder.encode_query(query)
    return Source(Domain(slug, "", legacy=True, **settings), house.cache, vector)


def rank(sources, query):
    asked = FederatedSearch(sources)
    with asked.snapshots():
        ranked = asked.rank(read_question(query), depth_for(10), NOW)
    assert not asked.failed
    return ranked


questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
settings = st.fixed_dictionaries(
    {
        "fusion": st.sampled_from(["rrf", "convex"]),
        "lexical_weight": st.sampled_from([0.3, 1.0]),
        "decay": st.sampled_from([Decay(), Decay(mode="ranked_grouped")]),
    }
)
domains = st.dictionaries(st.sampled_from(sorted(FOLDERS)), settings, min_size=2)


@given(domains, questions)
def test_each_domain_keeps_its_own_order_and_loses_no_note(houses, chosen, query):
    sources = [source(houses[slug], slug, query, **given) for slug, given in chosen.items()]
    ranked = rank(sources, query)
    for one in sources:
        alone = [hit.path for hit in rank_notes(one, read_question(query), depth_for(10), NOW).hits]
        assert [placed.hit.path for placed in ranked if placed.source is one] == alone


@given(domains, questions)
def test_the_score_is_the_sum_of_its_signals_and_never_rises_down_the_list(houses, chosen, query):
    ranked = rank([source(houses[slug], slug, query, **given) for slug, given in chosen.items()], query)
    scores = [one.hit.score for one in ranked]
    assert scores == sorted(scores, reverse=True)
    assert [one.hit.scores["merged"] for one in ranked] == scores
    assert [one.ranks["merged"] for one in ranked] == [*range(1, len(ranked) + 1)]
    assert all(one.hit.signals.keys() <= {"meaning", "words", "decay", "order"} for one in ranked)
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in scores)


@given(st.sampled_from(sorted(FOLDERS)), settings, questions)
def test_one_domain_alone_is_answered_as_it_ranks_its_notes(houses, slug, given, query):
    only = source(houses[slug], slug, query, **given)
    expected = rank_notes(only, read_question(query), depth_for(10), NOW)
    assert [one.hit for one in rank([only], query)] == expected.hits
    assert all(one.ranks == expected.ranks_of(one.hit.path) for one in rank([only], query))


@given(questions)
def test_a_domain_without_notes_changes_no_order(houses, query):
    garden, empty = source(houses["garden"], "garden", query), source(houses["empty"], "empty", query)
    alone = [one.hit.path for one in rank([garden], query)]
    assert [one.hit.path for one in rank([garden, empty], query)] == alone


def from_memory(house, wanted):
    with house.cache.snapshot():
        return WordPostings().look_up(house.cache, wanted)


def from_file(house, wanted):
    return read_words(house.cache, wanted, range(1, 100))


@pytest.mark.parametrize("look_up", [from_memory, from_file])
@given(query=questions)
def test_bm25_counts_over_all_domains_as_over_one_that_has_all_their_notes(houses, look_up, query):
    wanted = read_question(query).wanted
    found = {slug: look_up(houses[slug], wanted) for slug in [*FOLDERS, "whole"]}
    over = reduce(add, (found[slug].statistics for slug in FOLDERS))
    assert over == found["whole"].statistics
    paths = {slug: houses[slug].cache.passages.chunk_paths([*range(100)]) for slug in found}
    expected = {paths["whole"][chunk]: score for chunk, score in found["whole"].scores().best(100)}
    ours = {
        paths[slug][chunk]: score
        for slug in FOLDERS
        for chunk, score in found[slug].scores_of([*paths[slug]], over).items()
    }
    assert {path: score for path, score in ours.items() if score} == pytest.approx(expected)
    assert all(score <= found["whole"].reach(over) for score in ours.values())


def test_between_domains_that_have_no_evidence_in_common_ranks_decide(houses):
    by_meaning = source(houses["garden"], "garden", "garden")
    by_words = replace(source(houses["river"], "river", "winter river"), vector=None)
    ranked = rank([by_meaning, by_words], "winter river garden")
    assert all(one.hit.signals.keys() == {"place"} for one in ranked)
    assert {one.source.domain.slug for one in ranked[:2]} == {"garden", "river"}


def test_while_the_model_loads_domains_are_compared_by_their_words(houses):
    asked = [replace(source(houses[slug], slug, "?"), vector=None) for slug in ("garden", "river")]
    ranked = rank(asked, "E4042 winter")
    assert [one.hit.path for one in ranked] == ["river 1.md", "garden 0.md"]
    assert all(one.hit.signals.keys() <= {"meaning", "words", "order"} for one in ranked)


def test_without_words_nothing_is_looked_up(houses):
    asked = [
        replace(source(houses[slug], slug, "river"), without=frozenset({"words"}))
        for slug in ("garden", "river")
    ]
    assert all(one.hit.signals["words"] == 0.0 for one in rank(asked, "river"))


@pytest.mark.parametrize("where", [(SqlPassages, "note_facts"), (layers, "read_words"), (layers, "_nearest")])
def test_a_domain_that_fails_is_named_and_silences_no_other(houses, monkeypatch, where):
    owner, name = where
    whole = getattr(owner, name)

    def damaged(*given, **named):
        river = houses["river"].cache
        asked = (*given, *(one.cache for one in given if isinstance(one, Source)))
        if river in asked or river.passages in asked:
            raise CacheCorruptError("river is damaged")
        return whole(*given, **named)

    monkeypatch.setattr(owner, name, damaged)
    newest_first = Decay(mode="ranked_grouped")  # so that the notes' facts are read
    asked = FederatedSearch(
        [source(houses[slug], slug, "winter", decay=newest_first) for slug in ("garden", "river")]
    )
    with asked.snapshots():
        ranked = asked.rank(read_question("winter"), depth_for(10), NOW)
    assert {one.source.domain.slug for one in ranked} == {"garden"}
    assert {slug: str(error) for slug, error in asked.failed.items()} == {"river": "river is damaged"}
