"""An answer as HTML: what supports it is marked, and nothing of it is active."""

from __future__ import annotations

import re

from service.schemas.chat import CheckedSpan, TextLine
from service.web.chat import MARKS, AnswerDrawing, mark_of, render_answer

TITLES = {1: "Soil", 2: 'Tea & "bread"'}


def line(text, support="own", *quotes, cited=()):
    return TextLine(text=text, support=support, quotes=list(quotes), cited=list(cited))


def quote(text, words, n=1, reason="match"):
    at = text.index(words)
    return CheckedSpan(
        quote=words, start=at, end=at + len(words), n=n, verified=reason == "match", reason=reason
    )


def shown(*lines):
    return str(render_answer(lines, TITLES))


def without_marks(html):
    return re.sub(r'<span class="mark [^>]*></span>|</?span[^>]*>', "", html)


def test_nothing_that_a_model_writes_is_active():
    said = '<img src="https://x.example/a.png" onerror=alert(1)> ![b](https://x.example/c.png) [d](https://x.example)'
    html = without_marks(shown(line(said)))
    assert html == f"<p>{said.replace('<', '&lt;').replace('>', '&gt;').replace(chr(34), '&#34;')}</p>"


def test_a_quote_is_marked_with_its_quotation_marks_where_its_characters_are():
    text = "🌱 It says “deep soil” [1]. "
    assert shown(line(text, "quoted", quote(text, "deep soil"), cited=[1])) == (
        f'<p><span class="quoted">🌱 It says <q class="verified">“deep soil”</q>{mark_of("verified")}'
        ' <a class="cite" href="#s1" title="Soil">[1]</a>.</span> </p>'
    )


def test_what_is_not_verified_says_why():
    for reason, kind in (
        ("not_found", "unverified"),
        ("other_source", "other_source"),
        ("too_short", "too_short"),
    ):
        text = 'It says "deep soil" [1].'
        html = shown(line(text, "unverified", quote(text, "deep soil", reason=reason), cited=[1]))
        assert f'<q class="unverified">&#34;deep soil&#34;</q>{mark_of(kind)}' in html
    assert shown(line("It is so [7].", "unverified", cited=[7])) == (
        f'<p><span class="unverified">It is so [7].{mark_of("no_source")}</span></p>'
    )


def test_a_quote_that_spans_bold_text_and_lines_is_marked_once_at_its_end():
    text = 'It says "one **two** three\nfour" there.'
    html = shown(line(text, "quoted", quote(text, "one **two** three\nfour")))
    assert html.count(MARKS["verified"]) == len(("aria-label", "title"))
    assert html.index("four") < html.index(MARKS["verified"])


def test_a_source_that_the_text_does_not_name_follows_the_sentence():
    text = 'It says "deep soil". '
    html = shown(line(text, "quoted", quote(text, "deep soil", n=2)))
    assert 'title="Tea &amp; &#34;bread&#34;">[2]</a></span> </p>' in html


def test_words_that_only_the_provider_names_are_in_a_mark_after_the_sentence():
    named = CheckedSpan(quote="<b> deep", start=None, end=None, n=1, verified=True, reason="match")
    html = shown(line("It is deep [1]. ", "quoted", named, cited=[1]))
    assert f'title="{MARKS["verified"]}: “&lt;b&gt; deep”"></span></span> </p>' in html


def test_paragraphs_lists_headings_quotations_bold_and_code_are_shown_as_such():
    html = shown(
        line("## Soil\n\n"),
        line("One **two** `three`. "),
        line("Four.\n"),
        line("- a\n"),
        line("- b\n\n"),
        line("3. c\n4. d\n"),
        line("> said\n"),
        line("```python\n"),
        line("- <x> **y**\n"),
        line("\n"),
        line("```\n"),
        line("End"),
    )
    assert without_marks(html) == (
        '<p class="heading">Soil</p><p>One <strong>two</strong> <code>three</code>. Four.</p>'
        '<ul><li>a</li><li>b</li></ul><ol><li value="3">c</li><li value="4">d</li></ol>'
        "<blockquote>said</blockquote><pre>- &lt;x&gt; **y**\n\n</pre><p>End</p>"
    )


def test_an_answer_that_comes_looks_at_each_moment_as_one_that_is_kept():
    said = "## Soil\n\nOne **two** [1]. \nThree.\n- a\n- b\n\n- c\n\n3. d\n> said\n```\n- x\n\n```\nEnd"
    lines = [
        line("Not in your notes.", "judgement"),
        *(line(part) for part in said.splitlines(keepends=True)),
    ]
    drawing, blocks = AnswerDrawing(TITLES), []
    for count, one in enumerate(lines, 1):
        del blocks[(keep := drawing.add(one)) :]
        while after := drawing.html(len(blocks)):
            blocks.append(after.removesuffix(drawing.html(len(blocks) + 1)))
        assert "".join(blocks) == shown(*lines[:count]), keep


def test_a_judgement_is_a_remark():
    assert shown(line("Not in your notes.\n\n", "judgement"), line("I think so.")).startswith(
        '<p class="remark">Not in your notes.</p><p>'
    )
