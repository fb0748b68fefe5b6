"""The filters `section` and `path`: passages below a heading, and notes by their paths."""

from __future__ import annotations

import pytest

from pipelines.errors import FilterError
from pipelines.filters import Filters, parse_filters
from tests.pipelines.cache.test_filters import paths, put


@pytest.fixture
def letters(cache):
    put(cache, "in/a.md", "# Letter\n\nDear friend.\n\n## Risks of Ünal\n\nNone.\n\n### Rates\n\nThey rise.")
    put(cache, "b.md", "# Soil\n\nWorms and risks.")
    return cache


@pytest.mark.parametrize("text", ["risks", "RISKS OF", "ünal"])
def test_only_the_passages_below_the_heading_pass(letters, text):
    found = letters.filters.matching_chunks(parse_filters([("section", text)]))
    texts = letters.con.execute("SELECT id, text FROM vault_chunk").fetchall()
    assert {text for number, text in texts if number in found} == {
        text for _, text in texts if "None." in text
    }
    assert [row.path for row in letters.filters.matching_notes(parse_filters([("section", text)]))] == [
        "in/a.md"
    ]


def test_a_section_in_quotes_is_the_whole_heading(letters):
    put(letters, "c.md", "# Notes\n\n## Risks #\n\nSome.\n\n### C#\n\nA tongue.")
    for text, found in {
        '"risks"': ["c.md"],
        '"RISKS of ünal"': ["in/a.md"],
        '"risks of"': [],
        '"rates"': ["in/a.md"],
        '"rate"': [],
        '"c#"': ["c.md"],
        "c#": ["c.md"],
        '" "': [],
    }.items():
        notes = letters.filters.matching_notes(parse_filters([("section", text)]))
        assert [note.path for note in notes] == found, text
    notes = letters.filters.matching_notes(parse_filters([("section", '"soil"'), ("section", '"risks"')]))
    assert [note.path for note in notes] == ["b.md", "c.md"]


def test_several_sections_and_several_paths_are_alternatives(letters):
    found = letters.filters.matching_notes(parse_filters([("section", "rates"), ("section", "soil")]))
    assert [row.path for row in found] == ["b.md", "in/a.md"]
    assert paths(letters, ("path", "b.md"), ("path", "./in/a.md"), ("path", "no.md")) == ["b.md", "in/a.md"]
    assert paths(letters, ("path", "b.md"), ("section", "rates")) == []


def test_a_sign_of_sql_or_json_is_text(letters):
    for text in ("%", '"', "' OR 1 --", '", "'):
        assert paths(letters, ("section", text)) == []
        assert paths(letters, ("path", text)) == []


def test_hidden_notes_are_missing(letters):
    assert letters.filters.matching_chunks(Filters(), {"in/a.md"}) == letters.filters.matching_chunks(
        parse_filters([("path", "b.md")])
    )
    assert letters.filters.matching_notes(parse_filters([("section", "risks")]), {"in/a.md"}) == []


@pytest.mark.parametrize(("name", "own"), [("top_k", "k"), ("limit", "k"), ("query", "q")])
def test_a_parameter_by_another_programs_name_is_answered_with_ours(name, own):
    with pytest.raises(FilterError, match=f"'{name}' is called '{own}' here"):
        parse_filters([(name, "5")])


@pytest.mark.parametrize("value", ["2", "-1.1", "nan", "inf", "strong", "1e1", "-", "."])
def test_a_similarity_that_no_cosine_has_is_refused(value):
    with pytest.raises(FilterError, match="duplicate, primary, supporting, weak, or a number from -1 to 1"):
        parse_filters([("min_similarity", value)])


def test_similarities_and_many_paths_are_read():
    assert parse_filters([("min_similarity", "0.5")]).min_similarity == 0.5
    assert parse_filters([("min_similarity", "weak")]).min_similarity == "weak"
    with pytest.raises(FilterError, match="give it once"):
        parse_filters([("min_similarity", "0.5"), ("min_similarity", "0.6")])
    assert len(parse_filters([("path", f"{number}.md") for number in range(1_000)]).paths) == 1_000
    with pytest.raises(FilterError, match="at most 1000"):
        parse_filters([("path", "a.md")] * 1_001)
