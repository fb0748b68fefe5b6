"""The source document's figures for names of files, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.search.code import asked_words, is_named_like, lift_filenames
from pipelines.search.fusion import NoteHit

HITS = [
    NoteHit("notes/parser.md", 1, {"meaning": 1.0}),
    NoteHit("src/cli.py", 2, {"meaning": 0.9}),
    NoteHit("src/record-parser.py", 3, {"meaning": 0.5, "words": 0.2}),
]


@pytest.mark.parametrize(
    ("path", "query", "named"),
    [
        ("src/parser.py", "how does the parser work", True),
        # `parse` and `parser` begin with the same 5 letters: 5 >= 5, and 5 / 5 = 100 % of the shorter one.
        ("src/parser.py", "parse records", True),
        # `configuration` and `config`: 6 of 6. `confirm` and `config`: 5 of 6 = 83 %.
        ("lib/config_loader.ts", "where is the configuration read", True),
        ("lib/config_loader.ts", "confirm it", True),
        # `interface` and `internal`: `inter` are 5 of 8 letters = 62.5 %. `internationally` and `interfering`:
        # `inter` are 5 of 11 = 45 %.
        ("interface.go", "what is internal", True),
        ("interfering.go", "internationally", False),
        # `pars` has 4 letters, and so has what `read` and `reader` begin with.
        ("src/parser.py", "pars", False),
        ("src/reader.py", "read records", False),
        ("src/cli.py", "client", False),
        # `about` and `which` are stop words.
        ("src/about.py", "about which", False),
        # The suffix is no part of the name, the folder neither.
        ("a.backup", "backup", False),
        ("parser/a.py", "parser", False),
        ("app.component.spec.ts", "components", True),
        ("Größenordnung.py", "größenordnungen", True),
    ],
)
def test_a_word_of_the_question_and_a_part_of_the_name_begin_alike(path, query, named):
    assert is_named_like(path, asked_words(query)) is named


def test_a_file_counts_half_as_much_again_and_a_note_of_that_name_does_not():
    first, second, third = lift_filenames(HITS, "the parser of records")
    # 0.7 x 1.5 = 1.05
    assert (first.path, first.score) == ("src/record-parser.py", pytest.approx(1.05))
    assert first.signals["filename"] == pytest.approx(0.35)
    assert first.scores["filenames"] == pytest.approx(1.05)
    assert (second.signals, third.signals) == (HITS[0].signals, HITS[1].signals)


def test_no_file_is_added_and_without_such_a_name_nothing_changes():
    assert lift_filenames([], "parser") == []
    assert [hit.signals for hit in lift_filenames(HITS, "bread")] == [hit.signals for hit in HITS]


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_name_and_question_can_be_compared(name, query):
    assert isinstance(is_named_like(f"src/{name}.py", asked_words(query)), bool)


def test_of_a_long_question_the_first_words_count():
    assert len(asked_words(" ".join(f"word{n}name" for n in range(10_000)))) == 64
