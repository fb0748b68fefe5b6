"""Quotes and minus signs: a phrase must be in the note, and what is not wanted must not, for every retriever."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.filters import NO_FILTERS, Filters
from pipelines.model import Domain
from pipelines.question import read_question
from pipelines.search.bm25 import WordPostings
from pipelines.search.explain import nothing_left
from pipelines.search.operators import notes_with_phrase, restricted, why_not
from pipelines.search.rank import Source, depth_for, rank_notes
from tests.pipelines.conftest import housed

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DOMAIN = Domain("vault", "", legacy=True, graph_mode="off")
LONG = " ".join(f"word{n} of" for n in range(150))
NOTES = {
    "daily.md": "# Daily note\n\nWhat to write.\n\n## Daily Note Templates\n\nOne for each day.",
    "plain.md": "# A daily habit\n\nWrite a daily note of the day.",
    "order.md": "The note is daily.",
    "marked.md": "The margin of **safety**, and\n> the café.",
    "alias.md": "---\naliases: [Margin of Error, Safety First]\n---\nNothing of it here.",
    "letters.md": "Eine Straße nach Łódź, ﬁnancial oﬃce™ no. 2.",
    "camel.md": "Run GitHub Actions with getUserById, and C++ on the way.",
    "lower.md": "Set up github actions.",
    "hamlet.md": "To be, or not to be: that is it.",
    "being.md": "It is not to be. Be it or not.",
    "chinese.md": "# 食品\n\n发酵食品和豆腐。Obsidian笔记。",
    "other.md": "豆腐和食品发酵。",
    "katakana.md": "ジョン・スミスは先生です。",
    "long.md": f"# Long\n\n{LONG}",
    "Far/The Salt Road.md": "---\ntitle: Caravans\n---\nSome lines.",
    "joined.md": "---\ntitle: First half\naliases: [second half]\n---\nApart.",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("restrict"), tiny_embedder, NOTES) as house:
        yield house


@pytest.fixture(scope="module", params=["in the file", "in memory"])
def ask(request, house):
    """Return the notes that a question finds, with words read from the file or held in memory."""
    words = WordPostings() if request.param == "in memory" else None

    def paths(query, only=None):
        if words is not None:
            words.follow(house.cache)
        vector = house.embedder._embedder.encode_query(query)
        source = Source(DOMAIN, house.cache, vector, only, words=words)
        return {hit.path for hit in rank_notes(source, read_question(query), depth_for(20), NOW).hits}

    return paths


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ('"daily note"', {"daily.md", "plain.md"}),
        ("“daily note”", {"daily.md", "plain.md"}),
        ('"note is daily" OR "margin of error"', {"order.md", "alias.md"}),
        ('"note is daily" OR "margin of error" -"safety first"', {"order.md"}),
        ("daily note -templates", NOTES.keys() - {"daily.md"}),
        ("daily note -template", NOTES.keys() - {"daily.md"}),
        ('daily note -"daily note"', NOTES.keys() - {"daily.md", "plain.md"}),
        ('"daily note" -templates', {"plain.md"}),
        ('"daily note" "write a daily"', {"plain.md"}),
        ('"MARGIN of safety"', {"marked.md"}),
        ('"margin of error" note', {"alias.md"}),
        ('"the cafe"', {"marked.md"}),
        ('"strasse nach lodz"', {"letters.md"}),
        ('"STRASSE NACH ŁÓDŹ"', {"letters.md"}),
        ('"financial office"', {"letters.md"}),
        ('"oﬃce™ no"', {"letters.md"}),
        ('"office no"', set()),
        ('"github actions"', {"camel.md", "lower.md"}),
        ('"GitHub Actions"', {"camel.md", "lower.md"}),
        ('"actions with getUserById and C++"', {"camel.md"}),
        ('"to be or not to be"', {"hamlet.md"}),
        ('"食品和豆腐"', {"chinese.md"}),
        ('"obsidian笔记"', {"chinese.md"}),
        ("食品 -发酵食品", NOTES.keys() - {"chinese.md"}),
        ('"ジョン・スミス"', {"katakana.md"}),
        ('"ジョンスミスは"', {"katakana.md"}),
        ('apple -"ジョン・スミス"', NOTES.keys() - {"katakana.md"}),
        ('apple -・ "・" -"゛"', NOTES.keys()),
        ('"the salt road"', {"Far/The Salt Road.md"}),
        ('lines -"salt road"', NOTES.keys() - {"Far/The Salt Road.md"}),
        ('"far the"', set()),
        ('"half second"', set()),
        ('"daily notes"', set()),
        ('"note is dail"', set()),
        ('"no such phrase"', set()),
        ("-daily", set()),
        ('-"daily note" -template', set()),
    ],
)
def test_only_notes_that_quotes_and_minus_signs_leave_are_found(ask, query, paths):
    assert ask(query) == paths


def test_a_phrase_is_found_where_it_goes_on_in_the_next_passage(house):
    words = LONG.split()
    for start in range(0, len(words) - 40, 61):
        assert notes_with_phrase(house.cache, " ".join(words[start : start + 40])) == {"long.md"}
    assert notes_with_phrase(house.cache, " ".join([*words[:20], *words[30:50]])) == set()


SELF = "# Self\n\nThe self will do what the self will.\n" * 5


@pytest.mark.parametrize(
    ("phrase", "text", "has_it"),
    [
        ("will self", "List: Ada Quill, Will Self, Tom Brandt.", True),
        ("will self", SELF, False),
        ("will self", "What the self will. Self is what it is.", False),
        ("will. Self", "What the self will. Self is what it is.", True),
        ("will self", "What the self will\n\nself", False),
        ("will self", "What the self will\n# Self", False),
        ("will self", "## What the self will\nSelf", False),
        ("will self", "- what it will\n- self", False),
        ("will self", "1. what it will\n2. self", False),
        ("will self", "Will\n====\nSelf", False),
        ("will self", "> What **will**\n> _self_ do?", True),
        ("will self", "will, self", True),
        ("prof smith", "The lecture of Prof. Smith.", True),
        ("no smith", "No. Smith and J. R. R. Tolkien of St. Ives, e.g. Mr. Fox", True),
        ("r tolkien of st ives eg mr", "No. Smith and J. R. R. Tolkien of St. Ives, eg. Mr. Fox", True),
        ("面包 河边", "去做面包。河边", False),
    ],
)
def test_a_phrase_is_side_by_side_in_one_sentence_of_one_block(tmp_path, tiny_embedder, phrase, text, has_it):
    with housed(tmp_path, tiny_embedder, {"note.md": text}) as house:
        assert notes_with_phrase(house.cache, phrase) == ({"note.md"} if has_it else set())


def test_operators_hold_within_filters(ask, house):
    ids = {path: i for i, path in house.cache.con.execute("SELECT id, path FROM vault_chunk")}
    assert ask('"daily note"', [ids["plain.md"], ids["other.md"]]) == {"plain.md"}
    assert ask("daily -write", [ids["plain.md"], ids["other.md"]]) == {"other.md"}


@pytest.mark.parametrize(
    "query",
    [
        "tar -xz -v -2 -rf",
        "what does the command sudo rm -r docker_test do to the folder",
        'a question that is long enough to be a sentence which says "no such phrase" -daily',
        '"..."',
        "daily-note well-known",
    ],
)
def test_options_numbers_and_sentences_ask_nothing_of_a_note(query):
    assert not read_question(query).signs


def test_a_sentence_says_what_it_quotes_and_its_minus_signs_are_words():
    query = 'the long question of one who has pasted a message with "a phrase" in it -template'
    assert {"template", "a phrase"} <= read_question(query).wanted.weights.keys()
    assert read_question(query).asked == query


def test_what_is_not_wanted_is_no_part_of_the_question():
    assert read_question('daily "a note" -template -"x y"').asked == 'daily "a note"'
    assert read_question("daily  note").asked == "daily  note"


def why_none(house, query, only=None):
    """Return why a question finds nothing among all notes, or among those that pass its filters."""
    ids = only and [chunk.chunk_id for path in only for chunk in house.cache.passages.chunks_of(path)]
    source = Source(DOMAIN, house.cache, None, ids)
    return nothing_left([source], read_question(query, NO_FILTERS if only is None else Filters(has=("tag",))))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ('"no such phrase"', 'no note has the phrase "no such phrase"; without the quotes'),
        ('"daily note" "no such phrase"', 'no note has the phrase "no such phrase"; without the quotes'),
        ('"daily note" "github actions"', 'no note has all of the phrases "daily note" and "github actions"'),
        ('"github actions" -actions', 'every note that has "github actions" also has "actions", which'),
        ("-daily", "the question says only what to leave out"),
        ("daily", None),
        ("daily -nosuchword", None),
        ('"daily note" -nosuchword', None),
    ],
)
def test_an_empty_answer_says_why(house, query, reason):
    said = why_none(house, query)
    assert said is None if reason is None else said.startswith(reason)


@pytest.mark.parametrize(
    ("query", "only", "reason"),
    [
        ("note", (), "no note passes the filters"),
        ("note -daily", (), "no note passes the filters"),
        ('"daily note"', (), "no note passes the filters"),
        ("note -daily", ("plain.md", "order.md"), 'every note that passes the filters has "daily", which'),
        ("note -daily", ("plain.md", "lower.md"), None),
        (
            '"daily note"',
            ("order.md",),
            'no note that passes the filters has the phrase "daily note"; without',
        ),
        ('"of the" cafe "a daily"', ("plain.md", "marked.md"), None),
        (
            '"github actions" "daily note"',
            ("plain.md", "lower.md"),
            'no note that passes the filters has all of the phrases "github actions" and "daily note"',
        ),
        (
            '"github actions" -set',
            ("plain.md", "lower.md"),
            'every note that passes the filters and has "github actions" also has "set", which the question',
        ),
    ],
)
def test_an_empty_answer_says_why_for_the_notes_that_pass_the_filters(house, query, only, reason):
    said = why_none(house, query, only)
    assert said is None if reason is None else said.startswith(reason)


def test_the_reason_for_leaving_a_note_out_is_given(house):
    assert "lacks the phrase" in why_not(house.cache, read_question('"daily note"'), "order.md")
    assert "leaves out with a minus sign" in why_not(house.cache, read_question("note -template"), "daily.md")
    assert why_not(house.cache, read_question('"daily note" -template'), "plain.md") is None


_CHARACTERS = st.sampled_from('"- -"a7') | st.characters(min_codepoint=0x3000, max_codepoint=0x31FF)


@given(st.text(_CHARACTERS | st.characters(), max_size=30))
def test_a_question_with_any_characters_between_its_quotes_and_minus_signs_can_be_asked(house, query):
    asked = read_question(query).signs
    why_none(house, query)
    left = restricted(house.cache, read_question(query), None)
    (chunk,) = house.cache.passages.chunks_of("katakana.md")
    kept = (asked.asks or not asked) and why_not(house.cache, read_question(query), "katakana.md") is None
    assert (left is None or chunk.chunk_id in left) == kept


# The oracle splits texts by itself, and knows nothing of the index.


def _words(text):
    plain = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return re.findall(r"\+\+|[\u3400-\u9fff]|[a-z0-9]+", plain.lower())


def _has(text, phrase):
    """Say whether a sentence of a text has these words in a row."""
    # After a short word a dot may be that of an abbreviation, so no sentence of these notes ends with one.
    sentences = map(_words, re.split(r"\n\n|。", text))
    return any(words[at : at + len(phrase)] == phrase for words in sentences for at in range(len(words)))


_texts = {path: text for path, text in NOTES.items() if not text.startswith("---") and path != "letters.md"}
_starts = st.sampled_from(
    [(path, at) for path, text in _texts.items() for at in range(min(20, len(_words(text))))]
)


@settings(max_examples=40)
@given(_starts, st.integers(1, 5), st.sampled_from([" ", "  ", ", ", "\n"]), st.booleans(), st.booleans())
def test_the_notes_with_a_phrase_are_those_that_have_its_words_in_a_row(
    house, start, count, between, upper, swap
):
    path, at = start
    phrase = _words(_texts[path])[at : at + count]
    if swap:
        phrase = phrase[::-1]
    text = between.join(phrase)
    expected = {path for path, own in _texts.items() if _has(own, phrase)}
    found = notes_with_phrase(house.cache, text.upper() if upper else text)
    assert found & _texts.keys() == expected
