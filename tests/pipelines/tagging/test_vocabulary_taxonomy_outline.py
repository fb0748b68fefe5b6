"""The outline of a taxonomy: list items and sections with their lines, without what is not meant as such."""

import pytest

from pipelines.notes.frontmatter import split_lines
from pipelines.tagging.vocabulary import read_outline

TEXT = "---\na: 1\n---\n# One\n\n- first\n  goes on\n- second\n\n## Renames\n\n- a -> b\n\n# Two\n"


def test_items_are_one_line_each_with_their_section_and_lines():
    items, _ = read_outline(TEXT)
    assert [(one.text, one.section, one.first, one.end) for one in items] == [
        ("first goes on", "One", 5, 7),
        ("second", "One", 7, 8),
        ("a -> b", "Renames", 11, 12),
    ]
    assert [one.renames for one in items] == [False, False, True]


def test_a_section_ends_where_the_next_begins_and_the_last_with_the_text():
    _, sections = read_outline(TEXT)
    assert [(one.title, one.first, one.end, one.renames) for one in sections] == [
        ("", 3, 3, False),
        ("One", 3, 9, False),
        ("Renames", 9, 13, True),
        ("Two", 13, 14, False),
    ]


@pytest.mark.parametrize(
    "around", ["```\n{}\n```\n", "<!--\n{}\n-->\n", "%%\n{}\n%%\n", "> {}\n", "~~~\n{}\n"]
)
def test_a_list_in_code_comments_and_quotes_has_no_items(around):
    assert read_outline("# One\n\n" + around.format("- no tag"))[0] == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_lines_of_a_text_together_are_the_text(end):
    text = f"one{end}{end}three"
    assert split_lines(text) == [f"one{end}", end, "three"]
    assert "".join(split_lines(text)) == text
