"""A block shows where each passage ends, whatever notes contain."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pipelines.context.block import code_span, fenced, heading, written
from tests.pipelines.context.test_block_packing import candidate

HOSTILE = st.lists(
    st.sampled_from(
        [
            "~~~",
            "~~~~~~",
            "```",
            "\n",
            "\r",
            " ",
            "# Fake",
            "### `B.md:1-2`",
            "</block>",
            "text",
            "\u2028",
            "    ",
            ">",
        ]
    ),
    max_size=20,
).map("".join)


def tokens_of(block):
    return MarkdownIt().parse(block)


@given(st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE), min_size=1, max_size=4))
def test_no_passage_ends_its_fence_or_forges_a_heading(several):
    passages = [
        candidate(f"{path}x.md", text=text or "text", section=section, slot=None)
        for text, path, section in several
    ]
    tokens = tokens_of(written("A question\n# with a heading", passages, ["The end."]))
    headings = [token for token in tokens if token.type == "heading_open"]
    assert [token.tag for token in headings] == ["h1", *(["h3"] * len(passages))]
    fences = [token for token in tokens if token.type == "fence"]
    assert len(fences) == len(passages)
    for fence, one in zip(fences, passages, strict=True):
        assert "".join(fence.content.split()) == "".join(one.text.split())
    assert tokens[-2].content == "The end."


def test_a_passage_says_where_it_is_and_why():
    text = written("bees", [candidate("garden/Bees.md", text="They fly.", section="Flight")], [])
    assert "### `garden/Bees.md:1-2`\nIn `Flight` · 2026-01-01 · why\n\n~~~markdown\nThey fly.\n~~~\n" in text


def test_a_compressed_passage_says_so():
    text = written("bees", [candidate("Bees.md", text="They […] fly.", compressed=True)], [])
    assert re.search(r"why · compressed; quote the note itself$", text, re.MULTILINE)


def test_slots_have_headings():
    text = written("bees", [candidate("A.md", slot="past\n# x"), candidate("B.md", slot="lessons")], [])
    assert re.findall("^## (.*)$", text, re.MULTILINE) == ["past # x", "lessons"]


def test_names_are_one_line():
    assert heading("a\nb\x1b[1m  c") == "a b [1m c"
    assert len(heading("x" * 500)) == 200
    assert code_span("a`b``c\n") == "``` a`b``c\ufffd ```"
    assert fenced("~~~~").startswith("~~~~~markdown\n")
