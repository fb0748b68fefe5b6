"""The tables of docs/quality.md say what was measured."""

from __future__ import annotations

from benchmarks.quality import STACK, SetAnswers, layers_table, others, over_all, ways_table
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
