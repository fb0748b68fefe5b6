"""Sections of records become lines by the rules of their worked example."""

from __future__ import annotations

import pytest

from pipelines.documents.readers.record_values import parse
from pipelines.documents.readers.records import flatten, humanized, item_text

BUSINESS = """
business_performance:
  revenue_trend_8q:
    - {quarter: Q4-FY24, revenue_b: 22.1, yoy_pct: 265}
    - {quarter: Q1-FY25, revenue_b: 26.0, yoy_pct: 262}
  margin_trend:
    gross_margin_current: 75.0
    trend: expanding
"""
UNITS = {"_8q": "(8Q)", "_b": "${}B", "_pct": "{+}%", "gross_margin_current": "{}%"}


def value_of(text):
    ((document,), _) = parse("a.yaml", text.encode())
    return document


def flat(text, units=None):
    ((key, value),) = value_of(text).items()
    return flatten(key, value, units or {})


def test_the_worked_example_is_reproduced_with_its_units():
    assert flat(BUSINESS, UNITS) == (
        "Business Performance — Revenue Trend (8Q):\n"
        "Q4-FY24: revenue $22.1B, YoY +265%\n"
        "Q1-FY25: revenue $26.0B, YoY +262%\n"
        "\n"
        "Business Performance — Margin Trend:\n"
        "Gross margin current: 75.0%\n"
        "Trend: expanding"
    )


def test_without_units_values_stay_as_written():
    assert flat(BUSINESS) == (
        "Business Performance — Revenue Trend 8Q:\n"
        "Q4-FY24: revenue b 22.1, YoY pct 265\n"
        "Q1-FY25: revenue b 26.0, YoY pct 262\n"
        "\n"
        "Business Performance — Margin Trend:\n"
        "Gross margin current: 75.0\n"
        "Trend: expanding"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("root_cause: I sold too early", "Root cause: I sold too early"),
        ("tickers: [NVDA, AMD, 7]", "Tickers: NVDA, AMD, 7"),
        ("thesis: {summary: Growth, conviction: 8}", "Thesis:\nSummary: Growth\nConviction: 8"),
        ("a: {b: {c_d: {e_f: 1}}}", "A — B:\nC d.e f: 1"),
        ("a: {b: {c: [1, 2], d: [{n: x, m: 1}]}}", "A — B:\nC: 1, 2\nD:\nx: m 1"),
        ("rows: [{name: x, n: 1, note: hot}, {name: y}]", "Rows:\nx: n 1, note: hot\nname: y"),
        ("rows: [{n: 1, Apple: 2, keyRisk: 3}]", "Rows:\nn 1, Apple 2, key risk 3"),
        ("rows: [{n: 1, on: 2024-05-01}]", "Rows:\nn 1, on 2024-05-01"),
        ("rows: [{name: x, in: {deep: 1}, tags: [a, b]}]", "Rows:\nx: in.deep 1, tags a, b"),
        ("rows: [{name: x, n: 1, parts: [{m: 2, k: a}]}]", "Rows:\nx: n 1\nParts:\nm 2, k: a"),
        ("rows: [{claim: 'a\n\n  long claim'}]", "Rows:\nclaim: a long claim"),
        ("mixed: [plain, {n: 1}, [2, 3]]", "Mixed:\nplain\nn 1\n2, 3"),
        ("zip: 01234", "Zip: 01234"),
        (
            "x: {a: 0x1F, b: 1_000, c: 12:30, d: yes, e: 1.10}",
            "X:\nA: 0x1F\nB: 1_000\nC: 12:30\nD: yes\nE: 1.10",
        ),
    ],
)
def test_each_kind_of_value_has_its_form(text, expected):
    assert flat(text) == expected


@pytest.mark.parametrize(
    "text", ["a:", "a: ~", "a: ''", "a: []", "a: {}", "a: {b: , c: [], d: {e: ~}}", "a: [{}, ~]"]
)
def test_what_is_empty_gives_no_text(text):
    assert flat(text) == ""


def test_a_text_of_several_lines_keeps_them():
    assert flat("pattern: |\n  First.\n  Second.\n") == "Pattern: First.\nSecond."


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("bear_case_analysis", "Bear Case Analysis"),
        ("why_bull_wins", "Why Bull Wins"),
        ("comparison_to_similar_trades", "Comparison to Similar Trades"),
        ("phase2_fundamentals", "Phase 2 Fundamentals"),
        ("eps_yoy", "EPS YoY"),
        ("apiVersion", "API Version"),
        ("HTTPServer", "HTTP Server"),
        ("Entry rules", "Entry Rules"),
        ("über_uns", "Über Uns"),
        ("to", "To"),
        ("", ""),
        ("__", "__"),
    ],
)
def test_a_key_becomes_a_heading(key, expected):
    assert humanized(key) == expected


def test_a_unit_is_written_with_numbers_only_and_the_longest_name_decides():
    units = {"_pct": "{}%", "_yoy_pct": "{+}% a year", "cash_pct": "{} of 100"}
    text = "a: {x_pct: 5, x_yoy_pct: -2, cash_pct: 7, y_pct: unknown, z_pct: [1, 2]}"
    assert flat(text, units) == "A:\nX: 5%\nX: -2% a year\nCash: 7 of 100\nY: unknown\nZ: 1%, 2%"


def test_an_entry_of_a_list_is_a_row():
    assert item_text(value_of("{name: NVDA, price: 5}")) == "NVDA: price 5"
    assert item_text("a text") == "a text"
