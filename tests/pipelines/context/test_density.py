"""What a passage is worth per token: the source document's figures hold."""

from __future__ import annotations

import pytest

from pipelines.context.boilerplate import boilerplate_share, repeated_lines
from pipelines.context.density import density, is_source_code, most_files


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
    assert is_source_code(text) is is_code


def test_lines_of_a_template_are_boilerplate():
    notes = [f"## Mood\n\nwas {n}\n## Plan  \n" for n in range(8)] + ["nothing of it"] * 2
    repeated = repeated_lines(notes)
    assert repeated == {"## Mood", "## Plan"}
    assert boilerplate_share("## Mood\nfine\n\n  ## Plan\nrest", repeated) == 0.5


def test_a_folder_of_few_notes_has_no_template():
    assert repeated_lines(["same"] * 4) == frozenset()
    assert boilerplate_share("", frozenset({"x"})) == 0.0
