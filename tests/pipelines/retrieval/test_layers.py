"""The layers in order, over a real cache."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipelines.model import Decay, Domain
from pipelines.retrieval.explain import reason, standing
from pipelines.retrieval.layers import Source, depth_for, rank_notes

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PLAIN = Domain("vault", "", legacy=True, graph_mode="off")


@pytest.fixture
def reports(house):
    for year, text in (
        ("2023", "The river harvest."),
        ("2024", "The river harvest. Bread."),
        ("2025", "The river harvest. Boat."),
    ):
        house.write(f"{year}.md", f"---\nauthor: Ann\npublished_at: {year}-06-01\n---\n{text}")
    house.write("other.md", "Winter sleep.")
    house.index()
    return house


def source(house, domain=PLAIN, query="river harvest"):
    vector = house.embedder._embedder.encode_query(query)
    return Source(domain, house.cache, vector)


def test_each_layer_leaves_its_order_and_its_number(reports):
    domain = replace(PLAIN, decay=Decay(mode="ranked_grouped"))
    ranking = rank_notes(source(reports, domain), "river harvest", depth_for(10), NOW)
    assert list(ranking.layers) == ["vector", "lexical", "fused", "decayed"]
    first = ranking.hits[0]
    assert first.scores.keys() == {"cosine", "bm25", "fused", "decay", "decayed"}
    assert first.score == first.scores["decayed"]


def test_the_newest_of_an_authors_notes_comes_first_and_the_others_weigh_less(reports):
    domain = replace(PLAIN, decay=Decay(mode="ranked_grouped"))
    ranking = rank_notes(source(reports, domain), "river harvest", depth_for(10), NOW)
    weights = {hit.path: hit.scores["decay"] for hit in ranking.hits}
    assert {path: weights[path] for path in ("2025.md", "2024.md", "2023.md")} == {
        "2025.md": 1.0,
        "2024.md": 0.6,
        "2023.md": 0.45,
    }
    assert ranking.hits[0].path == "2025.md"


def test_convex_fusion_scores_what_either_retriever_found_by_both(reports):
    ranking = rank_notes(source(reports), "river harvest", depth_for(10), NOW)
    found = {hit.path: hit.scores for hit in ranking.hits}
    assert all("cosine" in scores for scores in found.values())
    assert "bm25" not in found["other.md"]
    best = max(scores["cosine"] for scores in found.values()), max(s.get("bm25", 0) for s in found.values())
    for scores in found.values():
        by_hand = 0.5 * scores["cosine"] / best[0] + 0.5 * scores.get("bm25", 0) / best[1]
        assert scores["fused"] == pytest.approx(by_hand)


def test_a_question_is_answered_by_its_words_while_the_model_loads(reports):
    ranking = rank_notes(Source(PLAIN, reports.cache, None), "harvest", depth_for(10), NOW)
    assert {hit.path for hit in ranking.hits} == {"2023.md", "2024.md", "2025.md"}


def test_few_links_are_no_graph(reports):
    ranking = rank_notes(source(reports, replace(PLAIN, graph_mode="linear")), "river", depth_for(10), NOW)
    assert "reranked" not in ranking.layers


def test_what_is_asked_about_a_note_is_what_the_layers_made_of_it(reports):
    found = standing(source(reports), "river harvest", "other.md", 2, NOW)
    assert found.ranks["fused"] == found.candidates == 4
    assert reason(found, 2).startswith("it is number 4 of 4 candidates, and 2 are shown")
    assert reason(found, 10) == "it is number 4 of 4 candidates"
