import apsw
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pipelines.notes.lexical import chunk_words, index_text, index_tokens, telling_words, whole_words
from pipelines.question import MOST_TERMS, Question

CREATE = """CREATE VIRTUAL TABLE t USING fts5(
    text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')"""


def asked(query):
    """Return a question with this text."""
    return Question(query, query)


def matching(query, *texts):
    """Which texts (by position) an FTS5 index finds for a query."""
    database = apsw.Connection(":memory:")
    database.execute(CREATE)
    for rowid, text in enumerate(texts):
        database.execute("INSERT INTO t(rowid, text) VALUES (?, ?)", (rowid, index_text(text)))
    rows = database.execute(
        "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rowid", (asked(query).wanted.expression(),)
    )
    found = [rowid for (rowid,) in rows]
    database.close()
    return found


def finds(query, text):
    return matching(query, text) == [0]


@pytest.mark.parametrize(
    ("section", "headings", "expected"),
    [
        ("Feeding", ("Bread", "Leaven", "Feeding"), "Leaven Feeding"),
        ("Bread", ("Bread",), ""),
        ("Costs \u2014 Rent", ("Costs", "Rent"), "Costs Rent"),
        ("Rent", (), "Rent"),
    ],
)
def test_a_breadcrumb_has_each_heading_once_and_not_the_title(section, headings, expected):
    assert chunk_words(section, headings, "Words.", "Bread") == (expected, "Words")


IDENTIFIERS = (
    *("AAPL", "§3", "404B", "E4042-B", "C++", "C#", "snake_case", "getUserById", "ERR_SOCKET_TIMEOUT"),
    *("v1.2.3", "user@example.org", "HTTPServer", "it's", "[[x]]", "C++17", "🚀", "x²"),
)


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_an_identifier_is_found_as_it_stands(identifier):
    assert finds(identifier, f"about ({identifier}), and more")
    assert finds(f'"about {identifier} and"', f"about {identifier} and")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("user", "call getUserById now"),
        ("getuserbyid", "call getUserById now"),
        ("get_user_by_id", "call getUserById now"),
        ("404", "room 404B"),
        ("4042", "code E4042-B"),
        ("socket", "ERR_SOCKET_TIMEOUT"),
        ("server", "an HTTPServer"),
        ("1.2.3", "since v1.2.3"),
        ("case", "snake_case"),
        ("C", "in C++"),
    ],
)
def test_an_identifier_is_found_by_its_parts(part, text):
    assert finds(part, text)


def test_symbols_tell_names_apart():
    texts = ("written in C", "written in C++", "written in C#", "§3 of it", "3 of it", "# C heading")
    assert matching("C++", *texts) == [1]
    assert matching("C#", *texts) == [2]
    assert matching("§3", *texts) == [3]


def test_index_text_keeps_an_identifier_whole_and_adds_its_parts():
    assert index_text("getUserById") == "getUserById get User By Id"
    assert index_text("a plain Sentence, 2024.") == "a plain Sentence 2024"


def test_a_long_run_of_data_is_not_cut_into_parts():
    assert index_text("aB3" * 100) == "aB3" * 100


def test_chinese_is_found_by_any_pair_of_its_characters():
    texts = ("机器学习是人工智能的子领域", "机会", "学习 Python教程", "机")
    assert matching("机器学习", *texts) == [0, 2]
    assert matching("教程", *texts) == [2]
    assert matching("机", *texts) == [0, 1, 3]
    assert matching("Python教程", *texts) == [2]
    assert matching('"人工智能"', *texts) == [0]


def test_accents_and_case_do_not_matter():
    assert finds("uber naive", "Über")
    assert finds("über", "UBER")
    assert finds("cafe\u0301s", "caf\u00e9s")
    assert finds("Größe", "GRÖßE")


SPELLINGS = [
    *(
        ("ss", "ß"),
        ("l", "ł"),
        ("o", "ø", "ó", "ő"),
        ("ae", "æ", "ǽ"),
        ("oe", "œ"),
        ("d", "đ", "ð"),
        ("th", "þ"),
    ),
    *(
        ("i", "ı", "ï", "i\u0300"),
        ("fi", "ﬁ"),
        ("ffi", "ﬃ", "fﬁ"),
        ("a", "ａ", "å"),
        ("2", "２", "²"),
        ("n", "ｎ", "ñ", "ŋ"),
    ),
    *(("ガ", "ｶﾞ"), ("ン", "ﾝ")),
]
"""The ways to write a sound, the typed one first."""


@given(st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=6), st.data())
def test_a_word_finds_a_note_that_has_it_in_any_of_its_spellings(sounds, data):
    typed, written = ("".join(data.draw(st.sampled_from(ways)) for ways in sounds) for _ in range(2))
    change = data.draw(st.sampled_from([str, str.title, str.upper]))
    assert finds(typed, f"before {change(written)} after")
    assert finds(f'"before {typed} after"', f"before {written} after")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Strasse", "die Straße"),
        ("Lodz", "in Łódź"),
        ("financial", "ﬁnancial"),
        ("office", "an oﬃce"),
        ("C++", "Ｃ＋＋"),
    ],
)
def test_letters_that_are_hard_to_type_are_found_as_people_type_them(query, text):
    assert finds(query, text)


def test_words_are_stemmed():
    assert finds("searching", "it searches")


def test_a_quoted_phrase_stays_together():
    texts = ("a quoted phrase", "a phrase, quoted", "the state of the art", "the art of the state")
    assert matching('"quoted phrase"', *texts) == [0]
    assert matching('"state of the art"', *texts) == [2]


def test_a_word_with_a_minus_is_not_searched():
    texts = ("red apple", "green apple", "green pear tree")
    assert matching("apple -pear", *texts) == [0, 1]
    assert matching('red -"pear tree"', *texts) == [0]


def test_a_word_that_looks_like_an_option_or_a_number_is_searched():
    assert finds("-rf", "rm -rf")
    assert finds("-2", "minus 2")
    assert finds("ls -2", "ls 2")
    assert finds("head -100 file", "head 100")


def test_a_year_with_a_minus_is_not_searched():
    assert matching("car -1970", "a car of 1970", "a car of 1980", "1970") == [0, 1]
    assert asked('"antique car" -1970').signs.unwanted_words == ("1970",)
    assert asked("moon -1969-07-20").signs.unwanted_words == ("1969-07-20",)


def test_a_hyphen_within_a_word_does_not_exclude():
    assert finds("a-b", "a-b")
    assert finds("well-known", "well known")
    assert finds("--force", "use --force")
    assert finds('"red"-apple', "apple")


def test_words_are_joined_by_or():
    assert matching("apple pear", "apple", "pear", "plum") == [0, 1]


def test_stopwords_are_dropped_unless_nothing_is_left():
    assert matching("the apple", "the plum", "an apple") == [1]
    assert finds("to be or not to be", "to be")


@pytest.mark.parametrize(
    "query", ["", " ", "-xyz", '-"a b"', '""', '"', "\0", "!?", "...", "---", "(", "*", "・"]
)
def test_there_may_be_nothing_to_search(query):
    assert asked(query).wanted is None


@pytest.mark.parametrize(
    "query",
    [
        "apple NEAR y",
        "apple AND",
        "NOT apple",
        "text:apple",
        "apple*",
        "^apple",
        "apple\0y",
        'apple"y',
        "{apple}",
    ],
)
def test_no_query_is_taken_for_fts5_syntax(query):
    assert finds(query, "apple")


def test_a_word_that_is_repeated_counts_again():
    assert asked("apple pie Apple").wanted.weights == {"apple": 2, "pie": 1}
    assert asked("apple pie Apple").wanted.expression() == '"apple" OR "apple" OR "pie"'


def test_a_compound_and_its_parts_count_half_as_much_as_a_word():
    assert (
        asked("well-read cats").wanted.expression() == '"cats" OR "cats" OR "well read" OR "well" OR "read"'
    )
    assert asked("well-read").wanted.expression() == '"well read" OR "well" OR "read"'


def test_a_compound_without_a_word_of_its_own_is_a_word():
    assert asked("§3 cats").wanted.expression() == '"syma7 3" OR "cats"'


def test_a_pasted_page_is_cut_to_its_first_terms():
    expression = asked(" ".join(f"word{number}x" for number in range(500))).wanted.expression()
    assert expression.count(" OR ") == MOST_TERMS - 1
    assert finds('"' + "long " * 500 + '"', "long " * 500)


def test_the_words_of_a_text_are_those_that_a_query_for_them_looks_for():
    assert telling_words("The Cafés of getUserId, 机器.") == {
        *("Cafés", "getuserid", "get", "user", "id", "机", "器"),
    }
    assert telling_words("Apple pies") == asked("apple pies").wanted.weights.keys()


def test_an_excerpt_marks_words_and_parts_of_identifiers():
    assert asked('The C++ (getUserById), "Quoted Phrase" -not 机器学 §3.').marked == (
        *("c++", "getuserbyid", "get", "user", "id", "quoted", "phrase", "机器", "器学", "§3"),
    )
    assert asked("Cafe\u0301Bar").marked == ("cafébar", "café", "bar")
    assert asked("the").marked == ("the",)
    assert asked("-xyz").marked == ()


# Anything at all

_PIECES = st.sampled_from(
    [
        "C++",
        "C#",
        "getUserById",
        "§",
        "机器",
        "한국",
        "é",
        "e\u0301",
        "-",
        "_",
        ".",
        "404B",
        "x",
        " ",
        "\n",
        "'",
        "ﾊﾞ",
        "🚀",
        "+",
    ]
)
_TEXTS = st.one_of(st.text(min_size=1, max_size=60), st.lists(_PIECES, min_size=1, max_size=12).map("".join))


@settings(max_examples=300)
@given(text=_TEXTS, data=st.data())
@example(text="İstanbul ẞ ǅ", data=None)
def test_words_typed_as_in_a_text_find_it(text, data):
    words = [word for word in text.split() if not word.startswith("-") and '"' not in word]
    assume(words)
    query = data.draw(st.sampled_from(words)) if data else words[0]
    if asked(query).wanted is not None:
        assert finds(query, text)
        assert finds(f'"{query}"', text)


@settings(max_examples=200)
@given(
    st.one_of(st.text(), st.lists(st.one_of(_PIECES, st.sampled_from(['"', "-", " -", "NOT "]))).map("".join))
)
def test_no_query_makes_fts5_raise(query):
    database = apsw.Connection(":memory:")
    database.execute(CREATE)
    found = asked(query).wanted
    if found is not None:
        assert database.execute("SELECT rowid FROM t WHERE t MATCH ?", (found.expression(),)).fetchall() == []
    assert len(asked(query).marked) <= MOST_TERMS
    database.close()


def test_every_word_of_a_phrase_has_an_index_token():
    for character in map(chr, (*range(0x2000), *range(0x3000, 0x3200), *range(0xFF00, 0x10000))):
        assert bool(whole_words(character)) == bool(index_tokens(character)), hex(ord(character))
    assert whole_words("・ジョン・") == ("ジ", "ョ", "ン")


@pytest.mark.parametrize(
    ("query", "required"),
    [
        ('"a b" "c d"', (("a b",), ("c d",))),
        ('"a b" OR "c d"', (("a b", "c d"),)),
        ('"a b" OR "c d" OR "e f" "g h"', (("a b", "c d", "e f"), ("g h",))),
        ('soil OR "a b" "c d"', (("c d",),)),
        ('"a b" OR soil', ()),
        ('"a b" OR', (("a b",),)),
        ('OR "a b"', (("a b",),)),
        ('"a b" or "c d"', (("a b",), ("c d",))),
        ('"a b" "OR" "c d"', (("a b",), ("OR",), ("c d",))),
    ],
)
def test_of_phrases_between_or_one_is_required(query, required):
    assert asked(query).signs.required == required


def test_marks_between_words_require_nothing():
    signs = asked('apple "・" -・ -"・"').signs
    assert not signs
    assert signs.asks
    assert not asked('"・"').signs.asks
