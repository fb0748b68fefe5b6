"""Notes by name: matching beginnings come first, then similar spellings; and there is one hit per note."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.notes.lexical import fold_name
from pipelines.search.names import NameIndex, names_of

NOTES = [
    ("Garden/Winter Soil.md", "Winter Soil", ["Frost"]),
    ("Garden/Gardening in winter.md", "Gardening in winter", []),
    ("Garden/Compost.md", "Compost", ["Garden gold"]),
    ("Books/Émile.md", "Émile, ou De l'éducation", []),
    ("日記/東京の庭.md", "東京の庭", ["Tokyo garden"]),
    ("C++.md", "C++ notes", []),
    ("Rag/wheelbarrow.markdown", "The wheelbarrow", []),
]


def index_of(notes):
    index = NameIndex()
    for note in notes:
        for name in names_of("vault", *note):
            index.add(name)
    return index


@pytest.fixture(scope="module")
def index():
    return index_of(NOTES)


def found(index, query, limit=10):
    return [(name.title, name.matched) for name in index.find(query, limit)]


def test_the_equal_name_leads_then_beginnings_then_words_then_what_holds_it():
    titles = ["Unsoiled", "Soil", "Winter soil", "Soil science", "A soil"]
    index = index_of([(f"{number}.md", title, []) for number, title in enumerate(titles)])
    assert [title for title, _ in found(index, "soil")] == [
        "Soil",
        "Soil science",
        "A soil",
        "Winter soil",
        "Unsoiled",
    ]


def test_a_hit_says_which_name_matched_and_how_it_is_written(index):
    (hit, *_) = index.find("tokyo", 5)
    assert (hit.path, hit.title, hit.matched, hit.name) == (
        "日記/東京の庭.md",
        "東京の庭",
        "alias",
        "Tokyo garden",
    )
    assert found(index, "garden/comp") == [("Compost", "path")]


def test_a_note_is_found_once_by_its_best_name(index):
    assert found(index, "compost") == [("Compost", "title")]


@pytest.mark.parametrize("query", ["emile", "ÉMILE", "e\u0301mile", "education"])
def test_case_and_diacritics_make_no_difference(index, query):
    assert found(index, query)[0] == ("Émile, ou De l'éducation", "title")


@pytest.mark.parametrize("query", ["lodz strasse", "Łódź straße", "ŁÓDŹ STRASSE", "office", "oﬃce", "TM"])
def test_a_name_is_found_by_the_letters_that_people_type_for_its_own(query):
    index = index_of([("a.md", "Łódź Straße, oﬃce™", [])])
    assert [title for title, _ in found(index, query)] == ["Łódź Straße, oﬃce™"]


@pytest.mark.parametrize("query", ["東京", "東京の庭", "庭", "日記/東京"])
def test_names_without_spaces_are_found_by_any_part(index, query):
    assert [title for title, _ in found(index, query)] == ["東京の庭"]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("gardning", "Gardening in winter"),
        ("compsot", "Compost"),
        ("wheelbarow", "The wheelbarrow"),
        ("wintr soil", "Winter Soil"),
        ("soil wint", "Winter Soil"),
        ("winter gardn", "Gardening in winter"),
    ],
)
def test_a_misspelt_or_turned_name_is_found(index, query, title):
    assert found(index, query)[0][0] == title


def test_a_title_with_a_slash_is_no_path():
    index = index_of([("Net/protocols.md", "TCP/IP", [])])
    assert found(index, "tcpp") == [("TCP/IP", "title")]


def test_of_names_that_begin_alike_titles_lead_and_then_the_short_ones():
    index = index_of([("a.md", "Frosty days", []), ("b.md", "Ice", ["Frost"]), ("c.md", "Frosted", [])])
    assert [title for title, _ in found(index, "fros")] == ["Frosted", "Frosty days", "Ice"]


@pytest.mark.parametrize("query", ["xylophone", "soil xylophone", "zz", " ", "/", "\u0301"])
def test_what_no_note_is_called_is_not_found(index, query):
    assert found(index, query) == []


def test_the_ending_of_the_file_is_no_part_of_its_name(index):
    assert found(index, "markdown") == []
    assert found(index, "md") == []


def test_signs_are_searched_as_they_are(index):
    assert found(index, "c++") == [("C++ notes", "path")]
    assert found(index, "c#") == []


def test_no_more_notes_than_asked_for(index):
    assert len(index.find("garden", 2)) == 2


words = st.text("abcé東 -/._'", min_size=1, max_size=8)
notes = st.dictionaries(
    words.map(lambda path: f"{path}.md"), st.tuples(words, st.lists(words, max_size=2, unique=True))
)


@given(notes=notes, query=words)
def test_every_note_with_a_name_that_holds_the_query_is_found_and_beginnings_lead(notes, query):
    rows = [(path, title, aliases) for path, (title, aliases) in notes.items()]
    wanted = fold_name(query)
    texts = {
        path: [fold_name(name) for name in (title, *aliases, path.removesuffix(".md"))]
        for path, title, aliases in rows
    }
    holding = {path for path, names in texts.items() if wanted and any(wanted in name for name in names)}
    leading = {path for path in holding if any(name.startswith(wanted) for name in texts[path])}
    hits = [name.path for name in index_of(rows).find(query, 100)]
    assert len(hits) == len(set(hits))
    assert set(hits[: len(leading)]) == leading
    assert set(hits[: len(holding)]) == holding


@given(kept=notes, gone=notes, query=words)
def test_what_was_taken_out_leaves_no_trace(kept, gone, query):
    gone = {f"gone/{path}": names for path, names in gone.items()}
    rows = [(path, *names) for path, names in kept.items()]
    index = index_of([*rows, *((path, *names) for path, names in gone.items())])
    for path, names in gone.items():
        for name in names_of("vault", path, *names):
            index.remove(name)
    assert index.find(query, 50) == index_of(rows).find(query, 50)
