"""The filter `min_similarity`: only passages that are near enough to the question."""

from __future__ import annotations

import pytest

from pipelines.filters import BANDS, Filters, parse_filters
from pipelines.search.operators import passing_chunks
from pipelines.search.thresholds import band_of, lowest_cosine


@pytest.fixture
def written(house):
    for name, text in {"a": "garden soil compost", "b": "river boat sail", "c": "market price share"}.items():
        house.write(f"{name}.md", f"# {name}\n\n{text}")
    house.index()
    return house.cache


def test_only_passages_with_that_cosine_pass(written, house):
    (question,) = house.embedder.encode_documents(["garden soil"])
    known = written.search.cosines(question, [1, 2, 3])
    for lowest in (-1.0, *known.values(), 1.0):
        found = passing_chunks(written, Filters(min_similarity=lowest), (), question)
        assert set(found) == {chunk for chunk, cosine in known.items() if cosine >= lowest}
    nearest = max(known, key=known.get)
    both = parse_filters([("path", "b.md"), ("min_similarity", "-1")])
    assert len(passing_chunks(written, both, (), question)) == 1
    assert nearest not in passing_chunks(
        written, Filters(min_similarity=-1.0), {"a.md", "b.md", "c.md"}, question
    )


def test_without_the_questions_vector_nothing_is_known_to_be_near(written):
    assert passing_chunks(written, Filters(min_similarity=-1.0), (), None) == []
    assert passing_chunks(written, Filters(), (), None) is None


@pytest.mark.parametrize(
    ("model", "lowest"),
    # The source documents' figures, and what was measured to mean the same.
    [("BAAI/bge-large-en-v1.5", (0.8, 0.6, 0.4, 0.3)), ("all-MiniLM-L6-v2", (0.96, 0.5, 0.35, 0.22))],
)
def test_a_band_begins_at_its_lowest_cosine_by_the_model(model, lowest):
    assert tuple(lowest_cosine(model, band) for band in BANDS) == lowest
    assert lowest_cosine(model, 0.25) == 0.25
    assert [band_of(model, cosine) for cosine in lowest] == list(BANDS)
    assert [band_of(model, cosine - 0.001) for cosine in lowest] == [*BANDS[1:], None]
    assert band_of(model, None) is None
