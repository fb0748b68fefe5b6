"""Each line of an edited queue says something about one item, or is a person's and is kept."""

import pytest

from pipelines.tagging.review_file import LineReader, QueuedNote, QueuedTag, label, render

SOIL, BREAD = QueuedTag(1, "soil", "Garden", 0.8, "local"), QueuedTag(2, "bread", "Kitchen", 0.7, "local")
NOTE = QueuedNote("deep/a.md", "A", "Words.", (SOIL, BREAD))
VOCABULARY = {"soil": "soil", "bread": "bread", "compost": "compost"}


def read(*more, change=lambda line: line):
    """Read a page of one note, each line changed, with more lines under its tags."""
    page = render([NOTE], 0, "p1").split("\n")
    last = max(number for number, line in enumerate(page) if label(BREAD) in line)
    lines = [change(line) for line in page]
    lines[last + 1 : last + 1] = more
    reader = LineReader([NOTE], VOCABULARY.get, lines)
    for number, line in enumerate(lines):
        if line.strip():
            reader.read(number, line)
    return reader


def marks(reader, key):
    return [one.mark for one in reader.said[key]]


def test_an_unedited_page_says_nothing_and_keeps_nothing():
    reader = read()
    assert marks(reader, "1") == marks(reader, "2") == [""]
    assert (reader.kept, reader.typed, reader.additions) == ({}, [], [])
    assert reader.pages == [("page", "p1"), ("end", "p1")]


@pytest.mark.parametrize(
    ("box", "mark"), [("[x]", "x"), ("[X]", "x"), ("[\u2713]", "x"), ("[-]", "-"), ("[ ]", "")]
)
def test_a_mark_in_a_box_is_read_as_it_was_meant(box, mark):
    reader = read(change=lambda line: line.replace("[ ]", box) if label(SOIL) in line else line)
    assert marks(reader, "1") == [mark]


@pytest.mark.parametrize("line", ["- compost", "#compost", "- [x] compost"])
def test_a_tag_of_the_vocabulary_typed_under_a_note_is_wanted(line):
    reader = read(line)
    assert reader.typed == [("deep/a.md", "compost")]
    assert reader.kept == {}


def test_a_typed_tag_that_the_vocabulary_lacks_is_an_addition():
    assert read("- #rye").additions == [("deep/a.md", "rye")]


def test_a_sentence_is_kept_with_its_note():
    (kept,) = read("I am not sure about this one.").kept.values()
    assert kept == ("deep/a.md", "I am not sure about this one.")


def test_words_after_a_tag_are_what_a_person_added():
    reader = read(change=lambda line: line.replace(label(SOIL), f"{label(SOIL)} perhaps"))
    (said,) = reader.said["1"]
    assert said.rest == "perhaps"


def test_lines_that_disagree_about_an_item_are_kept_and_decide_nothing():
    reader = read(
        "- [-] soil", change=lambda line: line.replace("[ ]", "[x]") if label(SOIL) in line else line
    )
    assert reader.agree(reader.said["1"]) is None
    assert len(reader.kept) == 2
    assert reader.mentions("1")
    assert not reader.mentions("2")
