"""Where lines begin, whatever ends them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.notes.frontmatter import line_start, line_starts


def test_each_kind_of_line_end_ends_one_line():
    assert line_starts("a\nb\r\nc\rd\n\r") == [0, 2, 5, 7, 9, 10]


@given(st.text("a\r\n"), st.data())
def test_the_start_of_a_line_is_the_last_one_before_a_place(text, data):
    at = data.draw(st.integers(0, len(text)))
    assert line_start(text, at) == line_starts(text[:at])[-1]
