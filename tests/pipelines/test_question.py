"""What a person types is operators and a question: each operator is its filter, and nothing is an error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.cache.cache import SqliteCache
from pipelines.cache.schema import CacheMeta
from pipelines.filters import Filters, parse_filters
from pipelines.question import Question, read_question
from tests.pipelines.cache.test_filters import put

OPERATORS = {
    "tag:Inbox": ("tag", "Inbox"),
    "#inbox/read": ("tag", "inbox/read"),
    "tag:#日記": ("tag", "日記"),
    "Tag:nowhere": ("tag", "nowhere"),
    "path:Garden/b.md": ("path", "Garden/b.md"),
    "path:garden": ("path", "garden"),
    'path:"My notes/C"': ("path", "My notes/C"),
    "folder:garden/": ("folder", "garden"),
    'folder:"My notes"': ("folder", "My notes"),
    "file:B.md": ("file", "b.md"),
    'file:"c d"': ("file", "c d"),
    "title:soil": ("title", "SOIL"),
    "kind:Letter": ("kind", "letter"),
    "has:task": ("has", "task"),
    "has:Tag": ("has", "tag"),
    "after:2024-03-01": ("since", "2024-03-01"),
    "before:2024-03-01": ("until", "2024-03-01"),
    "[status:draft]": ("property.status", "draft"),
    '["Due date": 2024-02-29]': ("property.due date", "2024-02-29"),
    '[status:"in progress"]': ("property.status", "in progress"),
}
NOTES = {
    "a.md": "---\ntags: [inbox]\nstatus: draft\npublished: 2024-03-01\n---\n# Soil\n\nwords",
    "Garden/b.md": "---\nkind: Letter\nstatus: [in progress, open]\npublished: 2024-02-29\n---\n# Clay soil",
    "Garden/beds/c.md": "#inbox/read\n\n- [ ] dig\n",
    "My notes/C d.md": "---\ndue date: 2024-02-29\ntags: [日記]\nkind: letter\n---\nwords",
    "plain.md": "words",
}


@pytest.fixture
def notes(tmp_path):
    cache = SqliteCache.create(tmp_path / "cache.db", CacheMeta("m", 4, "p"))
    for path, text in NOTES.items():
        put(cache, path, text)
    yield lambda filters: {note.path for note in cache.filters.matching_notes(filters)}
    cache.close()


@pytest.mark.parametrize(("written", "pair"), OPERATORS.items())
def test_each_operator_equals_its_filter_and_with_a_minus_what_is_left(notes, written, pair):
    passing = notes(parse_filters([pair]))
    assert notes(read_question(written).filters) == passing
    assert notes(read_question(f"soil -{written} clay").filters) == set(NOTES) - passing
    assert notes(parse_filters([(f"-{pair[0]}", pair[1])])) == set(NOTES) - passing
    assert passing < set(NOTES)


chosen = st.lists(st.sampled_from(list(OPERATORS)), min_size=1, max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen, st.data())
def test_or_is_either_and_a_space_is_both(notes, operators, data):
    signs = [data.draw(st.sampled_from(["", "-"])) for _ in operators]
    alone = [
        notes(parse_filters([(sign + OPERATORS[one][0], OPERATORS[one][1])]))
        for sign, one in zip(signs, operators, strict=True)
    ]
    typed = [sign + one for sign, one in zip(signs, operators, strict=True)]
    assert notes(read_question(" OR ".join(typed)).filters) == set[str]().union(*alone)
    names = [sign + OPERATORS[one][0] for sign, one in zip(signs, operators, strict=True)]
    if len(set(names)) == len(names):
        assert notes(read_question(" ".join(typed)).filters) == set.intersection(*alone)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen)
def test_operators_and_filters_beside_the_question_must_both_hold(notes, operators):
    typed = read_question(" ".join(operators)).filters
    for pair in OPERATORS.values():
        beside = parse_filters([pair])
        both = read_question(" ".join(operators), beside).filters
        assert notes(both) == notes(typed) & notes(beside)


PIECES = st.sampled_from(
    [
        *OPERATORS,
        "tag:",
        "-",
        "OR",
        " ",
        '"',
        "[",
        "]",
        ":",
        "#",
        "kind:",
        "after:2024-99-01",
        "foo:bar",
        "soil",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.lists(PIECES).map("".join) | st.lists(PIECES).map(" ".join))
def test_whatever_is_typed_is_read(notes, typed):
    asked = read_question(typed)
    assert notes(asked.filters) <= set(NOTES)
    assert asked.operators or (asked.text, asked.filters) == (typed, Filters())
    assert [typed.count(one.written) > 0 for one in asked.operators] == [True] * len(asked.operators)
    for one in asked.operators:
        left = read_question(asked.without(one))
        assert len(left.operators) <= len(asked.operators)


@given(st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), max_size=5), chosen, st.randoms())
def test_the_question_is_what_is_no_operator(words, operators, random):
    mixed = [*words, *operators]
    random.shuffle(mixed)
    asked = read_question(" ".join(mixed))
    assert asked.text == " ".join(one for one in mixed if one in words)
    assert sorted(one.written for one in asked.operators) == sorted(operators)


@pytest.mark.parametrize(
    "typed",
    [
        "foo:bar",
        "http://x.org/a",
        "file:///home/x",
        "tag:",
        "tag: second",
        "tag:two,words",
        "#2024",
        "#",
        "# heading",
        "C#",
        "a#b",
        "tag:\udce9",
        "haſ:task",
        "kınd:letter",
        "after:yesterday",
        "before:2024-02-30",
        "has:luck",
        "folder:/",
        'kind:" "',
        'tag:"a"b',
        'tag:"a',
        '"tag:second"',
        '"see tag:second there"',
        "mytag:second",
        "[[kind:letter]]",
        "[kind:letter](x.md)",
        "[12:30] started",
        "[kind]",
        "[kind:]",
        "tag:a OR soil",
        "soil OR tag:a OR tag:b",
        "ls -2",
        "OR",
    ],
)
def test_what_is_no_operator_stays_words(typed):
    assert read_question(typed) == Question(typed, typed, (), Filters())


def test_an_operator_is_removed_with_the_or_beside_it():
    asked = read_question("how tag:a OR -#b OR kind:c to dig")
    assert asked.text == "how to dig"
    assert [asked.without(one) for one in asked.operators] == [
        "how -#b OR kind:c to dig",
        "how tag:a OR kind:c to dig",
        "how tag:a OR -#b to dig",
    ]


def test_days_that_contradict_each_other_leave_nothing(notes):
    assert notes(read_question("after:2024-03-01 before:2024-02-29").filters) == set()
    assert notes(read_question("after:2024-02-29 after:2024-03-01 before:2024-03-02").filters) == {"a.md"}


def test_a_property_has_one_of_the_values_between_or(notes):
    assert notes(read_question("[status:draft OR in progress]").filters) == {"a.md", "Garden/b.md"}
    assert notes(read_question("[status:draft] [status:open]").filters) == {"a.md", "Garden/b.md"}


def test_the_name_of_a_property_has_no_case():
    one, other = read_question("[Ticker:NVDA] [ticker:AMD]"), read_question("[ticker:NVDA OR AMD]")
    assert one.filters == other.filters


def test_another_text_keeps_the_operators():
    asked = read_question("slat raod tag:x OR tag:y -kind:z")
    assert asked.with_text("salt road") == "salt road tag:x OR tag:y -kind:z"
    assert asked.with_text(None) is None


def test_a_condition_on_communities_is_seen_where_it_is_nested():
    nested = parse_filters([("-community", "3")])
    assert nested.name_communities
    assert Filters(scopes=(Filters(either=(nested,)),)).name_communities
    assert not Filters().name_communities


def test_typographic_quotes_are_quotes(notes):
    assert notes(read_question("folder:“My notes”").filters) == {"My notes/C d.md"}


def test_the_fifty_first_operator_is_a_word():
    asked = read_question(" ".join(f"tag:t{number}" for number in range(60)))
    assert len(asked.operators) == 50
    assert asked.text == " ".join(f"tag:t{number}" for number in range(50, 60))


@pytest.mark.parametrize(
    ("typed", "is_list"),
    [
        ("tag:a", True),
        ("tag:a -soil", True),
        ("tag:a soil", False),
        ("soil", False),
        ("-soil", False),
        ("", False),
    ],
)
def test_filters_without_anything_that_is_asked_for_make_a_list(typed, is_list):
    assert read_question(typed).is_list is is_list
    assert read_question("", parse_filters([("tag", "a")])).is_list


def test_only_a_question_with_the_same_text_has_its_vectors():
    asked = read_question("soil")
    asked.vectors["model"] = None
    assert not replace(asked, text="clay").vectors
    assert asked == read_question("soil")


def test_phrases_without_quotes_have_two_words_that_carry_meaning():
    assert read_question("the sort by").whole_phrases == ()
    assert read_question('"sort by"').whole_phrases == ("sort by",)
    assert read_question("salt road").whole_phrases == ("salt road",)
