"""Each model's cosines are read on its own scale."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search.domains import FederatedSearch
from pipelines.search.fusion import convex_combination
from pipelines.search.rank import Source, depth_for, rank_notes
from pipelines.search.thresholds import BGE_LARGE, E5_SMALL, MINILM, scaled, thresholds_of
from pipelines.search.vectors import comparable

NOW = datetime(2026, 11, 27, tzinfo=UTC)
E5 = "multilingual-e5-small"


@pytest.mark.parametrize("bars", [BGE_LARGE, MINILM, E5_SMALL])
def test_a_models_thresholds_are_in_order(bars):
    assert bars.noise <= bars.prune < bars.floor < 1.0
    assert bars.zero < bars.noise
    assert bars.note_prune < bars.note_floor < 1.0
    assert bars.weak < bars.strong
    assert list(bars.bands) == sorted(bars.bands, reverse=True)


@pytest.mark.parametrize("name", [E5, "intfloat/multilingual-e5-small"])
def test_e5_has_thresholds_of_its_own(name):
    assert thresholds_of(name) == E5_SMALL
    assert E5_SMALL.calibrated


def test_a_scale_ends_at_one_and_begins_where_nothing_is_in_common():
    assert scaled("all-MiniLM-L6-v2", {"a": 0.1, "b": -0.2}) == {"a": 0.1, "b": -0.2}
    found = scaled(E5, {"same": 1.0, "nothing": E5_SMALL.zero, "less": 0.7})
    assert (found["same"], found["nothing"]) == (1.0, 0.0)
    assert found["less"] < 0.0


def test_fused_cosines_of_e5_weigh_as_much_as_words():
    near = {"answer": 0.89, "other": 0.80}
    words = {"answer": 6.0, "other": 10.0}
    assert convex_combination({"meaning": near, "words": words})[0][0] == "other"
    assert convex_combination({"meaning": scaled(E5, near), "words": words})[0][0] == "answer"


@pytest.fixture
def called_e5(house, monkeypatch):
    """Return a function that makes a source whose cache says that its vectors are e5's."""
    for path, text in {
        "a.md": "The river harvest.",
        "b.md": "Winter sleep.",
        "c.md": "A river boat.",
    }.items():
        house.write(path, text)
    house.index()
    monkeypatch.setattr(house.cache, "meta", replace(house.cache.meta, model=E5))
    return lambda query: Source(
        Domain("d", "", legacy=True, graph_mode="off"),
        house.cache,
        house.embedder._embedder.encode_query(query),
    )


def test_an_answer_scales_what_it_shows_of_no_cosine(called_e5):
    ranking = rank_notes(called_e5("river harvest"), read_question("river harvest"), depth_for(10), NOW)
    cosines = {hit.path: hit.scores["cosine"] for hit in ranking.hits}
    best = max(cosines.values())
    assert best > E5_SMALL.zero
    for hit in ranking.hits:
        share = max(0.0, (cosines[hit.path] - E5_SMALL.zero) / (best - E5_SMALL.zero))
        assert hit.signals["meaning"] == pytest.approx(share / 2)


def test_domains_of_one_model_are_merged_on_its_scale(called_e5):
    one = called_e5("river harvest")
    asked = FederatedSearch([one, replace(one, domain=replace(one.domain, slug="e"))])
    with asked.snapshots():
        ranked = asked.rank(read_question("river harvest"), depth_for(10), NOW)
    cosines = [placed.hit.scores["cosine"] for placed in ranked]
    shares = [max(0.0, cosine - E5_SMALL.zero) / (max(cosines) - E5_SMALL.zero) / 2 for cosine in cosines]
    assert [placed.hit.signals["meaning"] for placed in ranked] == pytest.approx(shares)


@pytest.mark.usefixtures("called_e5")
def test_notes_in_another_language_count_as_if_they_were_in_the_questions(house):
    text = "Die Zecke wird mit einer Zange gezogen, und die Wunde wird danach gereinigt."
    house.write("german.md", text)
    house.index()
    (english,), (german,) = (house.cache.passages.chunks_of(path) for path in ("a.md", "german.md"))
    near = {english.chunk_id: 0.85, german.chunk_id: 0.83}
    found = comparable(house.cache, near, "en")
    assert found[german.chunk_id] > found[english.chunk_id]
    unknown = comparable(house.cache, near, None)
    assert unknown == scaled(E5, near)
