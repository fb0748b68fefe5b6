"""`preset: source`: one question worked through by hand, by the source document's own figures."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from pipelines.domains import parse
from pipelines.graph.ranking import rank_domain
from pipelines.question import read_question
from pipelines.search.rank import Source, depth_for, rank_notes
from tests.pipelines.conftest import House

# So late that no file is young; `canon` says that it was modified then.
NOW = datetime(2100, 1, 15, tzinfo=UTC)
COSINES = {"canon": 0.8, "fresh": 0.6} | {f"leaf{n}": 0.3 - n / 100 for n in range(10)}


class ByHand:
    """Encodes a text as a vector with the cosine to (1, 0) that `COSINES` has for a word of it."""

    def __init__(self, info):
        self.info = replace(info, dimension=2)

    def encode_documents(self, texts):
        cosines = [next(c for name, c in COSINES.items() if name in text.casefold()) for text in texts]
        return np.array([(c, np.sqrt(1 - c * c)) for c in cosines], np.float32)


@pytest.fixture
def house(vault, tmp_path, tiny_embedder):
    (tmp_path / "made").mkdir()
    made = House(vault, tmp_path / "made", ByHand(tiny_embedder.info))
    yield made
    made.cache.close()


def test_one_question_by_hand(house):
    """The question is "river", its vector (1, 0). Ten leaves cite `canon`; `fresh` has no link at all.

    Layer 1, RRF (k = 60, weights 1 and 0.5). By meaning: canon, fresh, leaf0 to leaf9; by words: fresh alone.
        canon  1/61                = 0.016393
        fresh  1/62 + 0.5/61       = 0.016129 + 0.008197 = 0.024326
        leaf0  1/63                = 0.015873,  leaf9  1/72 = 0.013889
    Layer 2, decay. Ann wrote fresh (2025, first: x 1.0) and canon (2024, second: x 0.6); leaves have no author.
        canon  0.016393 x 0.6      = 0.009836
    Layer 3. v = (score - 0.009836) / (0.024326 - 0.009836): canon 0, fresh 1, leaf0 0.006037 / 0.014490 = 0.416638,
    leaf9 0.004053 / 0.014490 = 0.279703.
    PageRank: a leaf has x, canon x + 0.85 * 10 x = 9.5 x; shares 1 and 1/9.5 = 0.105263. Centrality of a star of ten:
    1 and 1/sqrt(10) = 0.316228. `fresh` has neither: v takes the place of both.
        canon  0.6 * 0        + 0.25 * 1        + 0.15 * 1        = 0.40, modified lately: + 0.05 = 0.45
        fresh  0.6 * 1        + 0.25 * 1        + 0.15 * 1        = 1.00
        leaf0  0.6 * 0.416638 + 0.25 * 0.105263 + 0.15 * 0.316228 = 0.249983 + 0.026316 + 0.047434 = 0.323733
        leaf9  0.6 * 0.279703 + 0.026316        + 0.047434        = 0.241572
    """
    house.write("canon.md", "---\nauthor: Ann\npublished: 2024-01-01\nmodified: 2100-01-01\n---\nCanon.")
    house.write("fresh.md", "---\nauthor: Ann\npublished: 2025-01-01\n---\nFresh river.")
    for n in range(10):
        house.write(f"leaf{n}.md", f'---\ncites: "[[canon]]"\n---\nLeaf{n}.')
    house.index()
    (domain,) = parse("vault: {legacy: true, preset: source, decay: {mode: ranked_grouped}}")
    assert rank_domain(house.cache, domain).problem is None
    question = np.array([1.0, 0.0], np.float32)
    ranking = rank_notes(Source(domain, house.cache, question), read_question("river"), depth_for(10), NOW)
    by_path = {hit.path: hit for hit in ranking.hits}
    figures = {
        "fresh.md": (0.024326, 0.024326, 1.0),
        "canon.md": (0.016393, 0.009836, 0.45),
        "leaf0.md": (0.015873, 0.015873, 0.323733),
        "leaf9.md": (0.013889, 0.013889, 0.241572),
    }
    for path, (fused, decayed, reranked) in figures.items():
        scores = by_path[path].scores
        assert scores["fused"] == pytest.approx(fused, abs=1e-6), path
        assert scores["decayed"] == pytest.approx(decayed, abs=1e-6), path
        assert scores["reranked"] == pytest.approx(reranked, abs=1e-6), path
        assert by_path[path].score == pytest.approx(reranked, abs=1e-6), path
    assert [hit.path for hit in ranking.hits][:3] == ["fresh.md", "canon.md", "leaf0.md"]
