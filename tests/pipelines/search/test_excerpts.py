import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.search.excerpts import Excerpt, opening, plain_text, read_passage, split_sentences
from pipelines.search.excerpts import excerpt as cut_excerpt

LONGEST = 320
CUT = 2 * (LONGEST + 2) + 3
"""Two cut sentences and what joins them."""


def excerpt(text, terms, similarities=None):
    return cut_excerpt(plain_text(text), split_sentences(text), terms, similarities)


def shown(text, *terms):
    return excerpt(text, terms).text


def marked(text, *terms):
    found = excerpt(text, terms)
    return [found.text[start:end] for start, end in found.marks]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("box.py", "def __init__(self, *args, **kwargs):", "def __init__(self, *args, **kwargs):"),
        ("sums.txt", "5 * 3 * 2 is _not_ [30](x)", "5 * 3 * 2 is _not_ [30](x)"),
        ("Note.md", "It is _not_ [30](x)", "It is not 30"),
        ("Board.canvas", "It is _not_ [30](x)", "It is not 30"),
        ("Lab.ipynb", "It is _not_ [30](x)", "It is not 30"),
    ],
)
def test_what_no_markdown_program_wrote_is_shown_as_it_is_written(path, text, expected):
    assert cut_excerpt(read_passage(path, text), split_sentences(text), []).text == expected


# Which sentences


def test_the_sentences_with_the_terms_are_chosen_in_the_texts_order():
    text = "Bread needs an oven. Rivers run. Yeast makes bread rise! Boats sail."
    assert shown(text, "yeast", "bread") == "Bread needs an oven. … Yeast makes bread rise!"


def test_a_sentence_with_more_different_terms_wins_over_one_that_repeats_a_term():
    text = "Soil soil soil. Compost. Soil soil. Soil and compost."
    assert shown(text, "soil", "compost") == "Soil soil soil. … Soil and compost."
    text = "Tomato tomato. Nothing. Soil and tomato. Tomato."
    assert "Soil and tomato." in shown(text, "tomato", "soil")


def test_the_first_sentences_are_shown_where_no_term_occurs():
    assert excerpt("One. Two. Three.", ["x"]) == Excerpt("One. … Two.", (), ((0, 4), (5, 9)))
    assert excerpt("One. Two. Three.", []) == Excerpt("One. … Two.", (), ((0, 4), (5, 9)))


def test_a_heading_is_shown_only_where_there_is_nothing_else():
    assert shown("## Soil\nTomatoes want compost.", "soil") == "Tomatoes want compost."
    assert excerpt("## Soil", ["soil"]) == Excerpt("Soil", ((0, 4),), ((0, 7),))


def test_a_line_that_begins_with_a_tag_is_no_heading():
    assert shown("#garden tomatoes want compost.\nRivers run.\nBoats sail.", "compost").startswith("#garden")


def test_line_breaks_and_runs_of_spaces_are_one_space():
    assert shown("- a\tlist   of\u00a0things", "things") == "a list of things"


def test_sentences_end_at_cjk_full_stops_without_a_space():
    assert (
        shown("今天写日记。明天去河边！后天做面包？晚上睡觉。", "面包", "河边")
        == "明天去河边！ … 后天做面包？"
    )


def test_a_dot_within_a_word_ends_no_sentence():
    assert shown("Use v3.11 of pipelines.model now.", "model") == "Use v3.11 of pipelines.model now."


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\n"])
def test_an_empty_text_has_an_empty_excerpt(text):
    assert excerpt(text, ["a"]) == Excerpt("", (), ())


def test_the_most_similar_sentences_are_chosen_however_many_words_others_have():
    text = "Bread needs an oven. Rivers run. Yeast makes bread rise! Boats sail."
    found = excerpt(text, ["bread", "yeast", "sail"], [0.1, 0.7, 0.2, 0.9])
    assert found.text == "Rivers run. … Boats sail."
    assert [text[start:end] for start, end in found.sentences] == ["Rivers run.", "Boats sail."]


def test_the_sentence_with_the_words_takes_the_place_of_the_second_most_similar_if_both_have_none():
    text = "Bread needs an oven. Rivers run. Yeast makes bread rise! Boats sail."
    assert shown_by([0.1, 0.7, 0.2, 0.9], text, "bread", "yeast") == "Yeast makes bread rise! … Boats sail."
    assert shown_by([0.1, 0.7, 0.2, 0.9], text, "flour") == "Rivers run. … Boats sail."
    assert shown_by([0.1], "Bread.", "flour") == "Bread."


def shown_by(similarities, text, *terms):
    return excerpt(text, terms, similarities).text


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=8))
def test_no_other_sentence_is_more_similar(similarities):
    text = " ".join(f"Sentence {number}." for number in range(len(similarities)))
    chosen = [int(number) for number in re.findall(r"\d+", excerpt(text, [], similarities).text)]
    assert chosen == sorted(chosen)
    assert len(chosen) == min(2, len(similarities))
    rest = [value for number, value in enumerate(similarities) if number not in chosen]
    assert min(similarities[number] for number in chosen) >= max(rest, default=-1)


# Without Markdown


def test_what_is_nothing_but_links_addresses_or_tags_is_chosen_only_where_there_is_nothing_else():
    text = "- [[Soil]]\n- [Soil and compost](https://soil.org)\nhttps://soil.org/soil #soil\nWorms live here.\n```\n};\n```"
    assert excerpt(text, ["soil"], [0.9, 0.8, 0.7, 0.1, 0.2, 0.3, 0.4]).text == "Worms live here."
    links = "## Sources\n- [[Soil]]\n- [Compost](https://soil.org)"
    assert shown(links, "soil") == "Soil … Compost"
    assert shown("![[soil.png]]\n%% soil %%", "soil") == ""


def test_an_excerpt_is_plain_and_its_ranges_are_those_of_the_markdown():
    text = "# Soil\n\nIntro.\n\n> - [ ] **Compost** feeds the [[Soil|earth]].\n\n| a | b |\n|---|---|\n| 1 | earth |"
    found = excerpt(text, ["earth", "compost"])
    assert found.text == "Compost feeds the earth. … 1 · earth"
    assert [found.text[start:end] for start, end in found.marks] == ["Compost", "earth", "earth"]
    assert [text[start:end] for start, end in found.sentences] == [
        "> - [ ] **Compost** feeds the [[Soil|earth]].",
        "| 1 | earth |",
    ]


def test_a_link_that_is_split_into_two_sentences_leaves_no_trace():
    text = "See [Ida. Wren. A life](https://x.org/a_b) now. **One. Two.** Three."
    assert excerpt(text, [], [0, 1, 1, 0, 0]).text == "See Ida. … A life now."


# What is marked


def test_terms_are_marked_whatever_their_case():
    assert marked("Soil, SOIL and soil.", "soil") == ["Soil", "SOIL", "soil"]


def test_a_term_is_marked_as_a_whole_word():
    assert marked("Subsoil, soily, _soil, 2soil and soil-borne.", "soil") == ["soil"]


def test_a_term_is_marked_with_an_english_ending():
    text = "Plant, plants, planted, planting, boxes, planter, plantings, replants."
    assert marked(text, "plant", "box") == ["Plant", "plants", "planted", "planting", "boxes"]


def test_the_longer_of_two_terms_is_marked_where_both_begin():
    assert marked("A tomato a.b.", "a", "a.b") == ["A", "a.b"]


def test_a_cjk_term_is_marked_wherever_it_stands():
    assert marked("我的日记本和日记。", "日记") == ["日记", "日记"]


def test_a_term_of_symbols_is_taken_as_it_is():
    assert marked("C++ (and c++), a.b or axb, {{x}} \\d", "c++", "a.b", "{{x}}", "\\d", "") == [
        *("C++", "c++", "a.b", "{{x}}", "\\d")
    ]


def test_a_term_with_an_accent_is_marked_as_a_whole_word():
    assert marked("Einübung der Übung im Café Decafé.", "übung", "café") == ["Übung", "Café"]


def test_a_term_is_marked_in_text_in_decomposed_form():
    assert marked("Nothing. No. Im Cafe\u0301 sitzen.", "caf\u00e9") == ["Caf\u00e9"]


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("Die Straße und STRASSEN.", "Strasse", ["Straße"]),
        ("In Łódź, Cafe\u0301s.", "lodz", ["Łódź"]),
        ("In Łódź, Cafe\u0301s.", "CAFÉ", ["Cafés"]),
        ("A ﬁnancial oﬃce.", "financial", ["ﬁnancial"]),
        ("A ﬁnancial oﬃce.", "office", ["oﬃce"]),
        ("ＡＢＣ ｶﾞｲﾄﾞ本", "abc", ["ＡＢＣ"]),
        ("ＡＢＣ ｶﾞｲﾄﾞ本", "ガイ", ["ｶﾞｲ"]),
        ("Upgrade to v2.10.3 of .NET.", "v2.10.3", ["v2.10.3"]),
        ("Upgrade to v2.10.3 of .NET.", "net", ["NET"]),
    ],
)
def test_a_word_is_marked_as_the_text_writes_it(text, term, expected):
    assert marked(text, term) == expected


def test_pairs_of_cjk_characters_that_overlap_are_marked_together():
    assert marked("我的数据库管理。", "数据", "据库", "库管") == ["数据库管"]
    assert marked("株式会社と㍿。", "株式", "会社") == ["株式", "会社", "㍿"]


_SPELLED = st.lists(
    st.sampled_from([("ss", "ß"), ("l", "ł"), ("ae", "Æ"), ("ffi", "ﬃ"), ("o", "ó"), ("s", "ｓ")]), min_size=1
)


@given(_SPELLED, st.text(st.sampled_from("ßﬃłx é…🌱"), max_size=9), st.data())
def test_the_marked_range_is_the_word_whatever_letters_come_before_it(sounds, before, data):
    written = "".join(data.draw(st.sampled_from(ways)) for ways in sounds)
    typed = "".join(first for first, _ in sounds)
    assert marked(f"{before} ({written}) after", typed)[-1] == written


WORDS = ["soil", "soils", "so", "Tomato", "c3po", "a.b", "C++", "日记", "日"]
TERMS = st.lists(st.sampled_from([word.lower() for word in WORDS]), max_size=4)
SENTENCES = st.lists(
    st.lists(st.sampled_from([*WORDS, "soiled", "subsoil", "_so", "\u00e9", "🌱"]), max_size=12).map(
        " ".join
    ),
    max_size=6,
).map(". ".join)


def is_shown_by(term, text, at):
    """Say whether a term is at a place of a text: letters and digits as a whole word, anything else literally."""
    if not text[at:].lower().startswith(term):
        return False
    if not (term.isascii() and term.isalnum()):
        return True
    before, after = text[:at][-1:], text[at + len(term) :]
    return not re.match(r"\w", before) and re.match(r"(s|es|ed|ing)?(?!\w)", after, re.IGNORECASE) is not None


@given(text=SENTENCES, terms=TERMS)
def test_exactly_the_terms_are_marked(text, terms):
    found = excerpt(text, terms)
    assert all(first[1] <= second[0] for first, second in pairwise(found.marks))
    covered = {at for start, end in found.marks for at in range(start, end)}
    places = {at for at in range(len(found.text)) for term in terms if is_shown_by(term, found.text, at)}
    assert {start for start, _ in found.marks} <= places <= covered


PLAIN = ["soil", "so", "tomato", "c3po", "面包"]


@given(
    text=st.lists(
        st.lists(st.sampled_from([*PLAIN, "subsoil", "the"]), max_size=8).map(" ".join), max_size=6
    ).map(". ".join),
    terms=st.lists(st.sampled_from(PLAIN), max_size=4),
)
def test_no_other_sentence_has_more_of_the_terms(text, terms):
    rest = [part for part in (" ".join(part.split()) for part in re.split(r"(?<=\.)\s+", text)) if part]
    chosen = excerpt(text, terms).text.split(" … ") if rest else []

    def distinct(sentence):
        return len({term for term in terms if term in re.findall(r"\w+", sentence)})

    places = []
    for sentence in chosen:
        places.append(rest.index(sentence, places[-1] + 1 if places else 0))
    left = [sentence for place, sentence in enumerate(rest) if place not in places]
    fewest = min(map(distinct, chosen), default=0)
    assert all(distinct(sentence) <= fewest for sentence in left)


def test_a_word_with_another_ending_is_no_other_term():
    text = "Soil, soils, soiled. Soils and soil. Soil and compost."
    assert shown(text, "soil", "compost").endswith("Soil and compost.")


@given(text=st.text(max_size=400), terms=st.lists(st.text(max_size=5), max_size=4))
@example(text="a" * 1000, terms=["a" * 500])
@example(text="İstanbul ıſK", terms=["i", "s", "k"])
@example(text="…" * 900, terms=["…", " … "])
def test_no_text_and_no_term_breaks_an_excerpt(text, terms):
    found = excerpt(text, terms)
    assert len(found.text) <= CUT
    for start, end in found.marks:
        assert 0 <= start < end <= len(found.text)
    assert all(first[1] <= second[0] for first, second in pairwise(found.marks))


# Long sentences


@given(before=st.integers(0, 900), after=st.integers(0, 900))
def test_a_long_sentence_is_cut_around_its_first_match(before, after):
    text = "x" * before + " tomato " + "y" * after
    found = excerpt(text, ["tomato"])
    assert marked(text, "tomato") == ["tomato"]
    inner = found.text.strip("…")
    assert inner in text
    assert len(inner) <= LONGEST
    if len(text.strip()) <= LONGEST:
        assert found.text == text.strip()
    else:
        assert len(inner) > LONGEST - 3
        assert found.text.startswith("…") == (not text.strip().startswith(inner))
        assert found.text.endswith("…") == (not text.strip().endswith(inner))


def test_a_long_sentence_without_a_match_shows_its_beginning():
    text = "word " * 200
    assert shown(text, "tomato") == text[: LONGEST - 1] + "…"


def test_the_rest_of_a_word_that_was_cut_is_not_marked():
    text = "x" * 300 + " autotomato " + "y" * 98 + " tomato " + "z" * 400
    assert marked(text, "tomato") == ["tomato"]


def test_an_opening_is_the_first_lines_as_text_without_headings():
    text = "# Title\n\n- **Bold** [[Note|name]]\n\n## More\n> quoted <b>x</b>\n\nThree\nFour\nFive\n"
    assert opening(text) == ["Bold name", "quoted x", "Three", "Four"]


@pytest.mark.parametrize("text", ["", "# Only a heading", "%% a comment\nof two lines %%\n"])
def test_what_shows_nothing_has_no_opening(text):
    assert opening(text) == []


def test_a_long_line_of_an_opening_is_cut():
    assert [len(line) for line in opening("word " * 5_000)] == [300]
