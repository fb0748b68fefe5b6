"""A text is shown as a reader sees it: without its Markdown, and otherwise as it is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.search.excerpts import excerpt, plain, plain_text, split_sentences
from pipelines.search.quotes import check_quote


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("**bold**, *it*, __bold__, _it_ and ***both***", "bold, it, bold, it and both"),
        ("**bold *and it* too** ~~gone~~ ==seen==", "bold and it too gone seen"),
        ("**重点**在这里，`代码`也是", "重点在这里，代码也是"),
        ("2 * 3 * 4, 5*3 and 4*2, 2**3, snake_case_name, a == b, ~5", None),
        ("cut **bold and ** stray", "cut bold and stray"),
        ("# Title #", "Title"),
        ("> [!note]- Mind\n> > quoted\n> - [x] done\n> 1. first", "Mind quoted done first"),
        ("Title\n=====\ntext\n\n---\n\n* * *\nmore", "Title text more"),
        (
            "[text](http://a.b/c_d 'title'), [[Note]], [[Note#Part|alias]], [[Note#Part]]",
            "text, Note, alias, Note › Part",
        ),
        ("[a [b] **c**](<x y>)(z)", "a [b] c(z)"),
        ("[![Build](https://a.b/i.svg)](https://a.b) ![alt](x.png) ![[clip.mp4]]", "Build alt"),
        (
            "[text][ref], [text][], a[i][j] and [sic]\n\n[ref]: https://a.b 'title'",
            "text, text, a[i][j] and [sic]",
        ),
        ("cut link](https://a.b/c) and [[half a", "cut link and half a"),
        ("A claim[^1].\n\n[^1]: Its source.", "A claim. Its source."),
        ("| a | b | |\n|:--|--:|---|\n| `x|y` | [[N\\|n]] | |\n| | z |", "a · b x|y · n z"),
        ("a | b\n--|--\n1 | 2", "a · b 1 · 2"),
        ("this | that", None),
        ("a <b>bold</b> word<br>and <br/>10<sup>2</sup> <div class='x'>in</div>", "a bold word and 10^2 in"),
        ("write <your name> and x < y > z, Vec<u8>", None),
        ("<Card title='x'>inner</Card> <https://a.b>", "inner https://a.b"),
        ("seen <!-- not\nseen --> and %%nor this%% here ^block-id", "seen and here"),
        (
            r"\*literal\* \[x\] C:\dir &amp; &lt;tag&gt; &copy AT&T",
            r"*literal* [x] C:\dir & <tag> &copy AT&T",
        ),
        ("`a **b** [[c]]` and ``d ` e``", "a **b** [[c]] and d ` e"),
        (
            "```python\ndef f(**kw):  # [x](y)\n    return '**'\n```\n**after**",
            "def f(**kw): # [x](y) return '**' after",
        ),
        ("text\n\n    a = b ** c ** d\n\n**text**", "text a = b ** c ** d text"),
        ("~~~\n```\n_a_\n~~~\n_b_", "_a_ b"),
        ("```ad-note\n**Mind** this\n```", "Mind this"),
        ("x = **1**\n```\nafter **it**", "x = 1 after it"),
        ("y = a_b\nreturn __x__\n```\nafter **it**", "y = a_b return __x__ after it"),
        ("$$\nx_1 * y_1 * z\n$$\nand $a_1 b_1$ for $5 and $6", "x_1 * y_1 * z and $a_1 b_1$ for $5 and $6"),
        ("#tag, #1, https://a.b/c_d_e_f.", None),
    ],
)
def test_a_text_is_shown_as_a_reader_sees_it(markdown, text):
    assert plain(markdown) == (markdown if text is None else text)


@pytest.mark.parametrize(
    ("part", "says"),
    [("[[Note]]", False), ("- [a](b), [[c|d]]", False), ("https://a.b #tag", False), ("};", False), ("![[x]]", False),
     ("See [[Note]]", True), ("`code`", True), ("第一", True), ("4711", True)],
)  # fmt: skip
def test_a_part_says_something_where_it_has_a_word_beside_links_addresses_and_tags(part, says):
    assert plain_text(part).says(0, len(part)) is says


WORDS = st.sampled_from(
    ["soil", "compost", "5%", "worms", "can't", "non-toxic", "Übung", "日记", "x2", "e.g.", "A4,"]
)
PROSE = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@given(st.lists(PROSE, min_size=1, max_size=5), st.sampled_from([". ", "!\n", ".\n\n", " – ", "; "]))
def test_a_text_without_markdown_is_unchanged(sentences, between):
    text = between.join(sentences)
    assert plain_text(text).shown == text


WRAPPED = st.tuples(
    st.sampled_from(
        [
            "**{}**", "*{}*", "_{}_", "~~{}~~", "=={}==", "[{}](https://a.b/c_d)", "[[Note|{}]]", "`{}`", "<b>{}</b>",
            "<span class='x'>{}</span>", "{}[^1]", "{} <!-- **x** [[y]] -->", "{} ![[x.png]]", "***{}***", "**[{}](a.md)**",
            "[**{}**](a.md)", "{} ^b1", "{}",
        ]
    ),
    PROSE,
)  # fmt: skip
BLOCKS = st.sampled_from(
    [
        "{}",
        "# {}",
        "> {}",
        "- {}",
        "- [ ] {}",
        "1. {}",
        "> - {}",
        "| {} | soil |\n|---|---|",
        "```\n{}\n```",
        "> [!tip] {}",
    ]
)


@st.composite
def notes(draw):
    """Draw a note, and the prose in it."""
    parts, prose = [], []
    for _ in range(draw(st.integers(1, 5))):
        block, (wrap, words) = draw(BLOCKS), draw(WRAPPED)
        wrap = "{}" if block.startswith("```") or ("|" in block and wrap.endswith("^b1")) else wrap
        parts.append(block.format(wrap.format(words)))
        prose.append(words)
    return "\n\n".join(parts), prose


DEBRIS = re.compile(r"\]\(|\[\[|\]\]|\*\*|~~|==|`|<\w|<!--|\[\^|\^b1|\|---|^\||^[#>]|^- ", re.MULTILINE)


@given(notes())
def test_prose_is_shown_whole_and_its_markup_is_not(note):
    text, prose = note
    shown = plain(text)
    assert not DEBRIS.search(shown)
    at = 0
    for words in prose:
        at = shown.index(words, at) + len(words)
    assert len(shown) <= len(text)


@given(notes(), st.integers(0, 200), st.integers(1, 200))
def test_a_part_of_a_note_is_shown_without_what_was_cut(note, start, length):
    text = " ".join(note[0].split(" ")[start % 7 :])[:length]
    for sentence in split_sentences(text):
        shown = plain_text(text).between(sentence.start, sentence.end)
        assert len(shown) <= len(sentence.text)
        assert "](" not in shown
        assert "[[" not in shown


@given(notes())
def test_an_excerpt_is_a_quote_that_is_found(note):
    text, _ = note
    found = excerpt(plain_text(text), split_sentences(text), ["soil"])
    assert not DEBRIS.search(found.text)
    for quote in found.text.split(" … "):
        assert check_quote(quote, [text]).reason in ("match", "too_short", "no_quote")


@given(
    st.text(max_size=300) | st.text(st.sampled_from("`*_[]()!<>|#~=$%&;^\\-+: \n\t1ax\0\1/"), max_size=120)
)
def test_every_place_stays_where_it_is(text):
    found = plain_text(text)
    assert len(found.shown) == len(found.telling) == len(text)
    assert found.between(0, len(text)) == plain_text(text).between(0, len(text))


@pytest.mark.parametrize(
    "unit", ["`a ", "<!--", "%%a ", "$$a", "[a](", "[[", "![a](", "[^a", "<a b=", "**a ", " _a", "~~a "]
)
def test_what_is_never_closed_costs_no_more_than_what_is(unit):
    assert len(plain_text(unit * 1_500).shown) == 1_500 * len(unit)
