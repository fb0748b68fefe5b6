import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, Qrel, R, ScoredDoc, nDCG

from pipelines.errors import JudgedQueriesError
from pipelines.retrieval.evaluate import (
    Loss,
    complete,
    losses,
    ndcg,
    read_judged,
    recall,
    reciprocal_rank,
    summarise,
)


def judged(tmp_path, text):
    (tmp_path / "_queries.yaml").write_text(text, encoding="utf-8")
    return read_judged(tmp_path)


def test_a_question_has_a_path_a_list_or_grades(tmp_path):
    text = "one: a.md\ntwo: [a.md, b.md]\nthree:\n  a.md: 3\n  b.md: 1\n2026: a.md\n"
    assert judged(tmp_path, text) == {
        "one": {"a.md": 1},
        "two": {"a.md": 1, "b.md": 1},
        "three": {"a.md": 3, "b.md": 1},
        "2026": {"a.md": 1},
    }


def test_a_path_is_compared_in_composed_form(tmp_path):
    assert judged(tmp_path, 'q: "Cafe\u0301.md"') == {"q": {"Caf\u00e9.md": 1}}


@pytest.mark.parametrize(
    "text",
    [
        *("", "- a.md", "q:", "q: []", "q: {}", "q: 3", "q: [3]", "q: {a.md: 0}", "q: {a.md: high}"),
        *("q: {a.md: true}", "q: [unclosed", "\x00"),
    ],
)
def test_what_is_no_judgement_is_refused_with_the_file_named(tmp_path, text):
    with pytest.raises(JudgedQueriesError, match=r"_queries\.yaml"):
        judged(tmp_path, text)


def test_a_missing_file_is_an_error_that_says_what_to_write(tmp_path):
    with pytest.raises(JudgedQueriesError, match=r"fitness/Rest\.md"):
        read_judged(tmp_path)


def test_the_measures_are_as_worked_by_hand():
    grades = {"a": 3, "b": 1}
    # (1/log2(3) + 3/log2(5)) / (3/log2(2) + 1/log2(3)) = (0.63093 + 1.29203) / 3.63093
    assert ndcg(["x", "b", "y", "a"], grades) == pytest.approx(0.52960, abs=1e-5)
    assert recall(["x", "b", "y", "a"], grades, 2) == 0.5
    assert reciprocal_rank(["x", "b", "y", "a"], grades) == 0.5
    assert reciprocal_rank(["x"], grades) == 0.0


PATHS = st.lists(st.sampled_from("abcdefghijklmnop"), unique=True, max_size=16)
GRADES = st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.integers(1, 3), min_size=1)


@given(PATHS, GRADES)
def test_the_measures_are_those_of_trec_eval(paths, grades):
    qrels = [Qrel("q", path, grade) for path, grade in grades.items()]
    run = [ScoredDoc("q", path, -float(place)) for place, path in enumerate(paths)]
    # Without any answer it has no figure.
    theirs = {str(nDCG @ 10): 0.0, str(R @ 10): 0.0, str(RR): 0.0}
    theirs |= {str(m): v for m, v in ir_measures.calc_aggregate([nDCG @ 10, R @ 10, RR], qrels, run).items()}
    assert ndcg(paths, grades) == pytest.approx(theirs["nDCG@10"])
    assert recall(paths, grades, 10) == pytest.approx(theirs["R@10"])
    assert reciprocal_rank(paths, grades) == pytest.approx(theirs["RR"])


def test_a_layer_that_took_no_part_leaves_what_was_there():
    layers = {"vector": ["a"], "lexical": ["b"], "fused": ["b", "a"]}
    assert complete(layers)["reranked"] == complete(layers)["decayed"] == ["b", "a"]
    assert complete({**layers, "decayed": ["a", "b"]})["reranked"] == ["a", "b"]


def test_layers_are_averaged_over_the_questions():
    answers = [({"a": 1}, {"fused": ["a"]}), ({"a": 1}, {"fused": ["b", "a"]})]
    assert summarise(answers)["fused"].mrr == 0.75


def test_the_worst_loss_comes_first_and_gains_are_no_losses():
    layers = complete(
        {"vector": ["a", "b"], "lexical": ["b", "a"], "fused": ["b", "a"], "decayed": ["a", "b"]}
    )
    worse = complete({"vector": ["a"], "lexical": [], "fused": ["a"], "decayed": ["b"]})
    found = losses({"one": ({"a": 1}, layers), "two": ({"a": 1}, worse)}, 5)
    assert found == [
        Loss("two", "fused", "decayed", 1.0),
        Loss("one", "vector", "fused", pytest.approx(1 - 0.63093, abs=1e-5)),
    ]
