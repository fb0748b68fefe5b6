"""What a passage is worth per token: the source document's figures hold."""

from __future__ import annotations

import pytest

from pipelines.context.block import boilerplate_share, repeated_lines, says_nothing
from pipelines.context.candidates import density, is_fenced_code, most_files


@pytest.mark.parametrize(
    ("tokens", "boilerplate", "is_code", "expected"),
    [
        (200, 0.0, False, 0.003173),
        (200, 0.85, False, 0.001824),
        (200, 0.0, True, 0.006346),
        (20, 0.0, False, 0.004945),
    ],
)
def test_density_is_that_of_the_source_document(tokens, boilerplate, is_code, expected):
    found = density(0.02, tokens, boilerplate=boilerplate, is_code=is_code)
    assert round(found, 6) == expected


def test_an_empty_passage_counts_as_one_token():
    assert density(1.0, 0) == density(1.0, 1)


@pytest.mark.parametrize(("passages", "files"), [(0, 3), (5, 3), (12, 4), (24, 8), (90, 8)])
def test_a_third_of_the_candidates_may_be_files(passages, files):
    assert most_files(passages) == files


@pytest.mark.parametrize(
    ("text", "is_code"),
    [
        ("```python\nx = 1\ny = 2\n```\none line", True),
        ("~~~\nx = 1\n~~~\none line\nanother line", False),
        ("`x = 1` is code in a line", False),
        ("", False),
    ],
)
def test_source_code_is_the_text_in_fences(text, is_code):
    assert is_fenced_code(text) is is_code


def test_lines_of_a_template_are_boilerplate():
    notes = [f"## Mood\n\nwas {n}\n## Plan  \n" for n in range(8)] + ["nothing of it"] * 2
    repeated = repeated_lines(notes)
    assert repeated == {"## Mood", "## Plan"}
    assert boilerplate_share("## Mood\nfine\n\n  ## Plan\nrest", repeated) == 0.5


def test_a_folder_of_few_notes_has_no_template():
    assert repeated_lines(["same"] * 4) == frozenset()
    assert boilerplate_share("", frozenset({"x"})) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        *("", "# Sources", "Sources\n=======\n", "## Sources\n\n- [[Soil]]", "# A\n\n#garden #soil\n"),
        *("- [[A]]\n- [b](../b%20c.md)\n- https://d.org/e?f=g", "See also: [[A]], [[B|the other]]", "[[A]]"),
        *("1. [a](b (c))\n2. [[D]] (2019)", "| [[A]] | [[B]] |\n|---|---|", "***\n![[picture.png]]"),
    ],
)
def test_headings_and_lists_of_links_say_nothing(text):
    assert says_nothing(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Met [[Bob]].", "- [[A]]: why it matters\n- [[B]]", "# Terraform\n\nHere: https://a.org/terraform"),
        *(
            "- [ ] [[A]]\n- [ ] [[B]]",
            "Slept, read [[A]] and sold [[B]] before noon.",
            "Cost: 5",
            "知识库[[A]]和[[B]]",
        ),
    ],
)
def test_a_sentence_a_task_and_the_one_address_of_a_text_say_something(text):
    assert not says_nothing(text)
