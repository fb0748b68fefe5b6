import hashlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import ConfigurationError
from pipelines.model import ChunkSettings
from pipelines.notes.chunk import chunk_note, chunk_settings
from pipelines.notes.frontmatter import line_starts
from pipelines.notes.markdown import parse_note

SMALL = ChunkSettings(target_words=10, overlap_words=3, max_chars=200)


def chunks(text, settings=SMALL):
    return chunk_note(parse_note("My note.md", text), settings)


def texts(text, settings=SMALL):
    return [chunk.text for chunk in chunks(text, settings)]


# Settings


@pytest.mark.parametrize(
    ("window", "target", "overlap", "expected"),
    [
        (512, None, None, (600, 80)),
        (8192, None, None, (600, 80)),
        (256, None, None, (200, 30)),
        (128, None, None, (100, 15)),
        (1, None, None, (1, 0)),
        (512, 300, None, (300, 40)),
        (512, 300, 10, (300, 10)),
        (256, None, 5, (200, 5)),
        (512, 1, None, (1, 0)),
    ],
)
def test_a_shorter_window_gets_fewer_words_and_given_values_win(window, target, overlap, expected):
    chosen = chunk_settings(window, target, overlap)
    assert (chosen.target_words, chosen.overlap_words) == expected
    assert chosen.max_chars == 6_000


@pytest.mark.parametrize(
    ("target", "overlap"), [(50, 50), (50, 90), (50, -1), (0, None), (-5, None), (None, 600)]
)
def test_an_overlap_must_be_smaller_than_the_target(target, overlap):
    with pytest.raises(ConfigurationError, match="overlap"):
        chunk_settings(512, target, overlap)


# Sections


def test_a_note_is_cut_at_its_second_level_headings():
    found = chunks(
        "# Top\nintro\n## A\none\n### Deep\ntwo\n## B\n### Deeper\nthree\n# Other\nfour\n## C\nfive"
    )
    assert [chunk.text for chunk in found] == [
        "# Top\nintro",
        "## A\none\n### Deep\ntwo",
        "## B\n### Deeper\nthree",
        "# Other\nfour",
        "## C\nfive",
    ]
    assert [chunk.section for chunk in found] == ["Top", "A", "B", "Other", "C"]
    assert [chunk.heading_path for chunk in found][3:] == [("Other",), ("Other", "C")]
    assert [chunk.position for chunk in found] == [0, 1, 2, 3, 4]


def test_a_passage_of_several_first_level_sections_is_called_as_its_note():
    (found,) = chunks("# One\nintro\n# Two\nmore")
    assert (found.section, found.heading_path) == ("One", ())
    (found,) = chunks("---\ntitle: T\n---\n# One\nintro\n# Two\nmore")
    assert (found.section, found.heading_path) == ("T", ())
    first, *_ = chunks(f"# One\n{'a ' * 20}\n# Two\n{'b ' * 20}")
    assert first.heading_path == ("One",)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 14)).map(
            lambda part: ("#" * part[0] + " H\n" if part[0] else "") + "w " * part[1]
        ),
        max_size=8,
    )
)
def test_no_passage_has_a_heading_that_ends_its_section(parts):
    text = "\n\n".join(parts)
    headings = parse_note("a.md", text).headings
    for chunk in chunks(text):
        inside = [h.level for h in headings if chunk.start < h.start < chunk.end and h.level <= 2]
        assert not inside or not chunk.heading_path


def test_text_before_the_first_section_is_labelled_by_the_title_where_there_is_no_h1():
    assert [chunk.section for chunk in chunks("intro\n## A\ntext")] == ["My note", "A"]
    assert [c.section for c in chunks("---\ntitle: T\n---\nintro\n## A\n# Late")] == ["T", "A", "Late"]


def test_a_heading_in_a_code_fence_does_not_split():
    assert texts("a\n```\n## not a heading\n```\nb") == ["a\n```\n## not a heading\n```\nb"]


def test_an_underlined_heading_splits():
    assert texts("a\n\nB\n---\nc") == ["a", "B\n---\nc"]


def test_frontmatter_is_in_no_chunk():
    assert texts("---\ntitle: T\n---\n\nbody\n") == ["body"]


def test_unreadable_frontmatter_is_text():
    assert texts("---\ntitle: {{T}}\n---\nbody") == ["---\ntitle: {{T}}\n---\nbody"]


@pytest.mark.parametrize("text", ["", " \n\t\n", "---\na: 1\n---\n\n"])
def test_a_note_without_text_has_one_chunk_of_its_title_and_of_no_range(text):
    (found,) = chunks(text)
    assert (found.text, found.section, found.position) == ("My note", "My note", 0)
    assert found.start == found.end <= len(text)


def test_a_note_without_text_is_known_by_its_title_aliases_and_description():
    text = "---\ntitle: T\naliases: [A, B]\ndescription: |\n  What it\n  is about.\n---\n"
    assert texts(text) == ["T\nA\nB\nWhat it is about."]
    assert texts("---\ndescription: [no, text]\n---\n") == ["My note"]


def test_names_of_a_note_without_text_are_cut_at_the_ceiling():
    assert [len(text) for text in texts(f"---\ntitle: {'t' * 500}\n---\n")] == [200]


def test_a_heading_without_text_below_it_is_still_findable():
    assert texts("## A\n\n## B\n") == ["## A", "## B"]


def test_a_section_whose_heading_has_no_words_is_labelled_by_the_note():
    assert chunks("##\ntext")[0].section == "My note"


# Windows


def words(first, last):
    return " ".join(f"w{number}" for number in range(first, last))


def test_a_section_as_long_as_the_target_is_one_chunk():
    assert texts(words(0, 10)) == [words(0, 10)]


def test_a_long_section_is_cut_by_a_sliding_window():
    assert texts(words(0, 20)) == [words(0, 10), words(7, 17), words(14, 20)]


def test_a_window_does_not_reach_into_the_next_section():
    assert texts(f"{words(0, 11)}\n## B\nb") == [words(0, 10), words(7, 11), "## B\nb"]


def test_each_cjk_character_counts_as_a_word():
    assert texts("机器学习是人工智能的子领域") == ["机器学习是人工智能的", "智能的子领域"]
    assert len(texts("한국어 조선말 ひらがな カタカナ")) == 2


def test_a_giant_word_is_cut_hard():
    found = texts("x" * 450)
    assert [len(text) for text in found] == [200, 200, 50]


def test_no_chunk_is_longer_than_the_ceiling_though_it_has_few_words():
    found = texts(("y" * 90 + " ") * 6)
    assert [len(text) for text in found] == [181, 181, 181]


# The position of a chunk


def test_a_chunk_knows_the_headings_around_its_start():
    text = "# Top\n## A\n### Deep\n" + words(0, 20) + "\n## B\nx"
    assert [chunk.heading_path for chunk in chunks(text)] == [
        ("Top",),
        ("Top", "A"),
        ("Top", "A", "Deep"),
        ("Top", "A", "Deep"),
        ("Top", "B"),
    ]


def test_a_chunk_knows_its_lines():
    found = chunks("---\na: 1\n---\n\nintro\r\nmore\r\n\r\n## A\nx\n\n")
    assert [(chunk.first_line, chunk.last_line) for chunk in found] == [(5, 6), (8, 9)]


def test_equal_texts_have_equal_hashes():
    first, second = chunks("## A\nsame\n## A\nsame")
    assert first.text_hash == second.text_hash == hashlib.sha256(b"## A\nsame").hexdigest()


# Anything at all

_PIECES = st.sampled_from(
    ["## H\n", "# T\n", "### D\n", "\n", " ", "word ", "字", "한", "x" * 30, "```\n", "\r\n", "\u3000"]
)


@settings(max_examples=300)
@given(
    text=st.one_of(st.text(), st.lists(_PIECES, max_size=80).map("".join)),
    target=st.integers(2, 12),
    overlap=st.integers(0, 11),
    ceiling=st.integers(5, 60),
)
def test_every_word_of_the_body_is_in_a_chunk_and_every_chunk_is_a_slice(text, target, overlap, ceiling):
    note = parse_note("n.md", text)
    found = chunk_note(note, ChunkSettings(target, min(overlap, target - 1), ceiling))
    starts = line_starts(text)
    covered = set()
    if not text[note.body_start :].strip():
        assert [(chunk.start, chunk.end) for chunk in found] == [(note.body_start, note.body_start)]
        return
    for chunk in found:
        assert chunk.text == note.text[chunk.start : chunk.end]
        assert chunk.text == chunk.text.strip()
        assert 0 < len(chunk.text) <= ceiling
        assert starts[chunk.first_line - 1] <= chunk.start
        assert chunk.last_line == len(line_starts(text[: chunk.end - 1]))
        covered.update(range(chunk.start, chunk.end))
    body = range(note.body_start, len(text))
    assert all(offset in covered for offset in body if not text[offset].isspace())
    assert [chunk.start for chunk in found] == sorted({chunk.start for chunk in found})
    assert [chunk.position for chunk in found] == list(range(len(found)))


@settings(max_examples=50)
@given(count=st.integers(1, 100), target=st.integers(2, 20), overlap=st.integers(0, 19))
def test_windows_overlap_by_exactly_the_chosen_words(count, target, overlap):
    overlap = min(overlap, target - 1)
    found = [text.split() for text in texts(words(0, count), ChunkSettings(target, overlap, 6_000))]
    for before, after in pairwise(found):
        assert len(before) == target
        assert before[target - overlap :] == after[:overlap]
