"""The table of docs/notes/models.md compares what it says that it compares."""

from __future__ import annotations

import json

import pytest

from benchmarks.models import (
    SAMPLED,
    Cost,
    Measured,
    TfIdf,
    against,
    direction,
    reranked,
    smaller,
    with_words,
    words_of,
)
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.models import find_model
from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search.rank import Source
from tests.pipelines.conftest import housed


def test_a_list_is_re_ranked_by_both_scores_as_shares_of_the_best():
    first, near = {"a": 2.0, "b": 1.6, "c": 1.0}, {"a": 0.2, "b": 0.4}
    assert reranked(first, near, 1.0) == ["a", "b", "c"]
    assert reranked(first, near, 0.0) == ["b", "a", "c"]
    assert reranked(first, near, 0.5) == ["b", "a", "c"]  # 0.75, 0.9, 0.25
    assert reranked(first, near, 0.85) == ["a", "b", "c"]  # 0.925, 0.83, 0.425


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("de-answerable-01", "de to de"),
        ("examples-answerable-01", "en to en"),
        ("de-01-in-en", "en to de"),
        ("examples-01-in-zh", "zh to en"),
    ],
)
def test_a_question_says_its_language_and_that_of_its_notes(query, said):
    assert direction(query) == said


def test_a_way_is_judged_against_what_it_starts_from():
    assert against("e5, torch") == "MiniLM, torch"
    assert against("e5, re-ranked by MiniLM, w 0.5") == "e5, torch"
    assert against("tfidf and words") == "words alone"
    found = Measured()
    for number in range(30):
        found.take("words alone", "set", 0.5, 0.01)
        found.take("tfidf alone", "set", 0.4 - number % 2 / 10, 0.002)
    row = found.row("tfidf alone", ["set"], {"tfidf alone": Cost(1234.0, 56.0)})
    assert row == [
        *("tfidf alone", "0.350", "0.350"),
        *("-0.150 harmful (p < 0.001), words alone", "2.0", "1,234", "56"),
    ]


NOTES = {"a.md": "bread bread bread oven", "b.md": "oven", "c.md": "oven", "d.md": "oven"}


@pytest.fixture
def house(tmp_path, tiny_model):
    with housed(tmp_path, Embedder(find_model(str(tiny_model)), threads=1), NOTES) as house:
        yield house


@pytest.fixture
def table(house):
    return TfIdf(house.cache)


def test_tfidf_has_the_source_documents_weights(table):
    assert table._idf["bread"] == pytest.approx(1.9163, abs=1e-4)  # in one of four
    assert table._idf["oven"] == pytest.approx(1.0)  # in all four
    weights = table._weights(words_of("bread bread bread oven"))
    assert weights["oven"] / weights["bread"] == pytest.approx(2 / 3 / 1.9163, abs=1e-4)


def test_tfidf_finds_the_passages_that_have_a_word(table, house):
    scores = table.scores("the bread, unknownword")
    ((chunk, cosine),) = scores.items()
    assert house.cache.passages.chunk_paths([chunk]) == {chunk: "a.md"}
    assert cosine == pytest.approx(0.944, abs=0.001)
    source = Source(Domain("d", ""), house.cache, None)
    found = with_words(source, read_question("bread oven"), scores, scores)
    assert (found[0], len(found)) == (chunk, 4)


def test_a_copy_of_a_large_set_keeps_every_document_that_answers(tmp_path):
    (name,) = SAMPLED
    folder = tmp_path / name
    folder.mkdir()
    documents = range(SAMPLED[name] + 400)
    lines = {
        "corpus.jsonl": [json.dumps({"_id": str(one), "title": "", "text": "x"}) for one in documents],
        "queries.jsonl": [json.dumps({"_id": str(one), "text": "q"}) for one in range(300)],
        "qrels.tsv": ["query-id\tcorpus-id\tscore", *(f"{one}\t{one * 6}\t1" for one in range(300))],
    }
    for file, own in lines.items():
        (folder / file).write_text("\n".join(own) + "\n", encoding="utf-8")
    copy = smaller(name, tmp_path, tmp_path / "kept") / name
    kept = {json.loads(line)["_id"] for line in (copy / "corpus.jsonl").read_text().splitlines()}
    relevant = [line.split("\t")[1] for line in (copy / "qrels.tsv").read_text().splitlines()[1:]]
    assert len(kept) == SAMPLED[name]
    assert len(relevant) == 150
    assert kept.issuperset(relevant)
    assert smaller("cacm", tmp_path, tmp_path / "kept") == tmp_path
