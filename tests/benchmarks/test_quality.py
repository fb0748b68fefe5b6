"""The tables of docs/notes/quality.md say what was measured."""

from __future__ import annotations

import pytest

from benchmarks.context import OPTIONS as CONTEXT_OPTIONS
from benchmarks.judged import JudgedSet
from benchmarks.quality import (
    OPTIONS,
    STACK,
    SetAnswers,
    choices,
    layers_table,
    options_by_set,
    options_table,
    others,
    over_all,
    sampled,
    ways_table,
)
from pipelines.model import Domain
from pipelines.search.evaluate import Figures
from pipelines.search.rank import SIGNALS

FIGURES = Figures(0.5, 0.6, 0.7, 0.8)


def answers(name, questions, **changed):
    """Return what came of a set whose questions each score a half, but for what is without some layers."""
    plain = {str(n): 0.5 for n in range(questions)}
    ways = {way: dict(plain) for way in (STACK, *SIGNALS, *others())}
    for way, score in changed.items():
        ways[way] = dict.fromkeys(plain, score)
    return SetAnswers(name, FIGURES, [ways, {way: dict(found) for way, found in ways.items()}])


def cells(table, name):
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    head = table.splitlines()[0]
    return dict(
        zip(*([cell.strip() for cell in line.strip("|").split("|")] for line in (head, row)), strict=True)
    )


def test_a_layer_is_useful_where_it_is_missed_and_harmful_where_it_is_not():
    found = cells(layers_table([answers("one", 30, words=0.4, decay=0.6)]), "one")
    assert found["words"] == "+0.100 useful (p < 0.001)"
    assert found["decay"] == "-0.100 harmful (p < 0.001)"
    assert found["graph"] == "changes nothing"


def test_each_set_counts_alike_in_the_last_row():
    several = [answers("small", 20, words=0.1), answers("large", 180)]
    assert round(over_all(several, "words").gain, 6) == 0.2
    assert cells(layers_table(several), "all, each set alike")["words"].startswith(
        "+0.200 useful (p < 0.001, by Holm"
    )


def test_runs_that_differ_give_no_verdict_on_that_layer():
    found = answers("one", 30, words=0.4)
    found.runs[1]["words"]["0"] = 0.9
    row = cells(layers_table([found]), "one")
    assert row["words"] == "the runs differ"
    assert row["decay"] == "changes nothing"
    assert over_all([found], "words") is None


def test_every_way_has_its_mean():
    row = cells(ways_table([answers("one", 30, BM25=0.25)]), "one")
    assert (row[STACK], row["BM25"], row["recall@60"], row["MRR"]) == ("**0.500**", "0.250", "0.700", "0.800")


def gained(questions, **changed):
    """Return what each option adds to a set's questions: nothing, but for some."""
    return {name: [Figures(changed.get(name, 0.0), 0.1, 0.0, 0.2)] * questions for name in OPTIONS}


def test_an_option_has_its_verdict_over_all_sets_and_by_set():
    useful, harmful = "vocabulary: 0.3", "rrf: {absent: penalty}"
    found = {"small": gained(20, **{useful: 0.2}), "large": gained(180, **{harmful: -0.1})}
    shares = {"small": dict.fromkeys(CONTEXT_OPTIONS, [-0.1] * 30)}
    table = options_table(found, shares)
    row = cells(table, f"`{useful}`")
    assert (row["questions"], row["differ"], row["recall@10"], row["MRR"]) == (
        "200",
        "20",
        "+0.100",
        "+0.200",
    )
    assert row["gain"].startswith("+0.100 useful (p < 0.001, by Holm ")
    assert cells(table, f"`{harmful}`")["gain"].startswith("-0.050 harmful")
    assert cells(table, "`graph: {mode: walk}, for lift`")["gain"] == "changes nothing"
    assert cells(table, "`context: {max_files: 4}`")["gain"].startswith("-0.100 harmful")
    assert cells(options_by_set(found), harmful) == {
        "option": harmful,
        "small": "changes nothing",
        "large": "-0.100 harmful (p < 0.001)",
    }


def test_made_up_choices_are_of_every_second_question_in_the_last_four_weeks():
    queries = {f"q{n}": "?" for n in range(8)}
    judged = JudgedSet("one", None, queries, {q: {f"{q}.md": 1, "all.md": 1} for q in queries})
    known = choices(judged)([*(f"{q}.md" for q in queries), "all.md"], Domain("", ""))
    assert known == pytest.approx({"q0.md": 1, "q2.md": 0.5, "q4.md": 0.25, "q6.md": 0.125, "all.md": 1.875})


def test_a_sample_is_evenly_spaced():
    judged = JudgedSet("one", None, {str(n): "?" for n in range(10)}, {})
    assert list(sampled(judged, 4).queries) == ["0", "3", "6", "9"]
    assert sampled(judged, 10) == sampled(judged, 100) == judged
