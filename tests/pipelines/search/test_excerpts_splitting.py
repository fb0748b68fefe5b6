"""Sentences end where a reader sees their ends, also in text that an editor or a PDF broke into lines."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.search.excerpts import split_sentences

PROSE = (
    "A late frost in the third week of April took a quarter of the early blossom. The old perry pears, which flower "
    "two weeks later, lost nothing. Bumblebees came back to the lower terrace, where Ida keeps the meadow. It was mown "
    "twice (in June and in September) instead of four times, e.g. as in 2019. Nobody missed the noise!"
)
LONG = (
    "A thought has a line of its own, and " + "fills the whole width of the window, " * 3 + "whatever it is"
)


def texts(text):
    return [sentence.text for sentence in split_sentences(text)]


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120])
@pytest.mark.parametrize("margin", ["", "    ", "> "])
def test_wrapped_prose_has_the_sentences_that_it_has_in_one_line(width, margin):
    wrapped = textwrap.fill(PROSE, width, initial_indent=margin, subsequent_indent=margin)
    assert wrapped.count("\n") > 1
    found = [one.replace("> ", "") for one in texts(wrapped)]
    assert found == texts(PROSE)
    assert len(found) == 5


def test_an_item_of_a_list_that_goes_on_in_the_next_line_is_one_sentence():
    text = "- mulch with straw and the leaves of last autumn, because\n  it holds the water\n- water in the evening\n"
    assert texts(text) == [
        "- mulch with straw and the leaves of last autumn, because it holds the water",
        "- water in the evening",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "- the items of a list that are long enough to be wrapped\n- and go on with a small letter",
        "1. the items of a list that are long enough to be wrapped\n2. and go on with a small letter",
        "# A heading that is long enough to be wrapped by an editor\nand a line below",
        "A line that is long enough to be wrapped by an editor\n# and a heading below",
        "A paragraph that is long enough to be wrapped by an editor\n\nand another",
        "A line that is long enough to be wrapped by an editor\n---",
        "| a row of a table | that is long enough to be wrapped |\n| and another | below it |",
        "a row of a table | that is long enough to be wrapped\nand another | below it",
        "> a quotation that is long enough to be wrapped by an editor\nand a line below",
        "A line that ends in a break, although it could be wrapped  \nand a line below",
        "A line that says what is long enough to be wrapped, such as:\nand a line below",
        "buy milk and bread\ncall the plumber",
        "Aster, Bellflower, Columbine and Dahlia\nErica, Foxglove, Geranium and Hollyhock",
        f"{LONG}\nAnother thought below it",
        "install --with-everything that-is long enough = wrapped\nrun the-other-thing",
    ],
)
def test_lines_that_stand_for_themselves_are_sentences_of_their_own(text):
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert texts(text) == lines


def test_lines_of_code_stay_lines():
    code = "```sh\nnpm install something with a rather long list of names\nnpm run build of all of these names at once\n```"
    assert texts(code) == code.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "Bring tools, e.g. a saw",
        "Äpfel, z.B. Boskoop",
        "See Dr. Wren about it",
        "It takes ca. 30 minutes",
        "Nach Abs. 2 gilt das",
        "12. wash the jars",
        "At 9 a.m. the cellar is cold",
    ],
)
def test_a_point_that_ends_no_sentence_is_none(text):
    assert texts(text) == [text]


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from([*PROSE.split(), "\n", "\r\n", "> ", "```", "- "])).map(" ".join)
)
def test_every_sentence_is_at_its_stated_position(text):
    at = 0
    for sentence in split_sentences(text):
        assert at <= sentence.start < sentence.end
        assert " ".join(text[sentence.start : sentence.end].split()) == sentence.text
        at = sentence.end
