"""Sentences of an answer, whatever pieces it comes in, and what each quotes and cites."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.chat.spans import Sentences, judge
from pipelines.search.quotes import check_quote

MOAT = "A moat is pricing power that lasts. It is not size."
BRAND = "Brands fade when nobody remembers them at all."
SOURCES = {1: MOAT, 2: BRAND}
MARKS = "ab .!?\"'“”„«»‘’`>[1]\n-~*_ 。，"


def verify(quote, numbers):
    return {n: check_quote(quote, [SOURCES[n]]).reason for n in numbers}


def sentences(pieces):
    taken = Sentences()
    found = [one for piece in pieces for one in taken.add(piece)]
    return [*found, *taken.rest()]


def judged(text):
    return [judge(one, SOURCES, verify) for one in sentences([text])]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("It is so. [1] And so. [1][2] Yes", ["It is so. [1] ", "And so. [1][2] ", "Yes"]),
        ('He said "One. Two." [1] Then.', ['He said "One. Two." [1] ', "Then."]),
        ("1. One\n2. Two\n\nEnd", ["1. One\n", "2. Two\n\n", "End"]),
        (
            "See e.g. the U.S. market, Dr. No. 5, etc. Then.",
            ["See e.g. the U.S. market, Dr. No. 5, etc. Then."],
        ),
        ("今日は雨。明日は晴れ。", ["今日は雨。", "明日は晴れ。"]),
        ("```py\nprint('a. b')\n```\nSo.", ["```py\n", "print('a. b')\n", "```\n", "So."]),
        (
            'An open "quote that ends\nin the next line". Yes.',
            ['An open "quote that ends\nin the next line". ', "Yes."],
        ),
        ('An open "quote that never ends.\n\nMore.', ['An open "quote that never ends.\n\n', "More."]),
    ],
)
def test_a_sentence_has_its_citations_and_whole_quotations(text, parts):
    assert [one.text for one in sentences([text])] == parts


@given(st.text(alphabet=MARKS, max_size=200), st.lists(st.integers(1, 30), min_size=1, max_size=40))
@example('"' + "a. b! " * 600, [7])
def test_the_pieces_of_an_answer_change_nothing_and_nothing_is_lost(text, sizes):
    pieces, at = [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    found = sentences(pieces)
    assert "".join(one.text for one in found) == text
    if len(text) < 2_000:
        assert found == sentences([text])


def test_a_citation_of_the_provider_is_written_behind_the_sentence_and_checked():
    taken = Sentences()
    first = list(taken.add("Moats last.\n"))
    taken.cite(1, "pricing power that lasts")
    taken.cite(2, "nobody knows this at all")
    found = [*first, *taken.add("Next one."), *taken.rest()]
    assert [one.text for one in found] == ["Moats last. [1] [2]\n", "Next one."]
    assert [span.is_verified for span in judge(found[0], SOURCES, verify).spans] == [True, False]


def test_a_heading_that_the_provider_names_is_a_citation_and_no_quotation():
    taken = Sentences()
    list(taken.add("Moats last."))
    taken.cite(1, "# Moat")
    (found,) = taken.rest()
    assert judge(found, SOURCES, verify).support == "cited"


@pytest.mark.parametrize(
    ("text", "support"),
    [
        ('"A moat is pricing power that lasts" [1].', "quoted"),
        ("> A moat is pricing power that lasts. [1]\n", "quoted"),
        ('"A moat is pricing power that lasts".', "quoted"),
        ('"A moat is pricing power that lasts" [2].', "unverified"),
        ('"A moat is pricing power that lasts" [2][1].', "quoted"),
        ('"A moat is pricing power that lasts" [2] and [1].', "unverified"),
        ('"A moat is pricing power that fades" [1].', "unverified"),
        ('"A moat is pricing power … remembers them at all" [1].', "unverified"),
        ('"power" [1].', "unverified"),
        ("A moat lasts [1].", "cited"),
        ("A moat lasts [1, 9].", "unverified"),
        ("A moat lasts.", "own"),
        ('Use `print("hello world, all")` here.', "own"),
        ("It's Bob's and Ann's.", "own"),
    ],
)
def test_what_supports_a_sentence(text, support):
    (found,) = judged(text)
    assert found.support == support
