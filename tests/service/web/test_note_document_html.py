"""A document's page shows what was read from it, part by part, and nothing of it is active."""

import time

import pytest

from service.schemas.notes import NodeChunk
from service.schemas.search import Place
from service.web.note import render_document


def chunk(text, start, lines, place=None, headings=(), section=""):
    return NodeChunk(
        section=section,
        heading_path=list(headings),
        lines=lines,
        place=place,
        range=(start, start + len(text)),
        text=text,
    )


def page(number):
    return Place(kind="page", name="", first=number, last=number, shown=f"p. {number}")


def test_each_page_has_a_heading_an_address_by_line_and_an_entry_in_the_outline():
    found = render_document(
        "Report.pdf",
        "Report",
        [chunk("one", 0, (1, 1), page(1), section="p. 1"), chunk("two", 5, (3, 4), page(2), section="p. 2")],
    )
    assert (
        '<section id="L1" data-end="1"><h2 id="page=1">p. 1 <a class="there" href="/files/Report.pdf#page=1"'
        in found.body
    )
    assert (
        '<section id="L3" data-end="4"><h2 id="page=2">p. 2 <a class="there" href="/files/Report.pdf#page=2"'
        in found.body
    )
    assert [(entry.text, entry.id) for entry in found.outline] == [("p. 1", "L1"), ("p. 2", "L3")]


def test_a_place_that_the_headings_do_not_say_is_beside_them():
    rows = Place(kind="rows", name="Costs", first=2, last=21, shown="[Costs] rows 2-21")
    found = render_document("Plan.xlsx", "Plan", [chunk("a | b", 0, (1, 1), rows, ["Costs"])])
    assert "<h2>Costs · [Costs] rows 2-21</h2>" in found.body


def test_a_place_that_the_headings_say_in_another_case_is_not_repeated():
    key = Place(kind="key", name="thesis", first=0, last=0, shown="thesis")
    found = render_document("NVDA.yaml", "NVDA", [chunk("Demand grows", 0, (1, 1), key, ["Thesis"])])
    assert "<h2>Thesis</h2>" in found.body


def test_windows_of_one_part_are_shown_as_one_text_whose_overlap_comes_once():
    found = render_document(
        "R.pdf", "R", [chunk("abcdef", 0, (1, 1), page(1)), chunk("efghi", 4, (1, 2), page(1))]
    )
    assert '<pre class="read running">abcdefghi</pre>' in found.body
    assert found.body.count("<section") == 1


@pytest.mark.parametrize(
    ("path", "aligned"),
    [("a.xlsx", True), ("a.py", True), ("a.yaml", True), ("a.docx", False), ("a.txt", False)],
)
def test_columns_stay_aligned_and_running_text_reads_as_a_note_does(path, aligned):
    found = render_document(path, "A", [chunk("a | b", 0, (1, 1))])
    assert ('class="read"' in found.body) == aligned
    assert ('class="read running"' in found.body) != aligned


def test_html_of_a_document_is_text():
    found = render_document("T.html", "<b>T</b>", [chunk("<script>x</script>", 0, (1, 1), headings=["<i>"])])
    assert "<script" not in found.body
    assert "<i>" not in found.body
    assert "<b>" not in found.heading


def test_a_page_of_many_parts_takes_linear_time():
    parts = [chunk("&" * 248, at * 250, (at, at), section=f"cell {at}") for at in range(1, 5_001)]
    began = time.process_time()
    found = render_document("All.ipynb", "All", parts)
    assert time.process_time() - began < 3
    assert found.body.count("<section") == 5_000
