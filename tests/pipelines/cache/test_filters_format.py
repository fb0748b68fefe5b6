"""The filter `format` keeps the files of a format, whatever the case of their names."""

from __future__ import annotations

import pytest

from pipelines.errors import FilterError
from pipelines.filters import parse_filters
from pipelines.formats import FORMATS
from tests.pipelines.cache.test_filters import paths, put

EACH = sorted(f"Any/{one.name}{suffix}" for one in FORMATS for suffix in one.suffixes)


@pytest.fixture
def files(cache):
    for path in (*EACH, "Any/Report.PDF", "Any/pdf.md"):
        put(cache, path, "Words.")
    return cache


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_only_the_files_of_the_format_are_left(files, one):
    expected = {f"Any/{one.name}{suffix}" for suffix in one.suffixes}
    more = {"pdf": {"Any/Report.PDF"}, "md": {"Any/pdf.md"}}.get(one.name, set())
    assert paths(files, ("format", one.name)) == sorted(expected | more)


def test_several_formats_are_alternatives_and_are_written_in_any_case(files):
    both = paths(files, ("format", "PDF"), ("format", ".canvas"))
    assert both == ["Any/Report.PDF", "Any/canvas.canvas", "Any/pdf.pdf"]


def test_what_is_no_format_is_refused_with_those_that_are():
    with pytest.raises(FilterError, match="format cannot be 'word'; it is one of md, txt, canvas, csv, xlsx"):
        parse_filters([("format", "word")])
