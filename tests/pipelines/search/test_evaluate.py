import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, Qrel, R, ScoredDoc, nDCG

from pipelines.errors import JudgedQueriesError
from pipelines.search.evaluate import (
    Figures,
    Loss,
    figures,
    losses,
    mean,
    ndcg,
    read_judged,
    recall,
    reciprocal_rank,
)
from tests.oddities import ODDITIES, is_untouched, make_outside, put


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
        *("q: &a [a.md]\nr: *a", "q: " + "[" * 100_000, "q: !!int x", "q: !!timestamp x", "x" * 2_000_000),
    ],
)
def test_what_is_no_judgement_is_refused_with_the_file_named(tmp_path, text):
    with pytest.raises(JudgedQueriesError, match=r"_queries\.yaml"):
        judged(tmp_path, text)


def test_what_is_no_yaml_is_refused_with_the_line(tmp_path):
    with pytest.raises(JudgedQueriesError, match=r"_queries\.yaml cannot be read: line 3, column 1: "):
        judged(tmp_path, "a: b.md\nq: [unclosed\n")


@pytest.mark.parametrize("kind", ODDITIES)
def test_what_is_no_regular_file_is_refused_with_the_file_named(tmp_path, kind):
    outside = make_outside(tmp_path)
    put(tmp_path / "_queries.yaml", kind, outside)
    with pytest.raises(JudgedQueriesError, match=r"_queries\.yaml cannot be read"):
        read_judged(tmp_path)
    assert is_untouched(outside)


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


def test_the_first_ten_are_judged_as_they_are_shown_and_recall_at_60_by_sixty_results():
    found = figures(["x", "a"], ["x", "a", "b"], {"a": 1, "b": 1})
    assert (found.recall_10, found.recall_60, found.mrr) == (0.5, 1.0, 0.5)
    assert found.ndcg_10 == pytest.approx(0.63093 / 1.63093, abs=1e-5)


def test_figures_are_averaged_over_the_questions():
    assert mean([Figures(1.0, 0.5, 1.0, 0.0), Figures(0.0, 0.5, 0.0, 0.0)]) == Figures(0.5, 0.5, 0.5, 0.0)


def test_the_worst_loss_comes_first_and_gains_are_no_losses():
    scores = {
        "meaning": {"one": 0.5, "two": 1.0},
        "words": {"one": 0.9, "two": 0.0},
        "fused": {"one": 0.6, "two": 1.0},
        "decay": {"one": 0.8, "two": 0.2},
        "graph": {"one": 0.8, "two": 0.9},
    }
    steps = {
        name: {query: Figures(score, 0.0, 0.0, 0.0) for query, score in answers.items()}
        for name, answers in scores.items()
    }
    assert losses(steps, ("meaning", "words"), 5) == [
        Loss("two", "fused", "decay", pytest.approx(0.8)),
        Loss("one", "words", "fused", pytest.approx(0.3)),
    ]
    assert losses(steps, ("meaning", "words"), 1)[0].query == "two"
