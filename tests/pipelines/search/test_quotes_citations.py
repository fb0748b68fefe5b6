"""A quote passes if the passage contains it word for word; nothing else ever passes."""

import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pipelines.search import quotes as citations
from pipelines.search.quotes import (
    SHORTEST_QUOTE,
    Check,
    check_citations,
    check_quote,
    check_quotes,
    normalise,
    status_of,
)

RATE = "In March the rate rose by 5 percent, which nobody had foreseen. It fell again in May."


def reason(quote, *passages):
    return check_quote(quote, passages).reason


# What passes


@pytest.mark.parametrize(
    ("quote", "passage"),
    [
        pytest.param("the rate rose by 5 percent", RATE, id="as it stands"),
        pytest.param(RATE, RATE, id="the whole passage"),
        pytest.param("In March the rate", RATE, id="the beginning"),
        pytest.param("It fell again in May.", RATE, id="the end"),
        pytest.param("5 percent, which nobody had foreseen.", RATE, id="with its punctuation"),
        pytest.param("THE RATE ROSE BY 5 PERCENT", RATE, id="another case"),
        pytest.param("die Strasse zum Hafen", "Er nahm die STRAßE zum Hafen.", id="casefold, not lower case"),
        pytest.param("the rate\n   rose\tby 5 percent", RATE, id="white space of the quote"),
        pytest.param("the rate rose by 5", "the rate\r\n\n rose   by 5", id="white space of the passage"),
        pytest.param("  the rate rose by 5 percent\n", RATE, id="white space around"),
        pytest.param("a rise of 5 percent", "a\u00a0rise of\u202f5\u2007percent", id="no-break spaces"),
        pytest.param(
            "information about it", "infor\u00admation\u200b about\ufeff it", id="invisible characters"
        ),
        pytest.param('she said "we will see" twice', "she said “we will see” twice", id="curly quotes"),
        pytest.param("she said „we will‟ go", 'she said "we will" go', id="low quotes"),
        pytest.param("don't say 'never again'", "don’t say ‘never again’", id="curly apostrophes"),
        pytest.param("rose-by-5-percent", "rose–by—5−percent", id="en dash, em dash, minus"),
        pytest.param("rose‐by‑5‒percent―now", "rose-by-5-percent-now", id="the other hyphens and bars"),
        pytest.param("the efficient office", "the eﬃcient oﬃce", id="ligatures"),
        pytest.param("ABC Corporation 123", "ＡＢＣ Corporation １２３", id="full-width letters"),
        pytest.param("in the café at noon", "in the cafe\u0301 at noon", id="accents apart"),
        pytest.param("water is H2O, not ice", "water is H₂O, not ice", id="lowered digits"),
        pytest.param("about 1½ litres of it", "about 1½ litres of it", id="a fraction"),
        pytest.param("as the author says¹ there", "as the author says1 there", id="a raised note"),
        pytest.param("as the author found", "as the author found[^1] there", id="before a footnote"),
        pytest.param(
            "it was late because of rain", "the plan failed—it was late because of rain", id="em dash"
        ),
        pytest.param("and the plan failed", "and the plan failed—it was late", id="before an em dash"),
        pytest.param("and the plan failed", "and the plan failed--it was late", id="before two hyphens"),
        pytest.param("5 percent of the patients", "few—5 percent of the patients", id="no sign: an em dash"),
        pytest.param(
            "5 percent of the patients", "few--5 percent of the patients", id="no sign: two hyphens"
        ),
        pytest.param("5 percent of the patients", "few...5 percent of the patients", id="no decimal: dots"),
        pytest.param("the rate rose by", "the _rate rose by_ much, and the rate rose by", id="emphasis"),
        pytest.param("rate rose by 5 percent", "the **rate rose by 5 percent** then", id="strong emphasis"),
        pytest.param(
            "rate rose by 5 percent", "the _rate rose by 5 percent_ then", id="emphasis by underscores"
        ),
        pytest.param("in the year 1999", "in the year 1999²", id="a number before a raised note"),
        pytest.param(
            "天写日记。明天去河边！后天", "今天写日记。明天去河边！后天做面包", id="within a run of Han"
        ),
        pytest.param("การเดินทางของเรา", "วันนี้การเดินทางของเราดี", id="within a run of Thai"),
        pytest.param("written in Python", "it was written in Python是一种语言", id="another script follows"),
        pytest.param("अच्छी किताब पढ़ी", "मैंने अच्छी किताब पढ़ी थी", id="Devanagari"),
        pytest.param("wait... so what", "Wait... so what", id="an ellipsis of the passage"),
        pytest.param("wait… so what", "Wait... so what", id="an ellipsis that the passage writes otherwise"),
        pytest.param("x" * SHORTEST_QUOTE, f"{'x' * SHORTEST_QUOTE} y", id="just long enough"),
    ],
)
def test_a_quote_that_the_passage_contains_passes(quote, passage):
    assert reason(quote, passage) == "match"


ELLIPSES = ("...", "…", "[...]", "[…]", "[ … ]", "....", " … ")


@pytest.mark.parametrize("ellipsis", ELLIPSES)
def test_an_ellipsis_represents_omitted_words(ellipsis):
    assert reason(f"the rate rose by 5 percent{ellipsis}It fell again in May", RATE) == "match"


@pytest.mark.parametrize(
    "quote", ["…the rate rose by 5 percent", "the rate rose by 5 percent [...]", '"…the rate rose by']
)
def test_an_ellipsis_at_an_end_leaves_out_nothing(quote):
    assert reason(quote, RATE) == "match"


# What does not


@pytest.mark.parametrize("quote", [None, "", "   ", "\u00a0\n", "\u00ad"])
def test_without_a_quote_there_is_nothing_to_verify(quote):
    assert reason(quote, RATE) == "no_quote"
    assert reason(quote) == "no_quote"


@pytest.mark.parametrize("passages", [(), ("",), ("  \n", "\u200b")])
def test_without_a_text_nothing_can_be_verified(passages):
    assert reason("the rate rose by 5 percent", *passages) == "no_chunk_text"
    assert reason("rate", *passages) == "no_chunk_text"


@pytest.mark.parametrize(
    "quote",
    [
        pytest.param("rose by 5", id="few characters"),
        pytest.param("   rose   by   5   ", id="few characters and much space"),
        pytest.param("x" * (SHORTEST_QUOTE - 1), id="one too few"),
        pytest.param("rose by 5........", id="dots do not count"),
        pytest.param("… … … … … … …", id="ellipses alone"),
        pytest.param("--------------", id="punctuation alone"),
        pytest.param("In ... the ... rate ... rose", id="crumbs"),
        pytest.param("the rate rose by 5 percent ... fell", id="one crumb at the end"),
        pytest.param("March … the rate rose by 5 percent", id="one crumb at the beginning"),
        pytest.param("the rate rose by … which … It fell again in May", id="one crumb between"),
        pytest.param("the sun never sets … fell", id="a crumb, and what is not there"),
    ],
)
def test_what_is_too_short_never_passes(quote):
    passage = f"{RATE} {'x' * 20} {'-' * 20} rose by 5 ......... "
    assert reason(quote, passage) == "too_short"


@pytest.mark.parametrize(
    ("quote", "passage"),
    [
        pytest.param("the rate rose by 6 percent", RATE, id="another number"),
        pytest.param("the rate fell by 5 percent", RATE, id="another verb"),
        pytest.param("the rate rose by percent", RATE, id="a word left out"),
        pytest.param("the rate never rose by 5 percent", RATE, id="a word put in"),
        pytest.param("the rose rate by 5 percent", RATE, id="words exchanged"),
        pytest.param("rate rose by 5 percent.", RATE, id="other punctuation"),
        pytest.param("the rate rose by 5 percent", "the rate rose by 5 percentages", id="ends inside a word"),
        pytest.param("ate rose by 5 percent", RATE, id="begins inside a word"),
        pytest.param("the rate rose by 5", "the rate rose by 5.3 percent", id="ends inside a decimal"),
        pytest.param("the rate rose by 5.", "the rate rose by 5.3 percent", id="ends at a decimal point"),
        pytest.param(
            "3 percent of the total", "rose by 5.3 percent of the total", id="begins inside a decimal"
        ),
        pytest.param(
            "5 percent of the total", "fell by .5 percent of the total", id="behind a decimal point"
        ),
        pytest.param("they invested 10", "they invested 10,000 dollars", id="ends inside thousands"),
        pytest.param("000 dollars were lost", "10,000 dollars were lost", id="begins inside thousands"),
        pytest.param("the train left at 10", "the train left at 10:45", id="ends inside a time"),
        pytest.param(
            "5 degrees was measured", "on that day -5 degrees was measured", id="behind a minus sign"
        ),
        pytest.param(
            "5 degrees was measured", "on that day −5 degrees was measured", id="behind a real minus"
        ),
        pytest.param("5 to 7 degrees there", "it had 3–5 to 7 degrees there", id="inside a range"),
        pytest.param("about 102 of the items", "about 10² of the items", id="a power"),
        pytest.param("about 11⁄2 litres of it", "about 1½ litres of it", id="a mixed number"),
        pytest.param("the committee can", "the committee can't agree", id="before an apostrophe"),
        pytest.param("the committee can", "the committee can’t agree", id="before a curly apostrophe"),
        pytest.param("toxic compounds were found", "non-toxic compounds were found", id="behind a hyphen"),
        pytest.param(
            "toxic compounds were found", "non‑toxic compounds were found", id="behind a no-break hyphen"
        ),
        pytest.param("a speed of 10 km", "a speed of 10 km/h", id="before a slash"),
        pytest.param("see the module pipelines", "see the module pipelines.model", id="inside a dotted name"),
        pytest.param("it is called snake", "it is called snake_case", id="inside an identifier"),
        pytest.param("written in Pytho", "it was written in Pytho\u0301 then", id="before an accent"),
        pytest.param(
            "the letter is x", "the letter is x\u0302 here", id="before an accent that does not compose"
        ),
        pytest.param("मैंने अच्छी किता", "मैंने अच्छी किताब पढ़ी थी", id="inside a word of Devanagari"),
        pytest.param("अच्छी किताब पढ", "मैंने अच्छी किताब पढ़ी थी", id="before a Devanagari vowel sign"),
        pytest.param("การเดินทางของเร", "การเดินทางของเรือ", id="before a Thai vowel sign"),
        pytest.param(
            "서울은 한국의 오래된 수도", "서울은 한국의 오래된 수도이다", id="inside a word of Hangul"
        ),
        pytest.param("It fell again in May … the rate rose by 5 percent", RATE, id="fragments out of order"),
        pytest.param("the rate rose … the rate rose", RATE, id="the same place twice"),
        pytest.param("the rate rose by 5 … rose by 5 percent", RATE, id="fragments that overlap"),
        pytest.param("the rate rose by 5 … the moon fell again", RATE, id="a fragment that is not there"),
        pytest.param("the rate rose by 5 per … cent, which nobody", RATE, id="a cut inside a word"),
        pytest.param(
            "the rate rose by 5…", "the rate rose by 5.3 percent", id="an ellipsis at a decimal point"
        ),
        pytest.param(
            "the rate rose by 5 percent", "the rate rose. [...] by 5 percent", id="the passage's ellipsis"
        ),
    ],
)
def test_what_is_not_there_word_for_word_is_not_found(quote, passage):
    assert reason(quote, passage) == "not_found"


def test_one_passage_must_contain_the_whole_quote():
    assert reason("the rate rose by 5 percent", "the rate rose", "by 5 percent") == "not_found"
    assert (
        reason("the rate rose … fell again in May", "In March the rate rose", "It fell again in May")
        == "not_found"
    )


def test_the_first_passage_that_has_it_is_named():
    assert check_quote("the rate rose by 5", ["nothing here", "", RATE, RATE]) == Check("match", 2)
    assert check_quote("the moon rose by 5", ["nothing here", RATE]) == Check("not_found", None)


def test_quotes_searched_together_have_the_result_that_each_has_alone():
    quotes = [
        "the rate rose by 5",
        None,
        "short",
        "the moon rose by 5",
        "the rate … 5 %",
        "nothing here today",
    ]
    passages = ["nothing here", RATE, "nothing here today"]
    assert check_quotes(quotes, passages) == [check_quote(one, passages) for one in quotes]
    assert check_quotes(quotes, [""]) == [check_quote(one, [""]) for one in quotes]
    assert [one.found_in for one in check_quotes(quotes, passages)] == [1, None, None, None, None, 2]
    assert check_quotes([], passages) == []


def test_a_passage_is_read_once_for_all_quotes(monkeypatch):
    read = []
    monkeypatch.setattr(citations, "_read", lambda passage: read.append(passage) or passage)
    passages = ["one passage of a note", "another passage", "the last one"]
    check_quotes(["a quote of no passage", "another passage", "another of no passage"], passages)
    assert read == passages


def test_each_citation_is_checked_against_its_own_passages():
    texts = {"none": "nothing here", "rate": RATE}
    citations = [
        ("the rate rose by 5", ("none",)),
        ("the rate rose by 5", ("none", "rate")),
        (None, ("rate",)),
        ("the moon rose by 5", ("none", "rate")),
        ("the rate rose by 5", ()),
    ]
    found = check_citations(citations, texts)
    assert found == [check_quote(quote, [texts[name] for name in names]) for quote, names in citations]
    assert [one.reason for one in found] == ["not_found", "match", "no_quote", "not_found", "no_chunk_text"]


def test_a_later_place_counts_where_an_earlier_one_lies_inside_a_word():
    assert reason("the rate rose", "the rate roseate, the rate rose") == "match"
    assert (
        reason(
            "the rate rose … it fell again", "it fell again, the rate roseate, the rate rose, it fell again"
        )
        == "match"
    )


# The summary


@pytest.mark.parametrize(
    ("reasons", "status"),
    [
        ([], "no_quotes"),
        (["no_quote", "no_quote"], "no_quotes"),
        (["match"], "all_verified"),
        (["match", "no_quote", "match"], "all_verified"),
        (["not_found"], "has_mismatch"),
        (["match", "not_found"], "has_mismatch"),
        (["not_found", "too_short", "no_chunk_text"], "has_mismatch"),
        (["too_short"], "unverifiable"),
        (["no_chunk_text"], "unverifiable"),
        (["match", "too_short"], "unverifiable"),
        (["match", "no_chunk_text", "no_quote"], "unverifiable"),
    ],
)
def test_citations_are_summed_up(reasons, status):
    assert status_of(iter(reasons)) == status


# Normalisation, a step each


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        pytest.param("ﬁﬀ ２ ㎏ Ⅳ", "fiff 2 kg iv", id="NFKC"),
        pytest.param("e\u0301 \u212b", "\u00e9 \u00e5", id="composed"),
        pytest.param("‘a’ ‚b‛", "'a' 'b'", id="single quotes"),
        pytest.param("“a” „b‟", '"a" "b"', id="double quotes"),
        pytest.param("1–2—3−4‐5‑6‒7―8", "1-2-3-4-5-6-7-8", id="dashes"),
        pytest.param("a\u00a0b\u202fc\u2007d", "a b c d", id="no-break spaces"),
        pytest.param("A\u00adB\u200bC\u2060D\ufeffE", "abcde", id="invisible"),
        pytest.param("Straße ΣΑΣ", "strasse σασ", id="casefold"),
        pytest.param("\u01f0", "\u01f0", id="composed again after casefold"),
        pytest.param(" a \t\r\n b\u2028c ", "a b c", id="white space"),
        pytest.param("a…b", "a...b", id="an ellipsis is three dots"),
        pytest.param("10² 3½ x²", "10^2 3 1⁄2 x2", id="a number's power and fraction stay apart from it"),
    ],
)
def test_a_text_is_normalised(text, normal):
    assert normalise(text) == normal


@given(st.text())
@example("İ ŉ ǰ ᾳ")
def test_what_is_normalised_stays_as_it_is(text):
    once = normalise(text)
    assert normalise(once) == once


# No false pass

WORDS = [
    "the",
    "rate",
    "rose",
    "rosebud",
    "fell",
    "by",
    "5",
    "53",
    "percent",
    "per",
    "cent",
    "percents",
    "café",
    "not",
]
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=4, max_size=30)


def stands_in(part, whole):
    return any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))


def quoted(words):
    text = " ".join(words)
    assume(len(text) >= SHORTEST_QUOTE)
    return text


@st.composite
def passages_and_quotes(draw):
    """A passage's words, and a run of them with one word changed: another, cut, prolonged, gone, doubled or exchanged."""
    words = draw(SENTENCES)
    start = draw(st.integers(0, len(words) - 3))
    quote = words[start : draw(st.integers(start + 3, len(words)))]
    at = draw(st.integers(0, len(quote) - 1))
    other = draw(
        st.sampled_from([*WORDS, "moon", quote[at][:-1], quote[at][1:], quote[at] + "s", "un" + quote[at]])
    )
    change = draw(st.sampled_from(["replace", "remove", "insert", "exchange"]))
    if change == "exchange":
        quote[at], quote[at - 1] = quote[at - 1], quote[at]
    else:
        quote[at : at + (change != "insert")] = [other] if other and change != "remove" else []
    return words, quote


@given(passages_and_quotes())
@example((["the", "rate", "rose", "by", "5", "percents"], ["rate", "rose", "by", "5", "percent"]))
@example((["un", "unrate", "rose", "by", "5", "percent"], ["rate", "rose", "by", "5", "percent"]))
def test_a_quote_with_one_word_changed_passes_only_where_those_very_words_stand(case):
    words, quote = case
    expected = "match" if stands_in(quote, words) else "not_found"
    assert reason(quoted(quote), " ".join(words)) == expected


@given(words=SENTENCES, start=st.integers(0, 25), length=st.integers(3, 30))
def test_every_run_of_the_passages_words_passes_however_it_is_written(words, start, length):
    text = quoted(words[start : start + length])
    for written in (text, text.upper(), text.replace(" ", "\u00a0\n"), unicodedata.normalize("NFD", text)):
        assert reason(written, " ".join(words)) == "match"


def runs_in_order(runs, words):
    """Say whether a text contains runs of words in order, by trying every place of each."""
    if not runs:
        return True
    return any(
        words[at : at + len(runs[0])] == runs[0] and runs_in_order(runs[1:], words[at + len(runs[0]) :])
        for at in range(len(words) - len(runs[0]) + 1)
    )


@given(
    words=SENTENCES, runs=st.lists(st.tuples(st.integers(0, 28), st.integers(3, 8)), min_size=2, max_size=3)
)
def test_fragments_pass_in_the_passages_order_without_overlap_and_not_otherwise(words, runs):
    fragments = [words[start : start + length] for start, length in runs]
    quote = " [...] ".join(quoted(fragment) for fragment in fragments)
    assert reason(quote, " ".join(words)) == ("match" if runs_in_order(fragments, words) else "not_found")


@given(quote=st.text(max_size=60), passage=st.text(max_size=120))
def test_what_passes_is_a_substring_but_for_its_ellipses(quote, passage):
    if reason(quote, passage) == "match" and "..." not in normalise(quote):
        assert normalise(quote) in normalise(passage)
        assert len(normalise(quote)) >= SHORTEST_QUOTE


@pytest.mark.parametrize("quote", ["x" * 12, "twelve chars", "  Twelve   Chars "])
def test_twelve_characters_are_enough_for_a_quote(quote):
    assert check_quote(quote, [f"It has {quote} in it."]).reason == "match"


@pytest.mark.parametrize("quote", ["x" * 11, "eleven char", "one more ... eleven char"])
def test_eleven_characters_are_too_few_for_a_quote(quote):
    assert check_quote(quote, [f"It has {quote.replace(' ... ', ' and then ')} in it."]).reason == "too_short"
