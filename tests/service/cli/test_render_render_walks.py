"""Walks as a terminal shows them: in plain words, the nearest note first."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from service.cli.render import print_deep, print_walk

EDGE = {"kind": "wikilink", "source": "from.md", "target": "to.md"}


def node(path, similarity, hop=1, edge=EDGE, weight=1.0, **reason):
    title = path.removesuffix(".md").title()
    facts = {"path": path, "title": title, "similarity": similarity, "hop": hop, "edge": edge}
    return facts | {"decay_weight": weight, "retain_reason": "above_prune_floor"} | reason


def walk(nodes, dropped=(), **facts):
    return {
        "nodes": nodes, "dropped": list(dropped), "unread": 0, "embeddings_read": 1, "took_ms": 2.4,
        "stopped": "no_more_links", "calibrated": True, "prune": 0.08,
    } | facts  # fmt: skip


def answer(*parts):
    domains = [
        {"domain": name, "fast": fast, "deep": deep, "added": added, "lost": lost}
        for name, fast, deep, added, lost in parts
    ]
    return {"record": None, "domains": domains, "index": {"vectors_pending": 0, "failed": {}}}


def printed(show, *what, **how):
    file = io.StringIO()
    console = Console(file=file, width=200)
    show(console, *what, **how)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_the_domain_of_the_nearest_note_and_in_it_the_nearest_note_come_first():
    far = walk([node("a.md", 0.1, 0, None), node("b.md", 0.3)])
    near = walk([node("c.md", None), node("d.md", 0.2), node("e.md", 0.5)])
    empty = ("three", None, walk([]), None, None)
    shown = printed(
        print_deep, answer(("one", None, far, None, None), ("two", None, near, None, None), empty)
    )
    assert [line.split()[0] for line in shown if "passage compared" not in line] == [
        *("two", "0.50", "0.20", "--", "one", "0.30", "0.10")
    ]
    assert "  0.10  A  a.md  found by the search" in shown


def test_a_number_that_rounds_to_nothing_has_no_sign():
    assert any(
        line.startswith("  0.00  A")
        for line in printed(print_walk, walk([node("a.md", -0.001)]), start="the start", every=True)
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"hop": 0, "edge": None}, "the start"),
        ({}, "1 link away, linked from from.md"),
        ({"hop": 2, "edge": EDGE | {"kind": "embed"}}, "2 links away, embedded in from.md"),
        ({"edge": EDGE | {"source": "x.md"}}, "1 link away, links to to.md"),
        ({"edge": EDGE | {"source": "x.md", "kind": "citation"}}, "1 link away, cites to.md"),
        ({"weight": 0.45}, "1 link away, linked from from.md, counts 0.45 because there are newer notes"),
        (
            {"weight": 0.0, "retain_reason": "kept_despite_decay_zero"},
            "1 link away, linked from from.md, although newer notes replace it",
        ),
    ],
)
def test_how_a_note_was_found_is_shown_in_words(facts, words):
    shown = printed(print_walk, walk([node("x.md", 0.5, **facts)]), start="the start")
    assert shown[0] == f"  0.50  X  x.md  {words}"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("below_prune_threshold", "not near enough"),
        ("beam_overflow", "nearer notes at this distance came first"),
        ("decay_zero", "newer notes replace it"),
        ("no_vector", "not searched by meaning yet"),
    ],
)
def test_why_a_note_was_left_out_is_shown_in_words(reason, words):
    shown = printed(print_walk, walk([], [node("x.md", 0.05, drop_reason=reason)]), start="", every=True)
    assert shown[0] == f"  0.05  x.md  left out: {words}"


def test_notes_that_are_not_near_enough_are_counted_and_shown_on_request():
    found = walk([node("a.md", 0.5), node("b.md", 0.03)], [node("c.md", 0.1, drop_reason="beam_overflow")])
    shown = printed(print_walk, found, start="")
    assert [line.split()[-1] for line in shown if ".md" in line and line.startswith("  0")] == ["from.md"]
    assert "  2 more notes were looked at; `--all` shows them" in shown
    shown = printed(print_walk, found, start="", every=True)
    assert [line.split()[0] for line in shown[:-1]] == ["0.50", "0.03", "0.10"]


def test_the_last_line_says_what_the_walk_read_and_why_it_ended():
    notes = [node("a.md", 0.5), node("b.md", 0.4)]
    shown = printed(print_walk, walk(notes, stopped="good_enough", embeddings_read=1_200), start="")
    assert shown[-1] == (
        "2 notes kept, 0 left out; 1,200 passages compared in 2 ms; the walk ended because enough near notes were found"
    )
    shown = printed(print_walk, walk([], unread=1, stopped="budget_spent", calibrated=False), start="")
    assert shown[-1] == (
        "0 notes kept, 0 left out, 1 linked note not read; 1 passage compared in 2 ms; the walk ended because the other"
        " linked notes are more than a walk reads; what counts as near was not measured for this model"
    )


def test_both_walks_are_shown_side_by_side():
    fast = walk(
        [node("a.md", 0.5, 0, None), node("b.md", 0.2)], [node("c.md", 0.1, drop_reason="beam_overflow")]
    )
    deep = walk([node("a.md", 0.5, 0, None), node("c.md", 0.1, 2)])
    shown = printed(print_deep, answer(("one", fast, deep, ["c.md"], ["b.md"])))
    rows = [line.split(maxsplit=1)[1] if line[0] in "+-" else line.strip() for line in shown[2:5]]
    assert [row.split()[0] for row in rows] == ["a.md", "b.md", "c.md"]
    assert "0.50 found by the search" in rows[0]
    assert "not reached" in rows[1]
    assert rows[2].startswith("c.md")
    assert "left out: nearer notes at this distance came first" in rows[2]
    assert rows[2].endswith("0.10 2 links away")
    assert "deep adds 1 (+) and drops 1 (-) that fast keeps" in shown
