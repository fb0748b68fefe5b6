"""What walks along the example vault's links find with the embedded model: the sets are written down."""

from __future__ import annotations

import pytest

from .conftest import EXAMPLES

WALKS = {
    ("Concepts/Margin of Safety.md", "pricing power", 2): (
        {
            "Concepts/Margin of Safety.md": 0,
            "Concepts/Moats and Pricing Power.md": 1,
            "Concepts/Discounted Cash Flow.md": 1,
            "Companies/Kelvane Valuation Snapshot.md": 1,
            "Letters/Farrowgate Letter 2023.md": 1,
            "Investing Principles.md": 1,
            "Letters/Farrowgate Letter 2024.md": 2,
            "Concepts/Working Capital.md": 2,
            "Journal/2025-02-14.md": 2,
            "Companies/Northmere Shipping.md": 2,
            "Companies/Kelvane Optics.md": 2,
        },
        {
            "Concepts/Circle of Competence.md": "below_prune_threshold",
            "Companies/Watchlist.md": "below_prune_threshold",
            "Concepts/Return on Capital.md": "beam_overflow",
            "Filings/KLVN/KLVN 2025 Q3.md": "beam_overflow",
        },
    ),
    ("nutrition/Lentil Stew.md", "cheap warm vegetarian dinner", 2): (
        {
            "nutrition/Lentil Stew.md": 0,
            "nutrition/Batch Cooking.md": 1,
            "nutrition/Protein.md": 1,
            "nutrition/豆腐与发酵食品.md": 1,
            "nutrition/Shopping List.md": 2,
            "nutrition/Salt and Water.md": 2,
        },
        {},
    ),
    ("learning/Spaced Repetition.md", None, 2): (
        {
            "learning/Spaced Repetition.md": 0,
            "learning/Interleaving.md": 1,
            "learning/Explaining to Learn.md": 1,
        },
        {
            "learning/Twenty Habits of Clear Writing.md": "below_prune_threshold",
            "learning/Mietrecht Notiz.md": "below_prune_threshold",
            "learning/Error Codes.md": "below_prune_threshold",
        },
    ),
}
QUESTION = "why can some firms raise what they charge without losing customers"


def hops(walk):
    return {node["path"]: node["hop"] for node in walk["nodes"]}


@pytest.mark.parametrize(("walk", "expected"), WALKS.items())
def test_a_walk_keeps_and_drops_what_is_written_down(example, walk, expected):
    path, query, depth = walk
    asked = {"q": query} if query else {}
    answer = example.get(f"/traverse/{path}", depth=depth, **asked).json()
    kept, dropped = expected
    assert hops(answer) == kept
    assert dropped.items() <= {node["path"]: node["drop_reason"] for node in answer["dropped"]}.items()


def test_no_walk_from_any_note_goes_further_than_it_was_asked_to(example):
    for note in sorted(EXAMPLES.rglob("*.md")):
        path = note.relative_to(EXAMPLES).as_posix()
        for asked in ({}, {"q": "what did I learn"}):
            response = example.get(f"/traverse/{path}", depth=4, **asked)
            if response.status_code == 200:
                answer = response.json()
                assert max(hops(answer).values()) <= 4


def test_the_command_shows_what_the_route_returns(example):
    path = "Concepts/Margin of Safety.md"
    answer = example.json("deep", "pricing power", "--from", path, "--depth", "1")
    served = example.get(f"/traverse/{path}", depth=1, q="pricing power").json()
    assert {**answer, "took_ms": 0} == {**served, "took_ms": 0}
    words = ("deep", "pricing power", "--from", path, "--depth", "1")
    told = example.run(*words, *example.place)
    assert "Moats and Pricing Power" in told
    assert "2 more notes were looked at; `--all` shows them" in told
    assert "left out: not near enough" in example.run(*words, "--all", *example.place)
    assert f"{answer['embeddings_read']} passages compared" in told


def test_compare_says_what_deep_adds_and_what_it_costs(example):
    (part,) = example.json("deep", QUESTION, "--mode", "compare", "--domain", "finance")["domains"]
    fast, deep = hops(part["fast"]), hops(part["deep"])
    assert fast["Concepts/Moats and Pricing Power.md"] == deep["Concepts/Moats and Pricing Power.md"] == 0
    assert fast["Letters/Farrowgate Letter 2024.md"] == deep["Letters/Farrowgate Letter 2024.md"] == 1
    assert (
        {
            "Companies/Kelvane Optics.md",
            "Concepts/Return on Capital.md",
        }
        <= set(part["added"])
        == deep.keys() - fast.keys()
    )
    assert part["lost"] == []
    assert 0 < part["fast"]["embeddings_read"] < part["deep"]["embeddings_read"] <= 1_000
    told = example.run("deep", QUESTION, "--mode", "compare", "--domain", "finance", *example.place)
    assert f"deep adds {len(part['added'])}" in told


def test_deep_mode_asks_every_domain(example):
    answer = example.json("deep", QUESTION)
    assert {part["domain"] for part in answer["domains"]} == {
        "finance",
        "fitness",
        "nutrition",
        "learning",
        "archive",
    }
    assert all(part["deep"]["nodes"] and part["fast"] is None for part in answer["domains"])


def test_walks_without_a_service_find_the_same(example, tmp_path):
    asked = ("deep", QUESTION, "--mode", "fast", "--domain", "finance")
    served = example.json(*asked)
    (example.state / "service.json").rename(tmp_path / "service.json")
    try:
        alone = example.json(*asked)
    finally:
        (tmp_path / "service.json").rename(example.state / "service.json")
    assert hops(alone["domains"][0]["fast"]) == hops(served["domains"][0]["fast"])
