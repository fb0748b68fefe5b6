"""Filters, explanations and evaluation, as a user asks for them."""

from __future__ import annotations

import subprocess
import sys

import pytest


def hits(example, **params):
    return example.get("/search", k=10, **params).json()["results"]


def test_a_filter_leaves_nothing_else_in(example):
    found = hits(example, q="gross margin", folder="Filings", since="2025-05-01")
    assert found
    assert all(hit["path"].startswith("Filings/") for hit in found)
    assert all(example.json("show", hit["path"])["published_at"] >= "2025-05-01" for hit in found)


def test_filters_hold_together(example):
    assert hits(example, q="gross margin", tag="filing", folder="Filings")
    assert hits(example, q="gross margin", tag="filing", folder="Letters") == []
    assert hits(example, q="gross margin", tag=["filing", "letter"]) == []


@pytest.mark.parametrize("params", [{"colour": "red"}, {"since": "yesterday-ish"}, {"has": "wings"}])
def test_an_unknown_filter_or_value_is_refused_with_what_would_do(example, params):
    answer = example.get("/search", q="x", **params)
    assert answer.status_code == 422
    said = answer.json()["detail"]
    assert "since" in said or "task" in said or "date" in said


def test_the_terminal_takes_the_same_filters(example):
    answer = example.json("search", "gross margin", "-f", "folder=Filings")
    assert answer["results"]
    assert all(hit["path"].startswith("Filings/") for hit in answer["results"])
    assert "colour" in example.run("search", "x", "-f", "colour=red", *example.place, code=2)


def test_the_terminal_needs_no_quotes_around_a_question(example):
    quoted, bare = example.json("search", "gross margin"), example.json("search", "gross", "margin")
    assert bare["query"] == "gross margin"
    assert [hit["path"] for hit in bare["results"]] == [hit["path"] for hit in quoted["results"]]
    assert example.json("deep", "gross", "margin")["question"] == "gross margin"


@pytest.mark.parametrize("word", ["gross margin", "--help"])
def test_a_search_in_the_terminal_loads_neither_pydantic_nor_typer_nor_numpy(example, word):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "service.cli", "search", word, *example.place],
        env=example.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert {"click", "rich"} <= loaded
    assert not loaded & {"pydantic", "pydantic_core", "typer", "numpy"}


def test_explain_shows_every_layer_of_every_hit(example):
    found = hits(example, q="KLVN backlog", explain=1, domain="finance")
    for hit in found:
        layers = [layer["layer"] for layer in hit["layers"]]
        assert layers[-4:] == ["fused", "decayed", "reranked", "called"]
        assert hit["layers"][-1]["rank"] == found.index(hit) + 1
    assert "reranked" in example.run("search", "KLVN backlog", "--explain", *example.place)


def test_a_note_that_is_not_among_the_answers_is_explained(example):
    answer = example.get("/explain", q="KLVN backlog", path="Concepts/Margin of Safety.md", k=3).json()
    assert "number" in answer["reason"]
    missing = example.get("/explain", q="x", path="no/such.md").json()
    assert missing["reason"].startswith("it is not indexed")


def test_an_answer_says_whether_it_is_one(example):
    answer = example.get("/search", q="why a moat gives pricing power").json()
    assert (answer["match"], answer["deep_available"]) == ("strong", False)
    nonsense = example.get("/search", q="quantum chromodynamics lattice gauge").json()
    assert nonsense["match"] in ("weak", "none")
    assert nonsense["deep_available"]


def test_eval_says_what_each_step_of_the_answers_is_worth(example):
    said = example.run("eval", *example.place)
    for text in (
        "16 questions",
        "nDCG@10",
        "meaning alone",
        "words alone",
        "both, fused",
        "then decay",
        "then graph",
    ):
        assert text in said


def test_what_a_layer_and_a_setting_add_over_all_domains_is_shown(example):
    found = example.json("eval", "--without", "decay,words", "--compare", "decay.mode=off")
    decay, _, setting = found["changes"]
    assert decay["verdict"]["gain"] > 0.1
    assert setting["means"] == decay["means"]
    assert {one["verdict"]["word"] for one in found["changes"]} == {"too few questions to tell"}
    assert found["not_indexed"] == []
