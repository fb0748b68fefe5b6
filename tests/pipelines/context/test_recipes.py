"""Recipes are read strictly, and what a note's frontmatter contains stays data."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.context.recipes import OfTypes, Slot, fill, parse, read_recipe
from pipelines.errors import ContextsFileError, RecipeNotFoundError
from pipelines.question import read_question

GOOD = """
pre-analysis:
  budget: 4000
  compress: light
  slots:
    - query: "{title} thesis risks"
      where: {property.ticker: "{ticker}", since: 2026-01-01}
    - {neighbours: community, k: 2}
    - {name: lessons, query: "{ticker} lessons", where: {kind: post-trade-review}}
"""


def test_a_recipe_is_read():
    recipe = parse(GOOD)["pre-analysis"]
    assert (recipe.budget, recipe.compress, len(recipe.slots)) == (4_000, "light", 3)
    assert (recipe.slots[1].neighbours, recipe.slots[1].k) == ("community", 2)


@pytest.mark.parametrize(
    ("written", "types", "depth"),
    [
        ("{type: Competes With}", ("competes_with",), 1),
        ("{type: [ticker, bias], depth: 2}", ("bias", "ticker"), 2),
    ],
)
def test_neighbours_by_type_are_read(written, types, depth):
    (slot,) = parse(f"a: {{slots: [{{neighbours: {written}}}]}}")["a"].slots
    assert isinstance(slot.neighbours, OfTypes)
    assert (slot.neighbours.types, slot.neighbours.depth) == (types, depth)
    assert fill(slot, {}, "NVDA").heading == f"neighbours by {' and '.join(types)}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "_contexts.yaml:1: expected"),
        ("[a]", "_contexts.yaml:1: expected"),
        ("a: [", "_contexts.yaml:1: not valid YAML"),
        ("a: {slots: []}", "a.slots: expected a list of one to 10 slots, each with `query`"),
        (
            "a:\n  slots:\n    - {querry: x}",
            "_contexts.yaml:3: a.slots[1].querry: unknown key; did you mean `query`?",
        ),
        (
            "a:\n  slots: [{query: x}]\n  size: 3",
            "_contexts.yaml:3: a.size: unknown key; known are slots, budget",
        ),
        ("a:\n  slots: [{k: 3}]", "_contexts.yaml:2: a slot needs `query`, `neighbours`, or both"),
        (
            "a: {slots: [{query: x, k: 1000}]}",
            "a.slots[1].k: expected a whole number of notes from 1 to 24; it is 1000",
        ),
        (
            "a:\n  slots:\n    - query: x\n      where:\n        kind: {a: b}",
            "_contexts.yaml:5: a.slots[1].where.kind: expected at most 20 filters by name, each with a value",
        ),
        (
            "a: {slots: [{query: x, where: {kind: [a, [b]]}}]}",
            "or a list of one to 50 values; it is ['a', ['b']]",
        ),
        ("a: {slots: [{query: x, where: {kind: []}}]}", "a.slots[1].where.kind: expected"),
        ("a: {slots: [{query: x, where: [kind]}]}", "a.slots[1].where: expected at most 20 filters"),
        ("a: {slots: [x]}", "a.slots[1]: expected a list of one to 10 slots, each with `query`"),
        (
            "a: {slots: [{query: x, neighbours: all}]}",
            "a type or a list of types, and `depth` from 1 to 4; it is 'all'",
        ),
        (
            "a: {slots: [{neighbours: {type: []}}]}",
            "a.slots[1].neighbours: expected `links`, `community`, or",
        ),
        ("a: {slots: [{neighbours: {type: b, depth: 5}}]}", "a.slots[1].neighbours: expected"),
        ("a:\n  slots:\n    - {neighbours: {typ: b}}", "_contexts.yaml:3: a.slots[1].neighbours: expected"),
        (
            "a: {slots: [{query: x}], budget: 1}",
            "a.budget: expected a whole number of tokens from 200 to 200000; it is 1",
        ),
        ("a: {slots: [{query: x}], compress: all}", "a.compress: expected `none`, `light` or `strong`"),
        ("a: 3", "_contexts.yaml:1: a: expected the keys `slots`, `budget` and `compress`; it is 3"),
        ("a:", "a: expected the keys `slots`, `budget` and `compress`; it is empty"),
        ("1: {slots: [{query: x}]}", "a recipe's name is a text"),
        ("a: {slots: [{query: x}]}\na: {slots: [{query: y}]}", "_contexts.yaml:2: 'a' is written twice"),
        ("a: &x {slots: [{query: x}]}\nb: *x", "aliases"),
        ("a: " + "[" * 50 + "]" * 50, "nested more than"),
        ("a: !!python/object/apply:os.system [ls]", "not valid YAML"),
        ("\n".join(f"r{n}: {{slots: [{{query: x}}]}}" for n in range(101)), "101 entries are more than 100"),
        (f"a: {{slots: [{{query: {'x' * 1_001}}}]}}", "a.slots[1].query: "),
    ],
)
def test_errors_name_the_line(text, said):
    with pytest.raises(ContextsFileError) as raised:
        parse(text)
    assert said in str(raised.value)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    with suppress(ContextsFileError):
        assert parse(text)


def test_the_file_is_read_from_the_vault(vault):
    with pytest.raises(RecipeNotFoundError, match=r"has no _contexts.yaml"):
        read_recipe(vault, "pre-analysis")
    (vault / "_contexts.yaml").write_text(GOOD)
    assert read_recipe(vault, "pre-analysis").budget == 4_000
    with pytest.raises(RecipeNotFoundError, match=r"there is no recipe 'x'; _contexts.yaml has pre-analysis"):
        read_recipe(vault, "x")


@pytest.mark.parametrize("make", [lambda file: file.symlink_to("/etc/passwd"), lambda file: file.mkdir()])
def test_a_file_that_is_none_is_refused(vault, make):
    make(vault / "_contexts.yaml")
    with pytest.raises(ContextsFileError, match="cannot be read"):
        read_recipe(vault, "x")


def test_a_large_file_is_refused(vault):
    (vault / "_contexts.yaml").write_text("#" * 100_001)
    with pytest.raises(ContextsFileError, match="cannot be read"):
        read_recipe(vault, "x")


def filled(slot, values, title="A title"):
    return fill(Slot.model_validate(slot), values, title)


def test_values_of_the_note_take_the_place_of_their_names():
    slot = {
        "query": "{Title} { ticker } risks",
        "where": {"property.ticker": "{ticker}", "since": "2026-01-01"},
    }
    found = filled(slot, {"title": "Nvidia", "Ticker": "NVDA"})
    assert found.query == "Nvidia NVDA risks"
    assert found.where == (("property.ticker", "NVDA"), ("since", "2026-01-01"))


def test_a_filter_takes_a_list_and_each_value_of_a_list_of_the_note():
    slot = {
        "query": "x",
        "where": {"kind": ["letter", "{kind}"], "property.ticker": "{peers}", "since": 2026},
    }
    found = filled(slot, {"kind": "review", "peers": ["NVDA", "", "AMD"]})
    assert found.where == (
        *(("kind", "letter"), ("kind", "review")),
        *(("property.ticker", "NVDA"), ("property.ticker", "AMD")),
        ("since", "2026"),
    )


def test_a_list_is_joined_and_a_mapping_is_no_value():
    assert filled({"query": "{tags}"}, {"tags": ["a", 3, {"b": 1}, ""]}).query == "a, 3"
    with pytest.raises(KeyError, match="deep"):
        filled({"query": "{deep}"}, {"deep": {"a": "b"}})


@pytest.mark.parametrize("value", [None, "", "  ", []])
def test_a_missing_value_is_named(value):
    with pytest.raises(KeyError, match="ticker"):
        filled({"query": "{ticker}"}, {"ticker": value} if value is not None else {})


def test_without_a_query_the_title_is_the_question():
    found = filled({"neighbours": "links"}, {}, '"Nvidia" -AMD')
    assert (found.query.split(), found.heading) == (["Nvidia", "AMD"], "neighbours by links")


@given(st.text(max_size=300))
def test_a_value_brings_no_operators_formats_or_floods(value):
    try:
        found = filled({"query": "about {x}"}, {"x": value})
    except KeyError:
        assert not value.strip() or not value.split()
        return
    assert len(found.query) <= 206
    assert read_question(found.query).signs == read_question("about x").signs


def test_braces_reach_no_attributes():
    with pytest.raises(KeyError):
        filled({"query": "{x.__class__}"}, {"x": "1"})
