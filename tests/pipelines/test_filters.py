"""Filters as they are written: what is read, and what is refused with a word that helps."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import FilterError
from pipelines.filters import HAS, Filters, fold, has_task, parse_filters


def test_no_parameter_is_no_filter():
    assert parse_filters([]) == Filters()


def test_every_filter_is_read_and_folded():
    assert parse_filters(
        [
            ("domain", "finance"),
            ("folder", "/Garden/Beds/"),
            ("tag", "#Inbox/To-Read"),
            ("author", "Émile Zola"),
            ("kind", "Book"),
            ("since", "2024-02-01"),
            ("until", "2024-02-29"),
            ("property.Status", " Draft "),
            ("community", "12"),
            ("has", "Task"),
        ]
    ) == Filters(
        domains=("finance",),
        folders=("garden/beds",),
        tags=("inbox/to-read",),
        authors=("émile zola",),
        kinds=("book",),
        since="2024-02-01",
        until="2024-02-29",
        properties=(("status", "draft"),),
        communities=(12,),
        has=("task",),
    )


def test_a_filter_that_is_given_twice_is_kept_twice():
    given_twice = [("tag", "a"), ("tag", "b"), ("property.x", "1"), ("property.x", "2"), ("has", "link")]
    filters = parse_filters(given_twice)
    assert (filters.tags, filters.properties) == (("a", "b"), (("x", "1"), ("x", "2")))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (
            [("colour", "red")],
            "domain, folder, tag, author, kind, format, since, until, community, has",
        ),
        ([("colour", "red")], "property.<name>"),
        ([("colour", "red")], "'colour'"),
        ([("property", "red")], "'property'"),
        ([("property.", "red")], "'property.'"),
        ([("property.due", " ")], "property.due has no value"),
        ([("tag", "")], "tag has no value"),
        ([("tag", "two words")], "'two words'"),
        ([("tag", "2024")], "only digits"),
        ([("tag", "#")], "tag cannot be"),
        ([("folder", "//")], "whole vault"),
        ([("since", "yesterday")], "write it as 2026-01-31"),
        ([("until", "2024-02-30")], "until is '2024-02-30', not a date"),
        ([("since", "2024-01-01"), ("since", "2025-01-01")], "since was given 2 times"),
        ([("since", "2025-01-01"), ("until", "2024-01-01")], "later than until"),
        ([("community", "garden")], "not a community's number"),
        ([("community", "-1")], "not a community's number"),
        ([("community", "9" * 30)], "not a community's number"),
        ([("has", "luck")], ", ".join(HAS)),
        ([("tag", "a")] * 51, "at most 50"),
        ([("-tag", "a")] * 51, "at most 50"),
        ([("-domain", "a")], "no filter '-domain'"),
        ([("-tag", "two words")], "'two words'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(parameters, said):
    with pytest.raises(FilterError) as raised:
        parse_filters(parameters)
    assert said in str(raised.value)


names = st.sampled_from(
    [
        "tag",
        "folder",
        "since",
        "until",
        "community",
        "has",
        "domain",
        "author",
        "property.x",
        "-tag",
        "-since",
    ]
)


@given(st.lists(st.tuples(names | st.text(), st.text())))
def test_whatever_is_typed_is_read_or_refused(parameters):
    with suppress(FilterError):
        assert parse_filters(parameters) == parse_filters(list(parameters))


@pytest.mark.parametrize(
    ("one", "other"), [("ÉMILE", "émile"), ("e\u0301mile", "Émile"), ("Straße", "STRASSE")]
)
def test_case_and_unicode_form_make_no_difference(one, other):
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    "text",
    [
        "- [ ] dig",
        "words\n\n  * [x] done",
        "+ [X] done",
        "12. [ ] dig",
        "3) [ ] dig",
        "> - [ ] quoted",
        "words\r- [ ] dig",
        "- [ ]",
    ],
)
def test_a_list_item_with_a_box_is_a_task(text):
    assert has_task(text)


@pytest.mark.parametrize(
    "text",
    ["[ ] dig", "see - [x] there", "- [link](x.md)", "- [[ ]]", "-[ ] dig", "- [ ]dig", "- [y] no", ""],
)
def test_other_brackets_are_no_task(text):
    assert not has_task(text)
