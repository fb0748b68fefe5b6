import pytest

from pipelines.documents.document import OpenHeadings


def test_a_heading_closes_those_of_its_level_and_below():
    headings = OpenHeadings()
    assert headings.path == ()
    assert headings.open(2, "Early") == ("Early",)
    assert headings.open(1, "A") == ("A",)
    assert headings.open(3, "Deep") == ("A", "Deep")
    assert headings.open(2, "B") == ("A", "B")
    assert headings.path == ("A", "B")


@pytest.mark.parametrize(
    ("opened", "named", "afterwards"),
    [
        ([], ("Before",), ("Before",)),
        ([(0, "A")], ("A",), ("A",)),
        ([(0, "A"), (1, "B"), (2, "C")], ("A", "B", "C"), ("A", "B", "C")),
        ([(0, "A"), (1, "B"), (1, "C")], ("A", "B"), ("A", "C")),
        ([(0, "A"), (1, "B"), (1, "C"), (2, "D")], ("A", "B"), ("A", "C", "D")),
        ([(1, "A"), (0, "B")], ("Before", "A"), ("B",)),
    ],
)
def test_a_block_is_named_by_its_first_heading_and_the_first_ones_under_that(opened, named, afterwards):
    headings = OpenHeadings()
    headings.open(0, "Before")
    assert headings.open_all(opened) == named
    assert headings.path == afterwards
